"""What judged pools add up to: every rule by number of draws, compared, audited, split.

A `Tally` takes one row at a time and keeps counts alone, so that memory does not grow
with the bank. `table` reads it out; everything a report prints stands in a `Table`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from gate import stats
from gate.errors import SpecError
from gate.outcomes import Row
from gate.pools import RULES, SEES, Choice, Rule, Seen, Truth, same_hidden, same_visible
from gate.strata import ByStrength, added
from gate.strength import Weakness
from gate.summary import Containment

GATE = "first_pass"
CEILING = "oracle"
FAMILY = ("single", "majority", "majority_text")  # what the gate is tested against; a rule from outside joins them

Look = Callable[[Row], Hashable]
BANDS = ("no draw right", "less than half right", "half or more right", "every draw right")

Choices = tuple[Choice, ...]  # one for each number of draws, from 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleCount:
    """One rule with some number of draws, over all tasks; delivered + refused = tasks.

    Attributes:
        success: Tasks on which what it delivers is right.
        calls: Draws that it used up.
    """

    tasks: int
    success: int
    delivered: int
    refused: int
    calls: int

    @property
    def calls_per_task(self) -> float:
        """Draws for each task; 0 where there is none."""
        return self.calls / self.tasks if self.tasks else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two rules, or two runs, on the same tasks.

    Attributes:
        p_holm: The exact p, adjusted for the other comparisons of its family.
    """

    first: str
    second: str
    paired: stats.Paired
    p_holm: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """A comparison of two with the tasks that tell them apart."""

    comparison: Comparison
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """Tasks that the gate refused, and in how many of these no draw was right."""

    refused: int
    all_wrong: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WeakOracle:
    """What the visible tests let through within some number of draws, held against GT.

    Attributes:
        accepted: Draws that pass the visible tests and were measured on the hidden ones.
        wrong: Those of them that GT rejects.
        delivered: Tasks on which the gate delivers with so many draws.
        wrong_delivered: Those of them on which GT rejects what is delivered.
        limit: The share of tasks that the gate would get right with any number of
            draws, as far as these tell: the mean over tasks of the share of its
            accepted draws that are right, and 0 where none was accepted. See `limits`.
        limit_at_most: The same with 1 where none was accepted.
    """

    draws: int
    accepted: int
    wrong: int
    delivered: int
    wrong_delivered: int
    limit: float
    limit_at_most: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LossyFilter:
    """Draws that are right and were judged on visible tests, and how many of these the visible tests refuse."""

    correct: int
    refused: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stratum:
    """The tasks whose pools are about equally good, by the share of draws that are right."""

    name: str
    tasks: int
    success: dict[str, int]
    against_single: stats.Paired | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """All counts of one bank's pools.

    Attributes:
        draws: K, how many draws a rule may use up.
        candidates: Draws judged, without those that the pool could not give.
        missing: Draws that the pool could not give; they count as failures.
        infra: Tasks with a draw on which our world failed; it counts as a failure.
        unmeasured: Tasks with a draw that nobody judged on hidden tests.
        rules: For each rule its counts with 1, 2, … K draws.
        pairs: The gate against the others with K draws, as one family.
        all_wrong: Tasks in which no draw was right.
        pass_at: pass@1, pass@2, … pass@K: how often so many draws, taken at random from
            the pool, hold a right one; the unbiased estimator, a mean over tasks.
        weak_oracle: For 1, 2, … K draws.
        difficulty: From the tasks with no right draw to those with no wrong one.
        by_strength: From the tasks with sound suites to those with weak ones; none where nobody looked.
        weakness: How many suites of the bank are weak; None where nobody looked, and for several banks as one.
    """

    bank: str
    tasks: int
    draws: int
    candidates: int
    missing: int
    infra: int
    unmeasured: int
    rules: dict[str, tuple[RuleCount, ...]]
    pairs: tuple[Comparison, ...]
    all_wrong: int
    pass_at: tuple[float, ...]
    audit: Audit
    weak_oracle: tuple[WeakOracle, ...]
    lossy_filter: LossyFilter
    difficulty: tuple[Stratum, ...]
    containment: Containment
    by_strength: tuple[ByStrength, ...] = ()
    weakness: Weakness | None = None

    @property
    def ceiling(self) -> int:
        """Tasks on which some draw is right: no rule does better."""
        return self.rules[CEILING][-1].success


