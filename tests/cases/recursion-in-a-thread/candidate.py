import sys
import threading

sys.setrecursionlimit(1 << 20)
threading.stack_size(128 << 20)


def down(n):
    return 0 if n == 0 else 1 + down(n - 1)


def add(a, b):
    found = []
    thread = threading.Thread(target=lambda: found.append(a + b + down(30000) - 30000))
    thread.start()
    thread.join()
    return found[0]
