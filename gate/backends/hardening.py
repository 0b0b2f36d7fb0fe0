"""How every container is made: the hardening checklist as one engine request.

`sandbox/README.md` says what each line stops and which case shows it.
"""

from __future__ import annotations

import json
import re

from gate.model import Json

CELL_COMMAND = ["/usr/local/bin/python3", "-P", "-s", "/opt/run/cell_main.py"]
CELL_MB = 8  # what broker and zygote hold beyond a runner that waits; measured
CELL_PIDS = 3
COMMAND = ["/usr/local/bin/python3", "-P", "-s", "/opt/run/main.py"]
USER = "65534:65534"
PIDS_LIMIT = 128
MAX_FILE_BYTES = 32 << 20
MAX_OPEN_FILES = 256
TMP_MB = 64
SOURCE_MB = 4
SHM_BYTES = 16 << 20

# `User` could be seen, but a runner that is root without capabilities cannot write the file it would run.
_UNSEEN_CONFIG = ("OpenStdin", "StdinOnce", "User")
# The probe sees the memory limit of its own container; each container may have another.
_UNSEEN_HOST = ("Memory", "MemorySwap", "Privileged", "IpcMode", "AutoRemove")
_TMPFS = "rw,noexec,nosuid,nodev"
_SWAP_ALONE = re.compile(r"\bmemory limited without swap\b", re.IGNORECASE)  # the memory limit itself holds


def container_config(
    *, image: str, seccomp: str, memory_mb: int, seed: int, runtime: str | None, labels: dict[str, str]
) -> dict[str, Json]:
    """The body of a container create request.

    Args:
        image: The image's ID, not a name that may move.
        seccomp: The profile's content: engines before 23 know no name for the default,
            and the API takes no path.
        memory_mb: Memory and swap together, in MiB.
        seed: PYTHONHASHSEED; fixed at creation.
        runtime: The OCI runtime's name; None for the engine's default.
        labels: Whose it is.
    """
    return {
        "Image": image,
        "Hostname": "box",
        "User": USER,
        "WorkingDir": "/tmp",
        "Entrypoint": COMMAND,
        "Cmd": [],
        "Env": environment(seed),
        "Labels": labels,
        "Tty": False,
        "OpenStdin": True,
        "StdinOnce": True,  # the driver's end closes it, whatever became of the driver
        "AttachStdin": True,
        "AttachStdout": True,
        "AttachStderr": True,
        "NetworkDisabled": True,
        "Healthcheck": {"Test": ["NONE"]},
        "HostConfig": host_config(seccomp=seccomp, memory_mb=memory_mb, runtime=runtime),
    }


def cell_config(
    *, image: str, seccomp: str, memory_mb: int, seed: int, runtime: str | None, labels: dict[str, str]
) -> dict[str, Json]:
    """The body of the create request for a cell: a container as any other, but for what starts in it.

    Args:
        image: See `container_config`, also for what is not named here.
        seccomp: The profile's content, with what the zygote needs: see `cell_profile`.
        memory_mb: What one candidate may use, in MiB.
    """
    config = container_config(
        image=image, seccomp=seccomp, memory_mb=memory_mb + CELL_MB, seed=seed, runtime=runtime, labels=labels
    )
    config["Entrypoint"] = CELL_COMMAND
    config["HostConfig"]["PidsLimit"] = PIDS_LIMIT + CELL_PIDS
    return config


def cell_profile(seccomp: str, more: str) -> str:
    """The system call profile of a cell: a container's, and the rules that the zygote needs beside it."""
    profile = json.loads(seccomp)
    return json.dumps({**profile, "syscalls": [*profile["syscalls"], *json.loads(more)["syscalls"]]})


def environment(seed: int) -> list[str]:
    """All of the environment; nothing of the host's goes in."""
    return [
        "PATH=/usr/local/bin",
        "HOME=/tmp",
        "TMPDIR=/tmp",
        "TZ=UTC",
        "LANG=C.UTF-8",
        "PYTHONUTF8=1",
        f"PYTHONHASHSEED={seed}",
        "PYTHONDONTWRITEBYTECODE=1",
        "OPENBLAS_NUM_THREADS=1",
        "OMP_NUM_THREADS=1",
    ]


def host_config(*, seccomp: str, memory_mb: int, runtime: str | None) -> dict[str, Json]:
    """What the host holds the container to."""
    memory_bytes = memory_mb << 20
    config: dict[str, Json] = {
        "NetworkMode": "none",
        "ReadonlyRootfs": True,
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges:true", f"seccomp={seccomp}"],
        "Privileged": False,
        "PidsLimit": PIDS_LIMIT,
        "Memory": memory_bytes,
        "MemorySwap": memory_bytes,
        "NanoCpus": 1_000_000_000,
        "IpcMode": "private",
        "CgroupnsMode": "private",
        "ShmSize": SHM_BYTES,
        "Tmpfs": {
            "/tmp": f"{_TMPFS},size={TMP_MB}m,mode=1777",
            "/src": f"{_TMPFS},size={SOURCE_MB}m,mode=0755,uid=65534,gid=65534",
        },
        "Ulimits": [
            {"Name": "nofile", "Soft": MAX_OPEN_FILES, "Hard": MAX_OPEN_FILES},
            {"Name": "fsize", "Soft": MAX_FILE_BYTES, "Hard": MAX_FILE_BYTES},
            {"Name": "core", "Soft": 0, "Hard": 0},
        ],
        "LogConfig": {"Type": "none"},
        "AutoRemove": False,  # what the engine says after the end is the evidence
        "RestartPolicy": {"Name": "no"},
    }
    if runtime is not None:
        config["Runtime"] = runtime
    return config


def discarded_limits(warnings: list[str] | None) -> list[str]:
    """The engine's warnings that a limit does not hold; hosts without swap need no swap limit."""
    return [warning for warning in warnings or [] if not _SWAP_ALONE.search(warning)]


def lost_fields(asked: dict[str, Json], found: dict[str, Json], *, swapless: bool) -> list[str]:
    """What the engine says of a container that is not what it was asked for; nothing where all was kept.

    Only what the probe, which looks from inside, cannot see: a swap limit on a host without
    swap, the memory of every container and not of its own alone, whose shared memory and
    user it is, that no output goes to the host's disk, that the stream closes with the
    driver, and that the end leaves its evidence.

    Args:
        asked: The create request.
        found: The engine's own description of the container.
        swapless: The engine has said that there is no swap to limit.
    """
    config, host = found.get("Config") or {}, found.get("HostConfig") or {}
    lost = [name for name in _UNSEEN_CONFIG if config.get(name) != asked[name]]
    lost += [name for name in _UNSEEN_HOST if host.get(name) != asked["HostConfig"][name]]
    if (host.get("LogConfig") or {}).get("Type") != asked["HostConfig"]["LogConfig"]["Type"]:
        lost.append("LogConfig")
    return [f"{name} is not what was asked for" for name in lost if not (swapless and name == "MemorySwap")]
