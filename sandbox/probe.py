"""Runs in the sandbox like any candidate and lists what does not hold there.

`gate run` asks it before the first draw; a finding stops the run. It looks at the limits
themselves, not at the options that should have set them, and each has a bound of its own:
what is looser than what was asked for is a finding.
"""

from __future__ import annotations

import ctypes
import os
import resource
import socket

TMPFS_OPTIONS = {"nosuid", "nodev", "noexec"}
TMPFS_BYTES = {"/tmp": 64 << 20, "/src": 4 << 20, "/dev/shm": 16 << 20}
MAX_PIDS = 128
MAX_OPEN_FILES = 256
MAX_FILE_BYTES = 32 << 20
MAX_CPUS = 1.0
# Memory limits are kept in whole pages.
PAGE_BYTES = 65536

MEMORY = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
PIDS = ("/sys/fs/cgroup/pids.max", "/sys/fs/cgroup/pids/pids.max")
SWAP_ALONE = "/sys/fs/cgroup/memory.swap.max"
MEMORY_AND_SWAP = "/sys/fs/cgroup/memory/memory.memsw.limit_in_bytes"
CPU_TIME = "/sys/fs/cgroup/cpu.max"
CPU_QUOTA = ("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us")


def probe(memory_bytes: int) -> list[str]:
    """Everything that is wrong, one short line each; an empty list is what is wanted."""
    return identity() + system_calls() + network() + files() + limits() + groups(memory_bytes)


def status() -> dict[str, str]:
    with open("/proc/self/status") as file:
        return {name: value.strip() for name, _, value in (line.partition(":") for line in file)}


def identity() -> list[str]:
    found = []
    if 0 in (os.getuid(), os.geteuid(), os.getgid(), os.getegid(), *os.getgroups()):
        found.append("runs as root or in its group")
    said = status()
    found += [f"{name} is {said[name]}" for name in ("CapPrm", "CapEff", "CapBnd", "CapAmb") if int(said[name], 16)]
    if said.get("NoNewPrivs") != "1":
        found.append("may gain privileges")
    return found


def system_calls() -> list[str]:
    """Whether there is a filter, and ours: an engine's default one permits some of what ours refuses.

    The calls do nothing where they go through: no bytes are moved, nothing is left behind.
    """
    if status().get("Seccomp") != "2":
        return ["no system call filter"]
    permitted = []
    try:
        socket.socket(socket.AF_NETLINK, socket.SOCK_RAW).close()
        permitted.append("netlink sockets")
    except OSError:
        pass
    libc = ctypes.CDLL(None)
    reading, writing = os.pipe()
    if libc.vmsplice(writing, None, 0, 0) == 0:
        permitted.append("vmsplice")
    os.close(reading)
    os.close(writing)
    if libc.unshare(0) == 0:
        permitted.append("unshare")
    return [f"the system call filter is another one: it permits {', '.join(permitted)}"] if permitted else []


def network() -> list[str]:
    """Read from /proc: the filter permits no netlink socket to ask with."""
    with open("/proc/net/dev") as file:
        names = [line.partition(":")[0].strip() for line in file if ":" in line]
    return [f"network interface {name}" for name in names if name != "lo"]


def files() -> list[str]:
    found = []
    mounts: dict[str, tuple[str, set[str]]] = {}
    with open("/proc/self/mountinfo") as file:
        for line in file:
            fields = line.split()
            mounts[fields[4]] = (fields[fields.index("-") + 1], set(fields[5].split(",")))
    if "ro" not in mounts["/"][1]:
        found.append("the root file system can be written")
    for point, max_bytes in TMPFS_BYTES.items():
        kind, options = mounts.get(point, ("", set()))
        if kind != "tmpfs":
            found.append(f"{point} is no bounded tmpfs, but {kind or 'no mount at all'}")
            continue
        found += [f"{point} is no bounded tmpfs: without {option}" for option in sorted(TMPFS_OPTIONS - options)]
        size = os.statvfs(point)
        size_bytes = size.f_blocks * size.f_frsize  # 0: no bound at all
        if not 0 < size_bytes <= max_bytes:
            found.append(f"{point} is no bounded tmpfs: it has {size_bytes} bytes")
    return found


def limits() -> list[str]:
    found = []
    if resource.getrlimit(resource.RLIMIT_CORE)[1] != 0:
        found.append("core dumps are allowed")
    bounds = (
        ("file size", resource.RLIMIT_FSIZE, MAX_FILE_BYTES),
        ("open files", resource.RLIMIT_NOFILE, MAX_OPEN_FILES),
    )
    for name, limit, most in bounds:
        hard = resource.getrlimit(limit)[1]
        if hard == resource.RLIM_INFINITY or hard > most:
            found.append(f"the limit on {name} is {'none' if hard == resource.RLIM_INFINITY else hard}")
    return found


def groups(memory_bytes: int) -> list[str]:
    """The limits of the control group, v1 or v2, as the kernel keeps them."""
    found = []
    memory = first_number(*MEMORY)
    if memory is None or memory > memory_bytes + PAGE_BYTES:
        found.append(f"the memory limit is {shown(memory)}")
    swap = swap_bytes(memory_bytes)
    if swap is None or swap > PAGE_BYTES:
        found.append(f"the limit on swap beside memory is {shown(swap)}")
    pids = first_number(*PIDS)
    if pids is None or pids > MAX_PIDS:
        found.append(f"the process limit is {shown(pids)}")
    cpus = cpu_limit()
    if cpus is None or cpus > MAX_CPUS:
        found.append(f"the CPU limit is {shown(cpus)}")
    with open("/proc/self/cgroup") as file:
        if any(line.rstrip("\n").split(":", 2)[2] != "/" for line in file):
            found.append("the host's control groups can be seen")
    return found


def swap_bytes(memory_bytes: int) -> int | None:
    """How much swap may be used beside memory; None for no limit.

    A kernel that keeps no count of swap is no danger on a host that has none.
    """
    if os.path.exists(SWAP_ALONE):
        return first_number(SWAP_ALONE)
    if os.path.exists(MEMORY_AND_SWAP):
        both = first_number(MEMORY_AND_SWAP)
        return None if both is None else max(0, both - memory_bytes)
    with open("/proc/meminfo") as file:
        sizes = {name: rest.split()[0] for name, _, rest in (line.partition(":") for line in file)}
    return 0 if sizes.get("SwapTotal", "0") == "0" else None


def cpu_limit() -> float | None:
    """How many CPUs' time may be used; None for all."""
    if os.path.exists(CPU_TIME):
        with open(CPU_TIME) as file:
            quota, period = file.read().split()
        return None if quota == "max" else int(quota) / int(period)
    for path in CPU_QUOTA:
        micros = first_number(path)
        period_micros = first_number(path.replace("quota", "period"))
        if micros is not None and period_micros:
            return micros / period_micros
    return None


def first_number(*paths: str) -> int | None:
    """The number in the first of these files that is there; None for `max`, below 0, or no file."""
    for path in paths:
        if os.path.exists(path):
            with open(path) as file:
                text = file.read().strip()
            return int(text) if text.isdigit() else None
    return None


def shown(limit: float | None) -> str:
    return "none" if limit is None else f"{limit:g}" if isinstance(limit, float) else str(limit)
