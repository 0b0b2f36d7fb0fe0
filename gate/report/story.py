"""What a ledger tells of each task, as readers want it: its draws, their verdicts, and what went wrong first."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from gate import compare, records, rules, values
from gate.model import Call, Candidate, Decision, Json, Observation, Outcome, Reply, Task, Test, Usage, Verdict
from gate.money import Tokens, read_tokens

PARTS = ("visible", "hidden")
STATES = ("delivered", "wrong", "refused", "infra", "not_run")
MAX_CHARS = 600

Line = tuple[str, dict[str, Json]]  # the digest of a ledger line, and its record


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The first test that does not agree, as texts: the call, what was expected of it, what came back."""

    test: int
    call: str
    expected: str
    got: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What the visible or the hidden tests say of one draw.

    Attributes:
        outcome: "pass", "fail" or "error".
        reason: Why it failed; empty for a pass.
        detail: One line more, of a candidate's making.
    """

    outcome: str
    reason: str
    detail: str
    passed: int
    total: int
    usage: Usage
    failure: Failure | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """One program, and what became of it.

    Attributes:
        same_as: The earlier draw of the task that has the same bytes.
        missing: Why the source had none to give; empty where it had.
        tokens: What its answer took, where a model was asked and the server said so.
    """

    index: int
    code: str
    digest: str
    same_as: int | None
    missing: str
    model: str
    tokens: Tokens | None
    visible: Part | None
    hidden: Part | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStory:
    """One task from its first draw to its decision.

    Attributes:
        state: One of STATES; "wrong" is a delivery that the hidden tests reject.
        reason: Why nothing was delivered.
        delivered: Which draw was.
        reasons: Why its draws failed on the visible tests, each once, in the order of the draws.
    """

    bank: str
    id: str
    prompt: str
    state: str
    reason: str
    delivered: int | None
    draws: tuple[Draw, ...] = ()
    reasons: tuple[str, ...] = field(default=())


def task_story(bank: str, task: Task, lines: Iterable[Line]) -> TaskStory:
    """The story that the ledger's lines on one task tell; of two answers to one question the later one stands."""
    candidates: dict[int, Candidate] = {}
    seen: dict[str, Observation] = {}
    verdicts: dict[tuple[str, int], dict[str, Json]] = {}
    decision: Decision | None = None
    for digest, record in lines:
        kind = record["kind"]
        if kind == "candidate":
            candidates[record["index"]] = records.read_candidate(record)
        elif kind == "observation":
            seen[digest] = records.read_observation(record)
        elif kind == "verdict":
            verdicts[record["part"], record["index"]] = record
        elif kind == "decision":
            decision = records.read_decision(record)
    draws = tuple(_draws(task, candidates, verdicts, seen))
    return TaskStory(
        bank=bank,
        id=task.id,
        prompt=task.prompt,
        state=_state(decision, draws),
        reason="" if decision is None else decision.reason or "",
        delivered=None if decision is None else decision.index,
        draws=draws,
        reasons=tuple(dict.fromkeys(draw.visible.reason for draw in draws if draw.visible and draw.visible.reason)),
    )


def _state(decision: Decision | None, draws: Sequence[Draw]) -> str:
    if decision is None:
        return "not_run"
    if decision.outcome != "delivered":
        return decision.outcome
    hidden = next((draw.hidden for draw in draws if draw.index == decision.index), None)
    return "wrong" if hidden is not None and hidden.outcome == Outcome.FAIL.value else "delivered"


def _draws(
    task: Task,
    candidates: dict[int, Candidate],
    verdicts: dict[tuple[str, int], dict[str, Json]],
    seen: dict[str, Observation],
) -> Iterable[Draw]:
    first: dict[str, int] = {}
    for index, candidate in sorted(candidates.items()):
        parts = {part: _part(task, part, verdicts.get((part, index)), seen) for part in PARTS}
        earlier = first.setdefault(candidate.digest, index)
        origin = candidate.origin
        yield Draw(
            index=index,
            code=candidate.code,
            digest=candidate.digest,
            same_as=None if earlier == index else earlier,
            missing=str(origin.get("missing", "")),
            model=str(origin.get("model", "")),
            tokens=read_tokens(origin.get("usage")),
            visible=parts["visible"],
            hidden=parts["hidden"],
        )


def _part(task: Task, part: str, record: dict[str, Json] | None, seen: dict[str, Observation]) -> Part | None:
    if record is None:
        return None
    verdict = records.read_verdict(record)
    looks = [seen[digest] for digest in record["seen"] if digest in seen]
    tests, _ = rules.part_of(task.suite, part)
    return Part(
        outcome=verdict.outcome.value,
        reason=verdict.reason or "",
        detail=verdict.detail,
        passed=verdict.passed,
        total=verdict.total,
        usage=verdict.usage,
        failure=_failure(task.entry_point, tests, verdict, looks[-1]) if looks else None,
    )


def _failure(entry_point: str | None, tests: Sequence[Test], verdict: Verdict, look: Observation) -> Failure | None:
    at = verdict.test
    if at is None or not 0 <= at < len(tests):
        return None
    return Failure(
        test=at,
        call=call_text(entry_point, tests[at].call),
        expected=_cut(compare.wanted(tests[at].expect)),
        got=_cut(reply_text(look.replies[at])) if at < len(look.replies) else "nothing: it ended before",
    )


def call_text(entry_point: str | None, call: Call) -> str:
    """A call as a person would write it: `f([1, 2], key=3)`; a program's input as text."""
    if call.stdin is not None:
        return _cut(f"input: {compare.glimpse(call.stdin)}")
    arguments = [compare.glimpse(values.decode(value)) for value in call.args]
    arguments += [f"{name}={compare.glimpse(values.decode(value))}" for name, value in call.kwargs.items()]
    return _cut(f"{entry_point}({', '.join(arguments)})")


def reply_text(reply: Reply) -> str:
    """What came back from a call, for people."""
    if reply.kind == "returned":
        try:
            return compare.glimpse(values.decode(reply.value))
        except values.CodecError as exc:
            return f"a value that is no tagged JSON: {exc}"
    if reply.kind == "raised":
        return f"raised {reply.message or ', '.join(reply.types[:1])}"
    if reply.kind == "printed":
        text = base64.b64decode(reply.value["$bytes"]).decode("utf-8", "backslashreplace")
        status = "" if reply.status == 0 else f", and ended with status {reply.status}"
        return f"{compare.glimpse(text)}{status}"
    return f"{reply.kind.replace('_', ' ')}: {reply.message}"


def _cut(text: str) -> str:
    return text if len(text) <= MAX_CHARS else text[: MAX_CHARS - 1] + "…"
