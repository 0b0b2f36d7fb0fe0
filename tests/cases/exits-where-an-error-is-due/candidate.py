import sys


def root(n):
    if n < 0:
        sys.exit("negative")
    return int(n**0.5)
