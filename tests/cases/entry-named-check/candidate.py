def check(n):
    return n % 2 == 0
