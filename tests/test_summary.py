"""What a ledger adds up to: every task in exactly one count, every count from a record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gate import records
from gate.errors import IntegrityError
from gate.model import Call, Decision, Expect, Limits, Outcome, SuiteSpec, Test, Tolerance, Verdict
from gate.summary import Containment, Hidden, Summary, Tally, visible_is_contained

Record = dict[str, Any]


def equal(value: Any, expected: Any = None, **changes: Any) -> Test:
    return Test(call=Call(args=(value,)), expect=Expect(kind="value", values=(expected,), **changes))


def suite(task_id: str, tests: Sequence[Test] = (equal(1),), hidden: Sequence[Test] = ()) -> SuiteSpec:
    return SuiteSpec(
        task_id=task_id,
        prompt="",
        entry_point="f",
        limits=Limits(),
        tests=tuple(tests),
        hidden=tuple(hidden),
        reference=None,
        must_fail=(),
        digest="",
        source={},
    )


def tally(*task_ids: str, hidden: Sequence[Test] = ()) -> Tally:
    found = Tally()
    for task_id in task_ids:
        found.add_suite(suite(task_id, hidden=hidden))
    return found


def decided(task_id: str, outcome: Any, draws: int = 1, reason: str | None = None) -> Record:
    delivered = outcome == "delivered"
    decision = Decision(
        task_id=task_id,
        outcome=outcome,
        delivered="digest" if delivered else None,
        index=draws - 1 if delivered else None,
        reason=reason,
        draws=draws,
    )
    return {"kind": "decision", **records.decision_record(decision)}


def judged(
    task_id: str, index: int, reason: str | None = None, part: str = "visible", outcome: Outcome | None = None
) -> Record:
    if outcome is None:
        outcome = Outcome.PASS if reason is None else Outcome.FAIL
    verdict = Verdict(outcome=outcome, reason=reason)
    return {"kind": "verdict", **records.verdict_record(task_id, index, part, verdict, suite="5" * 64)}


def fold(found: Tally, *all_records: Record) -> Summary:
    for record in all_records:
        found.add_record(record)
    return found.summary()


def test_every_task_is_in_one_count() -> None:
    """Delivered, refused, infra and not run are all the tasks there are."""
    found = fold(
        tally("a", "b", "c", "d", "e"),
        decided("a", "delivered", 2),
        decided("b", "refused", 5, "none_passed"),
        decided("c", "infra", 1, "the engine is gone"),
        decided("d", "refused", 0, "no_visible_tests"),
    )
    counts = (found.tasks, found.delivered, found.refused, found.infra, found.not_run)
    assert counts == (5, 1, 2, 1, 1)
    assert found.draws == 8
    assert found.calls_per_task == 8 / 5
    assert found.refusals == {"no_visible_tests": 1, "none_passed": 1}
    assert found.infra_reasons == {"the engine is gone": 1}


@st.composite
def runs(draw: st.DrawFn) -> tuple[list[str], list[Record]]:
    """A run's tasks and records: some decided, some by way of infra, some not at all."""
    task_ids = [f"t{number}" for number in range(draw(st.integers(0, 6)))]
    found: list[Record] = []
    for task_id in task_ids:
        for _ in range(draw(st.integers(0, 2))):
            found += attempt(task_id, "infra", draw(st.integers(1, 5)))
        final = draw(st.sampled_from(["delivered", "refused", None]))
        if final is not None:
            found += attempt(task_id, final, draw(st.integers(1, 5)))
    return task_ids, found


def attempt(task_id: str, outcome: str, draws: int) -> list[Record]:
    """The records of one attempt at a task."""
    last = {"delivered": None, "refused": "wrong_answer", "infra": "infra"}[outcome]
    early = [judged(task_id, index, "crash") for index in range(draws - 1)]
    return [*early, judged(task_id, draws - 1, last), decided(task_id, outcome, draws, outcome)]


@given(runs())
def test_counts_add_up_and_each_draw_has_one_end(run: tuple[list[str], list[Record]]) -> None:
    """The counts add up to N, and each draw that was used up either passed or has a reason."""
    task_ids, all_records = run
    found = fold(tally(*task_ids), *all_records)
    assert found.delivered + found.refused + found.infra + found.not_run == found.tasks == len(task_ids)
    assert sum(found.reasons.values()) + found.delivered == found.draws
    assert sum(found.refusals.values()) == found.refused
    assert sum(found.infra_reasons.values()) == found.infra


