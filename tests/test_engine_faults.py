"""Faults of the engine, played by a scripted one: no candidate is blamed for them, and nothing is left behind.

Each fault is played without a pool and with one. The names that begin with three digits
are recorded failures of other systems.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from fake_engine import BREAKS_OFF, HANGS, NEVER, STDERR, Answer, FakeEngine, Play, Runner, Stage, adds, error, settle
from fake_engine import answer_with as values_of

from gate import engine as loop
from gate import preflight, rules, wire
from gate.backends import boxes as boxes_module
from gate.backends import docker_client
from gate.backends.container import ContainerSandbox
from gate.backends.image import Image, source_digest
from gate.backends.jsonl import read_ledger
from gate.backends.scripted import MemoryLedger, ScriptedSource
from gate.errors import SandboxError
from gate.model import Call, Candidate, Exit, Expect, Limits, Observation, SuiteSpec, Task, Test

GATE = str(Path(sys.executable).parent / "gate")
IMAGE = Image(id="sha256:" + "ab" * 32, content="c", python="3.12.7", base="local", size_bytes=1)
TESTS = tuple(
    Test(call=Call(args=pair), expect=Expect(kind="value", values=(sum(pair),))) for pair in ((2, 3), (10, -4))
)
LIMITS = Limits(wall_s=1.0, memory_mb=64, output_kb=64)
RIGHT = "def add(a, b):\n    return a + b\n"
BOUND_S = 15.0
SWAP_ALONE = "Your kernel does not support swap limit capabilities. Memory limited without swap."
DISCARDED = "Your kernel does not support PIDs limit capabilities. PIDs limit discarded."


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is waited for in seconds to minutes is waited for in fractions."""
    monkeypatch.setattr(wire, "READY_TIMEOUT_S", 0.6)
    monkeypatch.setattr(boxes_module, "STOP_GRACE_S", 0.3)


@asynccontextmanager
async def opened(
    engine: FakeEngine, monkeypatch: pytest.MonkeyPatch, pool_size: int
) -> AsyncIterator[ContainerSandbox]:
    """A sandbox on that engine; whatever happened, it knows no container when it is closed."""
    monkeypatch.setenv("DOCKER_HOST", engine.address)
    client = docker_client.connect(answer_s=1)
    try:
        async with ContainerSandbox(
            client, IMAGE, seccomp="{}", labels={"gate": "container"}, concurrency=2, pool_size=pool_size
        ) as sandbox:
            yield sandbox
    finally:
        client.close()


async def observe(sandbox: ContainerSandbox, code: str = RIGHT) -> Observation:
    candidate = Candidate(task_id="t", index=0, code=code)
    return await sandbox.observe(candidate, "add", [test.call for test in TESTS], LIMITS)


async def verdict_of(sandbox: ContainerSandbox, code: str = RIGHT) -> str:
    """`pass`, the reason of a failure, or `infra`."""
    try:
        verdict = rules.grade(TESTS, await observe(sandbox, code))
    except SandboxError:
        return "infra"
    return verdict.reason or verdict.outcome.value


# Runners: what process 1 says, and how it ends.


def says_garbage(stage: Stage) -> None:
    stage.frame(1, b"Traceback (most recent call last):\n")
    stage.wait_for_the_end()


def is_not_multiplexed(stage: Stage) -> None:
    stage.send(b"plain text, no frames at all\n")
    stage.wait_for_the_end()


def ends_at_once(stage: Stage) -> None:
    stage.frame(STDERR, b"OSError: no space left\n")
    stage.container.end(1)


def is_silent(stage: Stage) -> None:
    stage.wait_for_the_end()


def is_ready_then_silent(stage: Stage) -> None:
    stage.ready()
    stage.read_request()
    stage.wait_for_the_end()


def ends_with(code: int, *records: dict[str, Any], **state: Any) -> Runner:
    """Reads the request, says some records, and ends."""

    def run(stage: Stage) -> None:
        stage.ready()
        stage.read_request()
        stage.say(*records)
        stage.container.end(code, **state)

    return run


def says(*records: dict[str, Any]) -> Runner:
    def run(stage: Stage) -> None:
        stage.ready()
        stage.read_request()
        stage.say(*records)
        stage.wait_for_the_end()

    return run


def floods(stage: Stage) -> None:
    stage.ready()
    stage.read_request()
    while True:
        stage.frame(STDERR, b"x" * 65536)


