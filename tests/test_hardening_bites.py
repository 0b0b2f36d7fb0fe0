"""Each hardening field bites: lost or weakened on its way to the engine, it stops a run before the first draw.

A proxy between client and engine changes one field of every create request. Then a probe
inside, or what the engine says of its container, must tell. The table is printed at the
end of the run (`pytest -rP`).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from engine_proxy import EngineProxy

from gate.backends import hardening
from gate.backends.jsonl import read_ledger
from gate.resources import sandbox_dir

pytestmark = pytest.mark.docker

GATE = str(Path(sys.executable).parent / "gate")
ENGINE = os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"
SUITE = """\
version: 1
task: one/double
prompt: Write double(x).
entry_point: double
tests:
  - {args: [2], expected: 4}
  - {args: [-3], expected: -6}
"""
UNLIMITED = {"Soft": -1, "Hard": -1}

Weaken = Callable[[dict[str, Any]], None]


def host(**changes: Any) -> Weaken:
    """These fields of HostConfig have another value; None drops one."""

    def weaken(config: dict[str, Any]) -> None:
        for name, value in changes.items():
            if value is None:
                del config["HostConfig"][name]
            else:
                config["HostConfig"][name] = value

    return weaken


def top(**changes: Any) -> Weaken:
    """These fields beside HostConfig have another value; None drops one."""

    def weaken(config: dict[str, Any]) -> None:
        for name, value in changes.items():
            if value is None:
                del config[name]
            else:
                config[name] = value

    return weaken


def both(first: Weaken, second: Weaken) -> Weaken:
    def weaken(config: dict[str, Any]) -> None:
        first(config)
        second(config)

    return weaken


def memory(factor: int) -> Weaken:
    """More memory, and swap as before: none beside it."""

    def weaken(config: dict[str, Any]) -> None:
        for name in ("Memory", "MemorySwap"):
            config["HostConfig"][name] *= factor

    return weaken


def without_option(start: str) -> Weaken:
    def weaken(config: dict[str, Any]) -> None:
        options = config["HostConfig"]["SecurityOpt"]
        config["HostConfig"]["SecurityOpt"] = [option for option in options if not option.startswith(start)]

    return weaken


def ulimit(name: str, **bounds: int) -> Weaken:
    def weaken(config: dict[str, Any]) -> None:
        for limit in config["HostConfig"]["Ulimits"]:
            if limit["Name"] == name:
                limit.update(bounds)

    return weaken


def tmpfs(point: str, *, drop: str, add: str = "") -> Weaken:
    """A tmpfs without the option that starts so, and with another."""

    def weaken(config: dict[str, Any]) -> None:
        mounts = config["HostConfig"]["Tmpfs"]
        options = [option for option in mounts[point].split(",") if not option.startswith(drop)]
        mounts[point] = ",".join([*options, *([add] if add else [])])

    return weaken


# What is changed, and words of the finding. An engine's own defaults fill in for what is only left out,
# so what it would give anyway (noexec on a tmpfs, no core files) is asked for the other way round.
FIELDS: dict[str, tuple[Weaken, str]] = {
    "ReadonlyRootfs dropped": (host(ReadonlyRootfs=None), "the root file system can be written"),
    "CapDrop dropped": (host(CapDrop=None), "CapBnd is"),
    "CapDrop without NET_RAW": (host(CapDrop=["ALL"], CapAdd=["NET_RAW"]), "CapBnd is"),
    "NetworkMode host, NetworkDisabled dropped": (
        both(host(NetworkMode="host"), top(NetworkDisabled=None)),
        "network interface",
    ),
    "PidsLimit dropped": (host(PidsLimit=None), "the process limit is none"),
    "PidsLimit 4096": (host(PidsLimit=4096), "the process limit is 4096"),
    "Memory and MemorySwap dropped": (host(Memory=None, MemorySwap=None), "Memory is not what was asked for"),
    "Memory and MemorySwap doubled": (memory(2), "Memory is not what was asked for"),
    "Memory dropped": (host(Memory=None), "You should always set the Memory limit"),
    "MemorySwap dropped": (host(MemorySwap=None), "MemorySwap is not what was asked for"),
    "MemorySwap unlimited": (host(MemorySwap=-1), "MemorySwap is not what was asked for"),
    "NanoCpus dropped": (host(NanoCpus=None), "the CPU limit is none"),
    "SecurityOpt dropped": (host(SecurityOpt=None), "may gain privileges"),
    "SecurityOpt without no-new-privileges": (without_option("no-new-privileges"), "may gain privileges"),
    "SecurityOpt without seccomp": (without_option("seccomp"), "the system call filter is another one"),
    "SecurityOpt seccomp=unconfined": (
        host(SecurityOpt=["no-new-privileges:true", "seccomp=unconfined"]),
        "no system call filter",
    ),
    "Privileged": (host(Privileged=True), "Privileged is not what was asked for"),
    "User 0:0": (top(User="0:0"), "User is not what was asked for"),
    "User 65534:0": (top(User="65534:0"), "User is not what was asked for"),
    "Ulimits dropped": (host(Ulimits=None), "the limit on open files is"),
    "Ulimits nofile 4096": (ulimit("nofile", Soft=4096, Hard=4096), "the limit on open files is 4096"),
    "Ulimits fsize unlimited": (ulimit("fsize", **UNLIMITED), "the limit on file size is none"),
    "Ulimits core unlimited": (ulimit("core", **UNLIMITED), "core dumps are allowed"),
    "Tmpfs dropped": (host(Tmpfs=None), "/src"),
    "Tmpfs /tmp without size": (tmpfs("/tmp", drop="size="), "/tmp is no bounded tmpfs: it has"),
    "Tmpfs /src without size": (tmpfs("/src", drop="size="), "/src is no bounded tmpfs: it has"),
    "Tmpfs /tmp with exec": (tmpfs("/tmp", drop="noexec", add="exec"), "/tmp is no bounded tmpfs: without noexec"),
    "Tmpfs /src with exec": (tmpfs("/src", drop="noexec", add="exec"), "/src is no bounded tmpfs: without noexec"),
    "ShmSize dropped": (host(ShmSize=None), "/dev/shm is no bounded tmpfs: it has"),
    "IpcMode host": (host(IpcMode="host"), "IpcMode is not what was asked for"),
    "CgroupnsMode host": (host(CgroupnsMode="host"), "the host's control groups can be seen"),
    "LogConfig dropped": (host(LogConfig=None), "LogConfig is not what was asked for"),
    "OpenStdin dropped": (top(OpenStdin=None), "OpenStdin is not what was asked for"),
    "StdinOnce dropped": (top(StdinOnce=None), "StdinOnce is not what was asked for"),
}


def gate_run(folder: Path, proxy: EngineProxy) -> subprocess.CompletedProcess[str]:
    """`gate run` of one task with one right program, through the proxy."""
    (folder / "double.yaml").write_text(SUITE)
    (folder / "programs.json").write_text(json.dumps({"one/double": ["def double(x):\n    return x + x\n"]}))
    return subprocess.run(
        [GATE, "run", "double.yaml", "--source", "scripted:programs.json", "--out", "run", "-q", "-j", "1"],
        cwd=folder,
        env={**os.environ, "DOCKER_HOST": proxy.address},
        capture_output=True,
        text=True,
        timeout=100,
    )


def drawn(folder: Path) -> list[str]:
    """The kinds of record that stand in the run's ledger after its first."""
    return [record["kind"] for record in read_ledger(folder / "run" / "ledger.jsonl")][1:]


