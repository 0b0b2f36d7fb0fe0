def add(a, b):
    return a + b
return add
