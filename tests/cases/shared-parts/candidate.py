def grid(n):
    row = [0] * n
    return [row] * n
