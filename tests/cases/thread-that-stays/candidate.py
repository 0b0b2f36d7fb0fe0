import threading

threading.Thread(target=threading.Event().wait).start()


def add(a, b):
    return a + b
