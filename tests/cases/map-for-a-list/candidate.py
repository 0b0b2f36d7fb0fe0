def sort_list(xs):
    return map(int, sorted(xs))