@pytest.fixture(scope="module")
def table() -> Iterator[dict[str, str]]:
    """Field to finding; printed when all are through."""
    found: dict[str, str] = {}
    yield found
    print()
    for field, said in found.items():
        print(f"{field:45} {said}")


def test_unchanged_it_runs(tmp_path: Path) -> None:
    """A proxy that changes nothing is not noticed: the program is delivered."""
    with EngineProxy(tmp_path / "engine.sock", ENGINE) as proxy:
        done = gate_run(tmp_path, proxy)
    assert done.returncode == 0, done.stderr
    assert drawn(tmp_path).count("candidate") == 1
    assert proxy.created and all("HostConfig" in config for config in proxy.created)


@pytest.mark.parametrize("field", FIELDS)
def test_each_field_bites(tmp_path: Path, table: dict[str, str], field: str) -> None:
    """One field weakened on its way to the engine: exit 3, one sentence that names it, and nothing was drawn."""
    weaken, finding = FIELDS[field]
    with EngineProxy(tmp_path / "engine.sock", ENGINE, weaken) as proxy:
        done = gate_run(tmp_path, proxy)
    said = done.stderr.strip()
    table[field] = said.removeprefix("gate: ")
    assert done.returncode == 3, said or done.stdout
    assert proxy.created, "nothing went through the proxy"
    assert finding in said
    assert said.startswith("gate: ") and "\n" not in said
    assert drawn(tmp_path) == []
    assert done.stdout == ""


def test_the_probe_asks_for_what_was_asked_for() -> None:
    """The probe's bounds are those of the create request: nothing looser goes through."""
    probe: dict[str, Any] = {}
    exec(compile((sandbox_dir() / "probe.py").read_text(), "probe.py", "exec"), probe)
    assert probe["MAX_PIDS"] == hardening.PIDS_LIMIT
    assert probe["MAX_OPEN_FILES"] == hardening.MAX_OPEN_FILES
    assert probe["MAX_FILE_BYTES"] == hardening.MAX_FILE_BYTES
    sizes = {"/tmp": hardening.TMP_MB << 20, "/src": hardening.SOURCE_MB << 20, "/dev/shm": hardening.SHM_BYTES}
    assert probe["TMPFS_BYTES"] == sizes
