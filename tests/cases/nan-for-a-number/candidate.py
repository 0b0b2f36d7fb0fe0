def half(x):
    return float("nan")