def test_an_infra_decision_is_superseded() -> None:
    """A later decision takes the place of an infra one, with its draws; nothing is counted twice."""
    found = fold(tally("a"), *attempt("a", "infra", 3), *attempt("a", "infra", 2), *attempt("a", "delivered", 1))
    assert (found.delivered, found.infra, found.draws) == (1, 0, 1)
    assert (found.reasons, found.infra_reasons) == ({}, {})


@pytest.mark.parametrize("first", ["delivered", "refused"])
@pytest.mark.parametrize("second", ["delivered", "refused", "infra"])
def test_a_second_final_decision_is_an_integrity_error(first: str, second: str) -> None:
    """What is decided is decided: another decision, even the same one, is a forged or broken ledger."""
    found = tally("a")
    found.add_record(decided("a", first))
    with pytest.raises(IntegrityError, match="decides 'a' twice"):
        found.add_record(decided("a", second))


@pytest.mark.parametrize("record", [decided("x", "refused"), judged("x", 0), judged("x", 0, part="hidden")])
def test_a_task_that_the_run_does_not_have_is_an_integrity_error(record: Record) -> None:
    """A ledger cannot bring tasks of its own into the denominator."""
    with pytest.raises(IntegrityError, match="'x', a task that the run does not have"):
        tally("a").add_record(record)


def test_an_outcome_of_no_known_word_is_an_integrity_error() -> None:
    """A decision that is none of the three would fall out of the sum, so there is no sum."""
    found = tally("a")
    found.add_record(decided("a", "postponed"))
    with pytest.raises(IntegrityError, match="do not add up"):
        found.summary()


@pytest.mark.parametrize("kind", ["run", "candidate", "observation", "closed"])
def test_other_records_count_nothing(kind: str) -> None:
    """Only verdicts and decisions are counted, whatever else a ledger holds."""
    record = {"kind": kind, "task": "unknown", "index": 0, "origin": {}}
    assert fold(tally("a"), record) == fold(tally("a"))


def test_reasons_are_sorted_by_count() -> None:
    """The most frequent reason stands first, equal ones by name."""
    found = fold(
        tally("a"),
        *(judged("a", index, reason) for index, reason in enumerate(["timeout", "crash", "raised", "raised"])),
        decided("a", "refused", 4, "none_passed"),
    )
    assert list(found.reasons.items()) == [("raised", 2), ("crash", 1), ("timeout", 1)]


def test_draws_of_an_undecided_task_are_not_counted() -> None:
    """A task that a stopped run left open has neither draws nor reasons yet."""
    found = fold(tally("a"), judged("a", 0, "crash"))
    assert (found.not_run, found.draws, found.reasons) == (1, 0, {})


def test_hidden_tests_count_what_was_delivered() -> None:
    """Right, wrong and unmeasured are the delivered tasks, and refused ones are none of them."""
    found = fold(
        tally("a", "b", "c", "d", "e", hidden=[equal(1)]),
        *(decided(task_id, "delivered") for task_id in "abcd"),
        decided("e", "refused"),
        judged("a", 0, part="hidden"),
        judged("b", 0, "wrong_answer", part="hidden"),
        judged("c", 0, "infra", part="hidden", outcome=Outcome.ERROR),
        judged("e", 0, part="hidden"),
    )
    assert found.hidden == Hidden(success=1, wrong_delivered=1, unmeasured=2)


def test_a_measurement_of_another_draw_does_not_count() -> None:
    """What hidden tests say of a draw that was not delivered says nothing of the one that was."""
    found = fold(tally("a", hidden=[equal(1)]), decided("a", "delivered", 2), judged("a", 0, part="hidden"))
    assert found.hidden == Hidden(success=0, wrong_delivered=0, unmeasured=1)


def test_hidden_tests_decide_nothing() -> None:
    """The same ledger has the same decisions whether hidden tests pass, fail or are absent."""
    all_records = [decided("a", "delivered"), decided("b", "refused")]
    plain = fold(tally("a", "b"), *all_records)
    wrong = judged("a", 0, "wrong_answer", part="hidden")
    measured = fold(tally("a", "b", hidden=[equal(1)]), *all_records, wrong)
    for name in ("tasks", "delivered", "refused", "infra", "not_run", "draws", "reasons"):
        assert getattr(plain, name) == getattr(measured, name)


def test_a_bank_without_hidden_tests_measures_nothing() -> None:
    """Nothing hidden: no success is claimed, and V ⊆ GT does not apply."""
    found = fold(tally("a"), decided("a", "delivered"))
    assert found.hidden is None
    assert found.containment.holds is None


