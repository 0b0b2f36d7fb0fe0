def root(n):
    if n < 0:
        raise ExceptionGroup("several", [ValueError(n)])
    return int(n**0.5)
