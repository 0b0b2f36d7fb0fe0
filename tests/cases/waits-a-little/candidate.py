import time


def add(a, b):
    time.sleep(0.1)
    return a + b
