import multiprocessing


def plus(pair):
    return pair[0] + pair[1]


def add(a, b):
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.map(plus, [(a, b)])[0]
