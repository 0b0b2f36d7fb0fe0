"""Whose a container is: labels that name the owning process beyond doubt.

A pid alone says little: it may stand for another process on another host, in another
pid namespace, or after a reboot. So host, namespace, pid and start time stand together.
"""

from __future__ import annotations

import os
from pathlib import Path

KEY = "gate"


def owner_labels(proc: Path = Path("/proc")) -> dict[str, str]:
    """The labels of everything that this process makes."""
    pid = os.getpid()
    return {
        KEY: "container",
        f"{KEY}.host": host_id(),
        f"{KEY}.pidns": pid_namespace(proc),
        f"{KEY}.pid": str(pid),
        f"{KEY}.start": start_time(pid, proc) or "",
    }


def host_id() -> str:
    """An id of this boot of this host; empty where the system tells none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def pid_namespace(proc: Path = Path("/proc")) -> str:
    """The pid namespace that our pids count in; empty where the system tells none."""
    try:
        return os.readlink(proc / "self" / "ns" / "pid")
    except OSError:
        return ""


def start_time(pid: int, proc: Path = Path("/proc")) -> str | None:
    """When a process started, in clock ticks since boot; None if there is none."""
    try:
        stat = (proc / str(pid) / "stat").read_bytes()
    except OSError:
        return None
    return stat.rpartition(b")")[2].split()[19].decode("ascii")  # the name before it may hold any bytes
