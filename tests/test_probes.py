"""Hardening, tried from inside, and what is left outside: nothing.

Each probe of `probes.PROBES` finds nothing in a container as it is made, and something in one
that lacks what it looks for.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
import docker
import pytest
from probes import PROBES

from gate import values
from gate.backends import hardening
from gate.backends.boxes import Kind
from gate.backends.container import ContainerSandbox
from gate.backends.image import Image
from gate.backends.labels import owner_labels
from gate.model import Call, Candidate, Exit, Limits
from gate.resources import sandbox_dir

pytestmark = [pytest.mark.docker, pytest.mark.timeout(300)]

LIMITS = Limits(wall_s=250, memory_mb=256)

Config = dict[str, Any]


def open_sandbox(engine: docker.APIClient, image: Image) -> ContainerSandbox:
    seccomp = (sandbox_dir() / "seccomp.json").read_text()
    return ContainerSandbox(engine, image, seccomp=seccomp, labels=owner_labels(), concurrency=4, pool_size=0)


Findings = dict[str, list[str]]  # by probe

# All in one candidate: a container costs far more than a probe.
ALL = """
PROBES = %r
def findings(names):
    found = {}
    for name in names:
        program = {}
        exec(PROBES[name], program)
        found[name] = program["probe"]()
    return found
"""


async def findings(sandbox: ContainerSandbox, names: Sequence[str]) -> Findings:
    """What these probes have found; a reply counts, also where a child of a probe was killed for memory."""
    async with sandbox:
        candidate = Candidate(task_id="t", index=0, code=ALL % PROBES)
        seen = await sandbox.observe(candidate, "findings", [Call(args=(list(names),))], LIMITS)
    assert [reply.kind for reply in seen.replies] == ["returned"], seen
    found: Findings = values.decode(seen.replies[0].value)
    return found


@pytest.fixture(scope="module")
def hardened(engine: docker.APIClient, image: Image) -> Findings:
    return anyio.run(findings, open_sandbox(engine, image), list(PROBES))


@pytest.mark.parametrize("name", PROBES)
def test_the_hardening_holds(hardened: Findings, name: str) -> None:
    """What a candidate should not have, be or reach, it has not, is not and does not."""
    assert hardened[name] == []


def bare(config: Config, folder: Path) -> None:
    """Nothing of the hardening but the user, who is nobody."""
    config["NetworkDisabled"] = False
    config["Env"].append("OPENAI_API_KEY=none")
    config["HostConfig"].update(
        NetworkMode="host",
        PidMode="host",
        SecurityOpt=["no-new-privileges:true", "seccomp=unconfined"],
        MaskedPaths=[],
        ReadonlyPaths=[],
        PidsLimit=-1,
        Memory=0,
        MemorySwap=0,
        Ulimits=[],
        Binds=[f"{folder}:/data:ro"],
    )
    config["HostConfig"]["Tmpfs"]["/tmp"] = "rw,exec,nosuid,nodev,mode=1777"


def mighty(config: Config, folder: Path) -> None:
    """Root, with the rights that an engine gives unasked."""
    config["User"] = "0:0"
    config["HostConfig"].update(CapDrop=[], SecurityOpt=["seccomp=unconfined"])


# How a container is weakened, and for each probe words of what it finds then; `identity` leaves its root behind.
WEAKENED: list[tuple[Callable[[Config, Path], None], dict[str, tuple[str, ...]]]] = [
    (
        bare,
        {
            "files": ("/tmp without noexec", "a program runs from /tmp"),
            "limits": ("200 processes", "400 MB of memory", "NOFILE", "FSIZE"),
            "secrets": ("variable OPENAI_API_KEY", "/data is mounted from"),
            "namespaces": ("system call keyctl", "system call ptrace"),
            "network": ("interface ",),
            "sockets": ("a socket of the kind netlink",),
            "kernel": ("reads /proc/keys",),
            "processes": ("the process ",),
        },
    ),
    (
        mighty,
        {
            "devices": ("made a device",),
            "identity": ("Uid 0", "CapEff", "NoNewPrivs", "Seccomp", "changed the root"),
        },
    ),
]


@pytest.mark.parametrize(("weaken", "words"), WEAKENED, ids=["bare", "mighty"])
def test_each_probe_finds_what_it_looks_for(
    engine: docker.APIClient,
    image: Image,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    weaken: Callable[[Config, Path], None],
    words: dict[str, tuple[str, ...]],
) -> None:
    """In a container without the hardening a probe is red: it is not green whatever it sees."""
    honest = hardening.container_config

    def weakened(**more: Any) -> Config:
        config = honest(**more)
        weaken(config, tmp_path)
        return config

    monkeypatch.setattr(hardening, "container_config", weakened)
    found = anyio.run(findings, open_sandbox(engine, image), list(words))
    missing = [(name, word) for name, some in words.items() for word in some if word not in "; ".join(found[name])]
    assert missing == [], found


def test_each_probe_is_weakened_once() -> None:
    """No probe is trusted that was never seen red."""
    assert sorted(PROBES) == sorted(name for _, words in WEAKENED for name in words)


# What leaves something behind, and how it ends.
LEAVERS = {
    "a daemon": (
        "import os, time\ndef f():\n    if os.fork() == 0:\n        os.setsid()\n"
        "        if os.fork() == 0: time.sleep(600)\n        os._exit(0)\n",
        Exit.OK,
    ),
    "a process storm": (
        "import os, time\ndef f():\n    try:\n        while True:\n"
        "            if os.fork() == 0: time.sleep(600)\n    except OSError: pass\n",
        Exit.OK,
    ),
    "a full tmpfs": (
        "def f():\n    try:\n        with open('/dev/shm/full', 'wb') as file:\n"
        "            while True: file.write(bytes(1 << 20))\n    except OSError: pass\n",
        Exit.OK,
    ),
    "a kill for memory": ("def f():\n    kept = []\n    while True: kept.append(bytes(1 << 22))\n", Exit.MEMORY_LIMIT),
    "a stopped process": ("import os, signal\ndef f(): os.kill(os.getpid(), signal.SIGSTOP)\n", Exit.TIME_LIMIT),
}


def traces(engine: docker.APIClient, container: str) -> set[str]:
    """What this host shows of a container: the engine's list, mounts, control groups, processes of its runtime."""
    found = {"container"} if engine.containers(all=True, filters={"id": container}) else set()
    if container in Path("/proc/self/mountinfo").read_text():
        found.add("mount")
    if any(container in name for _, folders, _ in os.walk("/sys/fs/cgroup") for name in folders):
        found.add("control group")
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if container in (path / "cmdline").read_text(errors="replace") + (path / "cgroup").read_text():
                found.add("process")
        except OSError:
            continue  # it has ended in between
    return found


