"""The hardening checklist: each item is in the create request, and nothing else loosens it."""

from __future__ import annotations

import json
from functools import reduce
from typing import Any

import pytest

from gate.backends.hardening import (
    CELL_MB,
    COMMAND,
    cell_config,
    cell_profile,
    container_config,
    discarded_limits,
    environment,
)
from gate.model import canonical_json
from gate.resources import sandbox_dir

IMAGE = "sha256:" + "ab" * 32
SECCOMP = '{"defaultAction":"SCMP_ACT_ERRNO"}'
LABELS = {"gate": "container", "gate.pid": "17"}
MEMORY_MB = 300


def request(**changes: Any) -> dict[str, Any]:
    fixed: dict[str, Any] = {
        "image": IMAGE,
        "seccomp": SECCOMP,
        "memory_mb": MEMORY_MB,
        "seed": 7,
        "runtime": None,
        "labels": LABELS,
    }
    return container_config(**{**fixed, **changes})


def at(config: dict[str, Any], place: str) -> Any:
    """The item at `A/B/C`; a KeyError where it is dropped."""
    return reduce(lambda part, key: part[key], place.split("|"), config)


# One item a row: why it is there, where it stands, what it must be.
CHECKLIST: list[tuple[str, str, Any]] = [
    ("no network to send to or to ask", "HostConfig|NetworkMode", "none"),
    ("no network device set up at all", "NetworkDisabled", True),
    ("nothing on the image's disk can be written", "HostConfig|ReadonlyRootfs", True),
    (
        "temporary files in memory, sized, no programs",
        "HostConfig|Tmpfs|/tmp",
        "rw,noexec,nosuid,nodev,size=64m,mode=1777",
    ),
    (
        "the candidate's file in a small place of its own",
        "HostConfig|Tmpfs|/src",
        "rw,noexec,nosuid,nodev,size=4m,mode=0755,uid=65534,gid=65534",
    ),
    ("no other file system", "HostConfig|Tmpfs", None),
    ("shared memory for multiprocessing, small", "HostConfig|ShmSize", 16 << 20),
    ("shared memory with nobody", "HostConfig|IpcMode", "private"),
    ("no host paths in cgroups", "HostConfig|CgroupnsMode", "private"),
    ("no capability", "HostConfig|CapDrop", ["ALL"]),
    ("never privileged", "HostConfig|Privileged", False),
    (
        "setuid gains nothing, system calls are filtered",
        "HostConfig|SecurityOpt",
        ["no-new-privileges:true", f"seccomp={SECCOMP}"],
    ),
    ("nobody, by number: no look-up of a name", "User", "65534:65534"),
    ("fork bombs end", "HostConfig|PidsLimit", 128),
    ("memory ends", "HostConfig|Memory", MEMORY_MB << 20),
    ("and swap adds none", "HostConfig|MemorySwap", MEMORY_MB << 20),
    ("one CPU", "HostConfig|NanoCpus", 1_000_000_000),
    (
        "open files and file sizes end, no core files",
        "HostConfig|Ulimits",
        [
            {"Name": "nofile", "Soft": 256, "Hard": 256},
            {"Name": "fsize", "Soft": 32 << 20, "Hard": 32 << 20},
            {"Name": "core", "Soft": 0, "Hard": 0},
        ],
    ),
    ("a flood of output fills no disk", "HostConfig|LogConfig", {"Type": "none"}),
    ("no program of the image's beside ours", "Healthcheck", {"Test": ["NONE"]}),
    ("a name that tells nothing", "Hostname", "box"),
    ("a fixed working directory", "WorkingDir", "/tmp"),
    ("our runner and no shell", "Entrypoint", COMMAND),
    ("and nothing of the image's after it", "Cmd", []),
    ("the image by its ID", "Image", IMAGE),
    ("found again and removed by its owner", "Labels", LABELS),
    ("kept after its end, as evidence", "HostConfig|AutoRemove", False),
    ("never started twice", "HostConfig|RestartPolicy", {"Name": "no"}),
    ("streams are told apart", "Tty", False),
    ("requests go in by stdin", "OpenStdin", True),
    ("which closes when the driver ends", "StdinOnce", True),
    ("stdin is attached", "AttachStdin", True),
    ("stdout is attached", "AttachStdout", True),
    ("stderr is attached", "AttachStderr", True),
]


@pytest.mark.parametrize(("why", "place", "value"), CHECKLIST, ids=[f"{place}: {why}" for why, place, _ in CHECKLIST])
def test_an_item_of_the_checklist_is_in_the_request(why: str, place: str, value: Any) -> None:
    """Each line of the checklist stands in the request, by exact value."""
    found = at(request(), place)
    if place == "HostConfig|Tmpfs":
        assert set(found) == {"/tmp", "/src"}, why
    else:
        assert (found, type(found)) == (value, type(value)), why


def test_nothing_stands_in_the_request_beyond_the_checklist() -> None:
    """No bind mount, device, added capability or shared namespace can slip in unseen."""
    config = request()
    top = {place.split("|")[0] for _, place, _ in CHECKLIST}
    host = {place.split("|")[1] for _, place, _ in CHECKLIST if place.startswith("HostConfig|")}
    assert set(config) == top | {"Env"}
    assert set(config["HostConfig"]) == host


@pytest.mark.parametrize("flag", ["-I", "-E", "-S"])
def test_the_interpreter_obeys_its_environment(flag: str) -> None:
    """Flags that ignore PYTHONHASHSEED, or remove `exit`, are not used; those that are isolate the path."""
    assert COMMAND[0] == "/usr/local/bin/python3"
    assert COMMAND[1:3] == ["-P", "-s"]
    assert flag not in COMMAND