class Tally:
    """Rows of one bank added up, one by one.

    Args:
        draws: How many draws a rule may use up.
        rules: More rules, by name, beside `gate.pools.RULES`.

    Raises:
        SpecError: from `add`, where a rule chooses what no pool allows.
    """

    def __init__(self, draws: int, rules: Mapping[str, Rule] | None = None) -> None:
        self.draws = draws
        self.rules: dict[str, Rule] = {**RULES, **(rules or {})}
        self.tasks = self.candidates = self.missing = self.infra = self.unmeasured = 0
        self.choices: list[Choices] = []  # all that were made; below they go by their number
        self.by_rule: dict[str, Counter[tuple[int, Truth]]] = {name: Counter() for name in self.rules}
        self.endings: Counter[tuple[tuple[bool, ...], int, bool]] = Counter()  # who succeeds, band, refused
        self.judged: Counter[tuple[Seen, Truth]] = Counter()
        self._numbers: dict[Choices, int] = {}
        self._groups = tuple(_grouped(self.rules))
        self._known: dict[tuple[int, Hashable], tuple[int, ...]] = {}
        self.names = tuple(name for _, names in self._groups for name in names)
        self._gate = self.names.index(GATE)

    def add(self, row: Row) -> None:
        """Count one task."""
        cells = row.cells[: self.draws]
        if len(cells) < len(row.cells):
            row = replace(row, cells=cells)
        seen, truth = same_visible(row), same_hidden(row)
        numbers = self._choose(row, {same_visible: seen, same_hidden: truth})
        missing = min(row.missing, len(cells))
        self.tasks += 1
        self.missing += missing
        self.candidates += len(cells) - missing
        if None in truth or "error" in seen:
            self.infra += any(cell.is_error for cell in cells)
            self.unmeasured += any(cell.hidden is None for cell in cells)
        for name, number in zip(self.names, numbers, strict=True):
            self.by_rule[name][number, truth] += 1
        ends = [self.choices[number][-1].index for number in numbers]
        wins = tuple([end is not None and truth[end] is True for end in ends])
        self.endings[wins, _band(truth), ends[self._gate] is None] += 1
        self.judged[seen, truth] += 1

    def _choose(self, row: Row, looks: Mapping[Look, Hashable]) -> list[int]:
        """For each rule, in the order of `names`, the number of its choices; `looks` are some that were taken."""
        numbers: list[int] = []
        for place, (look, names) in enumerate(self._groups):
            if look is None:
                numbers += [self._number(name, row) for name in names]
                continue
            key = place, looks[look] if look in looks else look(row)
            if key not in self._known:
                self._known[key] = tuple(self._number(name, row) for name in names)
            numbers += self._known[key]
        return numbers

    def _number(self, name: str, row: Row) -> int:
        made = tuple(_checked(name, self.rules[name], row, draws) for draws in range(1, self.draws + 1))
        if made not in self._numbers:
            self._numbers[made] = len(self.choices)
            self.choices.append(made)
        return self._numbers[made]


def _grouped(rules: Mapping[str, Rule]) -> Iterator[tuple[Look | None, tuple[str, ...]]]:
    """The rules by what they look at; None for those that must be asked about every row."""
    looks = {name: SEES.get(name) if rule is RULES.get(name) else None for name, rule in rules.items()}
    for look in dict.fromkeys(looks.values()):
        yield look, tuple(name for name in rules if looks[name] is look)


def _checked(name: str, rule: Rule, row: Row, draws: int) -> Choice:
    """What a rule chooses, if it is a choice among the draws that it may use and has used up.

    Raises:
        SpecError: It is not.
    """
    choice = rule(row, draws)
    within = min(draws, len(row.cells))
    if isinstance(choice, Choice) and type(choice.calls) is int and choice.calls <= draws:
        if choice.index is None and choice.calls >= 0:
            return choice
        if type(choice.index) is int and 0 <= choice.index < within and choice.calls > choice.index:
            return choice
    raise SpecError(
        f"rule {name}: task {row.task_id} with {draws} draws: {choice!r} is no choice "
        f"(a rule returns a Choice: an index from 0 to {within - 1} below its calls, or None; at most {draws} calls)"
    )


def _band(truth: Truth) -> int:
    """Which of BANDS a pool is in."""
    right = truth.count(True)
    if right == 0:
        return 0
    return 3 if right == len(truth) else 2 if 2 * right >= len(truth) else 1


