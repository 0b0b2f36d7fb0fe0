input()
while True:
    print("8" * 65536)
