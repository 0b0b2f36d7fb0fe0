"""A real engine that is killed, robbed of its image, or starved under a run: no verdict is wrong, no candidate blamed.

The engine is a dockerd of the tests' own, so that the one at hand is left alone.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import docker
import pytest
from fake_engine import settle
from second_engine import SecondEngine, mounts_below, pids_with

from gate import rules
from gate.backends import docker_client
from gate.backends.container import ContainerSandbox
from gate.backends.image import Image
from gate.backends.jsonl import read_ledger
from gate.backends.labels import owner_labels
from gate.backends.leftovers import reap
from gate.model import Call, Candidate, Exit, Expect, Limits, Observation, Outcome, Test
from gate.resources import sandbox_dir

pytestmark = [pytest.mark.docker, pytest.mark.soak, pytest.mark.timeout(300)]

GATE = str(Path(sys.executable).parent / "gate")
ROOT = Path(__file__).resolve().parent.parent
SOURCE = f"samples:{ROOT / 'suites/humaneval/samples/davinci-002-k5.jsonl.gz'}"
TASKS = 12
FILES = 64
STARVED_S = 10.0
SLOW = "import time\ndef add(a, b):\n    time.sleep(3)\n    return a + b\n"
ADD = (Test(call=Call(args=(2, 3)), expect=Expect(kind="value", values=(5,))),)

Facts = dict[tuple[Any, ...], tuple[Any, ...]]


@pytest.fixture(scope="module")
def packed(engine: docker.APIClient, image: Image) -> bytes:
    """The sandbox image as the engine at hand saves it."""
    return b"".join(engine.get_image(image.id))


@pytest.fixture(params=[False, True], ids=["socket goes", "socket stays"])
def second(request: pytest.FixtureRequest, packed: bytes) -> Iterator[SecondEngine]:
    """An engine with the image, of both kinds."""
    yield from ready(SecondEngine(keeps_socket=request.param), packed)


@pytest.fixture
def plain(packed: bytes) -> Iterator[SecondEngine]:
    """An engine with the image."""
    yield from ready(SecondEngine(), packed)


def ready(engine: SecondEngine, packed: bytes) -> Iterator[SecondEngine]:
    if os.geteuid() != 0:
        pytest.fail("a second dockerd needs root: run this test as root", pytrace=False)
    with engine:
        load(engine, packed)
        yield engine


def load(engine: SecondEngine, packed: bytes) -> None:
    client = engine.client()
    list(client.load_image(packed))
    client.close()


def gate(engine: SecondEngine, out: Path, *args: str, jobs: int = 4) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [GATE, "run", *args, "-q", "-j", str(jobs)],
        cwd=out.parent,
        env={**os.environ, "DOCKER_HOST": engine.address},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def begin(engine: SecondEngine, out: Path, *, jobs: int = 4) -> subprocess.Popen[str]:
    bank = ["humaneval", "--source", SOURCE, "--limit", str(TASKS), "--infra-budget", "100%", "--out", str(out)]
    return gate(engine, out, *bank, jobs=jobs)


def end(running: subprocess.Popen[str]) -> tuple[int, str]:
    """The exit code and what was said on stderr; bounded."""
    _, err = running.communicate(timeout=200)
    return running.returncode, err


def records(out: Path) -> list[dict[str, Any]]:
    path = out / "ledger.jsonl"
    return list(read_ledger(path)) if path.exists() else []


def verdicts(out: Path) -> Facts:
    """All verdicts but our own failures."""
    return {
        (each["task"], each["index"], each["part"]): (each["outcome"], each["reason"], each["test"], each["tests"])
        for each in records(out)
        if each["kind"] == "verdict" and each["outcome"] != "error"
    }


def decisions(out: Path) -> Facts:
    """The last decision on each task, infra too."""
    names = ("outcome", "delivered", "index", "reason", "draws")
    return {(each["task"],): tuple(each[name] for name in names) for each in records(out) if each["kind"] == "decision"}


def settled(found: Facts) -> Facts:
    return {task: decision for task, decision in found.items() if decision[0] != "infra"}


def is_within(some: Facts, all_of_them: Facts) -> bool:
    return some.items() <= all_of_them.items()


@pytest.fixture(scope="module")
def undisturbed(engine: docker.APIClient, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run as it comes out on an engine that is well: the one at hand."""
    out = tmp_path_factory.mktemp("undisturbed") / "run"
    bank = ["humaneval", "--source", SOURCE, "--limit", str(TASKS), "--out", str(out), "-q", "-j", "4"]
    done = subprocess.run([GATE, "run", *bank], capture_output=True, text=True, timeout=200)
    assert done.returncode in (0, 1), done.stderr
    assert len(settled(decisions(out))) == TASKS
    return out


