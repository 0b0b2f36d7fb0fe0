"""What a replay's ledger says of one task: folded in order, and contradictions refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gate import records
from gate.errors import IntegrityError
from gate.model import Candidate, Decision, Json, Outcome, Task, Verdict
from gate.suite import suite_from_tree, task_of
from gate.taskpool import fold_pool, is_complete, row_of

TREE = {
    "version": 1,
    "task": "t",
    "entry_point": "f",
    "tests": [{"args": [1], "expected": 1}],
    "hidden": [{"args": [2], "expected": 2}],
}
Line = tuple[str, dict[str, Json]]


def the_task(**more: Json) -> Task:
    return task_of(suite_from_tree({**TREE, **more}))


def drawn(index: int, code: str = "ok", **origin: Json) -> Line:
    candidate = Candidate(task_id="t", index=index, code=code, origin=origin)
    return f"c{index}", {"kind": "candidate", **records.candidate_record(candidate)}


def judged(index: int, part: str, outcome: Outcome = Outcome.PASS) -> Line:
    reason = {Outcome.PASS: None, Outcome.FAIL: "crash", Outcome.ERROR: "infra"}[outcome]
    verdict = Verdict(outcome=outcome, reason=reason)
    record = records.verdict_record("t", index, part, verdict, suite="5" * 64)
    return f"v{index}{part}", {"kind": "verdict", **record, "seen": []}


def decided(outcome: str = "delivered", index: int | None = 0) -> Line:
    decision = Decision(task_id="t", outcome=outcome, index=index, draws=1)  # type: ignore[arg-type]
    return "d", {"kind": "decision", **records.decision_record(decision)}


WHOLE = [drawn(0), judged(0, "visible"), decided(), judged(0, "hidden")]


def test_a_whole_pool_is_complete_and_a_part_of_it_is_not() -> None:
    """Every draw is there, judged on both parts, and decided; with any line less it is not complete."""
    assert is_complete(the_task(), fold_pool(WHOLE), 1)
    assert not is_complete(the_task(), fold_pool(WHOLE), 2)
    for number in range(1, len(WHOLE)):
        assert not is_complete(the_task(), fold_pool(WHOLE[:number]), 1)


def test_parts_without_tests_need_no_verdicts() -> None:
    """Without hidden tests the visible verdicts are enough, and the other way round."""
    assert is_complete(the_task(hidden=[]), fold_pool(WHOLE[:3]), 1)
    assert is_complete(the_task(tests=[]), fold_pool([drawn(0), decided("refused", None), judged(0, "hidden")]), 1)


def test_our_own_failure_is_superseded() -> None:
    """An error and an infra decision may be followed by the answer, which stands; before it the pool is incomplete."""
    failed = [drawn(0), judged(0, "visible", Outcome.ERROR), decided("infra", None), judged(0, "hidden")]
    assert not is_complete(the_task(), fold_pool(failed), 1)
    again = [*failed, judged(0, "visible"), decided()]
    assert is_complete(the_task(), fold_pool(again), 1)


@pytest.mark.parametrize(
    ("lines", "what"),
    [
        ([drawn(1)], "out of turn"),
        ([drawn(0), drawn(0)], "out of turn"),
        ([judged(0, "visible")], "never drawn"),
        ([drawn(0), judged(0, "hidden")], "before the decision"),
        ([drawn(0), judged(0, "visible"), judged(0, "visible", Outcome.FAIL)], "two visible verdicts"),
        ([*WHOLE, judged(0, "hidden")], "two hidden verdicts"),
        ([*WHOLE, decided()], "decides 't' twice"),
        ([*WHOLE, drawn(1)], "again after its decision"),
        ([drawn(0), decided("refused", None), judged(0, "visible")], "after its decision"),
    ],
)
def test_contradictions_are_refused(lines: list[Line], what: str) -> None:
    """A second answer, one out of turn, or GT before the decision is an integrity error."""
    with pytest.raises(IntegrityError, match=what):
        fold_pool(lines)


def test_a_draw_that_the_pool_lacks_is_missing_in_the_row() -> None:
    """The row has a cell for each draw, and says how many of them the pool could not give."""
    lines = [drawn(0), drawn(1, "", missing="no sample"), judged(0, "visible"), judged(1, "visible", Outcome.FAIL)]
    row = row_of(the_task(), fold_pool(lines))
    assert (len(row.cells), row.missing) == (2, 1)
    assert [cell.visible.outcome for cell in row.cells] == [Outcome.PASS, Outcome.FAIL]
    assert replace(row, missing=0) != row
