name = "é"
def add(a, b):
    return a + b
