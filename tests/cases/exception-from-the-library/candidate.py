import math


def root(n):
    return math.sqrt(n)
