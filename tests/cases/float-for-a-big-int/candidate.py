def same(n):
    return float(n)
