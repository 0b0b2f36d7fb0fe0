from typing import NamedTuple


class Pair(NamedTuple):
    a: int
    b: int


def pair(n):
    return Pair(n, n + 1)
