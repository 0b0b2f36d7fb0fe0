"""Pools made to order: five draws whose fate under every rule is known."""

from __future__ import annotations

from collections.abc import Iterable

from gate.model import Outcome, Verdict
from gate.outcomes import Cell, Row

VERDICTS = {
    "+": Verdict(outcome=Outcome.PASS),
    "-": Verdict(outcome=Outcome.FAIL, reason="wrong_answer"),
    "!": Verdict(outcome=Outcome.ERROR, reason="infra"),
    " ": None,
}

# For each kind what V and GT say of the five draws; right draws behave alike, and so do wrong ones.
KINDS = {
    "all right": ("+++++", "+++++"),
    "gate and single": ("+----", "+----"),
    "gate and majority": ("-++++", "-++++"),
    "single": ("-+---", "+----"),
    "majority": ("+++++", "-++++"),
    "in the pool": ("+++--", "-+---"),
    "refused": ("-----", "-----"),
    "wrong at 1": ("+----", "-----"),
    "wrong at 2": ("-+---", "-----"),
    "wrong at 3": ("--+--", "-----"),
    "wrong at 4": ("---+-", "-----"),
}


def made(visible: str, hidden: str, behaviours: str | None = None, task_id: str = "t", missing: int = 0) -> Row:
    """A row from what V and GT say, + - ! or blank for each draw; behaviours by letter, . for no vote."""
    votes = behaviours or hidden
    cells = tuple(
        Cell(visible=VERDICTS[v], hidden=VERDICTS[h], behaviour=None if b == "." else b, text=f"text {b}")
        for v, h, b in zip(visible, hidden, votes, strict=True)
    )
    return Row(task_id=task_id, cells=cells, missing=missing)


def rows_of(kinds: dict[str, int]) -> Iterable[Row]:
    """So many tasks of each kind."""
    for kind, count in kinds.items():
        for number in range(count):
            yield made(*KINDS[kind], task_id=f"{kind} {number}")


def filled(kinds: dict[str, int], *, n: int, calls: int, right: int | None = None) -> dict[str, int]:
    """These kinds with others beside them, up to n tasks on which the gate spends so many calls.

    What is added is all right or, with `right` tasks being so, all wrong.
    """
    spent = {kind: 5 if "+" not in KINDS[kind][0] else KINDS[kind][0].index("+") + 1 for kind in KINDS}
    left = n - sum(kinds.values())
    extra = calls - sum(spent[kind] * count for kind, count in kinds.items()) - left
    refused, late = divmod(extra, 4)
    more = {"refused": refused, f"wrong at {late + 1}": 1 if late else 0}
    rest = left - sum(more.values())
    all_right = rest if right is None else right
    more["all right"] = all_right
    more["wrong at 1"] = more.get("wrong at 1", 0) + rest - all_right
    return {kind: kinds.get(kind, 0) + more.get(kind, 0) for kind in {**kinds, **more}}
