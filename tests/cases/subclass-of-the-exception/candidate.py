class Negative(ValueError):
    pass


def root(n):
    if n < 0:
        raise Negative(n)
    return int(n**0.5)
