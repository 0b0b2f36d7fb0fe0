def add(a, b):
    kept = []
    while True:
        kept.append([None] * 512)
