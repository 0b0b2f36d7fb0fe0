"""The outcome table: every draw of a pool judged, and what a rule over the pool may look at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gate import rules
from gate.model import (
    Candidate,
    Exit,
    Json,
    Limits,
    Observation,
    Outcome,
    Reply,
    SuiteSpec,
    Verdict,
    canonical_json,
    digest_bytes,
    digest_json,
    program_bytes,
)

_UNORDERED = ("$set", "$frozenset", "$dict")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One draw, judged.

    Attributes:
        visible: The verdict of the visible tests; None where the task has none.
        hidden: The verdict of the hidden tests (GT), which measure and never decide;
            None where there are none, or where nobody judged the draw on them.
        behaviour: Digest of what it did on the visible inputs; None for a draw that
            does not vote: no program, not loaded, or not one call answered.
        text: Digest of its text, normalised.
    """

    visible: Verdict | None
    hidden: Verdict | None
    behaviour: str | None
    text: str

    @property
    def is_correct(self) -> bool:
        """Whether it is right by the hidden tests; what nobody could tell is not."""
        return self.hidden is not None and self.hidden.outcome is Outcome.PASS

    @property
    def is_error(self) -> bool:
        """Whether our world failed on it: what it is, nobody could tell."""
        return any(each is not None and each.outcome is Outcome.ERROR for each in (self.visible, self.hidden))


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The pool of one task, judged, in draw order.

    Attributes:
        cells: One a draw. A draw that the pool could not give stands here as
            `absent(suite)`, so that it counts as a draw and as a failure.
        missing: How many of the cells are such.
    """

    task_id: str
    cells: tuple[Cell, ...]
    missing: int = 0


def judged(
    candidate: Candidate,
    limits: Limits,
    *,
    visible: Verdict | None,
    hidden: Verdict | None,
    seen: Sequence[Observation],
) -> Cell:
    """The cell of one draw.

    Args:
        limits: What the candidate might use.
        visible: The verdict of the visible tests, None where there are none.
        hidden: The verdict of the hidden tests, None where there are none.
        seen: Its observations under the visible calls, in the order of the looks; none
            where it never ran.
    """
    counted = counted_look(seen, limits)
    return Cell(
        visible=visible,
        hidden=hidden,
        behaviour=None if counted is None else behaviour_digest(counted),
        text=text_digest(candidate.code),
    )


def absent(suite: SuiteSpec) -> Cell:
    """The cell of a draw that the pool could not give: no program."""
    nothing = Verdict(outcome=Outcome.FAIL, reason="no_program", detail="the pool has no such draw")
    return Cell(
        visible=nothing if suite.tests else None,
        hidden=nothing if suite.hidden else None,
        behaviour=None,
        text=text_digest(""),
    )


def counted_look(seen: Sequence[Observation], limits: Limits) -> Observation | None:
    """The observation under the first hash seed that counts: the second where the first was in doubt."""
    if not seen:
        return None
    return seen[1] if len(seen) > 1 and rules.needs_confirmation(seen[0], limits) else seen[0]


def behaviour_digest(seen: Observation) -> str | None:
    """One digest for one behaviour on some inputs; None for a candidate that does not vote.

    Values count by their tagged encoding (the order of sets and dicts aside),
    exceptions by their class, programs by all that they printed and their status, and
    a run that was cut short also by how it ended. A candidate that did not load or
    answered no call at all has shown no behaviour: a time-out in the first call is one
    on every call, for it ends the run.
    """
    if seen.load is not None or not seen.replies or seen.exit is Exit.FAULT:
        return None
    end = None if seen.exit is Exit.OK else seen.exit.value
    return digest_json([[_deed(reply) for reply in seen.replies], end])


def _deed(reply: Reply) -> Json:
    """What of a reply makes two of them equal."""
    if reply.kind == "returned":
        return ["returned", _ordered(reply.value)]
    if reply.kind == "printed":
        return ["printed", reply.value, reply.status]
    if reply.kind == "raised":
        return ["raised", reply.types[0] if reply.types else ""]
    return [reply.kind]


def _ordered(value: Json) -> Json:
    """Tagged JSON with the members of sets and dicts in one order, that of their texts."""
    if isinstance(value, list):
        return [_ordered(each) for each in value]
    if not isinstance(value, dict):
        return value
    inner = {key: _ordered(each) for key, each in value.items()}
    for tag in _UNORDERED:
        if isinstance(inner.get(tag), list) and len(inner) == 1:
            return {tag: sorted(inner[tag], key=canonical_json)}
    return inner


def text_digest(code: str) -> str:
    """One digest for one text: line ends, trailing white space and blank lines do not count.

    The text is never parsed: what a candidate wrote is not for the host to understand.
    """
    lines = (line.rstrip() for line in code.replace("\r\n", "\n").replace("\r", "\n").split("\n"))
    return digest_bytes(program_bytes("\n".join(line for line in lines if line)))
