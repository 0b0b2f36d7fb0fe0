def root(n):
    if n < 0:
        raise KeyError(n)
    return int(n**0.5)
