def sort_list(xs):
    found = []
    for _ in range(100_000):
        found = [found]
    return found
