def add(a, b):
    kept = bytearray(b"x") * (160 << 20)
    return a + b + len(kept) * 0
