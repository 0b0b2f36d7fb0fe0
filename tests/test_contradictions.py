"""Contradictory tests: found where no answer fits, and nowhere else."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gate.contradictions import contradictions
from gate.model import Call, Expect, Test, Tolerance

CALL = Call(args=(2, 3))


def clashes(*expects: Expect) -> list[tuple[int, int]]:
    """The contradictions among tests of one call."""
    return list(contradictions([Test(call=CALL, expect=expect) for expect in expects]))


def value(*answers: Any, **how: Any) -> Expect:
    return Expect(kind="value", values=answers, **how)


def raised(name: str) -> Expect:
    return Expect(kind="raises", raises=name)


def printed(text: str, compare: str = "lines") -> Expect:
    return Expect(kind="stdout", stdout=text, compare=compare)


CLOSE = Tolerance(abs=0.1)

AGREEING = [
    (value(5), value(5)),
    (value(5), value(5.0)),
    (value(1, compare="python"), value(True, compare="python")),
    (value([1, 2]), value({"$tuple": [1, 2]})),
    (value([1, 2], compare="unordered"), value([2, 1])),
    (value([1, 2], compare="set"), value({"$set": [2, 1]})),
    (value([1, 1, 2], project="set"), value([1, 2], project="set")),
    (value({"$set": [1, 2]}), value({"$frozenset": [2, 1]})),
    (value({"a": 1, "b": 2.0}), value({"b": 2, "a": 1})),
    (value({"$complex": [1, 0]}), value(1)),
    (value(5), value(5, 6)),
    (value(5, 6), value(7, 6), value(6, 9)),
    (value(3, project="int"), value(3.5)),
    (value(0.5, tolerance=CLOSE), value(0.6)),
    (value(0.5, tolerance=Tolerance(rel=0.9)), value(9.0)),
    (value([0.5], tolerance=CLOSE), value([0.55], tolerance=CLOSE)),
    (value({"$float": "inf"}, tolerance=CLOSE), value(9.0)),
    (value(1e308, tolerance=CLOSE), value(-1e308, tolerance=CLOSE)),
    (value({"$float": "nan"}), value({"$float": "nan"}, nan_ok=True)),
    (raised("ValueError"), raised("ValueError")),
    (raised("Exception"), raised("UnicodeDecodeError"), raised("ValueError")),
    (printed("1  2\n"), printed("1 2")),
    (printed("1\n2", "tokens"), printed("1 2", "exact")),
]
CLASHING = [
    (value(0.5, 2.0, tolerance=CLOSE), value(9.0)),
    (value(1), value(True)),
    (value([0.5], tolerance=CLOSE), value([9])),
    (value({"a": 0.5}, tolerance=CLOSE), value({"a": 0.9}, tolerance=CLOSE)),
    (value(1, compare="strict"), value(1.0, compare="strict")),
    (value([1, 1], compare="unordered"), value([1], compare="unordered")),
    (value(5), value(6)),
    (value(5), value("5")),
    (value(None), value(0)),
    (value([1, 2]), value([2, 1])),
    (value([1, 2], compare="set"), value([1, 3])),
    (value({"$set": [1]}), value({"$set": [2]})),
    (value({"$set": [1]}), value([1])),
    (value({"a": 1}), value({"a": 2})),
    (value({"$bytes": "YQ=="}), value("a")),
    (value(1.5), value({"$complex": [1.5, 1]})),
    (value(5, 6), value(7, 8)),
    (value(5), value(6, compare="strict")),
    (value(3, project="int"), value(4, project="int")),
    (value(0.5, tolerance=CLOSE), value(0.8, tolerance=CLOSE)),
    (value(0.8, tolerance=CLOSE), value(0.5, tolerance=CLOSE)),
    (value(100.0, tolerance=Tolerance(rel=0.01)), value(110.0, tolerance=CLOSE)),
    (value([0.5], tolerance=CLOSE), value([0.5, 0.5])),
    (value(5), raised("ValueError")),
    (raised("KeyError"), raised("ValueError")),
    (printed("1"), printed("2")),
    (printed("1\n", "exact"), printed("1", "exact")),
]


@pytest.mark.parametrize("expects", AGREEING, ids=range(len(AGREEING)))
def test_tests_that_some_answer_satisfies_are_no_contradiction(expects: tuple[Expect, ...]) -> None:
    """An exact repeat, another spelling of one value, or a narrower demand may stand beside the first."""
    assert clashes(*expects) == []
    assert clashes(*reversed(expects)) == []


@pytest.mark.parametrize("expects", CLASHING, ids=range(len(CLASHING)))
def test_tests_that_no_answer_satisfies_are_a_contradiction(expects: tuple[Expect, ...]) -> None:
    """The same call cannot give two answers."""
    assert clashes(*expects) == [(0, 1)]
    assert clashes(*reversed(expects)) == [(0, 1)]


def test_a_contradiction_may_need_three_tests() -> None:
    """Each two of these have an answer in common, all three have none."""
    assert clashes(value(1, 2), value(2, 3), value(1, 3)) == [(0, 2)]


def test_later_tests_are_held_against_each_other_too() -> None:
    """Where the first takes either of two answers, those after it can still go against it, and against each other."""
    either = value([0.5], [5.5], tolerance=CLOSE)
    near, far = value([5.0], tolerance=Tolerance(abs=0.6)), value([9.0], tolerance=CLOSE)
    assert clashes(either, near, far) == [(0, 2)]
    assert clashes(value([0.5], [9.0], tolerance=CLOSE), value([0.5], tolerance=CLOSE), far) == [(0, 2)]


def test_what_is_too_hard_to_tell_is_no_contradiction() -> None:
    """A comparison that would take too long proves nothing, so a suite is not called wrong for it."""
    rows = [[{"$set": [k, k + 1]}, [k, {"$set": [k]}]] for k in range(400)]
    ours, theirs = value(rows, compare="unordered"), value(rows[::-1], compare="unordered")
    assert clashes(ours, theirs) == []


def test_every_test_against_the_first_is_named() -> None:
    """One wrong line among many is found by its own index, beside the right ones."""
    assert clashes(value(5), value(5), value(6), raised("ValueError"), value(5), value(7)) == [(0, 3), (0, 2), (0, 5)]


def test_other_calls_do_not_matter() -> None:
    """Only the same call can contradict itself; keyword arguments are part of it, their order is not."""
    calls = [
        Call(args=(1,)),
        Call(args=(1.0,)),
        Call(args=(True,)),
        Call(args=(1,), kwargs={"a": 1, "b": 2}),
        Call(args=(1,), kwargs={"b": 2, "a": 1}),
        Call(stdin="1"),
    ]
    tests = [Test(call=call, expect=value(index)) for index, call in enumerate(calls)]
    assert list(contradictions(tests)) == [(3, 4)]


@given(st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=3), min_size=1, max_size=5))
def test_single_answers_contradict_unless_they_share_one(answers: list[list[int]]) -> None:
    """There is a contradiction exactly where no number is among the answers of every test."""
    common = set.intersection(*map(set, answers))
    assert bool(clashes(*(value(*numbers) for numbers in answers))) is not bool(common)
