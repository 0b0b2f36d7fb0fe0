def add(a, b):
    return NotImplemented
