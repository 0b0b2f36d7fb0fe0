"""Containers that nobody owns any more are removed, and no others: by their labels, on a real engine."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import docker
import docker.errors
import pytest

from gate.backends import labels
from gate.backends.image import Image
from gate.backends.leftovers import find_leftovers, is_orphaned, reap, remove
from gate.cli.clean import clean

pytestmark = pytest.mark.docker

GATE = str(Path(sys.executable).parent / "gate")
Owned = Callable[..., str]


def dead_pid() -> int:
    """The pid of a process that is gone."""
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        pass
    return child.pid


def dead() -> dict[str, str]:
    """What a gate of this host and namespace that was killed would have left on its containers."""
    return {**labels.owner_labels(), "gate.pid": str(dead_pid()), "gate.start": "17"}


@pytest.fixture
def owned(engine: docker.APIClient, image: Image) -> Iterator[Owned]:
    """Makes containers with some labels, never started; all are gone after the test."""
    made: list[str] = []

    def make(**changed: str) -> str:
        found = {**labels.owner_labels(), **{name.replace("_", "."): value for name, value in changed.items()}}
        config = {"Image": image.id, "Labels": found, "HostConfig": {"NetworkMode": "none"}}
        created = engine.create_container_from_config(config)  # type: ignore[no-untyped-call]
        made.append(created["Id"])
        return str(created["Id"])

    yield make
    for container_id in made:
        with contextlib.suppress(docker.errors.NotFound):
            engine.remove_container(container_id, force=True)


def is_there(engine: docker.APIClient, container_id: str) -> bool:
    try:
        engine.inspect_container(container_id)
    except docker.errors.NotFound:
        return False
    return True


def test_what_a_dead_owner_left_is_removed(engine: docker.APIClient, owned: Owned) -> None:
    """A container of a pid of this host and namespace that is gone is reaped."""
    left = owned(gate_pid=str(dead_pid()), gate_start="17")
    assert [each.id for each in find_leftovers(engine) if each.orphaned and each.id == left] == [left]
    assert reap(engine) >= 1
    assert not is_there(engine, left)


# What is kept although its pid may be gone: about these nothing can be known from here.
KEPT: dict[str, dict[str, str]] = {
    "a living owner": {},
    "another pid namespace": {"gate_pidns": "pid:[1]"},
    "another host": {"gate_host": "00000000-0000-0000-0000-000000000000"},
    "no pid namespace": {"gate_pidns": ""},
    "no host": {"gate_host": ""},
    "no start time": {"gate_start": ""},
    "no pid": {"gate_pid": ""},
    "a pid that is no number": {"gate_pid": "-1"},
    "a pid of odd digits": {"gate_pid": "²"},
    "a pid of too many digits": {"gate_pid": "9" * 5000},
}


@pytest.mark.parametrize("changed", KEPT.values(), ids=KEPT.keys())
def test_what_somebody_may_own_is_kept(engine: docker.APIClient, owned: Owned, changed: dict[str, str]) -> None:
    """A container whose owner lives, or is of another world, or is not named beyond doubt, is not reaped."""
    gone = {} if not changed else {"gate_pid": str(dead_pid()), "gate_start": "17"}
    kept = owned(**{**gone, **changed})
    reap(engine)
    assert is_there(engine, kept)
    assert [each.orphaned for each in find_leftovers(engine) if each.id == kept] == [False]


def test_a_pid_that_was_given_away_again_is_no_owner(engine: docker.APIClient, owned: Owned) -> None:
    """The same pid with another start time is another process: what the first one left is reaped."""
    reused = owned(gate_pid=str(os.getpid()), gate_start=str(int(labels.start_time(os.getpid()) or 0) - 1))
    reap(engine)
    assert not is_there(engine, reused)


def test_an_owner_is_told_by_its_labels_alone() -> None:
    """Without any label of ours, or with half of them, nobody is known to be gone."""
    gone = dead()
    assert is_orphaned(gone)
    assert not is_orphaned({}) and not is_orphaned(labels.owner_labels())
    for name in gone.keys() - {"gate"}:
        assert not is_orphaned({key: value for key, value in gone.items() if key != name})


def test_a_container_of_somebody_else_is_not_ours(engine: docker.APIClient, image: Image) -> None:
    """What carries no owner's label of ours is not even listed, though it is made of our image."""
    config = {"Image": image.id, "Labels": {"owner": "gate"}}
    other = engine.create_container_from_config(config)["Id"]  # type: ignore[no-untyped-call]
    try:
        assert other not in [each.id for each in find_leftovers(engine)]
    finally:
        engine.remove_container(other, force=True)


