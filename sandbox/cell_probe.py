"""Runs in a cell like any candidate and lists what does not hold there; it asks by system call.

The counterpart of probe.py for a place without /proc and /sys. What cannot be seen from
inside (which namespaces are the candidate's own) the broker looks at from outside.
"""

from __future__ import annotations

import ctypes
import os
import resource
import socket
import threading

DEVICES = {"full", "null", "random", "shm", "urandom", "zero"}
TMPFS_BYTES = {"/tmp": 64 << 20, "/src": 4 << 20, "/dev/shm": 16 << 20}
TMPFS_MAGIC = 0x01021994
MAX_OPEN_FILES = 256
MAX_FILE_BYTES = 32 << 20
MAX_ADDRESS_SPACE_BYTES = 1 << 36
MAX_CPU_S = 1200

ENVIRONMENT = {
    *("PATH", "HOME", "HOSTNAME", "TMPDIR", "TZ", "LANG", "PYTHONUTF8", "PYTHONHASHSEED", "PYTHONDONTWRITEBYTECODE"),
    *("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "LC_CTYPE"),
}

EPERM = 1
PR_CAPBSET_READ, PR_GET_SECCOMP, PR_GET_NO_NEW_PRIVS = 23, 21, 39
CLONE_NEWUSER, SIGCHLD = 0x10000000, 17
AF_VSOCK = 40
# Each asks for nothing that does any harm where it is permitted.
ARGUMENTS: dict[str, tuple[int, ...]] = {
    "unshare": (0,),
    "setns": (-1, 0),
    "mount": (0, 0, 0, 0, 0),
    "umount2": (0, 0),
    "pivot_root": (0, 0),
    "ptrace": (-1, 0, 0, 0),
    "keyctl": (-1,),
    "bpf": (-1, 0, 0),
    "io_uring_setup": (0, 0),
    "userfaultfd": (-1,),
    "perf_event_open": (0, 0, -1, -1, 0),
    "process_vm_readv": (0, 0, 0, 0, 0, 0),
    "open_by_handle_at": (-1, 0, 0),
    "pidfd_getfd": (-1, -1, 0),
    "kexec_load": (0, 0, 0, 0),
    "init_module": (0, 0, 0),
}
NUMBERS = {
    "x86_64": (272, 308, 165, 166, 155, 101, 250, 321, 425, 323, 298, 310, 304, 438, 246, 175),
    "aarch64": (97, 268, 40, 39, 41, 117, 219, 280, 425, 282, 241, 270, 265, 438, 104, 105),
}
CLONE = {"x86_64": 56, "aarch64": 220}

libc = ctypes.CDLL(None, use_errno=True)


def probe(memory_bytes: int) -> list[str]:
    """Everything that is wrong, one short line each; an empty list is what is wanted."""
    return identity() + secrets() + processes() + system_calls() + what_works() + files() + devices() + limits()


def identity() -> list[str]:
    found = []
    if 0 in (*os.getresuid(), *os.getresgid(), *os.getgroups()):
        found.append("runs as root or in its group")
    header = (ctypes.c_uint * 2)(0x20080522, 0)
    sets = (ctypes.c_uint * 6)()
    if libc.capget(header, sets) != 0 or any(sets):
        found.append("has capabilities: %s" % [hex(each) for each in sets])
    if any(libc.prctl(PR_CAPBSET_READ, capability, 0, 0, 0) == 1 for capability in range(64)):
        found.append("could gain capabilities")
    if libc.prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1:
        found.append("may gain privileges")
    return found


def secrets() -> list[str]:
    """Nothing of the host's environment, nor of its paths where the program is."""
    found = ["the environment has %s" % name for name in sorted(set(os.environ) - ENVIRONMENT)]
    if os.getcwd() != "/tmp" or os.uname().nodename != "box":
        found.append("is in %s on %s" % (os.getcwd(), os.uname().nodename))
    return found


def processes() -> list[str]:
    """In a pid namespace of its own the parent is outside, and nobody but process 1 is there to be seen."""
    if os.getppid() != 0:
        return ["is in another's pid namespace"]
    others = [pid for pid in range(2, 1000) if pid != os.getpid() and is_there(pid)]
    return ["processes %s can be seen" % others] if others else []


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def system_calls() -> list[str]:
    """What the filter must refuse, by trying."""
    if libc.prctl(PR_GET_SECCOMP, 0, 0, 0, 0) != 2:
        return ["no system call filter"]
    machine = os.uname().machine
    asked = zip(ARGUMENTS.items(), NUMBERS[machine], strict=True)
    permitted = [name for (name, arguments), number in asked if not is_refused(number, *arguments)]
    for family in (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK, AF_VSOCK):
        if not is_refused_by(lambda family=family: socket.socket(family, socket.SOCK_STREAM).close()):
            permitted.append("sockets of family %d" % family)
    pid = libc.syscall(CLONE[machine], CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    if pid > 0:
        os.waitpid(pid, 0)
        permitted.append("new user namespaces")
    return ["the system call filter permits %s" % ", ".join(permitted)] if permitted else []


def is_refused(*arguments: int) -> bool:
    ctypes.set_errno(0)
    answer = libc.syscall(*(ctypes.c_long(argument) for argument in arguments))
    return answer == -1 and ctypes.get_errno() == EPERM


def is_refused_by(attempt: object) -> bool:
    try:
        attempt()  # type: ignore[operator]
    except PermissionError:
        return True
    except OSError:
        return False
    return False


def what_works() -> list[str]:
    """A filter that refuses too much would make right programs wrong."""
    found = []
    try:
        for end in socket.socketpair():
            end.close()
        thread = threading.Thread(target=int)
        thread.start()
        thread.join()
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
    except (OSError, RuntimeError) as exc:
        found.append("a thread, a process or a pair of sockets cannot be made: %s" % exc)
    return found


def files() -> list[str]:
    found = []
    for folder in ("/", "/usr", "/etc", "/dev"):
        if not os.statvfs(folder).f_flag & os.ST_RDONLY:
            found.append("%s can be written" % folder)
    for folder in ("/proc", "/sys", "/opt", "/tmp", "/dev/shm"):
        if os.listdir(folder):
            found.append("%s is not empty" % folder)
    if os.listdir("/src") != ["solution.py"]:
        found.append("/src holds more than the program")
    for point, max_bytes in TMPFS_BYTES.items():
        found += ["%s is no bounded tmpfs of its own: %s" % (point, what) for what in tmpfs_faults(point, max_bytes)]
    return found


def tmpfs_faults(point: str, max_bytes: int) -> list[str]:
    found = []
    room = (ctypes.c_long * 64)()
    if libc.statfs(point.encode(), room) != 0 or room[0] != TMPFS_MAGIC:
        found.append("another file system")
    size = os.statvfs(point)
    if size.f_flag & os.ST_RDONLY:
        found.append("it cannot be written")
    for name in ("NOSUID", "NODEV", "NOEXEC"):
        if not size.f_flag & getattr(os, "ST_" + name):
            found.append("without %s" % name.lower())
    if not 0 < size.f_blocks * size.f_frsize <= max_bytes:
        found.append("it has %d bytes" % (size.f_blocks * size.f_frsize))
    return found


def devices() -> list[str]:
    found = []
    if set(os.listdir("/dev")) != DEVICES:
        found.append("devices %s" % sorted(set(os.listdir("/dev")) ^ DEVICES))
    try:
        os.mknod("/tmp/device", 0o20666, os.makedev(1, 3))
        found.append("devices can be made")
        os.unlink("/tmp/device")
    except OSError:
        pass
    return found


def limits() -> list[str]:
    found = []
    if resource.getrlimit(resource.RLIMIT_CORE)[1] != 0:
        found.append("core dumps are allowed")
    bounds = (
        ("file size", resource.RLIMIT_FSIZE, MAX_FILE_BYTES),
        ("open files", resource.RLIMIT_NOFILE, MAX_OPEN_FILES),
        ("address space", resource.RLIMIT_AS, MAX_ADDRESS_SPACE_BYTES),
        ("CPU time", resource.RLIMIT_CPU, MAX_CPU_S),
    )
    for name, limit, most in bounds:
        hard = resource.getrlimit(limit)[1]
        if hard == resource.RLIM_INFINITY or hard > most:
            found.append("the limit on %s is %s" % (name, "none" if hard == resource.RLIM_INFINITY else hard))
    return found
