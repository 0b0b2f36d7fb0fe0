"""The outcome table: which behaviours and which texts are one, and who votes."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gate import values
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
    Test,
    Usage,
    Verdict,
)
from gate.outcomes import Cell, absent, behaviour_digest, counted_look, judged, text_digest

PASS, FAIL = Verdict(outcome=Outcome.PASS), Verdict(outcome=Outcome.FAIL, reason="wrong_answer")
ERROR = Verdict(outcome=Outcome.ERROR, reason="infra")
TEST = Test(call=Call(args=(1,)), expect=Expect(kind="value", values=(1,)))


def seen(*replies: Reply, exit_: Exit = Exit.OK, **more: object) -> Observation:
    return Observation(candidate="c", calls="k", exit=exit_, replies=replies, **more)  # type: ignore[arg-type]


def returned(value: object) -> Reply:
    return Reply(kind="returned", value=values.encode(value))


def raised(*types: str, message: str = "") -> Reply:
    return Reply(kind="raised", types=types, message=message)


def printed(text: str, status: int = 0) -> Reply:
    return Reply(kind="printed", value={"$bytes": base64.b64encode(text.encode()).decode()}, status=status)


SAME = [
    (returned({"a": 1, "b": 2}), returned({"b": 2, "a": 1})),
    (Reply(kind="returned", value={"$set": [3, 1, 2]}), Reply(kind="returned", value={"$set": [1, 2, 3]})),
    (
        Reply(kind="returned", value=[{"$dict": [[1, "x"], [2, {"$frozenset": ["b", "a"]}]]}]),
        Reply(kind="returned", value=[{"$dict": [[2, {"$frozenset": ["a", "b"]}], [1, "x"]]}]),
    ),
    (raised("KeyError", "LookupError", message="'a'"), raised("KeyError", "LookupError", message="'b'")),
    (Reply(kind="unserialisable", message="a generator at 0x1"), Reply(kind="unserialisable", message="one at 0x2")),
]
DIFFERENT = [
    (returned(1), returned(True)),
    (returned(1), returned(1.0)),
    (returned([1, 2]), returned((1, 2))),
    (returned([1, 2]), returned([2, 1])),
    (returned(None), raised("ValueError")),
    (raised("KeyError", "LookupError"), raised("IndexError", "LookupError")),
    (printed("3\n"), printed("4\n")),
    (printed("3\n"), printed("3\n", status=1)),
    (Reply(kind="unserialisable"), Reply(kind="too_large")),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_one_behaviour_has_one_digest(one: Reply, other: Reply) -> None:
    """The order of sets and dicts, and what an exception says, make no other behaviour."""
    assert behaviour_digest(seen(one)) == behaviour_digest(seen(other)) is not None


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_different_behaviours_differ(one: Reply, other: Reply) -> None:
    """Types, order in lists, classes of exceptions and exit statuses tell behaviours apart."""
    assert behaviour_digest(seen(one)) != behaviour_digest(seen(other))


def test_the_order_of_calls_counts() -> None:
    """The same answers to other calls are another behaviour."""
    assert behaviour_digest(seen(returned(1), returned(2))) != behaviour_digest(seen(returned(2), returned(1)))


def test_a_run_that_was_cut_short_is_a_behaviour_of_its_own() -> None:
    """A candidate that answers one call and then hangs votes, but not with those that end well or crash."""
    ends = [seen(returned(1), exit_=end) for end in (Exit.OK, Exit.TIME_LIMIT, Exit.CRASHED, Exit.MEMORY_LIMIT)]
    digests = {behaviour_digest(each) for each in ends}
    assert len(digests) == 4 and None not in digests


@pytest.mark.parametrize(
    "silent",
    [
        seen(load=LoadFailure(kind="syntax_error")),
        seen(load=LoadFailure(kind="raised"), exit_=Exit.CRASHED),
        seen(exit_=Exit.TIME_LIMIT, limit="wall"),
        seen(exit_=Exit.CRASHED),
        seen(returned(1), exit_=Exit.FAULT),
        seen(),
    ],
)
def test_who_showed_nothing_does_not_vote(silent: Observation) -> None:
    """Not loaded, timed out on every call, or not seen by our fault: no vote."""
    assert behaviour_digest(silent) is None


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner), max_leaves=8))
def test_equal_values_are_one_behaviour(value: object) -> None:
    """What encodes alike counts alike, whatever it is."""
    assert behaviour_digest(seen(returned(value))) == behaviour_digest(seen(returned(value)))


def test_an_unconfirmed_time_limit_gives_way_to_the_second_look() -> None:
    """Where the first look may be the host's fault, what counts is the look that was taken alone."""
    limits = Limits(cpu_s=5.0)
    slow = seen(exit_=Exit.TIME_LIMIT, limit="wall", usage=Usage(cpu_s=0.1))
    alone, repeat = seen(returned(1)), seen(returned(2))
    assert counted_look([slow, alone, repeat], limits) is alone
    assert counted_look([alone, repeat], limits) is alone
    assert counted_look([], limits) is None


