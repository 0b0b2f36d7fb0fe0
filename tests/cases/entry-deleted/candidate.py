def add(a, b):
    return a + b


assert add(1, 1) == 2
del add