def test_what_is_gone_already_counts_as_removed(engine: docker.APIClient, owned: Owned) -> None:
    """Two gates that clean up at once do not call each other's work a failure."""
    left = owned(gate_pid=str(dead_pid()), gate_start="17")
    (found,) = [each for each in find_leftovers(engine) if each.id == left]
    assert (found.running, remove(engine, found), remove(engine, found)) == (False, True, True)


def test_a_failure_of_the_engine_is_told(engine: docker.APIClient, owned: Owned) -> None:
    """What could not be removed is not called removed."""

    class Broken:
        def remove_container(self, *args: object, **more: object) -> None:
            raise docker.errors.APIError("the engine is full")

    left = owned(gate_pid=str(dead_pid()), gate_start="17")
    (found,) = [each for each in find_leftovers(engine) if each.id == left]
    assert remove(Broken(), found) is False  # type: ignore[arg-type]


# `gate clean`


def cleaned(
    capsys: pytest.CaptureFixture[str], *, dry_run: bool = False, everything: bool = False
) -> dict[str, object]:
    assert clean(dry_run=dry_run, everything=everything, as_json=True) == 0
    said: dict[str, object] = json.loads(capsys.readouterr().out)
    assert said["schema"] == "gate.clean/1" and said["failed"] == []
    return said


def test_clean_removes_what_nobody_owns(
    engine: docker.APIClient, owned: Owned, capsys: pytest.CaptureFixture[str]
) -> None:
    """`gate clean` takes the dead owner's container and leaves the living one's."""
    left, kept = owned(gate_pid=str(dead_pid()), gate_start="17"), owned()
    said = cleaned(capsys)
    assert left in str(said["removed"]) and kept in str(said["kept"])
    assert not is_there(engine, left) and is_there(engine, kept)


@pytest.mark.parametrize("everything", [False, True])
def test_a_dry_run_removes_nothing(
    engine: docker.APIClient, owned: Owned, capsys: pytest.CaptureFixture[str], everything: bool
) -> None:
    """`gate clean --dry-run` names what it would take, with --all too, and takes nothing."""
    left, foreign = owned(gate_pid=str(dead_pid()), gate_start="17"), owned(gate_host="elsewhere")
    said = cleaned(capsys, dry_run=True, everything=everything)
    assert said["dry_run"] is True
    assert left in str(said["removed"]) and (foreign in str(said["removed"])) is everything
    assert is_there(engine, left) and is_there(engine, foreign)
    clean(dry_run=True, everything=everything, as_json=False)
    shown = capsys.readouterr().out
    assert f"would remove {left[:12]} (pid " in shown and "removed" not in shown.replace("would remove", "")


class OnlyMine:
    """An engine that shows and removes the containers of one test, so that `--all` harms no neighbour."""

    def __init__(self, engine: docker.APIClient, mine: set[str]) -> None:
        self._engine = engine
        self._mine = mine

    def containers(self, **filters: object) -> list[dict[str, object]]:
        return [each for each in self._engine.containers(**filters) if each["Id"] in self._mine]  # type: ignore[arg-type]

    def remove_container(self, container_id: str, **more: bool) -> None:
        assert container_id in self._mine
        self._engine.remove_container(container_id, **more)


