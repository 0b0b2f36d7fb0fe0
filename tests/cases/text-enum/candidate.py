from enum import Enum


class Color(str, Enum):
    RED = "red"
    BLUE = "blue"


def color(n):
    return list(Color)[n]
