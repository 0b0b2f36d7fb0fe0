"""`gate check --mutants`: small changes of each reference, held against the suite's own tests.

Theory of operation. The reference's text goes into the sandbox as an argument and whole
programs come back (`sandbox/mutants.py`); each is then a candidate like any other. The
visible tests judge it as the gate would, with a pass repeated; the hidden tests once. A
change often makes a loop that never ends, so a mutant may use ten times the CPU time that
the reference took, and half a second more: what needs longer counts as killed. A suite has a
time of its own for all its mutants; those that it leaves over are counted, not guessed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace

from gate import engine, rules
from gate.cli import printing
from gate.cli.replay_text import counted
from gate.errors import SandboxError
from gate.model import Call, Candidate, Exit, Json, Limits, Observation, Outcome, SuiteSpec, Verdict
from gate.mutation import (
    EQUIVALENT,
    KILLED,
    SURVIVED,
    UNTOLD,
    Fate,
    Mutant,
    Mutation,
    Mutations,
    Score,
    diff_text,
    suggest,
    tally,
)
from gate.preflight import last_words
from gate.resources import sandbox_dir
from gate.seams import Sandbox

SUITE_S = 120.0
NO_REFERENCE = "there is no reference"

PARSER_LIMITS = Limits(wall_s=60.0, cpu_s=30.0, output_kb=65536)
_SHOWN_SURVIVORS = 3
_SHOWN_TEST_CHARS = 400


async def mutate(suite: SuiteSpec, sandbox: Sandbox, most: int) -> Mutation:
    """Make mutants of a suite's reference and hold them against its tests.

    Args:
        most: How many mutants at most.

    Raises:
        SandboxError: Our world failed.
    """
    if suite.reference is None:
        return Mutation(why=NO_REFERENCE)
    cpu_s = await reference_cpu_s(suite, suite.reference, sandbox)
    if isinstance(cpu_s, str):
        return Mutation(why=cpu_s)
    mutants, possible, why = await make(suite.reference, most, sandbox)
    end, hasty = time.monotonic() + SUITE_S, bounded(suite, cpu_s)
    fates: list[Fate] = []
    for mutant in mutants:
        if time.monotonic() > end:
            break
        fates.append(await _fate(hasty, suite.reference, mutant, sandbox))
    return Mutation(
        possible=possible,
        late=len(mutants) - len(fates),
        why=why,
        fates=tuple(fates),
        suggested=suggest(fates, suite.source["hidden"]),
    )


async def reference_cpu_s(suite: SuiteSpec, reference: str, sandbox: Sandbox) -> float | str | None:
    """The most CPU time that the reference takes for one part; None where nobody can say; why not, where it fails."""
    used: list[float | None] = []
    for part in ("visible", "hidden"):
        if rules.part_of(suite, part)[0]:
            verdict, seen = await _judge(suite, reference, part, sandbox)
            used += [each.usage.cpu_s for each in seen]
            if verdict.outcome is not Outcome.PASS:
                return f"the reference does not pass the {part} tests"
    return None if None in used or not used else max(filter(None, used), default=0.0)


def bounded(suite: SuiteSpec, cpu_s: float | None) -> SuiteSpec:
    """The suite with the limits of a mutant, by what the reference took; the same where nobody can say."""
    if cpu_s is None:
        return suite
    limits, most = suite.limits, 0.5 + 10.0 * cpu_s
    return replace(
        suite, limits=replace(limits, cpu_s=min(limits.cpu_s, most), total_cpu_s=min(limits.total_cpu_s, most))
    )


async def _judge(suite: SuiteSpec, program: str, part: str, sandbox: Sandbox) -> tuple[Verdict, list[Observation]]:
    tests, repeat = rules.part_of(suite, part)
    seen: list[Observation] = []
    candidate = Candidate(task_id=suite.task_id, index=0, code=program)
    verdict = await engine.verdict_on(candidate, suite, tests, sandbox=sandbox, repeat=repeat, on_seen=seen.append)
    return verdict, seen


async def _fate(suite: SuiteSpec, reference: str, mutant: Mutant, sandbox: Sandbox) -> Fate:
    """What both parts of a suite say of one mutant."""
    words: dict[str, str | None] = {"visible": None, "hidden": None}
    killed_by: tuple[int, ...] = ()
    for part in words:
        if rules.part_of(suite, part)[0]:
            verdict, seen = await _judge(suite, mutant.code, part, sandbox)
            words[part] = {Outcome.PASS: SURVIVED, Outcome.FAIL: KILLED, Outcome.ERROR: UNTOLD}[verdict.outcome]
            if part == "hidden" and seen:
                killed_by = rules.failed_tests(suite.hidden, seen[-1])
    diff = diff_text(reference, mutant.code)
    return Fate(
        line=mutant.line,
        what=mutant.what,
        diff=diff,
        visible=words["visible"],
        hidden=words["hidden"],
        killed_by=killed_by,
    )


# Making them


async def make(reference: str, most: int, sandbox: Sandbox) -> tuple[list[Mutant], int, str | None]:
    """Mutants of a program, how many there could be, and why there are none, where the program cannot be read.

    Raises:
        SandboxError: The sandbox failed, or gave no answer that can be read.
    """
    program = (sandbox_dir() / "mutants.py").read_text(encoding="utf-8")
    maker = Candidate(task_id="mutants", index=0, code=program)
    seen = await sandbox.observe(maker, "make_mutants", [Call(args=(reference, most))], PARSER_LIMITS)
    if seen.exit is Exit.FAULT:
        raise SandboxError(f"The sandbox failed while it made mutants: {seen.detail}.")
    if seen.exit is not Exit.OK or not seen.replies or seen.replies[0].kind != "returned":
        said = [seen.exit.value, seen.detail, *(reply.message for reply in seen.replies)]
        return [], 0, f"the reference is more than can be changed: {', '.join(filter(None, said))}{last_words(seen)}"
    return read_answer(seen.replies[0].value, most)


def read_answer(answer: Json, most: int) -> tuple[list[Mutant], int, str | None]:
    """The maker's answer, which is plain data and trusted no further than its form.

    Raises:
        SandboxError: It has another form.
    """
    try:
        mutants = [
            Mutant(line=int(each["line"]), what=str(each["what"]), code=each["code"]) for each in answer["mutants"]
        ]
        possible, why = int(answer["possible"]), answer["why"]
        proper = len(mutants) <= min(most, possible) and all(type(each.code) is str for each in mutants)
        if not proper or not isinstance(why, str | None):
            raise ValueError("more than was asked for, or a program that is no text")
    except (TypeError, KeyError, ValueError) as exc:
        raise SandboxError(f"The maker of mutants gave an answer that is no list of programs ({exc!r}).") from exc
    return mutants, possible, why


# Saying it


def mutation_lines(task: str, found: Mutation) -> Iterator[str]:
    """What a person reads of one suite: the scores, the first survivors, the tests to add."""
    if not found.fates:
        late = f"{found.late} were not tried for want of time" if found.late else None
        why = found.why or late or "nothing in the reference can be changed"
        yield printing.escape(f"mutants {task}: none: {why}")
        return
    visible, hidden = (tally(getattr(fate, part) for fate in found.fates) for part in ("visible", "hidden"))
    late = f", {found.late} not tried for want of time" if found.late else ""
    yield f"mutants {task}: V kills {_of(visible)}, GT {_of(hidden)}, of {found.possible} possible{late}"
    survivors = [fate for fate in found.fates if fate.visible == SURVIVED]
    survivors.sort(key=lambda fate: fate.hidden != KILLED)  # first what is certainly no equivalent
    for fate in survivors[:_SHOWN_SURVIVORS]:
        yield from _survivor_lines(fate)
    if len(survivors) > _SHOWN_SURVIVORS:
        yield f"  … and {len(survivors) - _SHOWN_SURVIVORS} more that survive V (--json has all)"
    for each in found.suggested:
        kills = f"kills {each.kills} of {len(survivors)}"
        yield f"  add to tests: {_shown_test(each.test)}   # hidden[{each.index}], {kills}"


def _survivor_lines(fate: Fate) -> Iterator[str]:
    by = f"hidden[{', '.join(map(str, fate.killed_by[:5]))}{', …' if len(fate.killed_by) > 5 else ''}]"
    after = {
        None: "",
        KILLED: f"; GT kills it{f' by {by}' if fate.killed_by else ''}",
        SURVIVED: "; GT does not kill it either",
        UNTOLD: "; GT could not tell",
    }[fate.hidden]
    yield printing.escape(f"  line {fate.line}: {fate.what}: survives V{after}")
    for line in fate.diff.split("\n")[2:]:
        yield printing.escape(f"    {line}").rstrip()


def _shown_test(test: Json) -> str:
    text = json.dumps(test)
    return text if len(text) <= _SHOWN_TEST_CHARS else f"{text[:_SHOWN_TEST_CHARS]}… (--json has it whole)"


def _of(score: Score) -> str:
    """`15 of 20 (75 %)`; a dash where there are no tests."""
    if not score.told:
        return "– (no such tests)" if not score.untold else f"– ({score.untold} could not be told)"
    untold = f", {score.untold} could not be told" if score.untold else ""
    return f"{score.killed} of {score.told} ({100 * score.killed / score.told:.0f} %{untold})"


def bank_lines(found: Mutations) -> Iterator[str]:
    """What the mutants of a whole bank come to."""
    scores = f"V kills {_of(found.visible)}, GT {_of(found.hidden)}"
    yield f"mutants: {found.mutants} of {counted(found.references, 'reference')}; {scores}"
    tests = f"; {counted(found.suggested, 'hidden test')}, suggested above, would kill {found.kills} of them"
    yield f"  {found.gains} survive V and not GT{tests if found.suggested else ''}"
    yield f"  {found.both} survive both; {EQUIVALENT}"
    if found.late:
        yield f"  {found.late} were not tried for want of time"
