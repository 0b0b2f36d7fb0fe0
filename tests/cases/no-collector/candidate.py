import gc

gc.disable()
gc.freeze()


def add(a, b):
    return a + b
