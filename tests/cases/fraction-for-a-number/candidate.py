from fractions import Fraction


def half(x):
    return Fraction(x) / 2
