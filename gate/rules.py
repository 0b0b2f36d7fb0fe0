"""From what was seen to a verdict, and from verdicts to the decision. The only opinions.

Doubt is never success: a verdict starts as a failure and only full agreement turns it,
a decision starts as a refusal and only a PASS turns it.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass

from gate import compare, values
from gate.model import (
    Candidate,
    Decision,
    Exit,
    Limits,
    Observation,
    Outcome,
    Reply,
    SuiteSpec,
    Task,
    Test,
    Verdict,
)

MAX_DRAWS = 5
SEEDS = (0, 1)
MAX_CODE_BYTES = 1 << 20
REASONS = (
    "wrong_answer",
    "raised",
    "no_program",
    "syntax_error",
    "missing_entry_point",
    "unserialisable",
    "crash",
    "timeout",
    "memory",
    "output_limit",
    "protocol",
    "unstable",
)
INFRA = "infra"

_DETAIL_CHARS = 500
_REASON_OF_EXIT = {
    Exit.OK: "protocol",  # an end without every reply; the backend does not call that OK
    Exit.CRASHED: "crash",
    Exit.TIME_LIMIT: "timeout",
    Exit.MEMORY_LIMIT: "memory",
    Exit.OUTPUT_LIMIT: "output_limit",
    Exit.PROTOCOL: "protocol",
}


def grade(tests: Sequence[Test], seen: Observation) -> Verdict:
    """Judge one run of a candidate by some tests.

    PASS needs every call answered and every answer to agree. The first test that does
    not agree gives the reason, so a run that was cut short is judged by what came
    before the cut; a memory limit and a broken protocol void all that was replied. If
    the sandbox cannot say what happened it is ERROR, never a guess.

    Args:
        tests: What must hold; no tests pass nobody.
        seen: What happened under the calls of these tests.

    Returns:
        The verdict, with the first test that does not agree and why.
    """
    findings = [_disagreement(test, reply) for test, reply in zip(tests, seen.replies, strict=False)]
    passed = sum(finding is None for finding in findings)

    def verdict(outcome: Outcome, reason: str | None, test: int | None, detail: str) -> Verdict:
        return Verdict(
            outcome=outcome,
            reason=reason,
            test=test,
            detail=detail[:_DETAIL_CHARS],
            usage=seen.usage,
            passed=passed,
            total=len(tests),
        )

    if seen.exit is Exit.FAULT:
        return verdict(Outcome.ERROR, INFRA, None, seen.detail)
    if seen.exit in (Exit.MEMORY_LIMIT, Exit.PROTOCOL):
        return verdict(Outcome.FAIL, _REASON_OF_EXIT[seen.exit], None, seen.detail)
    if seen.load is not None:
        return verdict(Outcome.FAIL, seen.load.kind, None, seen.load.message)
    for index, finding in enumerate(findings):
        if finding is not None:
            return verdict(Outcome.FAIL, finding[0], index, finding[1])
    if seen.exit is Exit.OK and tests and len(findings) == len(tests) == len(seen.replies):
        return verdict(Outcome.PASS, None, None, "")
    cut = len(findings) if len(findings) < len(tests) else None
    return verdict(Outcome.FAIL, _REASON_OF_EXIT[seen.exit], cut, seen.detail)


def _disagreement(test: Test, reply: Reply) -> tuple[str, str] | None:
    """Why one reply does not agree, as (reason, detail); None where it does."""
    expect = test.expect
    if reply.kind == "too_large":
        return "output_limit", reply.message
    if reply.kind == "unserialisable":
        return "unserialisable", reply.message
    if reply.kind == "raised":
        if expect.kind == "raises" and compare.raised_agrees(expect, reply.types):
            return None
        return "raised", reply.message
    if reply.kind == "printed":
        return _printed_disagreement(test, reply)
    try:
        got = values.decode(reply.value)
    except values.CodecError as exc:
        return "protocol", f"a value that is no tagged JSON: {exc}"
    return None if compare.agrees(expect, got) else ("wrong_answer", compare.explain(expect, got))


def _printed_disagreement(test: Test, reply: Reply) -> tuple[str, str] | None:
    """A program must end with status 0 and print the right text.

    Bytes that are not UTF-8 become lone surrogates, which no expected text equals.
    """
    if reply.status != 0:
        return "crash", f"ended with status {reply.status}"
    text = base64.b64decode(reply.value["$bytes"]).decode("utf-8", "surrogateescape")
    if test.expect.kind == "stdout" and compare.printed_agrees(test.expect, text):
        return None
    return "wrong_answer", compare.explain(test.expect, text)


def failed_tests(tests: Sequence[Test], seen: Observation) -> tuple[int, ...]:
    """The tests of which each is known to refuse a candidate, by index; fewer where a run was cut short.

    A test whose call was never made says nothing. A memory limit or a broken protocol
    voids all replies, so no test can be named; nor can one where the run as a whole took
    too long.
    """
    if seen.exit in (Exit.FAULT, Exit.MEMORY_LIMIT, Exit.PROTOCOL):
        return ()
    if seen.load is not None:
        return tuple(range(len(tests)))
    found = [_disagreement(test, reply) is not None for test, reply in zip(tests, seen.replies, strict=False)]
    if seen.exit is not Exit.OK and len(found) < len(tests) and not (seen.limit or "").startswith("total"):
        found.append(True)  # the call in which it ended
    return tuple(index for index, failed in enumerate(found) if failed)


def part_of(suite: SuiteSpec, part: str) -> tuple[Sequence[Test], bool]:
    """The tests of the `visible` or the `hidden` part, and whether a pass is repeated.

    Only what decides is repeated: hidden tests measure.
    """
    if part == "hidden":
        return suite.hidden, False
    return suite.tests, True


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The observation that is needed next: under which hash seed, and whether alone."""

    seed: int
    alone: bool


