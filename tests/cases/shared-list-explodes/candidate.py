def sort_list(xs):
    found = [0]
    for _ in range(60):
        found = [found, found]
    return found
