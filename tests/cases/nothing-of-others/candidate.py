import os


def probe():
    found = [pid for pid in os.listdir("/proc") if pid.isdigit() and int(pid) not in (1, os.getpid())]
    found += os.listdir("/dev/shm") if os.path.isdir("/dev/shm") else []
    return found + os.listdir("/tmp")
