def letters():
    return "x" * 5_000_000