@pytest.mark.parametrize(
    ("hidden", "contained"),
    [
        ([equal(1), equal(2)], True),
        ([equal(1)], True),
        ([equal(2)], False),
        ([equal(1, 0)], False),
        ([equal(1, compare="strict")], False),
        ([equal(1, tolerance=Tolerance(rel=1e-6))], False),
        ([equal(1, project="set")], False),
        ([equal(1, nan_ok=True)], False),
        ([Test(call=Call(args=(1,), kwargs={"k": 1}), expect=equal(1).expect)], False),
        ([Test(call=Call(args=(1,)), expect=Expect(kind="raises", raises="ValueError"))], False),
        ([], False),
    ],
)
def test_containment_is_by_call_and_expectation(hidden: list[Test], contained: bool) -> None:
    """V ⊆ GT holds where each visible test stands among the hidden ones, with the same answer and manner."""
    assert visible_is_contained(suite("a", [equal(1)], hidden)) is contained


def test_containment_is_of_every_visible_test() -> None:
    """One visible test that is not among the hidden ones is enough to break it; order is no matter."""
    assert visible_is_contained(suite("a", [equal(1), equal(2)], [equal(3), equal(2), equal(1)]))
    assert not visible_is_contained(suite("a", [equal(1), equal(2)], [equal(3), equal(2)]))


def test_containment_of_programs_is_by_input_and_output() -> None:
    """For programs the call is the input and the expectation the output."""

    def prints(stdin: str, stdout: str) -> Test:
        return Test(call=Call(stdin=stdin), expect=Expect(kind="stdout", stdout=stdout, compare="lines"))

    assert visible_is_contained(suite("a", [prints("1", "2")], [prints("1", "2")]))
    assert not visible_is_contained(suite("a", [prints("1", "2")], [prints("1", "3")]))
    assert not visible_is_contained(suite("a", [prints("1", "2")], [prints("0", "2")]))


def test_a_bank_contains_when_each_of_its_tasks_does() -> None:
    """V ⊆ GT for a bank is over the tasks with hidden tests, and one exception breaks it."""
    found = Tally()
    found.add_suite(suite("a", [equal(1)], [equal(1)]))
    found.add_suite(suite("b", [equal(1)]))
    assert found.summary().containment == Containment(tasks=1, contained=1)
    assert found.summary().containment.holds is True
    found.add_suite(suite("c", [equal(1)], [equal(2)]))
    assert found.summary().containment == Containment(tasks=2, contained=1)
    assert found.summary().containment.holds is False


def counted(tasks: int, *, infra: int = 0, not_run: int = 0) -> Summary:
    return Summary(
        tasks=tasks,
        delivered=tasks - infra - not_run,
        refused=0,
        infra=infra,
        not_run=not_run,
        draws=0,
        reasons={},
        refusals={},
        infra_reasons={},
        hidden=None,
        containment=Containment(tasks=0, contained=0),
    )


@pytest.mark.parametrize(
    ("summary", "budget", "printed"),
    [
        (counted(10), 0.0, True),
        (counted(10, not_run=1), 1.0, False),
        (counted(10, infra=1), 0.0, False),
        (counted(10, infra=1), 0.1, True),
        (counted(10, infra=2), 0.1, False),
        (counted(100, infra=1), 0.01, True),
        (counted(99, infra=1), 0.01, False),
        (counted(10, infra=10), 1.0, True),
        (counted(0), 1.0, False),
    ],
)
def test_a_headline_needs_all_tasks_and_infra_within_its_budget(summary: Summary, budget: float, printed: bool) -> None:
    """One task not run, or one infra too many, and there is no headline; an empty bank has none."""
    assert summary.has_headline(budget) is printed


@given(st.integers(1, 1000).flatmap(lambda tasks: st.tuples(st.just(tasks), st.integers(0, tasks))))
def test_a_budget_of_exactly_what_failed_is_kept(count: tuple[int, int]) -> None:
    """29 of 100 is within 29 %: rounding takes nothing away, and gives nothing."""
    tasks, infra = count
    assert counted(tasks, infra=infra).has_headline(infra / tasks)
    if infra:
        assert not counted(tasks, infra=infra).has_headline((infra - 0.5) / tasks)


def test_an_empty_run_has_no_calls_a_task() -> None:
    """No task, no division by zero."""
    assert fold(tally()).calls_per_task == 0.0
