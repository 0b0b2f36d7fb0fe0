def add(a, b):
    raise "5"
