def sort_list(xs):
    yield from sorted(xs)
