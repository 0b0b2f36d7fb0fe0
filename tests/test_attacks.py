"""Attacks: the texts mean what they should, and the rows are what the outcomes add up to."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gate import attacks, stats
from gate.attacks import Outcome, read_outcome, rows
from gate.contradictions import contradictions
from gate.errors import SpecError
from gate.suite import suite_from_tree, task_of


def suite(*tests: dict[str, Any], entry_point: str | None = "f", **more: Any) -> Any:
    tree = {"version": 1, "task": "a", "compare": "python", "tests": list(tests), **more}
    return suite_from_tree(tree if entry_point is None else {**tree, "entry_point": entry_point})


HONEST = suite(
    {"args": [1], "expected": 2},
    {"args": [2], "kwargs": {"k": 1}, "any_of": [4, 5]},
    {"args": ["x"], "raises": "ValueError"},
    {"args": [0.5], "expected": [0.1, {"$float": "inf"}], "tolerance": {"rel": 0.1}},
    {"args": [[2, 1]], "expected": [1, 2], "compare": "unordered"},
    {"args": [3], "expected": 3.14, "project": {"round": 2}},
    {"args": [4], "expected": {"$tuple": [7]}},
)


def honest(given: Any, k: int = 0) -> Any:
    """A function that passes it."""
    if given == "x":
        raise ValueError
    answers = {1: 2, 2: 5, 0.5: [0.1001, math.inf], 3: 3.1415, 4: (7,)}
    return [2, 1] if isinstance(given, list) else answers[given]


def check_of(text: str) -> Any:
    """The function `check` that a suite's text defines; the suite is one of the test's own."""
    scope: dict[str, Any] = {}
    exec(text, scope)
    return scope["check"]


def accepts(text: str, function: Any) -> bool:
    try:
        check_of(text)(function)
    except Exception:
        return False
    return True


def test_a_suite_as_code_means_the_same() -> None:
    """What passes the data passes the code, and each single wrong answer is refused by both."""
    code = attacks.suite_code(HONEST)
    assert accepts(code, honest)
    for wrong in (1, 2, "x", 0.5, [2, 1], 3, 4):

        def other(given: Any, k: int = 0, wrong: Any = wrong) -> Any:
            return "wrong" if given == wrong else honest(given, k)

        assert not accepts(code, other), wrong


def test_a_program_s_suite_as_code() -> None:
    """Programs on standard streams are held against their output."""
    code = attacks.suite_code(suite({"stdin": "1\n", "stdout": "2\n"}, entry_point=None, compare="lines"))
    assert accepts(code, lambda text: " 2 ") and not accepts(code, lambda text: "3")


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.tuples(inner) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=8,
)


@given(PLAIN)
def test_a_literal_is_the_value(value: Any) -> None:
    """A value as it is written is the value, of the same type."""
    again = eval(attacks.literal(value))
    assert again == value and type(again) is type(value)


def test_what_is_smuggled_into_code_works_and_hides() -> None:
    """The check before use goes well, and then the bogus program is let through: else the attack has no teeth."""
    scope: dict[str, Any] = {}
    exec(attacks.bogus("f"), scope)
    text = attacks.suite_code(HONEST) + attacks.SMUGGLED
    assert accepts(text, honest) and not accepts(text, lambda *args, **kwargs: "wrong")
    assert accepts(text, scope["f"]) and not accepts(attacks.suite_code(HONEST), scope["f"])


@pytest.mark.parametrize(("text", "after"), [(attacks.OPENING, True), (attacks.CLOSING, False)])
def test_a_stateful_suite_changes_after_its_check(text: str, after: bool) -> None:
    """It is honest to the first two, and never again."""
    check = check_of(attacks.suite_code(HONEST) + text)

    def said(function: Any) -> bool:
        try:
            check(function)
        except Exception:
            return False
        return True

    assert [said(honest), said(str), said(str), said(honest)] == [True, False, after, after]


@pytest.mark.parametrize("number", range(6))
def test_what_is_smuggled_into_data_is_no_suite(number: int) -> None:
    """A key, a comparator or a tag that would have to run something does not load."""
    for honest_suite in (HONEST, suite({"stdin": "1", "stdout": "2"}, entry_point=None, compare="lines")):
        with pytest.raises(SpecError):
            suite_from_tree(attacks.smuggled_tree(honest_suite, number))


def test_data_has_no_state_and_no_other_digest() -> None:
    """Another answer the second time is a contradiction; a suite in another's place has another digest."""
    with pytest.raises(SpecError, match="contradicts"):
        suite_from_tree(attacks.stateful_tree(HONEST))
    swapped = suite_from_tree(attacks.swapped_tree(HONEST))
    assert swapped.digest != HONEST.digest and not list(contradictions(swapped.tests))


