def add(a, b):
    return a + b


assert add(2, 2) == 5, "as it was asked"
