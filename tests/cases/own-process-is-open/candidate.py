import os


def probe():
    names = ("maps", "mem", "environ", "auxv", "status", "oom_score_adj")
    missing = []
    for name in names:
        try:
            os.close(os.open(f"/proc/self/{name}", os.O_RDONLY))
        except OSError:
            missing.append(name)
    return missing if os.listdir("/proc/self/fd") else [*missing, "fd"]
