import time

until = time.process_time() + 0.5
while time.process_time() < until:
    pass


def add(a, b):
    return a + b