def is_cut_in_mid_frame(stage: Stage) -> None:
    stage.ready()
    stage.read_request()
    stage.say({"loaded": 1})
    stage.send(b"\1\0\0\0\0\0\0\x40" + b'{"i": 0, "val')
    stage.container.hang_up()


def loses_its_frames(stage: Stage) -> None:
    stage.ready()
    stage.read_request()
    stage.send(b"HTTP/1.1 500 Internal Server Error\r\n\r\n")
    stage.wait_for_the_end()


def is_full_before_the_request(stage: Stage) -> None:
    """Ready, then gone, with most of a large request still on its way."""
    stage.ready()
    time.sleep(0.2)
    stage.container.end(137)


def dies_with_engine(*, comes_back: bool) -> Runner:
    """The engine is killed while the candidate runs; perhaps it is there again at once, its containers stopped."""

    def run(stage: Stage) -> None:
        stage.ready()
        stage.read_request()
        stage.say({"loaded": 1})
        stage.engine.die()
        if comes_back:
            stage.engine.revive()

    return run


def was_removed(stage: Stage) -> None:
    """Somebody removes the container while the candidate runs."""
    stage.ready()
    stage.read_request()
    stage.container.removed = True
    stage.container.end(137)


def at_the_end(**state: Any) -> Play:
    """What the engine says of the container when it is asked for the last time."""
    whole = {"Status": "exited", "StartedAt": "2026-01-01T00:00:01Z", "Error": "", **state}
    return {"inspect": [None, Answer(status=200, body={"State": whole})]}


