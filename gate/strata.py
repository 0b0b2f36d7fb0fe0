"""What judged pools add up to by how strong the suite of a task is.

The strength of a suite is read off the suite alone (`gate.strength`), before any program
is looked at: unlike a split by how many draws are right, it can be known beforehand. It
tells which deliveries are worth less, and nothing about why.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from gate.model import Outcome, Verdict
from gate.outcomes import Row
from gate.pools import first_pass, single
from gate.strength import LOOK_UP, Strength

NONE = "no visible tests"
SOUND = "sound"
EXAMPLES = "weak: only looking up the prompt's examples passes"
WEAK = "weak: a program that knows nothing of the task passes"
STRATA = (SOUND, EXAMPLES, WEAK, NONE)


def stratum_of(found: Strength) -> str:
    """Which of STRATA a task is in."""
    if not found.tests:
        return NONE
    if not found.weak:
        return SOUND
    return EXAMPLES if set(found.programs) == {LOOK_UP} else WEAK


@dataclass(frozen=True, slots=True, kw_only=True)
class ByStrength:
    """The tasks whose suites are about equally strong.

    Attributes:
        success: On how many of them the gate delivers what is right.
        wrong: On how many it delivers what GT rejects.
        single: On how many a single draw is right.
        accepted: Draws that V accepts and GT judged.
        wrong_accepted: Those of them that GT rejects: the weak oracle.
        correct: Draws that GT accepts and V judged.
        refused_correct: Those of them that V refuses: the lossy filter.
    """

    name: str
    tasks: int
    delivered: int
    success: int
    wrong: int
    single: int
    accepted: int
    wrong_accepted: int
    correct: int
    refused_correct: int


_COUNTS = tuple(name for name in ByStrength.__dataclass_fields__ if name != "name")


@dataclass(slots=True)
class StrengthTally:
    """Folds the rows of a bank; what it keeps are counts.

    Args:
        draws: How many draws a rule may use up.
    """

    draws: int
    counts: dict[str, Counter[str]] = field(default_factory=lambda: {name: Counter() for name in STRATA})

    def add(self, found: Strength, row: Row) -> None:
        """Take in one task."""
        counts = self.counts[stratum_of(found)]
        gate, alone = (rule(row, self.draws).index for rule in (first_pass, single))
        delivered = None if gate is None else row.cells[gate]
        counts["tasks"] += 1
        counts["delivered"] += delivered is not None
        counts["success"] += delivered is not None and delivered.is_correct
        counts["wrong"] += delivered is not None and _says(delivered.hidden, Outcome.FAIL)
        counts["single"] += alone is not None and row.cells[alone].is_correct
        for cell in row.cells[: self.draws]:
            accepted, refused = (_says(cell.visible, outcome) for outcome in (Outcome.PASS, Outcome.FAIL))
            right, wrong = (_says(cell.hidden, outcome) for outcome in (Outcome.PASS, Outcome.FAIL))
            counts["accepted"] += accepted and (right or wrong)
            counts["wrong_accepted"] += accepted and wrong
            counts["correct"] += right and (accepted or refused)
            counts["refused_correct"] += right and refused

    def strata(self) -> tuple[ByStrength, ...]:
        """The strata that have tasks, from the strongest."""
        return tuple(_stratum(name, counts) for name, counts in self.counts.items() if counts["tasks"])


def _stratum(name: str, counts: Counter[str]) -> ByStrength:
    return ByStrength(name=name, **{key: counts[key] for key in _COUNTS})


def added(strata: Iterable[ByStrength]) -> tuple[ByStrength, ...]:
    """Those of several banks as one."""
    counts: dict[str, Counter[str]] = {name: Counter() for name in STRATA}
    for each in strata:
        counts[each.name].update({key: getattr(each, key) for key in _COUNTS})
    return tuple(_stratum(name, found) for name, found in counts.items() if found["tasks"])


def _says(verdict: Verdict | None, outcome: Outcome) -> bool:
    return verdict is not None and verdict.outcome is outcome
