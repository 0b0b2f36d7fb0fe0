with open("/dev/stdin") as file:
    print(sum(map(int, file.read().split()[1:])))
