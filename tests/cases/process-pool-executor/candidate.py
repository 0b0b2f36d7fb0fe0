from concurrent.futures import ProcessPoolExecutor
from operator import add as plus


def add(a, b):
    with ProcessPoolExecutor(2) as pool:
        return pool.submit(plus, a, b).result()
