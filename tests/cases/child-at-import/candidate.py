import os

pid = os.fork()
if pid:
    os.waitpid(pid, 0)


def add(a, b):
    return a + b
