"""What is seen before the first draw: a sandbox that executes nothing, or holds nothing back, is never used."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from run_here import gate

from gate import preflight, values
from gate.backends.container import ContainerSandbox
from gate.backends.rundir import RunDir
from gate.backends.scripted import ScriptedSandbox
from gate.errors import SandboxError
from gate.model import Call, Candidate, Exit, Limits, Observation, Reply, digest_json

PROBE = "def probe(limit): ..."


def seen(*returned: Any, exit: Exit = Exit.OK, tail: str = "") -> Observation:
    """What a sandbox says that it has seen."""
    replies = tuple(Reply(kind="returned", value=values.encode(value)) for value in returned)
    return Observation(candidate="c", calls="d", exit=exit, replies=replies, output_tail=tail)


RIGHT = seen(4, 6, 34)
WRONG = seen(4, 9, 289)


async def refusal(probe: Observation, good: Observation, bad: Observation) -> str:
    """What is said of a sandbox that answers so."""
    sandbox = ScriptedSandbox({PROBE: [probe], preflight.GOOD: [good], preflight.BAD: [bad]})
    with pytest.raises(SandboxError) as caught:
        await preflight.check_sandbox(sandbox, PROBE)
    return str(caught.value)


async def test_a_sandbox_that_tells_right_from_wrong_is_used() -> None:
    """No finding, and two programs with two verdicts: nothing is said."""
    sandbox = ScriptedSandbox({PROBE: [seen([])], preflight.GOOD: [RIGHT], preflight.BAD: [WRONG]})
    await preflight.check_sandbox(sandbox, PROBE)
    assert [code for code, _, _ in sandbox.seen] == [PROBE, preflight.GOOD, preflight.BAD]


@pytest.mark.parametrize(
    ("good", "bad", "words"),
    [
        (RIGHT, RIGHT, "known to be wrong got pass"),
        (WRONG, WRONG, "known to be right got fail (wrong_answer"),
        (seen(), seen(), "known to be right got fail (protocol"),
        (seen(exit=Exit.FAULT), WRONG, "known to be right got error"),
        (RIGHT, seen(exit=Exit.FAULT), "known to be wrong got error"),
        (seen(exit=Exit.CRASHED, tail="one\nno python\n"), WRONG, "last words: no python"),
    ],
    ids=["passes all", "fails all", "executes nothing", "engine fails", "engine fails late", "runner fails"],
)
async def test_a_hollow_sandbox_is_refused(good: Observation, bad: Observation, words: str) -> None:
    """A harness that passes everything, fails everything or executes nothing is found before the first draw."""
    assert words in await refusal(seen([]), good, bad)


@pytest.mark.parametrize(
    ("probe", "words"),
    [
        (seen(["the root file system can be written"]), "does not hold: the root file system can be written;"),
        (seen("all is well"), "the probe answered no list"),
        (seen(), "the probe did not answer"),
        (seen([], []), "the probe did not answer"),
        (seen([], exit=Exit.CRASHED, tail="ouch"), "last words: ouch"),
    ],
    ids=["finding", "no list", "silent", "twice", "crashed"],
)
async def test_a_probe_that_finds_something_or_is_silent_refuses(probe: Observation, words: str) -> None:
    """What the probe names is said; no proper answer is a finding too."""
    assert words in await refusal(probe, RIGHT, WRONG)


# By the command

SUITE = """\
version: 1
task: plus/two
entry_point: plus
tests:
  - {args: [20, 3], expected: 23}
  - {args: [7, -9], expected: -2}
"""
PROGRAM = "def plus(one, two):\n    return one + two\n"


def hollow(returned: Callable[[Sequence[Call]], list[Any]]) -> Any:
    """A harness that says that all went well, whatever the program is, and never looks at it."""

    async def observe(
        self: ContainerSandbox,
        candidate: Candidate,
        entry_point: str | None,
        calls: Sequence[Call],
        limits: Limits,
        *,
        seed: int = 0,
        alone: bool = False,
    ) -> Observation:
        made = [[]] if "def probe" in candidate.code else returned(calls)
        return Observation(
            candidate=candidate.digest,
            calls=digest_json([call.as_json() for call in calls]),
            exit=Exit.OK,
            replies=tuple(Reply(kind="returned", value=value) for value in made),
            where={"seed": seed, "alone": alone},
        )

    return observe


@pytest.mark.docker
@pytest.mark.parametrize(
    "returned",
    [lambda calls: [], lambda calls: [None] * len(calls), lambda calls: [4, 6, 34][: len(calls)]],
    ids=["no replies", "None", "what the good canary returns"],
)
def test_a_run_on_a_harness_that_executes_nothing_stops_before_the_first_draw(
    returned: Callable[[Sequence[Call]], list[Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`gate run` ends with exit 3, and nothing is drawn, delivered or refused."""
    monkeypatch.setattr(ContainerSandbox, "observe", hollow(returned))
    (tmp_path / "suite.yaml").write_text(SUITE)
    (tmp_path / "pool.json").write_text(json.dumps({"plus/two": [PROGRAM]}))
    source = f"scripted:{tmp_path / 'pool.json'}"
    assert gate("run", tmp_path / "suite.yaml", "--source", source, "--out", tmp_path / "run", "-j", 1) == 3
    ledger = tmp_path / "run" / "ledger.jsonl"
    kinds = [json.loads(line)["kind"] for line in ledger.read_text().splitlines()] if ledger.exists() else []
    assert not {"candidate", "verdict", "decision"} & set(kinds)


@pytest.mark.docker
def test_a_suite_that_changes_while_the_run_goes_on_changes_nothing_of_the_run(tmp_path: Path) -> None:
    """The copy that was read and bound at the start judges all draws, and its digest stands in the record."""
    bank = tmp_path / "bank"
    bank.mkdir()
    for name in ("a", "b", "c"):
        (bank / f"{name}.yaml").write_text(SUITE.replace("plus/two", f"plus/{name}"))
    swap = (
        "import pathlib, sys; [p.write_text(p.read_text().replace('expected: 23', 'expected: 0')"
        ".replace('expected: -2', 'expected: 0')) for p in pathlib.Path(sys.argv[1]).iterdir()]; "
        f"print({PROGRAM!r})"
    )
    command = shlex.join([sys.executable, "-c", swap, str(bank)])
    assert gate("run", bank, "--source", f"command:{command}", "--out", tmp_path / "run", "-j", 1) == 0
    assert "expected: 23" not in (bank / "c.yaml").read_text()
    where = RunDir(tmp_path / "run")
    assert [test.expect.values for task in where.tasks() for test in task.suite.tests] == [(23,), (-2,)] * 3
    assert gate("verify", tmp_path / "run") == 0
