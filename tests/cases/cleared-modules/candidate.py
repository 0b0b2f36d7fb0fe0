import sys


def add(a, b):
    sys.modules.clear()
    return a + b
