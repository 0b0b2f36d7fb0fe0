"""The corpus: hostile and odd programs with the answers that they may get, and judges to hold against it.

A case is a folder of `cases/`: `candidate.py` as it would be drawn, byte for byte, `suite.yaml`
as a customer would write it, and `case.yaml`, which says what it is about, of which kind it is
(`hostile`, `odd`, `probe`) and which answers are right: `pass`, or reasons of a failure.
"""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio
import yaml

from gate import rules
from gate.cli.try_one import judge
from gate.model import Call, Candidate, Exit, Limits, Observation, Outcome, SuiteSpec, Verdict, program_text
from gate.seams import Sandbox
from gate.suite import load_suite

CASES = Path(__file__).resolve().parent / "cases"
KINDS = ("hostile", "odd", "probe")
WORDS = ("pass", *rules.REASONS)
NAIVE = (Path(__file__).resolve().parent / "naive_grader.py").read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One program of the corpus; `accept` are the right answers, each a word of `WORDS`."""

    id: str
    about: str
    kind: str
    accept: tuple[str, ...]
    suite: SuiteSpec
    program: str


Judge = Callable[[Case], Awaitable[str]]


def read_case(folder: Path) -> Case:
    """One case from its folder; raises where a file is missing or a key is not known."""
    suite = folder / "suite.yaml"
    said = yaml.safe_load((folder / "case.yaml").read_text(encoding="utf-8"))
    return Case(
        id=folder.name,
        accept=tuple(said.pop("accept")),
        suite=load_suite(suite.read_bytes(), f"cases/{folder.name}/suite.yaml"),
        program=program_text((folder / "candidate.py").read_bytes()),
        **said,
    )


def read_cases() -> list[Case]:
    """The whole corpus, in the order of its folders' names."""
    return [read_case(folder) for folder in sorted(CASES.iterdir()) if folder.is_dir()]


def word_of(verdict: Verdict) -> str:
    """A verdict as one word: `pass`, the reason of a failure, or `infra`, which is never right."""
    return "pass" if verdict.outcome is Outcome.PASS else str(verdict.reason)


async def answers(cases: Sequence[Case], ask: Judge, *, at_once: int, order: int | None = None) -> dict[str, str]:
    """What a judge says of each case, some at a time, as listed or shuffled by a seed."""
    queue = list(cases)
    if order is not None:
        random.Random(order).shuffle(queue)
    stream = iter(queue)
    found: dict[str, str] = {}

    async def work() -> None:
        for case in stream:
            found[case.id] = await ask(case)

    async with anyio.create_task_group() as group:
        for _ in range(at_once):
            group.start_soon(work)
    return {case.id: found[case.id] for case in cases}


def right(cases: Sequence[Case], said: dict[str, str]) -> list[str]:
    """The ids of the cases that a judge got right."""
    return [case.id for case in cases if said[case.id] in case.accept]


def wrong(cases: Sequence[Case], said: dict[str, str]) -> dict[str, tuple[str, tuple[str, ...]]]:
    """What it got wrong: what it said, and what would have been right."""
    return {case.id: (said[case.id], case.accept) for case in cases if said[case.id] not in case.accept}


def gate_judge(sandbox: Sandbox) -> Judge:
    """The gate itself, by the same loop as a run's."""

    async def ask(case: Case) -> str:
        return word_of(await judge(case.suite, case.program, sandbox=sandbox))

    return ask


async def pass_all(case: Case) -> str:
    """A judge that passes everything."""
    return "pass"


async def fail_all(case: Case) -> str:
    """A judge that fails everything, for the most usual reason."""
    return "wrong_answer"


def naive_judge(sandbox: Sandbox) -> Judge:
    """A grader that runs the candidate in its own process and believes it; inside a container, or it would be ours.

    It has timers, as such graders have, and the container's limits above those.
    """
    limits = Limits(wall_s=25.0, cpu_s=12.0, memory_mb=512)

    async def ask(case: Case) -> str:
        tests = case.suite.source["tests"]
        job = {"program": case.program, "entry_point": case.suite.entry_point, "tests": tests}
        grader = Candidate(task_id="naive", index=0, code=NAIVE)
        return believed(await sandbox.observe(grader, None, [Call(stdin=json.dumps(job))], limits))

    return ask


def believed(seen: Observation) -> str:
    """What the user of such a grader takes its end for: its last word, else its exit status."""
    if seen.exit is not Exit.OK or not seen.replies or seen.replies[0].kind != "printed":
        return {Exit.TIME_LIMIT: "timeout", Exit.MEMORY_LIMIT: "memory"}.get(seen.exit, "crash")
    reply = seen.replies[0]
    printed = base64.b64decode(reply.value["$bytes"]).decode("utf-8", "replace").split()
    if printed and printed[-1] in WORDS:
        return printed[-1]
    return "pass" if reply.status == 0 else "crash"
