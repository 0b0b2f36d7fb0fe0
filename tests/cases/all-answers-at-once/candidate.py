input()
for number in range(-100, 100):
    print(number)
