"""The rules: what was seen to a verdict, verdicts to the decision."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gate import rules
from gate.model import (
    Call,
    Candidate,
    Exit,
    Expect,
    Limits,
    LoadFailure,
    Observation,
    Outcome,
    Reply,
    SuiteSpec,
    Task,
    Test,
    Usage,
    Verdict,
)

TESTS = (
    Test(call=Call(args=(2, 3)), expect=Expect(kind="value", values=(5,))),
    Test(call=Call(args=(-1,)), expect=Expect(kind="raises", raises="ValueError")),
)
RIGHT = (
    Reply(kind="returned", value=5),
    Reply(kind="raised", types=("ValueError", "Exception", "BaseException"), message="ValueError: no"),
)


def seen(exit_: Exit = Exit.OK, replies: tuple[Reply, ...] = RIGHT, **more: object) -> Observation:
    return Observation(candidate="c", calls="k", exit=exit_, replies=replies, **more)  # type: ignore[arg-type]


def verdict_of(outcome: str) -> Verdict:
    reason = {"pass": None, "fail": "wrong_answer", "error": "infra"}[outcome]
    return Verdict(outcome=Outcome(outcome), reason=reason, detail="" if reason is None else "why")


def task(tests: tuple[Test, ...] = TESTS) -> Task:
    suite = SuiteSpec(
        task_id="t",
        prompt="",
        entry_point="f",
        limits=Limits(),
        tests=tests,
        hidden=(),
        reference=None,
        must_fail=(),
        digest="d",
        source=None,
    )
    return Task(id="t", prompt="", entry_point="f", suite=suite)


def pool(number: int) -> list[Candidate]:
    return [Candidate(task_id="t", index=index, code=f"x = {index}") for index in range(number)]


def test_every_answer_right_is_a_pass() -> None:
    """A candidate whose every answer agrees passes, and the count says all."""
    verdict = rules.grade(TESTS, seen())
    assert (verdict.outcome, verdict.reason, verdict.test) == (Outcome.PASS, None, None)
    assert (verdict.passed, verdict.total) == (2, 2)


def test_the_first_disagreement_gives_the_reason() -> None:
    """The verdict names the first test that does not agree, with got and expected."""
    verdict = rules.grade(TESTS, seen(replies=(Reply(kind="returned", value=6), RIGHT[1])))
    assert (verdict.outcome, verdict.reason, verdict.test, verdict.passed) == (Outcome.FAIL, "wrong_answer", 0, 1)
    assert "6" in verdict.detail and "5" in verdict.detail


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Reply(kind="returned", value=True), "wrong_answer"),
        (Reply(kind="returned", value={"$unknown": 1}), "protocol"),
        (Reply(kind="raised", types=("KeyError", "Exception"), message="KeyError: 1"), "raised"),
        (Reply(kind="unserialisable", message="a value of type generator"), "unserialisable"),
        (Reply(kind="too_large", message="too many bytes"), "output_limit"),
        (Reply(kind="printed", value={"$bytes": base64.b64encode(b"5").decode()}, status=0), "wrong_answer"),
        (Reply(kind="printed", value={"$bytes": base64.b64encode(b"5").decode()}, status=1), "crash"),
    ],
)
def test_each_kind_of_reply_has_its_reason(reply: Reply, reason: str) -> None:
    """A reply that is no right answer is FAIL with the reason of its kind."""
    verdict = rules.grade(TESTS[:1], seen(replies=(reply,)))
    assert (verdict.outcome, verdict.reason, verdict.test) == (Outcome.FAIL, reason, 0)
    assert reason in rules.REASONS


def test_a_value_where_an_exception_is_due_is_wrong() -> None:
    """A candidate that returns where it should raise has a wrong answer."""
    verdict = rules.grade(TESTS, seen(replies=(RIGHT[0], Reply(kind="returned", value=None))))
    assert (verdict.reason, verdict.test) == ("wrong_answer", 1)


@pytest.mark.parametrize(
    ("exit_", "reason"),
    [
        (Exit.CRASHED, "crash"),
        (Exit.TIME_LIMIT, "timeout"),
        (Exit.OUTPUT_LIMIT, "output_limit"),
        (Exit.PROTOCOL, "protocol"),
        (Exit.MEMORY_LIMIT, "memory"),
    ],
)
def test_an_early_end_is_fail_never_error(exit_: Exit, reason: str) -> None:
    """A candidate that crashes, times out or breaks a limit is FAIL, not ERROR."""
    verdict = rules.grade(TESTS, seen(exit_, RIGHT[:1]))
    assert (verdict.outcome, verdict.reason) == (Outcome.FAIL, reason)
    assert reason in rules.REASONS


def test_a_cut_run_is_judged_by_what_came_before() -> None:
    """A wrong answer before a time limit is a wrong answer; a right one leaves the limit."""
    wrong = rules.grade(TESTS, seen(Exit.TIME_LIMIT, (Reply(kind="returned", value=0),)))
    right = rules.grade(TESTS, seen(Exit.TIME_LIMIT, RIGHT[:1]))
    assert (wrong.reason, wrong.test) == ("wrong_answer", 0)
    assert (right.reason, right.test) == ("timeout", 1)


@pytest.mark.parametrize("exit_", [Exit.MEMORY_LIMIT, Exit.PROTOCOL])
def test_memory_and_protocol_void_right_answers(exit_: Exit) -> None:
    """An out-of-memory kill or a broken protocol fails a run whose every answer was right."""
    assert rules.grade(TESTS, seen(exit_)).outcome is Outcome.FAIL


def test_a_fault_is_error_whatever_was_replied() -> None:
    """If the engine failed the verdict is ERROR, also with every answer right."""
    verdict = rules.grade(TESTS, seen(Exit.FAULT, detail="the engine went away"))
    assert (verdict.outcome, verdict.reason, verdict.detail) == (Outcome.ERROR, "infra", "the engine went away")


@pytest.mark.parametrize("kind", ["syntax_error", "missing_entry_point", "raised"])
def test_a_candidate_that_does_not_load_fails_with_that_reason(kind: str) -> None:
    """A load failure is the reason, whatever else there is."""
    verdict = rules.grade(TESTS, seen(replies=(), load=LoadFailure(kind=kind, message="why")))  # type: ignore[arg-type]
    assert (verdict.outcome, verdict.reason, verdict.detail) == (Outcome.FAIL, kind, "why")


FAILED: list[tuple[Observation, tuple[int, ...]]] = [
    (seen(), ()),
    (seen(replies=(Reply(kind="returned", value=6), RIGHT[1])), (0,)),
    (seen(replies=(Reply(kind="returned", value=6), Reply(kind="returned", value=6))), (0, 1)),
    (seen(Exit.CRASHED, RIGHT[:1]), (1,)),  # the second call is the one in which it ended
    (seen(Exit.CRASHED, ()), (0,)),  # the second call was never made
    (seen(Exit.TIME_LIMIT, (), limit="cpu"), (0,)),
    (seen(Exit.TIME_LIMIT, (), limit="total_cpu"), ()),  # the run was too long, no one call of it
    (seen(Exit.CRASHED, RIGHT), ()),
    (seen(Exit.MEMORY_LIMIT, RIGHT[:1]), ()),
    (seen(Exit.PROTOCOL, RIGHT), ()),
    (seen(Exit.FAULT, ()), ()),
    (seen(replies=(), load=LoadFailure(kind="raised")), (0, 1)),
]


@pytest.mark.parametrize(("found", "failed"), FAILED)
def test_each_test_that_is_known_to_fail_is_named(found: Observation, failed: tuple[int, ...]) -> None:
    """A call that was never made says nothing, and neither do replies that are void."""
    assert rules.failed_tests(TESTS, found) == failed


def test_no_tests_pass_nobody() -> None:
    """An empty suite passes nobody."""
    assert rules.grade((), seen(replies=())).outcome is Outcome.FAIL


@given(st.integers(0, 4), st.integers(0, 4), st.sampled_from(list(Exit)))
def test_pass_needs_exactly_one_right_reply_a_test(tests: int, replies: int, exit_: Exit) -> None:
    """Too few or too many replies, or any end but OK, is never a pass."""
    verdict = rules.grade(TESTS[:1] * tests, seen(exit_, RIGHT[:1] * replies))
    assert (verdict.outcome is Outcome.PASS) == (exit_ is Exit.OK and tests == replies > 0)


@pytest.mark.parametrize(
    ("limit", "cpu_s", "again"),
    [("wall", 0.2, True), ("wall", 5.0, False), ("cpu", 5.0, False), ("total_wall", 1.0, True), ("wall", None, True)],
)
def test_only_a_wall_limit_with_cpu_left_is_tried_again(limit: str, cpu_s: float | None, again: bool) -> None:
    """CPU time does not depend on load, so a limit on it is final; wall time may be the host's fault."""
    observed = seen(Exit.TIME_LIMIT, (), limit=limit, usage=Usage(cpu_s=cpu_s))
    assert rules.needs_confirmation(observed, Limits(cpu_s=5.0)) is again
    assert not rules.needs_confirmation(seen(), Limits())


