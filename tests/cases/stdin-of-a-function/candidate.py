import sys


def add(a, b):
    return a + b + len(sys.stdin.read())
