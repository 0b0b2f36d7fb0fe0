def factor(n):
    return next(i for i in range(n - 1, 1, -1) if n % i == 0)
