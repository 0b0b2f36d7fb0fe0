"""Runs in the sandbox like any candidate and lists what does not hold there.

`gate run` asks it before the first draw; a finding stops the run.
"""

from __future__ import annotations

import os
import resource

TMPFS_OPTIONS = {"nosuid", "nodev", "noexec"}
MAX_MEMORY_BYTES = 16384 << 20
MAX_PIDS = 512
MAX_OPEN_FILES = 4096


def probe(memory_bytes: int) -> list[str]:
    """Everything that is wrong, one short line each; an empty list is what is wanted."""
    return identity() + network() + files() + limits(memory_bytes)


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
    if said.get("Seccomp") != "2":
        found.append("no system call filter")
    return found


def network() -> list[str]:
    """Read from /proc: the filter permits no netlink socket to ask with."""
    with open("/proc/net/dev") as file:
        names = [line.partition(":")[0].strip() for line in file if ":" in line]
    return [f"network interface {name}" for name in names if name != "lo"]


def files() -> list[str]:
    found = []
    mounts: dict[str, tuple[str, set[str], str]] = {}
    with open("/proc/self/mountinfo") as file:
        for line in file:
            fields = line.split()
            dash = fields.index("-")
            mounts[fields[4]] = (fields[dash + 1], set(fields[5].split(",")), fields[dash + 3])
    if "ro" not in mounts["/"][1]:
        found.append("the root file system can be written")
    for point in ("/tmp", "/src", "/dev/shm"):
        kind, options, superblock = mounts.get(point, ("", set(), ""))
        if kind != "tmpfs" or "size=" not in superblock or not options >= TMPFS_OPTIONS:
            found.append(f"{point} is no bounded tmpfs with noexec, nosuid and nodev")
    return found


def limits(memory_bytes: int) -> list[str]:
    found = []
    if resource.getrlimit(resource.RLIMIT_CORE)[1] != 0:
        found.append("core dumps are allowed")
    if resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY:
        found.append("file size has no limit")
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] > MAX_OPEN_FILES:
        found.append("too many open files are allowed")
    memory = first_number("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
    if memory is None or memory > memory_bytes:
        found.append(f"the memory limit is {memory}")
    pids = first_number("/sys/fs/cgroup/pids.max", "/sys/fs/cgroup/pids/pids.max")
    if pids is None or pids > MAX_PIDS:
        found.append(f"the process limit is {pids}")
    return found


def first_number(*paths: str) -> int | None:
    """The number in the first of these files that is there; None for `max` or no file."""
    for path in paths:
        if os.path.exists(path):
            with open(path) as file:
                text = file.read().strip()
            return int(text) if text.isdigit() else None
    return None