# What is played, and the verdict on a right program: (runner, play, warnings, verdict).
FAULTS: dict[str, tuple[Runner, Play, Sequence[str], str]] = {
    "nothing": (adds, {}, [], "pass"),
    "261 daemon down: it breaks off every create": (adds, {"create": BREAKS_OFF}, [], "infra"),
    "create answers 500": (adds, {"create": error(500, "no space left on device")}, [], "infra"),
    "create answers 409": (adds, {"create": error(409, "name in use")}, [], "infra"),
    "create answers 404": (adds, {"create": error(404, "No such image")}, [], "infra"),
    "create answers no JSON": (adds, {"create": Answer(status=201, body=b"<html>")}, [], "infra"),
    "create answers without an id": (adds, {"create": Answer(status=201, body={})}, [], "infra"),
    "create is slow": (adds, {"create": Answer(wait_s=0.3, honest=True)}, [], "pass"),
    "create is too slow, and makes it all the same": (adds, {"create": Answer(wait_s=1.3, honest=True)}, [], "infra"),
    "create warns of discarded limits": (adds, {}, [SWAP_ALONE, DISCARDED], "infra"),
    "create warns of swap alone": (adds, {}, [SWAP_ALONE], "pass"),
    "the engine tells no events": (adds, {"events": error(403, "forbidden")}, [], "infra"),
    "attach answers 404": (adds, {"attach": error(404, "No such container")}, [], "infra"),
    "attach answers 500": (adds, {"attach": error(500, "too many open files")}, [], "infra"),
    "attach never answers": (adds, {"attach": HANGS}, [], "infra"),
    "263 start fails: OCI": (adds, {"start": error(500, "OCI runtime create failed: runc create failed")}, [], "infra"),
    "start never answers": (adds, {"start": HANGS}, [], "infra"),
    "start breaks off": (adds, {"start": BREAKS_OFF}, [], "infra"),
    "the first inspect answers 404": (adds, {"inspect": error(404, "No such container")}, [], "infra"),
    "attach is cut before ready": (lambda stage: None, {}, [], "infra"),
    "garbage before ready": (says_garbage, {}, [], "infra"),
    "no frames before ready": (is_not_multiplexed, {}, [], "infra"),
    "it ends before ready": (ends_at_once, {}, [], "infra"),
    "never ready": (is_silent, {}, [], "infra"),
    "no frames any more in mid-run": (loses_its_frames, {}, [], "infra"),
    "cut in the middle of a frame": (is_cut_in_mid_frame, {}, [], "infra"),
    "268 container vanished": (adds, {"inspect": [None, error(404, "No such object")]}, [], "infra"),
    "removed by somebody": (was_removed, {}, [], "infra"),
    "the last inspect answers 500": (adds, {"inspect": [None, error(500, "deadline exceeded")]}, [], "infra"),
    "the last inspect breaks off": (adds, {"inspect": [None, BREAKS_OFF]}, [], "infra"),
    "the last inspect tells no state": (adds, {"inspect": [None, Answer(status=200, body={})]}, [], "infra"),
    "the state has an error": (adds, at_the_end(Error="OCI runtime failed"), [], "infra"),
    "the state says never started": (adds, at_the_end(StartedAt=NEVER), [], "infra"),
    "the state tells no start": (adds, at_the_end(StartedAt=None), [], "infra"),
    "the state is removing": (adds, at_the_end(Status="removing"), [], "infra"),
    "the state is dead": (adds, at_the_end(Status="dead"), [], "infra"),
    "wait answers 404": (adds, {"wait": error(404, "No such container")}, [], "infra"),
    "wait hangs, kill helps": (adds, {"wait": [HANGS, None]}, [], "pass"),
    "wait hangs, kill answers 500": (adds, {"wait": [HANGS, None], "kill": error(500, "cannot kill")}, [], "pass"),
    "wait hangs for good": (adds, {"wait": HANGS, "kill": error(500, "cannot kill")}, [], "infra"),
    "wait and kill hang": (adds, {"wait": HANGS, "kill": HANGS}, [], "infra"),
    "delete fails once": (adds, {"delete": [error(500, "device busy"), None]}, [], "pass"),
    "delete breaks off once": (adds, {"delete": [BREAKS_OFF, None]}, [], "pass"),
    "delete hangs once": (adds, {"delete": [HANGS, None]}, [], "pass"),
    "the engine dies in mid-run": (dies_with_engine(comes_back=False), {}, [], "infra"),
    "the engine is started anew in mid-run": (dies_with_engine(comes_back=True), {}, [], "infra"),
    # The candidate's own, with an engine that is well.
    "265 ended with 137, no kill of ours": (ends_with(137, OOMKilled=False), {}, [], "crash"),
    "266 killed for memory, all replies right": (adds, at_the_end(OOMKilled=True), [], "memory"),
    "ended with 125": (ends_with(125, {"loaded": 1}), {}, [], "crash"),
    "ended with 126": (ends_with(126, {"loaded": 1}), {}, [], "crash"),
    "ended with 127": (ends_with(127, {"loaded": 1}), {}, [], "crash"),
    "ended with 139": (ends_with(139, {"loaded": 1}), {}, [], "crash"),
    "ended with 0 after half the replies": (ends_with(0, {"loaded": 1}, {"i": 0, "value": 5}), {}, [], "crash"),
    "its process was killed": (says({"loaded": 1}, {"died": -9}), {}, [], "crash"),
    "forged records": (says({"loaded": 1}, {"verdict": "pass"}), {}, [], "protocol"),
    "a flood": (floods, {}, [], "output_limit"),
    "silence": (is_ready_then_silent, {}, [], "timeout"),
    "a wrong answer": (values_of(lambda code, args: 0), {}, [], "wrong_answer"),
}


@pytest.mark.parametrize("pool_size", [0, 2], ids=["no pool", "pool"])
@pytest.mark.parametrize("fault", FAULTS)
async def test_each_fault_is_blamed_on_whose_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str, pool_size: int
) -> None:
    """The engine's fault is `infra`, the candidate's own keeps its reason; soon, and nothing is left."""
    runner, play, warnings, wanted = FAULTS[fault]
    started_s = time.monotonic()
    with FakeEngine(tmp_path / "e", runner, play, warnings=warnings) as engine:
        async with opened(engine, monkeypatch, pool_size) as sandbox:
            found = await verdict_of(sandbox)
        assert found == wanted
        assert time.monotonic() - started_s < BOUND_S
        if fault != "the engine dies in mid-run":
            assert sandbox.boxes.left == frozenset()
            assert engine.left == []


@pytest.mark.parametrize("pool_size", [0, 2], ids=["no pool", "pool"])
async def test_after_a_dead_engine_all_fails_soon_until_it_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pool_size: int
) -> None:
    """Without an engine each candidate is `infra` at once, again and again; with it back, the next one passes."""
    with FakeEngine(tmp_path / "e") as engine:
        async with opened(engine, monkeypatch, pool_size) as sandbox:
            assert await verdict_of(sandbox) == "pass"
            engine.die()
            with anyio.fail_after(BOUND_S):
                assert [await verdict_of(sandbox) for _ in range(6)] == ["infra"] * 6
            engine.revive()
            assert await verdict_of(sandbox) == "pass"
        assert sandbox.boxes.left == frozenset()
        assert engine.left == []


