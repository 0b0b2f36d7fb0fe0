import os


def add(a, b):
    os.kill(os.getpid(), 9)