def test_a_pass_that_does_not_repeat_is_unstable() -> None:
    """A pass that fails under another hash seed is FAIL `unstable`; an ERROR stays ERROR."""
    passing, failing, error = (verdict_of(outcome) for outcome in ("pass", "fail", "error"))
    assert rules.confirm(passing, passing).outcome is Outcome.PASS
    assert rules.confirm(passing, failing).reason == "unstable"
    assert rules.confirm(passing, error).outcome is Outcome.ERROR
    assert rules.confirm(failing, passing) == failing


@pytest.mark.parametrize("code", ["", "  \n\t", "x" * (rules.MAX_CODE_BYTES + 1)])
def test_no_program_needs_no_sandbox(code: str) -> None:
    """An empty or an oversized program is `no_program` without being run."""
    verdict = rules.screen(Candidate(task_id="t", index=0, code=code))
    assert verdict is not None and (verdict.outcome, verdict.reason) == (Outcome.FAIL, "no_program")
    assert rules.screen(Candidate(task_id="t", index=0, code="x = 1")) is None


def test_the_first_pass_is_delivered() -> None:
    """The first candidate that passes is delivered, by its digest and its draw."""
    candidates = pool(3)
    decision = rules.decide(task(), candidates, [verdict_of(each) for each in ("fail", "pass", "pass")])
    assert (decision.outcome, decision.index, decision.delivered) == ("delivered", 1, candidates[1].digest)