@pytest.mark.parametrize("seed", [0, 1, 2**32 - 1])
def test_the_seed_is_the_hash_seed(seed: int) -> None:
    """The seed is in the environment, once, and nowhere else."""
    config = request(seed=seed)
    assert [entry for entry in config["Env"] if entry.startswith("PYTHONHASHSEED=")] == [f"PYTHONHASHSEED={seed}"]
    assert {**config, "Env": None} == {**request(seed=5), "Env": None}


@pytest.mark.parametrize("memory_mb", [16, 512, 8192])
def test_the_memory_limit_is_in_bytes_and_without_swap(memory_mb: int) -> None:
    """MiB in, bytes out, with swap held to the same sum."""
    host = request(memory_mb=memory_mb)["HostConfig"]
    assert host["Memory"] == host["MemorySwap"] == memory_mb * 1024 * 1024


def test_a_runtime_is_named_only_where_one_is_asked_for() -> None:
    """Without a runtime the engine's default holds; an empty name would be an error there."""
    assert "Runtime" not in request()["HostConfig"]
    assert request(runtime="runsc")["HostConfig"]["Runtime"] == "runsc"


def test_the_environment_is_the_same_on_every_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the host's environment goes in: no key, no proxy, no locale."""
    before = canonical_json(request())
    for name in ("OPENAI_API_KEY", "HTTPS_PROXY", "LANG", "TZ", "HOME", "PATH", "PYTHONPATH"):
        monkeypatch.setenv(name, "a-secret-of-the-host")
    assert canonical_json(request()) == before
    assert "secret" not in before


def test_the_environment_is_these_variables() -> None:
    """UTF-8, UTC, one thread for the numeric libraries, all writes to the one place for them."""
    assert dict(entry.split("=", 1) for entry in environment(3)) == {
        "PATH": "/usr/local/bin",
        "HOME": "/tmp",
        "TMPDIR": "/tmp",
        "TZ": "UTC",
        "LANG": "C.UTF-8",
        "PYTHONUTF8": "1",
        "PYTHONHASHSEED": "3",
        "PYTHONDONTWRITEBYTECODE": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
    }


def test_the_profile_that_ships_goes_in_as_content() -> None:
    """The engine takes a profile's content: a path or the word `builtin` is another thing to it."""
    profile = (sandbox_dir() / "seccomp.json").read_text()
    (option,) = (text for text in request(seccomp=profile)["HostConfig"]["SecurityOpt"] if text.startswith("seccomp="))
    assert option == f"seccomp={profile}"
    assert "SCMP_ACT" in option


@pytest.mark.parametrize("warnings", [None, []])
def test_an_engine_without_warnings_discards_nothing(warnings: list[str] | None) -> None:
    """No warning, no discarded limit."""
    assert discarded_limits(warnings) == []


@pytest.mark.parametrize(
    "warning",
    [
        "Your kernel does not support swap limit capabilities or the cgroup is not mounted."
        " Memory limited without swap.",
        "Your kernel does not support swap limit capabilities, memory limited without swap.",
    ],
)
def test_a_host_without_swap_accounting_is_no_problem(warning: str) -> None:
    """The warning that memory is limited but swap is not counted is the one that does not matter."""
    assert discarded_limits([warning]) == []


@pytest.mark.parametrize(
    "warning",
    [
        "Your kernel does not support memory limit capabilities or the cgroup is not mounted. Limitation discarded.",
        "Your kernel does not support PIDs limit capabilities or the cgroup is not mounted. PIDs limit discarded.",
        "Your kernel does not support CPU cfs period/quota or the cgroup is not mounted. Limitation discarded.",
        "Your kernel does not support memory swappiness capabilities. Memory swappiness discarded.",
        "Memory and swap limits discarded.",
        "Resource limits are not supported and ignored on cgroups V1 rootless systems",
        "something that no engine has said so far",
        "",
    ],
)
def test_every_other_warning_is_reported(warning: str) -> None:
    """A limit that the engine does not hold is named, also where the word swap is in the sentence."""
    swap = "Your kernel does not support swap limit capabilities. Memory limited without swap."
    assert discarded_limits([swap, warning]) == [warning]


def test_a_cells_container_differs_in_nothing_but_what_it_needs() -> None:
    """Another program starts, and there is room for it; every other field is a container's."""
    asked = {"image": IMAGE, "seccomp": SECCOMP, "memory_mb": 64, "seed": 3, "runtime": None, "labels": LABELS}
    container, cell = container_config(**asked), cell_config(**asked)  # type: ignore[arg-type]
    host, cells = container.pop("HostConfig"), cell.pop("HostConfig")
    assert {name for name in container if container[name] != cell[name]} == {"Entrypoint"}
    assert {name for name in host if host[name] != cells[name]} == {"Memory", "MemorySwap", "PidsLimit"}
    assert cells["Memory"] == cells["MemorySwap"] == 64 + CELL_MB << 20
    assert container.keys() == cell.keys() and host.keys() == cells.keys()


def test_a_cells_profile_permits_six_calls_more() -> None:
    """The second profile is the first and one rule: what a zygote needs to make namespaces."""
    first = (sandbox_dir() / "seccomp.json").read_text(encoding="utf-8")
    more = (sandbox_dir() / "seccomp-cell.json").read_text(encoding="utf-8")
    before, after = json.loads(first), json.loads(cell_profile(first, more))
    assert after["syscalls"][:-1] == before["syscalls"]
    assert after["syscalls"][-1]["action"] == "SCMP_ACT_ALLOW"
    assert set(after["syscalls"][-1]["names"]) == {"clone", "setns", "mount", "umount2", "pivot_root"}
    assert {**after, "syscalls": []} == {**before, "syscalls": []}
