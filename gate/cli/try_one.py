"""`gate test`: one program against one suite."""

from __future__ import annotations

from pathlib import Path

import anyio

from gate import engine, records, rules
from gate.cli import exits, printing, wiring
from gate.errors import SpecError
from gate.model import Candidate, Outcome, SuiteSpec, Verdict, program_text
from gate.seams import Sandbox
from gate.suite import load_suite


def read_suite(path: Path) -> SuiteSpec:
    """One suite from a file.

    Raises:
        SpecError: It cannot be read, or is no sound suite.
    """
    try:
        return load_suite(path.read_bytes(), str(path))
    except OSError as exc:
        raise SpecError(f"{path}: cannot be read ({exc.strerror}): name a suite file") from exc


def read_program(path: Path) -> str:
    """A program's text, whatever bytes it has."""
    try:
        return program_text(path.read_bytes())
    except OSError as exc:
        raise SpecError(f"{path}: cannot be read ({exc.strerror}): name a Python file") from exc


def try_one(suite_path: Path, candidate_path: Path, *, isolation: str, runtime: str | None, as_json: bool) -> int:
    """Judge, print, and say with the exit code: 0 pass, 1 fail, 3 nobody can tell."""
    suite = read_suite(suite_path)
    program = read_program(candidate_path)
    known = wiring.open_engine(runtime)
    verdict = anyio.run(_judge, suite, program, known, isolation, runtime)
    if as_json:
        printing.print_json({"schema": "gate.verdict/1", "suite": suite.digest, **records.verdict_json(verdict)})
    else:
        print(verdict_lines(verdict))
    codes = {Outcome.PASS: exits.DONE, Outcome.FAIL: exits.REFUSED, Outcome.ERROR: exits.WORLD}
    return codes[verdict.outcome]


async def _judge(suite: SuiteSpec, program: str, known: wiring.Engine, isolation: str, runtime: str | None) -> Verdict:
    async with wiring.open_sandbox(
        known, runtime=runtime, concurrency=1, checked=False, isolation=isolation
    ) as sandbox:
        return await judge(suite, program, sandbox=sandbox)


async def judge(suite: SuiteSpec, program: str, part: str = "visible", *, sandbox: Sandbox) -> Verdict:
    """The verdict of a suite's visible or hidden tests on a program, by the same looks as a run's.

    Raises:
        BackendError: Our world failed.
    """
    tests, repeat = rules.part_of(suite, part)
    candidate = Candidate(task_id=suite.task_id, index=0, code=program)
    return await engine.verdict_on(candidate, suite, tests, sandbox=sandbox, repeat=repeat)


def verdict_lines(verdict: Verdict) -> str:
    """A verdict in words."""
    passed = f"{verdict.passed} of {verdict.total} tests passed"
    if verdict.outcome is Outcome.PASS:
        return f"pass: {passed}"
    where = "" if verdict.test is None else f" at test {verdict.test}"
    return f"{verdict.outcome.value}: {verdict.reason}{where}; {passed}\n  {printing.escape(verdict.detail)}"