def table(tally: Tally, *, bank: str, containment: Containment) -> Table:
    """All counts of one bank, read out."""
    judged = tally.judged
    return Table(
        bank=bank,
        tasks=tally.tasks,
        draws=tally.draws,
        candidates=tally.candidates,
        missing=tally.missing,
        infra=tally.infra,
        unmeasured=tally.unmeasured,
        rules={name: _rule_counts(tally, name) for name in tally.rules},
        pairs=family([(GATE, name, _paired(tally, name)) for name in tally.rules if _is_opponent(name)])
        if tally.tasks
        else (),
        all_wrong=sum(weight for (_, band, _), weight in tally.endings.items() if band == 0),
        pass_at=tuple(_pass_at(tally, draws) for draws in range(1, tally.draws + 1)),
        audit=Audit(
            refused=sum(weight for (_, _, refused), weight in tally.endings.items() if refused),
            all_wrong=sum(weight for (_, band, refused), weight in tally.endings.items() if refused and band == 0),
        ),
        weak_oracle=tuple(_weak_oracle(tally, draws) for draws in range(1, tally.draws + 1)),
        lossy_filter=LossyFilter(
            correct=sum(weight * len(list(_right(seen, truth))) for (seen, truth), weight in judged.items()),
            refused=sum(weight * list(_right(seen, truth)).count("fail") for (seen, truth), weight in judged.items()),
        ),
        difficulty=tuple(_stratum(tally, band) for band in range(len(BANDS))),
        containment=containment,
    )


def _is_opponent(name: str) -> bool:
    return name in FAMILY or name not in RULES


def _right(seen: Seen, truth: Truth) -> Iterator[str]:
    """What the visible tests said of the draws that are right."""
    return (said for said, right in zip(seen, truth, strict=True) if right is True and said in ("pass", "fail"))


def _rule_counts(tally: Tally, name: str) -> tuple[RuleCount, ...]:
    return tuple(_rule_count(tally, name, draws) for draws in range(1, tally.draws + 1))


def _rule_count(tally: Tally, name: str, draws: int) -> RuleCount:
    success = delivered = refused = calls = 0
    for (number, truth), weight in tally.by_rule[name].items():
        choice = tally.choices[number][draws - 1]
        calls += weight * choice.calls
        if choice.index is None:
            refused += weight
        else:
            delivered += weight
            success += weight * (truth[choice.index] is True)
    return RuleCount(tasks=tally.tasks, success=success, delivered=delivered, refused=refused, calls=calls)


def _paired(tally: Tally, name: str, band: int | None = None) -> stats.Paired:
    """The gate against one rule with all draws, in one band of tasks or in all."""
    gate, other = tally.names.index(GATE), tally.names.index(name)
    counts: Counter[tuple[bool, bool]] = Counter()
    for (wins, its_band, _), weight in tally.endings.items():
        if band is None or its_band == band:
            counts[wins[gate], wins[other]] += weight
    return stats.mcnemar(b=counts[True, False], c=counts[False, True], n=counts.total())


def _pass_at(tally: Tally, draws: int) -> float:
    """The mean over tasks; a draw that a pool does not have is a wrong one."""
    right: Counter[int] = Counter()
    for (_, truth), weight in tally.judged.items():
        right[truth.count(True)] += weight
    each = (weight * stats.pass_at_k(n=tally.draws, correct=count, k=draws) for count, weight in right.items())
    return math.fsum(each) / (tally.tasks or 1)


def _weak_oracle(tally: Tally, draws: int) -> WeakOracle:
    accepted = wrong = delivered = wrong_delivered = unknown = 0
    settled = 0.0
    for (seen, truth), weight in tally.judged.items():
        let_through = [right for said, right in zip(seen[:draws], truth, strict=False) if said == "pass"]
        measured = [right for right in let_through if right is not None]
        accepted += weight * len(measured)
        wrong += weight * measured.count(False)
        if measured:
            settled += weight * measured.count(True) / len(measured)
        else:
            unknown += weight
    for (number, truth), weight in tally.by_rule[GATE].items():
        index = tally.choices[number][draws - 1].index
        if index is not None:
            delivered += weight
            wrong_delivered += weight * (truth[index] is False)
    low = settled / tally.tasks if tally.tasks else 0.0
    high = (settled + unknown) / tally.tasks if tally.tasks else 0.0
    return WeakOracle(
        draws=draws,
        accepted=accepted,
        wrong=wrong,
        delivered=delivered,
        wrong_delivered=wrong_delivered,
        limit=low,
        limit_at_most=high,
    )


def _stratum(tally: Tally, band: int) -> Stratum:
    within = {wins: 0 for wins, _, _ in tally.endings}
    for (wins, its_band, _), weight in tally.endings.items():
        within[wins] += weight * (its_band == band)
    tasks = sum(within.values())
    return Stratum(
        name=BANDS[band],
        tasks=tasks,
        success={
            name: sum(weight for wins, weight in within.items() if wins[place])
            for place, name in enumerate(tally.names)
        },
        against_single=_paired(tally, "single", band) if tasks else None,
    )


def family(parts: Sequence[tuple[str, str, stats.Paired]]) -> tuple[Comparison, ...]:
    """Comparisons that are read together, each p adjusted for the others by Holm."""
    adjusted = stats.holm([paired.p_exact for _, _, paired in parts])
    return tuple(
        Comparison(first=first, second=second, paired=paired, p_holm=p_holm)
        for (first, second, paired), p_holm in zip(parts, adjusted, strict=True)
    )


