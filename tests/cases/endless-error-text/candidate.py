class Slow(Exception):
    def __str__(self):
        while True:
            pass


def add(a, b):
    raise Slow
