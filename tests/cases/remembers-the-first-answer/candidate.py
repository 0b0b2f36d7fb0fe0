kept = []


def add(a, b):
    kept.append(a + b)
    return kept[0]
