import os


def add(a, b):
    pid = os.fork()
    if pid:
        os.waitpid(pid, 0)
    return a + b
