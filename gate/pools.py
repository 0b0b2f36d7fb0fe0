"""Rules over a pool: how the draws of one task become one choice.

A rule is a function of a row and of how many draws it may use. `first_pass` is the gate;
the others are what it is held against. To add one, write the function and name it in RULES.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from gate.model import Outcome
from gate.outcomes import Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What a rule makes of a pool.

    Attributes:
        index: The draw that is delivered, from 0; None for a refusal.
        calls: How many draws it used up.
    """

    index: int | None
    calls: int


Rule = Callable[[Row, int], Choice]
Seen = tuple[str | None, ...]  # of each draw, what the visible tests say; None where there are none
Truth = tuple[bool | None, ...]  # of each draw, whether it is right; None where nobody could tell


def first_pass(row: Row, draws: int) -> Choice:
    """The gate: the first draw that passes the visible tests, else a refusal.

    It stops where it decides. A draw on which our world failed ends it without a pass,
    as it ends a run. A task without visible tests is refused before the first draw.
    """
    for index, cell in enumerate(row.cells[:draws]):
        if cell.visible is None:
            return Choice(index=None, calls=0)
        if cell.visible.outcome is Outcome.PASS:
            return Choice(index=index, calls=index + 1)
        if cell.visible.outcome is Outcome.ERROR:
            return Choice(index=None, calls=index + 1)
    return Choice(index=None, calls=min(draws, len(row.cells)))


def single(row: Row, draws: int) -> Choice:
    """Draw 0, whatever it is."""
    return Choice(index=0, calls=1) if row.cells[:draws] else Choice(index=None, calls=0)


def majority(row: Row, draws: int) -> Choice:
    """A member of the largest cluster of equal behaviour on the visible inputs."""
    return _elected(row, draws, [cell.behaviour for cell in row.cells[:draws]])


def majority_text(row: Row, draws: int) -> Choice:
    """A member of the largest cluster of equal text; they vote who vote by behaviour."""
    votes = [None if cell.behaviour is None else cell.text for cell in row.cells[:draws]]
    return _elected(row, draws, votes)


def _elected(row: Row, draws: int, votes: Sequence[str | None]) -> Choice:
    """The earliest member of the largest cluster; ties go to the earliest cluster, no votes to draw 0."""
    sizes: dict[str, int] = {}
    for vote in votes:
        if vote is not None:
            sizes[vote] = sizes.get(vote, 0) + 1
    if not sizes:
        return Choice(index=single(row, draws).index, calls=len(votes))
    # A dict keeps its order, and `max` the first of equals: the cluster with the earliest draw.
    return Choice(index=votes.index(max(sizes, key=sizes.__getitem__)), calls=len(votes))


def ship_always(row: Row, draws: int) -> Choice:
    """The first draw that passes the visible tests, else draw 0."""
    gate = first_pass(row, draws)
    fallback = single(row, draws)
    return Choice(index=fallback.index if gate.index is None else gate.index, calls=max(gate.calls, fallback.calls))


def oracle(row: Row, draws: int) -> Choice:
    """The ceiling of the pool: the first draw that is right by the hidden tests. No rule does better."""
    within = row.cells[:draws]
    right = next((index for index, cell in enumerate(within) if cell.is_correct), None)
    return Choice(index=right, calls=len(within))


RULES: dict[str, Rule] = {
    "first_pass": first_pass,
    "single": single,
    "majority": majority,
    "majority_text": majority_text,
    "ship_always": ship_always,
    "oracle": oracle,
}


def succeeds(row: Row, choice: Choice) -> bool:
    """Whether a choice is right by the hidden tests; a refusal never is."""
    return choice.index is not None and row.cells[choice.index].is_correct


def same_visible(row: Row) -> Seen:
    """What the visible tests say of each draw."""
    return tuple(
        [
            None
            if (verdict := cell.visible) is None
            else "pass"
            if verdict.outcome is Outcome.PASS
            else "fail"
            if verdict.outcome is Outcome.FAIL
            else "error"
            for cell in row.cells
        ]
    )


def same_hidden(row: Row) -> Truth:
    """Whether each draw is right."""
    return tuple(
        [
            None
            if (verdict := cell.hidden) is None
            else True
            if verdict.outcome is Outcome.PASS
            else False
            if verdict.outcome is Outcome.FAIL
            else None
            for cell in row.cells
        ]
    )


def same_length(row: Row) -> Hashable:
    """How many draws there are."""
    return len(row.cells)


def same_votes(row: Row) -> Hashable:
    """Who votes like whom, by behaviour."""
    return _clusters([cell.behaviour for cell in row.cells])


def same_text_votes(row: Row) -> Hashable:
    """Who votes like whom, by text."""
    return _clusters([None if cell.behaviour is None else cell.text for cell in row.cells])


def _clusters(votes: Sequence[str | None]) -> Hashable:
    """Each vote by the number of its cluster, in order of appearance."""
    numbers: dict[str, int] = {}
    return tuple([None if vote is None else numbers.setdefault(vote, len(numbers)) for vote in votes])


# All that a rule looks at: two rows alike in it get the same choice, so that a pool of a
# million draws asks each rule a few hundred times. A rule that is not here is asked each time.
SEES: dict[str, Callable[[Row], Hashable]] = {
    "first_pass": same_visible,
    "single": same_length,
    "majority": same_votes,
    "majority_text": same_text_votes,
    "ship_always": same_visible,
    "oracle": same_hidden,
}
