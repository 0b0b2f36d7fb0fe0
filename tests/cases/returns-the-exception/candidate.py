def root(n):
    return ValueError(n) if n < 0 else int(n**0.5)