async def test_nothing_is_left_on_the_host(
    engine: docker.APIClient, image: Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever candidates leave behind goes with them: containers, mounts, control groups, processes and shims."""
    made: list[str] = []
    create = engine.create_container_from_config

    def noted(*args: Any, **more: Any) -> Any:
        created = create(*args, **more)  # type: ignore[no-untyped-call]
        made.append(created["Id"])
        return created

    monkeypatch.setattr(engine, "create_container_from_config", noted)
    limits = Limits(wall_s=5, memory_mb=64)
    async with open_sandbox(engine, image) as sandbox:
        box = await anyio.to_thread.run_sync(sandbox.boxes.open, Kind(memory_mb=64, seed=0))
        there = traces(engine, box.id)
        sandbox.boxes.discard(box)
        ends = []
        for code, _ in LEAVERS.values():
            seen = await sandbox.observe(Candidate(task_id="t", index=0, code=code), "f", [Call()], limits)
            ends.append(seen.exit)
    assert ends == [end for _, end in LEAVERS.values()], "a program that was ended early has left nothing to look for"
    assert {"container", "process"} <= there, "what is not seen while it is there is not missed either"
    assert len(made) >= 1 + len(LEAVERS)
    left: dict[str, set[str]] = {}
    with anyio.move_on_after(20):
        while left := {container: found for container in made if (found := traces(engine, container))}:
            await anyio.sleep(0.2)
    assert left == {}