def across(tables: Sequence[Table], second: str) -> tuple[Comparison, ...]:
    """The gate against one rule, bank by bank, as one family; in the order of the banks."""
    return family([(GATE, second, comparison(each, second).paired) for each in tables])


def comparison(of: Table, second: str) -> Comparison:
    """The gate against one rule in one bank."""
    return next(each for each in of.pairs if each.second == second)


def together(tables: Sequence[Table], *, name: str = "all banks") -> Table:
    """Several banks as one, stratified: each task is held against itself, and counts once.

    Raises:
        ValueError: There are none, or they differ in draws or rules.
    """
    first = tables[0] if tables else None
    if first is None or any(each.draws != first.draws or each.rules.keys() != first.rules.keys() for each in tables):
        raise ValueError("only banks with the same draws and the same rules make one table")
    tasks = sum(each.tasks for each in tables)
    filled = [each for each in tables if each.tasks]
    return Table(
        bank=name,
        tasks=tasks,
        draws=first.draws,
        candidates=sum(each.candidates for each in tables),
        missing=sum(each.missing for each in tables),
        infra=sum(each.infra for each in tables),
        unmeasured=sum(each.unmeasured for each in tables),
        rules={
            rule: tuple(_add_counts(parts) for parts in zip(*(each.rules[rule] for each in tables), strict=True))
            for rule in first.rules
        },
        pairs=family(
            [
                (GATE, pair.second, stats.pooled(comparison(each, pair.second).paired for each in filled))
                for pair in filled[0].pairs
            ]
        )
        if filled
        else (),
        all_wrong=sum(each.all_wrong for each in tables),
        pass_at=tuple(
            sum(each.tasks * each.pass_at[place] for each in tables) / (tasks or 1) for place in range(first.draws)
        ),
        audit=Audit(
            refused=sum(each.audit.refused for each in tables),
            all_wrong=sum(each.audit.all_wrong for each in tables),
        ),
        weak_oracle=tuple(_add_weak(tables, place) for place in range(first.draws)),
        lossy_filter=LossyFilter(
            correct=sum(each.lossy_filter.correct for each in tables),
            refused=sum(each.lossy_filter.refused for each in tables),
        ),
        difficulty=tuple(_add_strata(parts) for parts in zip(*(each.difficulty for each in tables), strict=True)),
        containment=Containment(
            tasks=sum(each.containment.tasks for each in tables),
            contained=sum(each.containment.contained for each in tables),
        ),
        by_strength=added(stratum for each in tables for stratum in each.by_strength),
    )


def _add_counts(parts: Iterable[RuleCount]) -> RuleCount:
    kept = tuple(parts)
    return RuleCount(
        tasks=sum(each.tasks for each in kept),
        success=sum(each.success for each in kept),
        delivered=sum(each.delivered for each in kept),
        refused=sum(each.refused for each in kept),
        calls=sum(each.calls for each in kept),
    )


def _add_weak(tables: Sequence[Table], place: int) -> WeakOracle:
    parts = [(each.weak_oracle[place], each.tasks) for each in tables]
    tasks = sum(weight for _, weight in parts) or 1
    return WeakOracle(
        draws=place + 1,
        accepted=sum(each.accepted for each, _ in parts),
        wrong=sum(each.wrong for each, _ in parts),
        delivered=sum(each.delivered for each, _ in parts),
        wrong_delivered=sum(each.wrong_delivered for each, _ in parts),
        limit=sum(weight * each.limit for each, weight in parts) / tasks,
        limit_at_most=sum(weight * each.limit_at_most for each, weight in parts) / tasks,
    )


def _add_strata(parts: Sequence[Stratum]) -> Stratum:
    measured = [each.against_single for each in parts if each.against_single is not None]
    return Stratum(
        name=parts[0].name,
        tasks=sum(each.tasks for each in parts),
        success={name: sum(each.success[name] for each in parts) for name in parts[0].success},
        against_single=stats.pooled(measured) if measured else None,
    )


def split(first: str, second: str, outcomes: Iterable[tuple[str, bool, bool]]) -> Split:
    """Two rules or two runs, from (task id, whether the first succeeds, whether the second does).

    Raises:
        ValueError: There is no task.
    """
    tasks = 0
    only_first: list[str] = []
    only_second: list[str] = []
    for task_id, one, other in outcomes:
        tasks += 1
        if one and not other:
            only_first.append(task_id)
        elif other and not one:
            only_second.append(task_id)
    paired = stats.mcnemar(b=len(only_first), c=len(only_second), n=tasks)
    (alone,) = family([(first, second, paired)])
    return Split(comparison=alone, only_first=tuple(only_first), only_second=tuple(only_second))
