"""`gate check`: is the gauge sound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import anyio

from gate.backends.banks import open_bank
from gate.cli import exits, printing, wiring
from gate.cli.try_one import judge
from gate.errors import SpecError
from gate.model import Json, Outcome, SuiteSpec
from gate.resources import suites_dir
from gate.seams import Sandbox


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
    """What became of one suite: "sound", "weak" or "invalid"."""

    task: str | None
    status: str
    problems: tuple[Problem, ...] = ()

    def as_json(self) -> dict[str, Json]:
        """As `gate.check/1` spells it."""
        problems = [problem.as_json() for problem in self.problems]
        return {"task": self.task, "status": self.status, "problems": problems, "strength": {}}


def check(references: Sequence[str], *, isolation: str, runtime: str | None, jobs: int | None, as_json: bool) -> int:
    """Check all, print, and say with the exit code: 0 sound, 1 weak, 2 invalid."""
    findings: list[Finding] = []
    for reference in references:
        findings += check_bank(
            reference, isolation=isolation, runtime=runtime, jobs=jobs or wiring.default_jobs(isolation)
        )
    if as_json:
        printing.print_json({"schema": "gate.check/1", "suites": [finding.as_json() for finding in findings]})
    else:
        print("\n".join(finding_lines(findings)))
    statuses = {finding.status for finding in findings}
    return exits.USAGE if "invalid" in statuses else exits.REFUSED if "weak" in statuses else exits.DONE


def check_bank(reference: str, *, isolation: str, runtime: str | None, jobs: int) -> list[Finding]:
    """The findings of one bank, in its order; what does not load ends it."""
    findings: list[Finding] = []
    runnable: list[SuiteSpec] = []
    try:
        for task in open_bank(reference, suites_dir()).tasks():
            findings.append(Finding(task=task.id, status="sound"))
            if task.suite.reference or task.suite.must_fail:
                runnable.append(task.suite)
    except SpecError as exc:
        where, _, what = str(exc).partition(": ")
        findings.append(Finding(task=None, status="invalid", problems=(Problem(where=where, what=what),)))
    if runnable:
        problems = anyio.run(_run_programs, runnable, isolation, runtime, jobs)
        findings = [with_problems(finding, problems.get(finding.task or "", ())) for finding in findings]
    return findings


def with_problems(finding: Finding, problems: Sequence[Problem]) -> Finding:
    """The finding, made invalid by problems where there are any."""
    if not problems:
        return finding
    return Finding(task=finding.task, status="invalid", problems=(*finding.problems, *problems))


async def _run_programs(
    suites: Sequence[SuiteSpec], isolation: str, runtime: str | None, jobs: int
) -> dict[str, list[Problem]]:
    """Run the references and the must_fail programs; the problems, by task."""
    problems: dict[str, list[Problem]] = {}
    known = wiring.open_engine(runtime)

    async def work(stream: list[SuiteSpec], sandbox: Sandbox) -> None:
        while stream:
            suite = stream.pop()
            found = await program_problems(suite, sandbox)
            if found:
                problems[suite.task_id] = found

    async with wiring.open_sandbox(known, runtime=runtime, concurrency=jobs, isolation=isolation) as sandbox:
        stream = list(reversed(suites))
        async with anyio.create_task_group() as group:
            for _ in range(jobs):
                group.start_soon(work, stream, sandbox)
    return problems


async def program_problems(suite: SuiteSpec, sandbox: Sandbox) -> list[Problem]:
    """What is wrong with one suite by its own programs."""
    found: list[Problem] = []
    if suite.reference is not None:
        verdict = await judge(suite, suite.reference, sandbox=sandbox)
        if verdict.outcome is not Outcome.PASS:
            what = f"the reference does not pass: {verdict.reason}, test {verdict.test}: {verdict.detail}"
            found.append(Problem(where=f"{suite.task_id}: reference", what=what))
    for index, program in enumerate(suite.must_fail):
        verdict = await judge(suite, program, sandbox=sandbox)
        if verdict.outcome is not Outcome.FAIL:
            what = "a program that must be refused passes" if verdict.outcome is Outcome.PASS else verdict.detail
            found.append(Problem(where=f"{suite.task_id}: must_fail[{index}]", what=what))
    return found


def finding_lines(findings: Sequence[Finding]) -> list[str]:
    """The findings in words: every problem, then the counts."""
    lines = [
        f"{problem.where}: {printing.escape(problem.what)}" for finding in findings for problem in finding.problems
    ]
    counts = {status: sum(finding.status == status for finding in findings) for status in ("sound", "weak", "invalid")}
    words = ", ".join(f"{number} {status}" for status, number in counts.items())
    return [*lines, f"{len(findings)} suites: {words}"]
