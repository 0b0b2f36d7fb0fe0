def add(a, b):
    kept = [open("/dev/null") for _ in range(100000)]
    return a + b + len(kept) * 0
