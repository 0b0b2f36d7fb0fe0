import sys

sys.setrecursionlimit(120)


def add(a, b):
    return a + b
