"""Who passes which test: saved programs, and mutants of each reference, observed once on all tests of their task.

    python experiments/007-v-gt-is-not-lossless/observe.py POOL…

Writes `vectors.jsonl.gz` beside this file: for each task the number of its tests, and for
each distinct program and each mutant the tests that it passes, as a row of 0 and 1. What
was observed is kept in `runs/observations.sqlite`, so a run that was stopped goes on.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from gate import engine, rules
from gate.backends.banks import open_bank
from gate.backends.observations import CachedSandbox, ObservationCache
from gate.backends.poolfiles import JoinedPools, open_pools
from gate.cli import mutants, wiring
from gate.errors import SandboxError
from gate.model import Candidate, Json, Limits, Observation, Outcome, SuiteSpec, Task
from gate.resources import suites_dir
from gate.seams import Sandbox

HERE = Path(__file__).resolve().parent
BANK = "mbpp-plus"
MUTANTS = 10
LATE = "not all of its programs were observed"


@dataclass(slots=True)
class Vectors:
    """One task's rows.

    Attributes:
        tests: How many tests there are.
        programs: A row for each distinct program, in the order of the pools.
        mutants: A row for each mutant.
        cut: How many programs ended before the last test, which fails what they did not come to.
        left_out: Why the task is left out, if it is.
    """

    task: str
    tests: int
    programs: list[str] = field(default_factory=list)
    mutants: list[str] = field(default_factory=list)
    cut: int = 0
    left_out: str | None = None

    def as_json(self) -> dict[str, Json]:
        """One line of the file."""
        return {name: getattr(self, name) for name in self.__slots__}


async def observed(task: Task, pool: JoinedPools, sandbox: Sandbox) -> Vectors:
    """All rows of one task."""
    suite = task.suite
    found = Vectors(task=task.id, tests=len(suite.hidden))
    if suite.limits != Limits():
        found.left_out = "its reference needs seconds of CPU, and so does each program"
        return found
    row, _ = await passed(suite, str(suite.reference), sandbox)
    if "0" in row:
        found.left_out = "its reference does not pass"
        return found
    known: set[str] = set()
    for index in range(pool.task_ids().get(task.id, 0)):
        candidate = await pool.draw(task, index)
        if candidate.digest not in known and rules.screen(candidate) is None:
            known.add(candidate.digest)
            row, is_cut = await passed(suite, candidate.code, sandbox)
            found.programs.append(row)
            found.cut += is_cut
    found.mutants = [row async for row in mutant_rows(suite, sandbox)]
    return found


async def mutant_rows(suite: SuiteSpec, sandbox: Sandbox) -> AsyncIterator[str]:
    """A row for each mutant of the reference; what takes ten times its time fails, as for `gate check --mutants`."""
    reference = str(suite.reference)
    cpu_s = await mutants.reference_cpu_s(suite, reference, sandbox)
    if isinstance(cpu_s, str):
        return
    bounded = mutants.bounded(suite, cpu_s)
    made, _, _ = await mutants.make(reference, MUTANTS, sandbox)
    for mutant in made:
        yield (await passed(bounded, mutant.code, sandbox))[0]


async def passed(suite: SuiteSpec, program: str, sandbox: Sandbox) -> tuple[str, bool]:
    """The row of one program, and whether its run ended early."""
    seen: list[Observation] = []
    candidate = Candidate(task_id=suite.task_id, index=0, code=program)
    verdict = await engine.verdict_on(candidate, suite, suite.hidden, sandbox=sandbox, on_seen=seen.append)
    if verdict.outcome is Outcome.ERROR:
        raise SystemExit(f"{suite.task_id}: our own world failed: {verdict.detail}")
    failed = set(rules.failed_tests(suite.hidden, seen[-1]))
    came_to = len(seen[-1].replies) if verdict.reason not in ("memory", "protocol") else 0
    row = "".join("1" if index < came_to and index not in failed else "0" for index in range(len(suite.hidden)))
    assert ("0" in row) is (verdict.outcome is not Outcome.PASS), suite.task_id
    return row, came_to < len(suite.hidden) and seen[-1].load is None


class NothingMore:
    """A sandbox in which nothing runs: only what is known already counts."""

    async def observe(self, *args: Any, **more: Any) -> Observation:
        """See `gate.seams.Sandbox`."""
        raise SandboxError("Nothing more is run.")


@asynccontextmanager
async def sandbox_of(known: wiring.Engine, isolation: str, jobs: int, runs: bool) -> AsyncIterator[Sandbox]:
    """Where programs run, or nothing."""
    if not runs:
        yield NothingMore()
        return
    async with wiring.open_sandbox(known, runtime=None, concurrency=jobs, isolation=isolation) as sandbox:
        yield sandbox


async def observe(pools: list[Path], isolation: str, jobs: int, seconds: float, runs: bool) -> list[Vectors]:
    """All tasks; those that were not done in time are left out."""
    known = wiring.open_engine(None)
    conditions = {"image": known.image.content, "isolation": isolation, "runtime": "runc"}
    tasks = list(open_bank(BANK, suites_dir()).tasks())
    found: dict[str, Vectors] = {}
    with ObservationCache(Path("runs") / "observations.sqlite") as cache:
        async with sandbox_of(known, isolation, jobs, runs) as inner:
            sandbox = CachedSandbox(inner, cache, conditions)
            pool = open_pools(pools)

            async def work(task: Task) -> None:
                with suppress(SandboxError):
                    found[task.id] = await observed(task, pool, sandbox)
                done = f"{len(found)} of {len(tasks)} tasks, {sandbox.ran} run, {sandbox.known} known"
                print(f"\r{done}", end="", file=sys.stderr)

            with anyio.move_on_after(seconds):
                await engine.side_by_side(tasks, work, concurrency=jobs)
    print(file=sys.stderr)
    return [found.get(task.id) or late(task) for task in tasks]


def late(task: Task) -> Vectors:
    """A task of which not all programs were observed."""
    return Vectors(task=task.id, tests=len(task.suite.hidden), left_out=LATE)


def main() -> None:
    """Observe, and write the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pools", nargs="+", type=Path, metavar="POOL")
    parser.add_argument("--isolation", choices=("cell", "container"), default="cell")
    parser.add_argument("-j", "--jobs", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop then; the same again goes on")
    parser.add_argument("--known", action="store_true", help="run nothing more, and write what is known")
    options = parser.parse_args()
    found = anyio.run(observe, options.pools, options.isolation, options.jobs, options.seconds, not options.known)
    missing = [each.task for each in found if each.left_out == LATE]
    if missing and not options.known:
        raise SystemExit(f"not done: {len(missing)} tasks: the same command again goes on")
    print(f"left out: {', '.join(missing) or 'none'}", file=sys.stderr)
    text = "".join(json.dumps(each.as_json()) + "\n" for each in found)
    (HERE / "vectors.jsonl.gz").write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    main()
