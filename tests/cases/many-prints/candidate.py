import sys


def add(a, b):
    print("x" * 1_000_000)
    sys.stderr.write("y" * 1_000_000)
    return a + b