async def test_a_container_that_fails_before_the_candidate_is_in_it_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What ends before it has the whole request is tried once more, and is never the candidate's fault."""
    large = RIGHT + "#" * 4_000_000
    with FakeEngine(tmp_path / "e", is_full_before_the_request) as engine:
        async with opened(engine, monkeypatch, 0) as sandbox:
            seen = await observe(sandbox, large)
            assert (seen.exit, len(engine.containers)) == (Exit.FAULT, 2)
            assert "before the candidate was in it" in seen.detail
            engine.runner = adds
            assert await verdict_of(sandbox, large) == "pass"
        assert engine.left == []


def task(code: str) -> tuple[Task, ScriptedSource]:
    suite = SuiteSpec(
        task_id="t",
        prompt="",
        entry_point="add",
        limits=LIMITS,
        tests=TESTS,
        hidden=(),
        reference=None,
        must_fail=(),
        digest="d",
        source=None,
    )
    return Task(id="t", prompt="", entry_point="add", suite=suite), ScriptedSource({"t": [code]})


async def test_270_timeout_under_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wall limit with CPU to spare is looked at once more, alone; the second answer counts."""

    def is_starved_once(stage: Stage) -> None:
        (adds if stage.engine.requests else is_ready_then_silent)(stage)

    for runner, wanted in ((is_starved_once, ("delivered", None)), (is_ready_then_silent, ("refused", "timeout"))):
        with FakeEngine(tmp_path / "e", runner) as engine:
            async with opened(engine, monkeypatch, 0) as sandbox:
                asked, source = task(RIGHT)
                ledger = MemoryLedger()
                decision = await loop.run_task(asked, source=source, sandbox=sandbox, ledger=ledger, draws=1)
            reasons = [each["reason"] for each in ledger.records if each["kind"] == "verdict"]
            alone = [each["where"]["alone"] for each in ledger.records if each["kind"] == "observation"]
            assert (decision.outcome, reasons[-1]) == wanted
            assert alone[:2] == [False, True]
            assert engine.left == []


async def test_a_cancelled_run_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cancelled with candidates running and containers waiting, every container is removed, soon."""
    with FakeEngine(tmp_path / "e", is_ready_then_silent) as engine:
        started_s = time.monotonic()
        async with opened(engine, monkeypatch, 2) as sandbox:
            with anyio.move_on_after(0.4):
                async with anyio.create_task_group() as group:
                    group.start_soon(observe, sandbox)
                    group.start_soon(observe, sandbox)
        assert time.monotonic() - started_s < 5
        assert len(engine.requests) == 2
        assert sandbox.boxes.left == frozenset()
        assert engine.left == []


async def test_closing_is_bounded_while_the_engine_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that hangs on every removal keeps nobody longer than the bound; what is left is known."""
    monkeypatch.setattr(boxes_module, "CLOSE_TIMEOUT_S", 1.5)
    with FakeEngine(tmp_path / "e", play={"delete": HANGS}) as engine:
        async with opened(engine, monkeypatch, 0) as sandbox:
            assert await verdict_of(sandbox) == "pass"
            started_s = time.monotonic()
        assert time.monotonic() - started_s < 4
        assert sandbox.boxes.left == frozenset(engine.left) != frozenset()


def values_inside(code: str, args: list[Any]) -> Any:
    """What the programs of the command line's tests return, and those that it asks before."""
    if code == preflight.GOOD:
        return 2 * args[0]
    if code == preflight.BAD:
        return args[0] ** 2
    return [] if "def probe" in code else sum(args)


def sleeps_if_asked(stage: Stage) -> None:
    """A sound runner; a program that says so never returns."""

    def values(code: str, args: list[Any]) -> Any:
        if "sleep" in code:
            stage.wait_for_the_end()
            raise EOFError
        return values_inside(code, args)

    values_of(values)(stage)


SUITE = "version: 1\ntask: %s\nentry_point: add\ntests:\n  - {args: [2, 3], expected: 5}\nlimits: {wall_s: 60}\n"