def next_step(tests: Sequence[Test], limits: Limits, seen: Sequence[Observation], *, repeat: bool) -> Look | Verdict:
    """What follows from the observations of one candidate so far: another look, or the verdict.

    A time limit that may be the host's fault is looked at once more, alone, and the
    second answer counts. A pass is repeated under another hash seed.

    Args:
        tests: What must hold.
        limits: What the candidate might use.
        seen: Its observations under the calls of these tests, in the order of the looks.
        repeat: Whether a pass is repeated; so it is for the tests that decide.
    """
    first, left = _settle(seen, limits, SEEDS[0])
    if isinstance(first, Look):
        return first
    verdict = grade(tests, first)
    if verdict.outcome is not Outcome.PASS or not repeat:
        return verdict
    second, _ = _settle(left, limits, SEEDS[1])
    return second if isinstance(second, Look) else confirm(verdict, grade(tests, second))


def _settle(seen: Sequence[Observation], limits: Limits, seed: int) -> tuple[Observation | Look, Sequence[Observation]]:
    """The observation that counts under one seed, or the look that it needs; and what is left of `seen`."""
    if not seen:
        return Look(seed=seed, alone=False), seen
    if not needs_confirmation(seen[0], limits):
        return seen[0], seen[1:]
    return (seen[1], seen[2:]) if len(seen) > 1 else (Look(seed=seed, alone=True), ())


def screen(candidate: Candidate) -> Verdict | None:
    """The verdict on a candidate that need not run: there is no program, or one beyond the cap."""
    if not candidate.code.strip():
        why = str(candidate.origin.get("missing", "an empty program"))
        return Verdict(outcome=Outcome.FAIL, reason="no_program", detail=why[:_DETAIL_CHARS])
    if len(candidate.code_bytes) > MAX_CODE_BYTES:
        why = f"a program of {len(candidate.code_bytes)} bytes; the cap is {MAX_CODE_BYTES}"
        return Verdict(outcome=Outcome.FAIL, reason="no_program", detail=why)
    return None


def unmeasured(suite: SuiteSpec, part: str, detail: str) -> Verdict:
    """The verdict where our own world failed before anything was seen: it claims no success, and blames nobody."""
    return Verdict(outcome=Outcome.ERROR, reason=INFRA, detail=detail, total=len(part_of(suite, part)[0]))


def needs_confirmation(seen: Observation, limits: Limits) -> bool:
    """Whether a time limit may be the host's fault: it was wall time, and CPU was left.

    CPU time does not depend on load, so a CPU limit is final. Where nobody could say
    what CPU was used, there is doubt.
    """
    if seen.exit is not Exit.TIME_LIMIT or seen.limit in ("cpu", "total_cpu"):
        return False
    return seen.usage.cpu_s is None or seen.usage.cpu_s < limits.cpu_s


def confirm(first: Verdict, second: Verdict) -> Verdict:
    """The verdict on a pass that was repeated under another hash seed.

    Anything but a second pass makes the candidate `unstable`, save an ERROR, which says
    nothing about it.
    """
    if first.outcome is not Outcome.PASS or second.outcome is Outcome.PASS:
        return first
    if second.outcome is Outcome.ERROR:
        return second
    return Verdict(
        outcome=Outcome.FAIL,
        reason="unstable",
        test=second.test,
        detail=f"passed, then {second.reason} under another hash seed: {second.detail}"[:_DETAIL_CHARS],
        usage=second.usage,
        passed=second.passed,
        total=second.total,
    )


def decide(task: Task, candidates: Sequence[Candidate], verdicts: Sequence[Verdict]) -> Decision:
    """The acceptance rule: the first candidate that passes is delivered, else refused.

    Args:
        task: What was asked; without visible tests it is refused.
        candidates: All draws so far, in order.
        verdicts: Theirs, in the same order.

    Returns:
        The decision that these draws force. An ERROR before any pass leaves the task
        undecided (`infra`): what that candidate is, nobody could tell.
    """
    draws = len(verdicts)
    if not task.suite.tests:
        return Decision(task_id=task.id, outcome="refused", reason="no_visible_tests", draws=draws)
    for candidate, verdict in zip(candidates, verdicts, strict=True):
        if verdict.outcome is Outcome.ERROR:
            return Decision(task_id=task.id, outcome="infra", reason=verdict.detail, draws=draws)
        if verdict.outcome is Outcome.PASS:
            return Decision(
                task_id=task.id,
                outcome="delivered",
                delivered=candidate.digest,
                index=candidate.index,
                draws=draws,
            )
    return Decision(task_id=task.id, outcome="refused", reason="none_passed", draws=draws)
