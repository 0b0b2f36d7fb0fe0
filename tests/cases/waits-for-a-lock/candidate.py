import threading

lock = threading.Lock()


def add(a, b):
    with lock:
        with lock:
            return a + b