def start_run(folder: Path, address: str, programs: dict[str, list[str]]) -> subprocess.Popen[str]:
    """`gate run` over one suite for each of these tasks."""
    (folder / "bank").mkdir()
    for name in programs:
        (folder / "bank" / f"{name}.yaml").write_text(SUITE % name)
    (folder / "programs.json").write_text(json.dumps(programs))
    return subprocess.Popen(
        [GATE, "run", "bank", "--source", "scripted:programs.json", "--out", "run", "-q", "-j", "2"],
        cwd=folder,
        env={**os.environ, "DOCKER_HOST": address},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def our_image() -> dict[str, Any]:
    labels = {"gate.source": source_digest(), "gate.content": "c", "gate.python": "3.12.7", "gate.base": "local"}
    return {"Id": IMAGE.id, "Created": 1, "Size": 1, "Labels": labels}


def records(folder: Path, kind: str) -> list[dict[str, Any]]:
    return [record for record in read_ledger(folder / "run" / "ledger.jsonl") if record["kind"] == kind]


def test_261_daemon_down(tmp_path: Path) -> None:
    """Without an engine nothing runs, nothing falls back to the host, and one sentence says what to do: exit 3."""
    running = start_run(tmp_path, f"unix://{tmp_path}/nobody.sock", {"t": [RIGHT]})
    out, err = running.communicate(timeout=60)
    assert (running.returncode, out) == (3, "")
    assert "No Docker engine answers" in err and err.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_a_run_whose_engine_dies_blames_nobody(tmp_path: Path) -> None:
    """The engine dies under a run: its tasks are infra, no verdict fails, no headline, exit 3; resumed, all is well."""

    def dies_at_the_first_task(stage: Stage) -> None:
        stage.ready()
        stage.read_request()
        if "def add" in stage.code:
            stage.engine.die()
        values = [values_inside(stage.code, call["args"]) for call in stage.calls]
        replies = [{"i": number, "value": value} for number, value in enumerate(values)]
        stage.say({"loaded": 1}, *replies, {"end": len(values)}, {"died": 0})
        stage.wait_for_the_end()

    programs = {name: [RIGHT] for name in ("a", "b", "c")}
    with FakeEngine(tmp_path / "e", dies_at_the_first_task, images=[our_image()]) as engine:
        running = start_run(tmp_path, engine.address, programs)
        _, err = running.communicate(timeout=60)
        assert running.returncode == 3, err
        assert {record["outcome"] for record in records(tmp_path, "decision")} == {"infra"}
        assert [record["outcome"] for record in records(tmp_path, "verdict") if record["outcome"] != "error"] == []
        engine.runner = values_of(values_inside)
        engine.revive()
        resumed = [GATE, "run", "--resume", "run", "-q"]
        env = {**os.environ, "DOCKER_HOST": engine.address}
        done = subprocess.run(resumed, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        assert "3 delivered" in done.stdout


def test_271_sigint_mid_run(tmp_path: Path) -> None:
    """Ctrl-C with two candidates running: exit 130 soon, no container is left, the ledger reads, and resumes."""
    programs = {"a": ["# sleep\n" + RIGHT], "b": ["# sleep\n\n" + RIGHT]}
    with FakeEngine(tmp_path / "e", sleeps_if_asked, images=[our_image()]) as engine:
        running = start_run(tmp_path, engine.address, programs)
        assert settle(lambda: sum("sleep" in code for code in engine.requests) == 2, 30)
        stopped_s = time.monotonic()
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=30)
        assert (running.returncode, time.monotonic() - stopped_s < 5) == (130, True)
        assert engine.left == []
        assert records(tmp_path, "verdict") == []
        assert len(records(tmp_path, "candidate")) == 2


async def test_the_engine_is_asked_by_a_name_that_is_known_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A create whose answer never comes is removed all the same once the engine has made the container."""
    with FakeEngine(tmp_path / "e", play={"create": Answer(wait_s=1.4, honest=True)}) as engine:
        async with opened(engine, monkeypatch, 0) as sandbox:
            assert await verdict_of(sandbox) == "infra"
            assert sandbox.boxes.left
            assert await anyio.to_thread.run_sync(settle, lambda: len(engine.containers) == 1)
        assert (engine.left, sandbox.boxes.left) == ([], frozenset())


async def test_threads_end_with_the_sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing works on in the background once a sandbox is closed."""
    with FakeEngine(tmp_path / "e") as engine:
        async with opened(engine, monkeypatch, 2) as sandbox:
            await verdict_of(sandbox)
        ours = ("start", "remove")
        assert settle(lambda: not [each for each in threading.enumerate() if each.name.startswith(ours)])
        assert engine.left == []