def wait_for(out: Path, kind: str, number: int) -> None:
    """Until a run has so many records of a kind."""
    deadline_s = time.monotonic() + 60
    while sum(each["kind"] == kind for each in records(out)) < number:
        assert time.monotonic() < deadline_s, f"no {number} records of kind {kind}"
        time.sleep(0.02)


def resume(engine: SecondEngine, out: Path, undisturbed: Path) -> None:
    """Resumed on an engine that is well, a run comes to what it comes to undisturbed."""
    code, err = end(gate(engine, out, "--resume", str(out)))
    assert code in (0, 1), err
    assert decisions(out) == decisions(undisturbed)
    assert verdicts(out) == verdicts(undisturbed)


def left(engine: SecondEngine) -> list[str]:
    """The containers that a next start of ours would leave alone."""
    client = engine.client()
    reap(client)
    found = [each["Id"] for each in client.containers(all=True)]
    client.close()
    return found


def report(out: Path, what: str) -> None:
    found = decisions(out)
    print(f"{what}: {len(settled(found))} of {TASKS} tasks ended, {len(found) - len(settled(found))} infra")


def test_an_engine_killed_and_started_again_under_a_run(
    second: SecondEngine, undisturbed: Path, tmp_path: Path
) -> None:
    """Killed -9 in mid-run: what ended is as undisturbed, the rest is infra, and resumed all is as undisturbed."""
    out = tmp_path / "run"
    running = begin(second, out)
    wait_for(out, "verdict", 4)
    second.kill()
    second.start()
    second.wait()
    code, err = end(running)
    report(out, "killed in mid-run")
    assert code in (0, 1, 3), err
    assert is_within(verdicts(out), verdicts(undisturbed))
    assert is_within(settled(decisions(out)), decisions(undisturbed))
    assert len(settled(decisions(out))) < TASKS, "the run was over before the engine was killed"
    resume(second, out, undisturbed)
    assert left(second) == []


