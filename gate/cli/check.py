"""`gate check`: is the gauge sound.

Theory of operation. A bank is a stream and stays one: suites are read by the batch, each
batch is held against the programs that know nothing (pure, on the host) and against its
own programs (in the sandbox), and its findings go out in the bank's order before the next
is read. The sandbox, and all that speaks to an engine, is loaded when the first suite
brings a program of its own: most suites are checked without, in well under a second.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Generator, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, closing
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import anyio

from gate import engine, rules
from gate.backends.banks import open_bank
from gate.cli import bind, exits, mutants, printing
from gate.errors import SpecError
from gate.model import Json, Outcome, SuiteSpec, Task
from gate.mutation import Mutation, Mutations
from gate.resources import suites_dir
from gate.seams import Sandbox
from gate.strength import Strength, strength

_BATCH = 64
_SLOW_BATCH = 8  # mutants take seconds a suite: what is known goes out meanwhile

Read = tuple[str, Task | SpecError]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is wrong with a suite."""

    where: str
    what: str

    def as_json(self) -> dict[str, Json]:
        """As `gate.check/1` spells it."""
        return {"where": self.where, "what": self.what}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What became of one suite: "sound", "weak" or "invalid".

    Attributes:
        task: Its id; None where it did not load.
        strength: What programs that know nothing say of it; None where it did not load.
        mutation: What became of mutants of its reference; None where they were not asked for.
    """

    task: str | None
    status: str
    problems: tuple[Problem, ...] = ()
    strength: Strength | None = None
    mutation: Mutation | None = None

    def as_json(self) -> dict[str, Json]:
        """As `gate.check/1` spells it."""
        return {
            "task": self.task,
            "status": self.status,
            "problems": [problem.as_json() for problem in self.problems],
            "strength": {
                **({} if self.strength is None else self.strength.as_json()),
                **({} if self.mutation is None else {"mutants": self.mutation.as_json()}),
            },
        }


def check(
    references: Sequence[str],
    *,
    isolation: str | None,
    runtime: str | None,
    jobs: int | None,
    as_json: bool,
    lock: Path | None = None,
    most_mutants: int | None = None,
) -> int:
    """Check all, print, and say with the exit code: 0 sound, 1 weak, 2 invalid.

    Args:
        isolation: Where programs run; None: in containers, but mutants in cells where they hold.
        lock: Where to write the lock of the one bank, if nothing in it is invalid.
        most_mutants: How many mutants of each reference to hold against its suite at most; None: nothing of the kind.
    """
    statuses: Counter[str] = Counter()
    locking = None if lock is None else _locking(references, lock)
    programs = Programs(isolation=isolation, runtime=runtime, jobs=jobs, mutants=most_mutants)
    anyio.run(_check_all, references, programs, statuses, as_json, locking)
    return exits.USAGE if statuses["invalid"] else exits.REFUSED if statuses["weak"] else exits.DONE


def _locking(references: Sequence[str], lock: Path) -> bind.Locking:
    """What notes the suites of the one bank.

    Raises:
        SpecError: There are several, or none that can be opened.
    """
    if len(references) != 1:
        raise SpecError("--lock: binds one bank: name one file, folder or bundled bank")
    return bind.Locking(path=lock, bank=open_bank(references[0], suites_dir()).name)


async def _check_all(
    references: Sequence[str], programs: Programs, statuses: Counter[str], as_json: bool, locking: bind.Locking | None
) -> None:
    """Print every finding as it comes; JSON goes out at the end, so that it is whole or not there."""
    tried = Mutations()
    with tempfile.TemporaryFile("w+", encoding="utf-8") as kept, closing(_read_all(references)) as stream:
        async for finding in findings(stream if locking is None else locking.note(stream), programs):
            statuses[finding.status] += 1
            if finding.mutation is not None:
                tried.add(finding.mutation)
            if as_json:
                kept.write(f"{', ' if statuses.total() > 1 else ''}{json.dumps(finding.as_json())}")
            else:
                for line in finding_lines(finding):
                    print(line)
        bound = None if locking is None or statuses["invalid"] else locking.write()
        if as_json:
            kept.seek(0)
            sys.stdout.write('{"schema": "gate.check/1", "suites": [')
            shutil.copyfileobj(kept, sys.stdout)
            sys.stdout.write("]}\n" if locking is None else f'], "lock": {json.dumps(bound)}}}\n')
        else:
            for line in [] if programs.mutants is None else mutants.bank_lines(tried):
                print(line)
            print(counts_line(statuses))
            if locking is not None:
                print(bind.lock_line(locking.path, bound))


def _read_all(references: Sequence[str]) -> Generator[Read, None, None]:
    """All that the banks hold, in order; what cannot be opened is a finding as well."""
    for reference in references:
        try:
            bundled = f"{suites_dir().as_posix()}/"
            for place, read in open_bank(reference, suites_dir()).findings():
                yield place.removeprefix(bundled), read
        except SpecError as exc:
            yield reference, exc


@dataclass(slots=True)
class Programs:
    """The sandbox for the suites' own programs, opened at the first need.

    Attributes:
        isolation: None: containers, but cells for mutants where they hold.
        mutants: How many mutants of a reference are tried; None: none.
    """

    runtime: str | None
    isolation: str | None = None
    jobs: int | None = None
    mutants: int | None = None
    sandbox: Sandbox | None = None
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def open(self) -> Sandbox:
        """The sandbox, checked and ready."""
        from gate.cli import wiring

        if self.sandbox is None:
            known = wiring.open_engine(self.runtime)
            if self.isolation is None and self.mutants is not None:  # it asks in an event loop of its own
                self.isolation = await anyio.to_thread.run_sync(wiring.replay_isolation, known, self.runtime)
            self.isolation = self.isolation or "container"
            self.jobs = self.jobs or wiring.default_jobs(self.isolation)
            opened = wiring.open_sandbox(known, runtime=self.runtime, concurrency=self.jobs, isolation=self.isolation)
            self.sandbox = await self.stack.enter_async_context(opened)
        return self.sandbox


async def findings(stream: Iterable[Read], programs: Programs) -> AsyncIterator[Finding]:
    """The finding for each suite of a stream, in order.

    Raises:
        SandboxError: There are programs to run, and no engine runs them.
    """
    reading = iter(stream)
    async with programs.stack:
        while batch := list(islice(reading, _BATCH if programs.mutants is None else _SLOW_BATCH)):
            looks = await _look(batch, programs)
            for index, (place, read) in enumerate(batch):
                found = looks.get(index, Look())
                yield finding_of(place, read, found.problems, found.mutation)


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What a suite's own programs say of it."""

    problems: Sequence[Problem] = ()
    mutation: Mutation | None = None


