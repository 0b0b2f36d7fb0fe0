class ValueError(Exception):
    pass


def root(n):
    if n < 0:
        raise ValueError
    return int(n**0.5)
