"""Verdicts of a ledger executed anew: `gate verify --rejudge N`.

Which ones is drawn by lot, with the ledger's head as the seed: whoever wrote the ledger
could not choose them, and whoever repeats the check gets the same ones. Nothing that was
kept of earlier observations is used.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

import anyio

from gate import engine, records, rules
from gate.backends.jsonl import LineIndex, read_lines
from gate.backends.rundir import RunDir
from gate.cli import printing, wiring
from gate.errors import SandboxError
from gate.model import Candidate, Json, Outcome, Task, Verdict
from gate.seams import Sandbox
from gate.verify import Mismatch, verdict_text


@dataclass(slots=True)
class Anew:
    """What came of it.

    Attributes:
        judged: How many verdicts were executed anew.
        verdicts: How many there are that rest on an execution.
    """

    judged: int
    verdicts: int
    mismatches: list[Mismatch] = field(default_factory=list)


def judge_anew(where: RunDir, index: LineIndex, head: str, number: int) -> Anew:
    """Execute some verdicts of a ledger anew, and say what differs.

    Raises:
        SandboxError: There is no engine, or our world failed on one of them.
    """
    chosen, verdicts = choose(where, head, number)
    found = Anew(judged=sum(len(each) for each in chosen.values()), verdicts=verdicts)
    if chosen:
        config = where.read_config()
        known = wiring.open_engine(config["options"]["runtime"])
        if known.image.content != config["image"]["content"]:
            printing.say(
                f"gate: recorded in image {config['image']['content']}, executed anew in {known.image.content}: "
                "what differs may come from that"
            )
        anyio.run(_judge_all, where, index, config, known, chosen, found)
    found.mismatches.sort(key=lambda mismatch: mismatch.where)
    return found


def choose(where: RunDir, head: str, number: int) -> tuple[dict[str, list[dict[str, Json]]], int]:
    """Some verdicts by task, drawn by lot without keeping them all; and how many there are."""
    lot = random.Random(head)
    kept: list[dict[str, Json]] = []
    seen = 0
    for line in read_lines(where.ledger):
        record = line.record
        if record["kind"] == "verdict" and record["seen"] and record["outcome"] != Outcome.ERROR.value:
            seen += 1
            place = len(kept) if len(kept) < number else lot.randrange(seen)
            if place < number:
                kept[place : place + 1] = [record]
    chosen: dict[str, list[dict[str, Json]]] = {}
    for record in kept:
        chosen.setdefault(record["task"], []).append(record)
    return chosen, seen


async def _judge_all(
    where: RunDir,
    index: LineIndex,
    config: dict[str, Json],
    known: wiring.Engine,
    chosen: dict[str, list[dict[str, Json]]],
    found: Anew,
) -> None:
    options = config["options"]
    jobs = wiring.default_jobs(options["isolation"])
    async with wiring.open_when_needed(
        known, isolation=options["isolation"], runtime=options["runtime"], concurrency=jobs
    ) as sandbox:

        async def work(task: Task) -> None:
            programs = dict(candidates(index, task.id))
            for record in chosen[task.id]:
                verdict = await again(task, programs[record["index"]], record["part"], sandbox)
                claimed = records.read_verdict(record)
                if (verdict.outcome, verdict.reason) != (claimed.outcome, claimed.reason):
                    place = f"{task.id}: draw {record['index']}, {record['part']}, executed anew"
                    found.mismatches.append(
                        Mismatch(where=place, claimed=verdict_text(claimed), derived=verdict_text(verdict))
                    )

        await engine.side_by_side((task for task in where.tasks() if task.id in chosen), work, concurrency=jobs)


def candidates(index: LineIndex, task_id: str) -> Iterator[tuple[int, Candidate]]:
    """The draws of one task."""
    for line in index.lines(task_id):
        if line.record["kind"] == "candidate":
            yield line.record["index"], records.read_candidate(line.record)


async def again(task: Task, candidate: Candidate, part: str, sandbox: Sandbox) -> Verdict:
    """One verdict anew.

    Raises:
        SandboxError: Our world failed: nothing can be said.
    """
    tests, repeat = rules.part_of(task.suite, part)
    verdict = await engine.verdict_on(candidate, task.suite, tests, sandbox=sandbox, repeat=repeat)
    if verdict.outcome is Outcome.ERROR:
        raise SandboxError(f"{task.id}: draw {candidate.index} could not be executed anew: {verdict.detail}")
    return verdict
