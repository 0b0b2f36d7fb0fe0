def add(a, b):
    raise ValueError("x" * 100_000_000)