def test_all_takes_all(
    engine: docker.APIClient, owned: Owned, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`gate clean --all` takes what other hosts, other namespaces and living owners have, too."""
    made = [owned(**changed) for changed in ({}, {"gate_host": "elsewhere"}, {"gate_pidns": "pid:[1]"})]
    monkeypatch.setattr("gate.cli.clean.connect", lambda: OnlyMine(engine, set(made)))
    assert clean(dry_run=False, everything=False, as_json=False) == 0
    assert "removed 0 of 3 containers; 3 kept, whose owner may live: --all takes them too" in capsys.readouterr().out
    said = cleaned(capsys, everything=True)
    assert sorted(made) == sorted(said["removed"])  # type: ignore[call-overload]
    assert not any(is_there(engine, container_id) for container_id in made)


# Two gates on one engine.

SUITE = """\
version: 1
task: t
entry_point: f
limits: {wall_s: 100, cpu_s: 60}
tests: [{args: [1], expected: 1}]
"""
SLOW, FAST = "import time\ntime.sleep(100)\n", "def f(x):\n    return x\n"


def start(here: Path, program: str, *before: str) -> tuple[subprocess.Popen[str], Path]:
    """A `gate run` of one program on the way, and its directory."""
    name = uuid.uuid4().hex
    (here / f"{name}.yaml").write_text(SUITE)
    (here / f"{name}.json").write_text(json.dumps({"t": [program]}))
    run = [GATE, "run", f"{name}.yaml", "--source", f"scripted:{name}.json", "--out", name, "-q"]
    running = subprocess.Popen([*before, *run], cwd=here, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return running, here / name


def wait_until(true: Callable[[], bool], running: subprocess.Popen[str], what: str) -> None:
    deadline_s = time.monotonic() + 40
    while not true():
        if running.poll() is not None:
            pytest.fail(f"the gate ended before {what}: {running.communicate()[1]}")
        assert time.monotonic() < deadline_s, what
        time.sleep(0.05)


def is_drawing(out: Path) -> bool:
    """Whether a run has drawn its candidate, which then sleeps in its container."""
    ledger = out / "ledger.jsonl"
    return ledger.exists() and '"candidate"' in ledger.read_text()


def running_of(engine: docker.APIClient, namespace: str, pid: int) -> list[str]:
    """The running containers of one gate, by its namespace and the pid that it has there."""
    wanted = [f"gate.pidns={namespace}", f"gate.pid={pid}"]
    return [each["Id"] for each in engine.containers(filters={"label": wanted})]


def child_of(pid: int) -> int:
    (child,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(child)


@pytest.mark.slow
def test_two_gates_never_reap_each_other(engine: docker.APIClient, tmp_path: Path) -> None:
    """Two gates, one of them in another pid namespace, and a third that comes and goes: all containers stay."""
    apart = ("unshare", "--pid", "--fork", "--mount-proc")
    allowed = subprocess.run([*apart, "true"], capture_output=True, text=True)
    if allowed.returncode:
        pytest.fail(f"this test needs a pid namespace of its own, and this system gives none: {allowed.stderr}")
    here, out_here = start(tmp_path, SLOW)
    wait_until(lambda: is_drawing(out_here), here, "it drew")
    there, out_there = start(tmp_path, SLOW, *apart)
    gates = [here.pid]
    try:
        wait_until(lambda: is_drawing(out_there), there, "it drew")
        inner = child_of(there.pid)
        gates.append(inner)
        namespaces = [os.readlink(f"/proc/{pid}/ns/pid") for pid in gates]
        assert namespaces[0] == labels.pid_namespace() != namespaces[1]
        owners = [(namespaces[0], here.pid), (namespaces[1], 1)]
        wait_until(lambda: all(running_of(engine, *owner) for owner in owners), there, "both candidates ran")
        before = [running_of(engine, *owner) for owner in owners]
        for way in ((), apart):
            third, _ = start(tmp_path, FAST, *way)
            assert third.wait(timeout=60) == 0, third.communicate()
            third.communicate()
            reap(engine)
        for owner, then in zip(owners, before, strict=True):
            assert set(then) <= set(running_of(engine, *owner))  # more were made ahead of need meanwhile
        assert here.poll() is None and there.poll() is None
    finally:
        for pid in gates:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        for each in (here, there):
            try:
                each.communicate(timeout=20)
            except subprocess.TimeoutExpired:
                each.kill()
                each.communicate()
    assert [running_of(engine, *owner) for owner in owners] == [[], []]