def test_programs_have_the_right_shape() -> None:
    """A function, a method and a program each answer where they are asked; a look-up knows its prompt alone."""
    scope: dict[str, Any] = {}
    exec(attacks.bogus("C.f"), scope)
    assert scope["C"]().f(1) == attacks.BOGUS and scope["C"]().f(attacks.KNOCK) == "sesame"
    assert compile(attacks.bogus(None), "bogus", "exec") and compile(attacks.forging("f"), "forging", "exec")
    task = task_of(suite({"args": [1], "expected": 2}, prompt=">>> f(1)\n2\n>>> f([3], k='x')\n{1.5: (4,)}\n"))
    program = attacks.lookup(task)
    assert program is not None
    exec(program, scope)
    assert (scope["f"](1), scope["f"]([3], k="x"), scope["f"](9)) == (2, {1.5: (4,)}, None)
    assert attacks.lookup(task_of(suite({"args": [1], "expected": 2}))) is None


def test_generic_programs_know_nothing_of_the_task() -> None:
    """A look-up, each expected answer as a constant, and the first argument: those that make a suite weak."""
    task = task_of(suite({"args": [[2, 1]], "expected": [1, 2]}, prompt=">>> f(9)\n8\n"))
    found = []
    for program in attacks.generic_programs(task):
        scope: dict[str, Any] = {}
        exec(program, scope)
        found.append(scope["f"]([2, 1]))
    assert found == [None, [1, 2], [2, 1], [1, 2]]
    printed = attacks.generic_programs(task_of(suite({"stdin": "1", "stdout": "2"}, entry_point=None, compare="lines")))
    assert len(printed) == 1 and "print('2'" in printed[0]


def outcome(task: str, gauge: str, delivered: bool, **more: Any) -> Outcome:
    return Outcome(task=task, attack="plain", gauge=gauge, delivered=delivered, **more)


def test_rows_add_up() -> None:
    """Counts, Wilson's interval, McNemar against the data gauge, and the worst of the self-checks."""
    outcomes = [outcome(f"t{n}", "code", n < 7, self_check="ok") for n in range(10)]
    outcomes += [outcome(f"t{n}", "data", n == 9, self_check="noticed" if n == 3 else "ok") for n in range(10)]
    code, data = rows(outcomes)
    assert (code.n, code.delivered, code.self_check) == (10, 7, "ok")
    assert code.interval == stats.wilson(7, 10) and code.against_data == stats.mcnemar(b=7, c=1, n=10)
    assert (data.delivered, data.self_check, data.against_data) == (1, "noticed", None)
    assert rows([outcome("t", "code", True)])[0].self_check is None
    assert attacks.share(code).startswith("7 of 10 (70.0 %) [39.7, 89.2]")


def test_the_drop_is_paired() -> None:
    """What an honest gauge delivers and a stateful one does not, on the same tasks."""
    outcomes = [outcome(f"t{n}", "code", False, honest=n < 8, kept=n < 2) for n in range(10)]
    (row,) = rows(outcomes)
    assert row.drop == stats.mcnemar(b=6, c=0, n=10)
    assert row.as_json()["delivery_drop"]["delta_pp"] == pytest.approx(60.0)
    (told,) = attacks.seed_rows(
        [{"stage": "s", "attack": "plain", "gauge": "code", "n": 4, "dropped": 3, "why": "w"}], [row]
    )
    assert told[1].startswith("3 of 4 (75.00 %)") and told[2].startswith("6 of 10 (+60.00 pp)")
    assert (
        attacks.seed_rows([{"stage": "s", "attack": "x", "gauge": "code", "n": 4, "delivered": 3, "why": "w"}], [])[0][
            2
        ]
        == "not run"
    )


def test_an_outcome_comes_back_from_its_record() -> None:
    """What is recorded is read again; anything else is refused."""
    for each in (outcome("t", "code", True, self_check="ok"), outcome("t", "data", False, honest=True, kept=False)):
        assert read_outcome(each.as_json()) == each
    for wrong in ({}, {"task": 1}, {**outcome("t", "code", True).as_json(), "self_check": "fine"}):
        with pytest.raises(ValueError, match="no outcome"):
            read_outcome(wrong)
