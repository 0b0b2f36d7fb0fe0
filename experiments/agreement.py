"""A rule of one's own for `gate replay --rule agreement:agreement`, in the manner of CodeT.

CodeT (B. Chen et al., CodeT: code generation with generated tests, arXiv:2207.10397) groups
programs by what they do and scores a group by its size times the tests that it passes.
Here the tests are the visible ones, behaviour is what was seen on their inputs, and the
best group delivers its earliest member. A group that passes no test delivers nothing.
"""

from __future__ import annotations

from gate.outcomes import Row
from gate.pools import Choice


def agreement(row: Row, draws: int) -> Choice:
    """The earliest member of the group with the most members times visible tests passed.

    Args:
        row: The pool of one task, judged; what the hidden tests say is not in it.
        draws: How many draws may be used up; all of them are.
    """
    cells = row.cells[:draws]
    groups: dict[str, list[int]] = {}
    for index, cell in enumerate(cells):
        if cell.behaviour is not None:
            groups.setdefault(cell.behaviour, []).append(index)

    def score(members: list[int]) -> int:
        verdict = cells[members[0]].visible
        return 0 if verdict is None else len(members) * verdict.passed

    best = max(groups.values(), key=score, default=[])
    return Choice(index=best[0] if best and score(best) else None, calls=len(cells))