def finding_of(
    place: str, read: Task | SpecError, problems: Sequence[Problem], mutation: Mutation | None = None
) -> Finding:
    """What became of one suite, with what is wrong by its own programs, and what became of their mutants."""
    if isinstance(read, SpecError):
        where, _, what = str(read).partition(": ")
        return Finding(task=None, status="invalid", problems=(Problem(where=where, what=what),))
    found = strength(read)
    weaknesses = tuple(
        Problem(where=f"{place}: tests", what=f"a program that {program} passes {_all(found.tests)}")
        for program in found.programs
    )
    status = "invalid" if problems else "weak" if found.weak else "sound"
    return Finding(task=read.id, status=status, problems=(*problems, *weaknesses), strength=found, mutation=mutation)


def _all(tests: int) -> str:
    return "the only test" if tests == 1 else f"all {tests} tests"


async def _look(batch: Sequence[Read], programs: Programs) -> dict[int, Look]:
    """Run the references, their mutants and the must_fail programs of a batch; what came of it, by position."""
    looks: dict[int, Look] = {}
    having = [
        (index, place, read.suite)
        for index, (place, read) in enumerate(batch)
        if isinstance(read, Task) and (read.suite.reference or read.suite.must_fail)
    ]
    if programs.mutants is not None:  # a suite without a reference is said to have none
        looks |= {index: Look(mutation=Mutation(why=mutants.NO_REFERENCE)) for index in range(len(batch))}
    if not having:
        return looks
    sandbox = await programs.open()

    async def work(item: tuple[int, str, SuiteSpec]) -> None:
        index, place, suite = item
        problems = await program_problems(place, suite, sandbox)
        mutation = None if programs.mutants is None else await mutants.mutate(suite, sandbox, programs.mutants)
        looks[index] = Look(problems=problems, mutation=mutation)

    await engine.side_by_side(having, work, concurrency=programs.jobs or 1)
    return looks


async def program_problems(place: str, suite: SuiteSpec, sandbox: Sandbox) -> list[Problem]:
    """What is wrong with one suite by its own programs."""
    from gate.cli.try_one import judge

    found: list[Problem] = []
    if suite.reference is not None:
        wrong = await reference_problem(suite, suite.reference, sandbox)
        found += [Problem(where=f"{place}: reference", what=wrong)] if wrong else []
    for index, program in enumerate(suite.must_fail if suite.tests else ()):  # without visible tests nobody passes
        verdict = await judge(suite, program, sandbox=sandbox)
        if verdict.outcome is not Outcome.FAIL:
            what = "must be refused, and passes" if verdict.outcome is Outcome.PASS else verdict.detail
            found.append(Problem(where=f"{place}: must_fail[{index}]", what=what))
    return found


async def reference_problem(suite: SuiteSpec, program: str, sandbox: Sandbox) -> str | None:
    """Why a reference is none: the first test, visible or else hidden, that it does not pass."""
    from gate.cli.try_one import judge

    for part, name in (("visible", "tests"), ("hidden", "hidden")):
        if rules.part_of(suite, part)[0]:
            verdict = await judge(suite, program, part, sandbox=sandbox)
            if verdict.outcome is not Outcome.PASS:
                where = name if verdict.test is None else f"{name}[{verdict.test}]"
                return f"does not pass {where}: {verdict.reason}: {verdict.detail}"
    return None


def finding_lines(finding: Finding) -> Iterator[str]:
    """One line for a suite that is not sound: the first problem, and how many more there are."""
    if finding.problems:
        first, *others = finding.problems
        more = f" (and {len(others)} more)" if others else ""
        named = finding.status if finding.task is None else f"{finding.status} {finding.task}"
        yield printing.escape(f"{named}: {first.where}: {first.what}{more}").replace("\n", " ")
    if finding.mutation is not None:
        yield from mutants.mutation_lines(str(finding.task), finding.mutation)


def counts_line(statuses: Counter[str]) -> str:
    """How many suites there are of each kind."""
    words = ", ".join(f"{statuses[status]} {status}" for status in ("sound", "weak", "invalid"))
    return f"{statuses.total()} suite{'' if statuses.total() == 1 else 's'}: {words}"
