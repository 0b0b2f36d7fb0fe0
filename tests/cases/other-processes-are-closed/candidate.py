import ctypes
import os


def can_open(path, flags):
    try:
        os.close(os.open(path, flags | os.O_NONBLOCK))
    except OSError:
        return False
    return True


def probe():
    found = [name for name in ("mem", "environ", "auxv", "maps") if can_open(f"/proc/1/{name}", os.O_RDONLY)]
    found += ["mem for writing"] * can_open("/proc/1/mem", os.O_RDWR)
    found += [f"fd {number}" for number in range(32) if can_open(f"/proc/1/fd/{number}", os.O_WRONLY)]
    libc = ctypes.CDLL(None, use_errno=True)
    found += ["ptrace"] * (libc.ptrace(16, 1, 0, 0) == 0)
    pidfd = os.pidfd_open(1)
    if os.uname().machine in ("x86_64", "aarch64"):
        found += [f"pidfd_getfd {number}" for number in range(8) if libc.syscall(438, pidfd, number, 0) >= 0]
    return found
