import os


def add(a, b):
    pid = os.fork()
    if pid == 0:
        raise RuntimeError("only in the child")
    os.waitpid(pid, 0)
    return a + b
