"""What a ledger adds up to: counts, nothing else. Derived from records and suites alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from gate import records
from gate.errors import IntegrityError
from gate.model import Decision, Json, Outcome, SuiteSpec, Test, canonical_json
from gate.money import Account, Spend
from gate.strength import Strengths, Weakness, strength

NOTHING_KNOWN = Weakness(suites=0, weak=0, commonest=None, passed=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hidden:
    """How what was delivered fares on the hidden tests.

    Attributes:
        success: Delivered and right.
        wrong_delivered: Delivered and wrong.
        unmeasured: Delivered, and nobody could tell.
    """

    success: int
    wrong_delivered: int
    unmeasured: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Containment:
    """For how many of the tasks with hidden tests these contain the visible ones (V ⊆ GT)."""

    tasks: int
    contained: int

    @property
    def holds(self) -> bool | None:
        """Whether V ⊆ GT for the bank as a whole; None where nothing is hidden."""
        return None if self.tasks == 0 else self.contained == self.tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The counts of one run; delivered + refused + infra + not_run = tasks.

    Attributes:
        draws: Draws used up, over all tasks.
        reasons: Why draws of decided tasks failed, by reason.
        refusals: Why tasks were refused or ended as infra, by reason.
        hidden: None where no task has hidden tests.
        weakness: How many suites a program that knows nothing of the task passes.
        spend: What the draws cost; None where no model was asked.
    """

    tasks: int
    delivered: int
    refused: int
    infra: int
    not_run: int
    draws: int
    reasons: dict[str, int]
    refusals: dict[str, int]
    infra_reasons: dict[str, int]
    hidden: Hidden | None
    containment: Containment
    weakness: Weakness = NOTHING_KNOWN
    spend: Spend | None = None

    @property
    def calls_per_task(self) -> float:
        """Draws a task, over all tasks."""
        return self.draws / self.tasks if self.tasks else 0.0

    def has_headline(self, infra_budget: float) -> bool:
        """Whether a headline may be printed: all tasks ran, and infra is within its budget."""
        # Divided, not multiplied: 0.29 * 100 is a little less than 29.
        return self.tasks > 0 and self.not_run == 0 and self.infra / self.tasks <= infra_budget


@dataclass(slots=True)
class Tally:
    """Folds suites and records into a summary; what it holds is a few words a task.

    Call `add_suite` for every task first, in the bank's order, then `add_record` for every
    record of the ledger, in order.
    """

    order: dict[str, bool] = field(default_factory=dict)  # task id -> has hidden tests
    decisions: dict[str, Decision] = field(default_factory=dict)
    visible: dict[tuple[str, int], str | None] = field(default_factory=dict)
    measured: dict[tuple[str, int | None], Outcome] = field(default_factory=dict)
    contained: int = 0
    strengths: Strengths = field(default_factory=Strengths)
    account: Account = field(default_factory=Account)

    def add_suite(self, suite: SuiteSpec) -> None:
        """Count one task."""
        self.order[suite.task_id] = bool(suite.hidden)
        self.contained += bool(suite.hidden) and visible_is_contained(suite)
        self.strengths.add(strength(suite))

    def add_record(self, record: dict[str, Json]) -> None:
        """Take in one record of the ledger.

        Raises:
            IntegrityError: A task that the run does not have, or a second final decision.
        """
        kind = record["kind"]
        self.account.add(kind, record)
        if kind not in ("decision", "verdict"):
            return
        if record["task"] not in self.order:
            raise IntegrityError(f"the ledger speaks of {record['task']!r}, a task that the run does not have")
        if kind == "decision":
            self._add_decision(records.read_decision(record))
        elif record["part"] == "visible":
            self.visible[record["task"], record["index"]] = record["reason"]
        else:
            self.measured[record["task"], record["index"]] = Outcome(record["outcome"])

    def _add_decision(self, decision: Decision) -> None:
        before = self.decisions.get(decision.task_id)
        if before is not None and before.outcome != "infra":
            raise IntegrityError(f"the ledger decides {decision.task_id!r} twice")
        self.decisions[decision.task_id] = decision

    def summary(self) -> Summary:
        """The counts so far.

        Raises:
            IntegrityError: They do not add up to the number of tasks.
        """
        by_outcome = Counter(decision.outcome for decision in self.decisions.values())
        with_hidden = sum(self.order.values())
        found = Summary(
            tasks=len(self.order),
            delivered=by_outcome["delivered"],
            refused=by_outcome["refused"],
            infra=by_outcome["infra"],
            not_run=len(self.order.keys() - self.decisions.keys()),
            draws=sum(decision.draws for decision in self.decisions.values()),
            reasons=_count(self._draw_reasons()),
            refusals=_count(_reason(each) for each in self.decisions.values() if each.outcome == "refused"),
            infra_reasons=_count(_reason(each) for each in self.decisions.values() if each.outcome == "infra"),
            hidden=self._hidden() if with_hidden else None,
            containment=Containment(tasks=with_hidden, contained=self.contained),
            weakness=self.strengths.weakness(),
            spend=self.account.spend(),
        )
        if found.delivered + found.refused + found.infra + found.not_run != found.tasks:
            raise IntegrityError("delivered, refused, infra and not run do not add up to the number of tasks")
        return found

    def _draw_reasons(self) -> Iterator[str]:
        """One a failed draw that a decision counts; an attempt that was superseded may have had more."""
        for (task_id, index), reason in self.visible.items():
            decision = self.decisions.get(task_id)
            if reason is not None and decision is not None and index < decision.draws:
                yield reason

    def _hidden(self) -> Hidden:
        delivered = [
            (each.task_id, each.index)
            for each in self.decisions.values()
            if each.outcome == "delivered" and self.order[each.task_id]
        ]
        outcomes = Counter(self.measured.get(draw) for draw in delivered)
        return Hidden(
            success=outcomes[Outcome.PASS],
            wrong_delivered=outcomes[Outcome.FAIL],
            unmeasured=outcomes[Outcome.ERROR] + outcomes[None],
        )


def visible_is_contained(suite: SuiteSpec) -> bool:
    """Whether every visible test stands among the hidden ones: same call, same expectation."""
    hidden = {_test_text(test) for test in suite.hidden}
    return all(_test_text(test) in hidden for test in suite.tests)


def _test_text(test: Test) -> str:
    expect = test.expect
    tolerance = None if expect.tolerance is None else [expect.tolerance.rel, expect.tolerance.abs]
    answer = [expect.kind, list(expect.values), expect.raises, expect.stdout]
    manner = [expect.compare, tolerance, expect.project, expect.nan_ok]
    return canonical_json([test.call.as_json(), answer, manner])


def _reason(decision: Decision) -> str:
    return decision.reason or ""


def _count(reasons: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(reasons).items(), key=lambda item: (-item[1], item[0])))