def test_a_decision_starts_as_a_refusal() -> None:
    """Nothing drawn, or nothing passed, is a refusal."""
    assert rules.decide(task(), [], []).outcome == "refused"
    assert rules.decide(task(), pool(5), [verdict_of("fail")] * 5).reason == "none_passed"


def test_without_visible_tests_the_task_is_refused() -> None:
    """A task without visible tests is refused with no draw."""
    decision = rules.decide(task(()), [], [])
    assert (decision.outcome, decision.reason, decision.draws) == ("refused", "no_visible_tests", 0)


@given(st.lists(st.sampled_from(["pass", "fail", "error"]), max_size=5))
def test_only_a_pass_delivers_and_doubt_is_infra(outcomes: list[str]) -> None:
    """What is delivered is the first PASS, and no ERROR stands before it."""
    decision = rules.decide(task(), pool(len(outcomes)), [verdict_of(outcome) for outcome in outcomes])
    telling = [outcome for outcome in outcomes if outcome != "fail"]
    expected = {"pass": "delivered", "error": "infra"}[telling[0]] if telling else "refused"
    assert decision.outcome == expected
    assert decision.draws == len(outcomes)


@given(st.lists(st.sampled_from(["pass", "fail", "error"]), max_size=4))
def test_one_more_failure_turns_no_decision(outcomes: list[str]) -> None:
    """One more FAIL never turns a refusal, a delivery or a doubt."""
    before = rules.decide(task(), pool(len(outcomes)), [verdict_of(outcome) for outcome in outcomes])
    more = [*outcomes, "fail"]
    after = rules.decide(task(), pool(len(more)), [verdict_of(outcome) for outcome in more])
    assert (before.outcome, before.delivered) == (after.outcome, after.delivered)
