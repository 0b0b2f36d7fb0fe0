"""What a container has used, read by the host from its cgroup, v1 or v2, any driver.

The counters are found through the container's init process while it lives. Where the
host cannot see them (a remote engine, Docker Desktop) there are none, and that is said.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_COUNTER = re.compile(r"[0-9]{1,20}")  # 64 bits; "max" and anything else is no counter


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Counters at one moment; None where the kernel does not keep one.

    Attributes:
        cpu_s: CPU seconds, user and system, of everything in the container.
        memory_bytes: The most memory it has held.
        oom_kills: Processes in it that the kernel killed for memory.
    """

    cpu_s: float | None = None
    memory_bytes: int | None = None
    oom_kills: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """Where one container's counters stand; `source` says of which kind they are.

    Attributes:
        procs: The file that lists the container's processes by their pids on the host.
        proc: Where the process file system is.
    """

    source: str
    cpu: Path | None = None
    memory: Path | None = None
    oom: Path | None = None
    procs: Path | None = None
    proc: Path = Path("/proc")

    def read(self) -> Reading:
        """Read all counters; what has gone with its container is None."""
        return Reading(
            cpu_s=_read_cpu_s(self.cpu, self.source),
            memory_bytes=_read_int(self.memory),
            oom_kills=_read_field(self.oom, "oom_kill"),
        )

    def read_cpu_s(self) -> float | None:
        """The CPU seconds alone."""
        return _read_cpu_s(self.cpu, self.source)

    def read_waits_s(self) -> dict[str, float]:
        """How long each of its threads, by its id, was ready to run and had no CPU; empty where nobody can say.

        The kernel keeps it, as the second field of schedstat (`run_delay`).
        """
        pids = (_read_text(self.procs) or "").split()
        return {thread: wait_s for pid in pids for thread, wait_s in _waits_s(self.proc / pid)}


NO_COUNTERS = Counters(source="none")


def find_counters(
    pid: int, container_id: str, *, proc: Path = Path("/proc"), root: Path = Path("/sys/fs/cgroup")
) -> Counters:
    """The counters of the container whose init process has this pid on the host.

    An engine in another pid namespace tells pids that mean something else here, so the
    process's cgroup must bear the container's id; another process's counters would
    blame the candidate for what it has not used.

    Args:
        pid: As the engine tells it; 0 for a container that does not run.
        container_id: The whole id; engines put it into the cgroup's name, whatever the driver.
        proc: Where the process file system is.
        root: Where the cgroup file systems are.
    """
    paths = parse_membership(_read_text(proc / str(pid) / "cgroup") or "") if pid > 0 else {}
    paths = {controller: path for controller, path in paths.items() if container_id in path}
    if "memory" in paths and "cpuacct" in paths:
        groups = (_group(root / "cpuacct", paths["cpuacct"]), _group(root / "memory", paths["memory"]))
        found = _counters_v1(*groups, proc)
    else:
        found = _counters_v2(_group(root, paths.get("", "")), proc)
    return found if found.read_cpu_s() is not None else NO_COUNTERS


def _counters_v1(cpu: Path | None, memory: Path | None, proc: Path) -> Counters:
    if cpu is None or memory is None:
        return NO_COUNTERS
    return Counters(
        source="cgroup-v1",
        cpu=cpu / "cpuacct.usage",
        memory=memory / "memory.max_usage_in_bytes",
        oom=memory / "memory.oom_control",
        procs=cpu / "cgroup.procs",
        proc=proc,
    )


def _counters_v2(group: Path | None, proc: Path) -> Counters:
    if group is None:
        return NO_COUNTERS
    peak = group / "memory.peak"  # since Linux 5.19
    return Counters(
        source="cgroup-v2",
        cpu=group / "cpu.stat",
        memory=peak if peak.exists() else None,
        oom=group / "memory.events",
        procs=group / "cgroup.procs",
        proc=proc,
    )


def parse_membership(text: str) -> dict[str, str]:
    """`/proc/PID/cgroup`: controller to path; the v2 hierarchy stands under the empty name."""
    paths: dict[str, str] = {}
    for line in text.split("\n"):  # a path may hold any other separator
        _, _, rest = line.partition(":")
        controllers, colon, path = rest.partition(":")
        if colon:
            paths.update(dict.fromkeys(controllers.split(","), path))
    return paths


def _group(root: Path, path: str) -> Path | None:
    """Where a group's files are; None for one that is not the container's own.

    The root holds everybody's counters, and a path with `..` names a group beyond what can
    be seen from here, inside a container of our own.
    """
    parts = [part for part in path.split("/") if part]
    return None if not parts or ".." in parts else root.joinpath(*parts)


def _read_text(path: Path | None) -> str | None:
    try:
        return None if path is None else path.read_text("utf-8", "surrogateescape")
    except OSError:
        return None


def _waits_s(process: Path) -> Iterator[tuple[str, float]]:
    """The threads of a process, and how long each has waited for a CPU; nothing of one that has just ended."""
    with suppress(OSError):
        for thread in (process / "task").iterdir():
            words = (_read_text(thread / "schedstat") or "").split()
            nanoseconds = _number(words[1]) if len(words) == 3 else None
            if nanoseconds is not None:
                yield thread.name, nanoseconds / 1e9


def _number(text: str) -> int | None:
    return int(text) if _COUNTER.fullmatch(text) else None


def _read_int(path: Path | None) -> int | None:
    return _number((_read_text(path) or "").strip())


def _read_field(path: Path | None, name: str) -> int | None:
    """The number after `name` in a file of `name number` lines."""
    for line in (_read_text(path) or "").splitlines():
        words = line.split()
        if len(words) == 2 and words[0] == name:
            return _number(words[1])
    return None


def _read_cpu_s(path: Path | None, source: str) -> float | None:
    if source == "cgroup-v1":
        nanoseconds = _read_int(path)
        return None if nanoseconds is None else nanoseconds / 1e9
    microseconds = _read_field(path, "usage_usec")
    return None if microseconds is None else microseconds / 1e6
