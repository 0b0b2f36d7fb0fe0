def pairs():
    return [(3, 4), [1, 2], (1, 2)]