@pytest.fixture(scope="module")
def undisturbed_cells(engine: docker.APIClient, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A longer run in cells as it comes out on the engine at hand, for cells are quick."""
    out = tmp_path_factory.mktemp("undisturbed") / "run"
    done = subprocess.run([GATE, "run", *in_cells(out), "-q", "-j", "2"], capture_output=True, text=True, timeout=250)
    assert done.returncode in (0, 1), done.stderr
    return out


def in_cells(out: Path) -> list[str]:
    bank = ["humaneval", "--source", SOURCE, "--limit", str(4 * TASKS), "--infra-budget", "100%"]
    return [*bank, "--isolation", "cell", "--out", str(out)]


@pytest.mark.timeout(900)
def test_an_engine_killed_and_started_again_under_cells(
    plain: SecondEngine, undisturbed_cells: Path, tmp_path: Path
) -> None:
    """Cells go with their engine: no verdict is another, and resumed all is as undisturbed."""
    out = tmp_path / "run"
    running = gate(plain, out, *in_cells(out), jobs=2)
    wait_for(out, "verdict", 12)
    plain.kill()
    plain.start()
    plain.wait()
    code, err = end(running)
    assert code in (0, 1, 3), err
    assert is_within(verdicts(out), verdicts(undisturbed_cells))
    assert is_within(settled(decisions(out)), decisions(undisturbed_cells))
    resume(plain, out, undisturbed_cells)
    assert left(plain) == []


async def seen_while(engine: SecondEngine, monkeypatch: pytest.MonkeyPatch, image: Image, act: Any) -> Observation:
    """A candidate of three seconds, and what is done to its engine after one."""
    monkeypatch.setenv("DOCKER_HOST", engine.address)
    client = docker_client.connect(answer_s=20)
    seen: list[Observation] = []
    candidate = Candidate(task_id="t", index=0, code=SLOW)
    seccomp = (sandbox_dir() / "seccomp.json").read_text()

    async def observe(sandbox: ContainerSandbox) -> None:
        seen.append(await sandbox.observe(candidate, "add", [ADD[0].call], Limits(wall_s=30)))

    try:
        async with (
            ContainerSandbox(client, image, seccomp=seccomp, labels=owner_labels(), pool_size=0) as sandbox,
            anyio.create_task_group() as group,
        ):
            group.start_soon(observe, sandbox)
            await anyio.sleep(1.5)
            await anyio.to_thread.run_sync(act)
    finally:
        client.close()
    return seen[0]


async def test_a_candidate_whose_engine_dies_is_not_blamed(
    second: SecondEngine, image: Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next engine says: ended with 137, no error, just as of a crash. It is infra all the same."""

    def restart() -> None:
        second.kill()
        second.start()
        second.wait()

    seen = await seen_while(second, monkeypatch, image, restart)
    print(seen.exit, seen.detail)
    assert seen.exit is Exit.FAULT
    assert rules.grade(ADD, seen).outcome is Outcome.ERROR


async def test_a_candidate_is_judged_as_ever_where_nothing_happens(
    plain: SecondEngine, image: Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same candidate on the same kind of engine passes when the engine is left alone."""
    seen = await seen_while(plain, monkeypatch, image, lambda: None)
    assert rules.grade(ADD, seen).outcome is Outcome.PASS


def rob(engine: SecondEngine, image: Image) -> None:
    """Take the image away: its containers first, for as long as somebody makes new ones."""
    client = engine.client()
    deadline_s = time.monotonic() + 30
    while True:
        for each in client.containers(all=True):
            with suppress(docker.errors.APIError):
                client.remove_container(each["Id"], force=True)
        try:
            client.remove_image(image.id, force=True)
            break
        except docker.errors.ImageNotFound:
            break
        except docker.errors.APIError:
            assert time.monotonic() < deadline_s, "the image cannot be removed"
    client.close()


def test_an_image_removed_under_a_run(
    plain: SecondEngine, packed: bytes, image: Image, undisturbed: Path, tmp_path: Path
) -> None:
    """The image goes in mid-run: infra that says what to do, no wrong verdict; with the image back it resumes."""
    out = tmp_path / "run"
    running = begin(plain, out, jobs=1)  # few containers at a time: an image in use cannot be removed
    wait_for(out, "verdict", 4)
    rob(plain, image)
    end(running)
    report(out, "image removed in mid-run")
    reasons = {decision[3] for decision in decisions(out).values() if decision[0] == "infra"}
    assert any("no longer has the sandbox image: run `gate image build`" in str(reason) for reason in reasons)
    assert is_within(verdicts(out), verdicts(undisturbed))
    assert is_within(settled(decisions(out)), decisions(undisturbed))
    code, err = end(gate(plain, out, "--resume", str(out)))
    assert code == 3 and "gate image build" in err
    load(plain, packed)
    resume(plain, out, undisturbed)
    assert left(plain) == []


def test_an_engine_short_of_descriptors(plain: SecondEngine, undisturbed: Path, tmp_path: Path) -> None:
    """Left with 64 descriptors for a while, the engine makes no verdict wrong; resumed, all is as undisturbed."""
    out = tmp_path / "run"
    running = begin(plain, out, jobs=6)  # more at a time than 64 descriptors are enough for
    wait_for(out, "verdict", 4)
    before = plain.open_files()
    plain.limit_files(FILES)
    time.sleep(STARVED_S)
    plain.limit_files(None)
    end(running)
    report(out, f"{FILES} of {before} descriptors for {STARVED_S:g} s")
    assert before > FILES
    assert is_within(verdicts(out), verdicts(undisturbed))
    assert is_within(settled(decisions(out)), decisions(undisturbed))
    resume(plain, out, undisturbed)
    # It did late what it was asked by a run that had ended, and may have got stuck in the middle of that.
    plain.kill()
    plain.start()
    plain.wait()
    assert settle(lambda: left(plain) == [], 30)


def test_no_engine_left_anything(plain: SecondEngine) -> None:
    """No folder, mount or process of a second engine outlives its test."""
    gone = [folder for folder in SecondEngine.folders if f"unix://{folder}/d.sock" != plain.address]
    assert [folder for folder in gone if folder.exists() or mounts_below(folder)] == []
    assert [each for folder in gone for each in pids_with(folder)] == []
    assert pids_with(SecondEngine.folders[-1])
