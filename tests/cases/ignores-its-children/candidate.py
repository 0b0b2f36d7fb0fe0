import os
import signal

signal.signal(signal.SIGCHLD, signal.SIG_IGN)


def add(a, b):
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        signal.pause()
    return a + b
