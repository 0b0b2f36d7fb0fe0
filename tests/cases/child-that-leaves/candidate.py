import os
import sys


def add(a, b):
    end, start = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(start, str(a + b).encode())
        sys.exit(0)
    os.waitpid(pid, 0)
    return int(os.read(end, 100))
