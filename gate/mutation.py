"""How strong a suite is by mutants: which small changes of its reference its tests tell from the reference.

A mutant that no test tells apart may do just what the reference does (an equivalent
mutant), or something else that the tests do not ask for. Nothing here can tell these two
apart, so a survivor counts against the suite and no score needs to reach 100 %.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from gate.model import Json

KILLED, SURVIVED, UNTOLD = "killed", "survived", "untold"
EQUIVALENT = "a survivor may be equivalent to the reference: nothing can tell"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A program with one small change.

    Attributes:
        line: Where the change begins, from 1.
        what: The change in words, as "< becomes <=".
    """

    line: int
    what: str
    code: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """What became of one mutant.

    Attributes:
        diff: The change as a unified diff.
        visible: "killed", "survived" or "untold" (our own world failed) under the visible
            tests; None where there are none.
        hidden: The same under the hidden tests.
        killed_by: The hidden tests of which each alone is known to kill it, by index.
    """

    line: int
    what: str
    diff: str
    visible: str | None
    hidden: str | None
    killed_by: tuple[int, ...] = ()

    def as_json(self) -> dict[str, Json]:
        """As `gate.check/1` spells a survivor."""
        return {
            "line": self.line,
            "what": self.what,
            "visible": self.visible,
            "hidden": self.hidden,
            "killed_by": list(self.killed_by),
            "diff": self.diff,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """A hidden test that would make the visible ones stronger.

    Attributes:
        index: Which hidden test, from 0.
        kills: How many mutants that survive V it kills and no suggestion before it does.
        test: The test, in the words of a suite.
    """

    index: int
    kills: int
    test: Json

    def as_json(self) -> dict[str, Json]:
        """As `gate.check/1` spells it."""
        return {"hidden": self.index, "kills": self.kills, "test": self.test}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """The mutants of one reference, held against its suite.

    Attributes:
        possible: How many mutants there are; `fates` has those that were tried.
        late: How many were to be tried and were not, because the time was over.
        why: Why there are none, where the reference has none or cannot be tried.
    """

    possible: int = 0
    late: int = 0
    why: str | None = None
    fates: tuple[Fate, ...] = ()
    suggested: tuple[Suggestion, ...] = ()

    @property
    def survivors(self) -> tuple[Fate, ...]:
        """The mutants that V or GT does not kill."""
        return tuple(fate for fate in self.fates if SURVIVED in (fate.visible, fate.hidden))

    def as_json(self) -> dict[str, Json]:
        """As `gate.check/1` spells it."""
        return {
            "possible": self.possible,
            "made": len(self.fates),
            "late": self.late,
            "why": self.why,
            "visible": tally(fate.visible for fate in self.fates).as_json(),
            "hidden": tally(fate.hidden for fate in self.fates).as_json(),
            "survivors": [fate.as_json() for fate in self.survivors],
            "suggested": [each.as_json() for each in self.suggested],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """How many mutants some tests kill."""

    killed: int = 0
    survived: int = 0
    untold: int = 0

    @property
    def told(self) -> int:
        """Those that were judged."""
        return self.killed + self.survived

    def __add__(self, other: Score) -> Score:
        return Score(
            killed=self.killed + other.killed,
            survived=self.survived + other.survived,
            untold=self.untold + other.untold,
        )

    def as_json(self) -> dict[str, Json] | None:
        """As `gate.check/1` spells it; None where there is nothing to say."""
        if not self.told and not self.untold:
            return None
        return {"killed": self.killed, "of": self.told, "untold": self.untold}


def tally(words: Iterable[str | None]) -> Score:
    """The score that some fates under the same tests come to."""
    counts = Counter(words)
    return Score(killed=counts[KILLED], survived=counts[SURVIVED], untold=counts[UNTOLD])


def suggest(fates: Sequence[Fate], hidden: Sequence[Json]) -> tuple[Suggestion, ...]:
    """Few hidden tests that together kill all that survives V and that some hidden test is known to kill.

    Greedy: the test that kills most of what is left, the first of several.

    Args:
        hidden: The hidden tests, in the words of a suite.
    """
    left = [set(fate.killed_by) for fate in fates if fate.visible == SURVIVED and fate.killed_by]
    found = []
    while left:
        counts = Counter(index for each in left for index in each)
        index, kills = min(counts.items(), key=lambda item: (-item[1], item[0]))
        found.append(Suggestion(index=index, kills=kills, test=plain_test(hidden[index])))
        left = [each for each in left if index not in each]
    return tuple(found)


def plain_test(test: Json) -> Json:
    """A test without what goes without saying, to be written into a suite by hand."""
    return {key: value for key, value in test.items() if (key, value) != ("kwargs", {})}


def diff_text(before: str, after: str) -> str:
    """One change as a unified diff, with a line around it on each side.

    What is alike at both ends is cut, so that it takes one walk whatever the texts are.
    """
    old, new = before.split("\n"), after.split("\n")
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    first, last = max(0, start - 1), max(0, end - 1)
    shown_old, shown_new = old[first : len(old) - last], new[first : len(new) - last]
    above, below = start - first, end - last
    lines = [
        "--- reference",
        "+++ mutant",
        f"@@ -{first + 1},{len(shown_old)} +{first + 1},{len(shown_new)} @@",
        *(f" {line}" for line in shown_old[:above]),
        *(f"-{line}" for line in shown_old[above : len(shown_old) - below]),
        *(f"+{line}" for line in shown_new[above : len(shown_new) - below]),
        *(f" {line}" for line in shown_old[len(shown_old) - below :]),
    ]
    return "\n".join(lines)


@dataclass(slots=True)
class Mutations:
    """Folds the mutants of a bank; what it holds does not grow with the bank.

    Attributes:
        both: Mutants that survive V and GT.
        gains: Mutants that survive V and that GT kills.
        suggested: Hidden tests that were suggested.
        kills: Of the gains, how many these would kill: not each death is one test's doing.
    """

    references: int = 0
    mutants: int = 0
    late: int = 0
    visible: Score = field(default_factory=Score)
    hidden: Score = field(default_factory=Score)
    both: int = 0
    gains: int = 0
    suggested: int = 0
    kills: int = 0

    def add(self, found: Mutation) -> None:
        """Take in one suite's."""
        self.references += bool(found.fates)
        self.mutants += len(found.fates)
        self.late += found.late
        self.visible += tally(fate.visible for fate in found.fates)
        self.hidden += tally(fate.hidden for fate in found.fates)
        self.both += sum(fate.visible == fate.hidden == SURVIVED for fate in found.fates)
        self.gains += sum(fate.visible == SURVIVED and fate.hidden == KILLED for fate in found.fates)
        self.suggested += len(found.suggested)
        self.kills += sum(each.kills for each in found.suggested)