@pytest.mark.parametrize(
    "other", ["x = 1\r\ny = 2\r\n", "x = 1\ny = 2", "\n\nx = 1   \n\t\n\ny = 2\t\n\n", "x = 1\ry = 2\r"]
)
def test_line_ends_trailing_blanks_and_blank_lines_do_not_count(other: str) -> None:
    """Texts that differ in these alone are one."""
    assert text_digest(other) == text_digest("x = 1\ny = 2\n")


@pytest.mark.parametrize(
    "other", ["x = 1\n y = 2\n", "x = 1\ny = 2 # \n", "x = 1; y = 2", "y = 2\nx = 1", "x  = 1\ny = 2"]
)
def test_anything_else_in_a_text_counts(other: str) -> None:
    """Indentation, comments, order and inner blanks are text: it is not parsed."""
    assert text_digest(other) != text_digest("x = 1\ny = 2\n")


def test_a_text_that_is_no_unicode_has_a_digest() -> None:
    """Lone surrogates, which a JSON escape can bring, are digested like any text."""
    assert text_digest("x = '\ud800'") != text_digest("x = '\udcff'")


def test_a_judged_draw_becomes_a_cell() -> None:
    """A cell has the verdicts, and the behaviour of the look that counts."""
    candidate = Candidate(task_id="t", index=0, code="x = 1")
    cell = judged(candidate, Limits(), visible=PASS, hidden=FAIL, seen=[seen(returned(1)), seen(returned(2))])
    assert (cell.visible, cell.is_correct, cell.is_error) == (PASS, False, False)
    assert cell.behaviour == behaviour_digest(seen(returned(1)))
    assert cell.text == text_digest("x = 1")
    assert judged(candidate, Limits(), visible=FAIL, hidden=FAIL, seen=[]).behaviour is None


def test_an_error_is_said_to_be_one() -> None:
    """Where our world failed on either part, a cell says so."""
    cell = Cell(visible=ERROR, hidden=PASS, behaviour=None, text="t")
    assert cell.is_error
    assert not Cell(visible=None, hidden=None, behaviour=None, text="t").is_error


@pytest.mark.parametrize(("tests", "hidden"), [((TEST,), (TEST,)), ((), (TEST,)), ((TEST,), ())])
def test_a_draw_that_the_pool_lacks_fails_what_there_is(tests: tuple[Test, ...], hidden: tuple[Test, ...]) -> None:
    """A missing draw is `no_program` on the tests that exist, and does not vote."""
    suite = SuiteSpec(
        task_id="t", prompt="", entry_point="f", limits=Limits(), tests=tests, hidden=hidden,
        reference=None, must_fail=(), digest="d", source=None,
    )  # fmt: skip
    cell = absent(suite)
    assert [None if each is None else each.reason for each in (cell.visible, cell.hidden)] == [
        "no_program" if tests else None,
        "no_program" if hidden else None,
    ]
    assert cell.behaviour is None
