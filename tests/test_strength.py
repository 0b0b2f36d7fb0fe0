"""What programs that know nothing of a task say of its suite; suite_cases has one suite for each of them."""

from __future__ import annotations

from typing import Any

import pytest

from gate.strength import UNTRIED, Strength, Strengths, Weakness, kinds, strength
from gate.suite import suite_from_tree, task_of

PLUS = [{"args": [4, 9], "expected": 13}, {"args": [-7, 2], "expected": -5}]


def found(*tests: dict[str, Any], prompt: str = "", **more: Any) -> Strength:
    """The strength of a suite of these tests."""
    tree = {"version": 1, "task": "a", "entry_point": "f", "prompt": prompt, "tests": list(tests)}
    return strength(suite_from_tree(tree | more))


def test_a_sound_suite_has_no_program_that_passes() -> None:
    """Two tests of a sum are enough to refuse every program that knows nothing."""
    assert found(*PLUS) == Strength(programs=(), overlap=0, tests=2)
    assert not found(*PLUS).weak


def test_a_task_is_as_strong_as_its_suite() -> None:
    """Both can be asked about."""
    suite = suite_from_tree({"version": 1, "task": "a", "entry_point": "f", "tests": PLUS[:1]})
    assert strength(task_of(suite)) == strength(suite)
    assert strength(suite).weak


def test_a_suite_without_visible_tests_is_not_weak() -> None:
    """It passes nobody, so no program gets through."""
    assert found(hidden=PLUS) == Strength(programs=(), overlap=0, tests=0)


def test_hidden_tests_do_not_count() -> None:
    """What decides is as strong as the visible tests alone; hidden ones change nothing."""
    assert found(PLUS[0], hidden=PLUS) == found(PLUS[0])


@pytest.mark.parametrize(("told", "overlap"), [("", 0), ("f(4, 9) == 13", 1), ("f(4, 9) == 13\nf(-7, 2) == -5", 2)])
def test_overlap_is_counted(told: str, overlap: int) -> None:
    """Each test that stands in the prompt counts; only all of them make the suite weak."""
    strong = found(*PLUS, prompt=told)
    assert (strong.overlap, strong.weak) == (overlap, overlap == 2)


def test_an_example_with_another_answer_is_no_overlap() -> None:
    """The prompt must say the answer that the test takes."""
    assert found(*PLUS, prompt="f(4, 9) == 14").overlap == 0


@pytest.mark.parametrize("told", [r'f("\ud83d\ude00") == 1', r'f("\ud83d" "\ude00") == 1', r'f(k="\ude00\ud83d") == 1'])
def test_a_prompt_of_odd_characters_is_read(told: str) -> None:
    """Whatever escapes stand in a prompt, a suite is judged; an example that no suite can hold is none."""
    assert found(*PLUS, prompt=told).overlap == 0
    assert found({"args": ["\U0001f600"], "expected": 1}, prompt=r'f("\ud83d\ude00") == 1').overlap == 1


def test_numbers_in_the_prompt_are_read_by_value() -> None:
    """A prompt writes 4 where the test has 4.0; True is no 1."""
    assert found({"args": [4.0, 9], "expected": 13}, prompt="f(4, 9) == 13").overlap == 1
    assert found({"args": [True], "expected": 13}, prompt="f(1) == 13").overlap == 0


def test_only_the_first_constant_is_named() -> None:
    """Twenty answers that each pass alone are one weakness."""
    constants = list(found({"args": [1], "any_of": list(range(20, 40))}).programs)
    assert constants == ["returns one constant: 20"]


def test_an_exception_of_the_program_is_an_answer() -> None:
    """What raises IndexError on an empty list passes a test that expects it, as a real program would."""
    strong = found({"args": [[7, 1]], "expected": 7}, {"args": [[]], "raises": "IndexError"})
    assert strong.programs == ("returns the first element of its first argument",)


def test_the_same_comparator_decides() -> None:
    """A program's answer is compared as a candidate's is: here list and tuple differ, there they do not."""
    test = {"args": [[2, 1, 3]], "expected": {"$tuple": [2, 1, 3]}}
    other = {"args": [[3]], "expected": {"$tuple": [3]}}
    assert not found(test | {"compare": "strict"}, other | {"compare": "strict"}).weak
    assert found(test, other).programs == ("returns its first argument",)


def test_constants_are_shown_short() -> None:
    """A long value is cut, and what a terminal would obey is escaped."""
    (program,) = found({"args": [1], "expected": "\x1b[2J" + "x" * 999}).programs
    assert program.startswith("returns one constant: '\\x1b[2Jx")
    assert len(program) < 70


def test_too_much_to_try_is_weak(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where not every constant can be tried, the suite is not called sound: doubt is never success."""
    monkeypatch.setattr("gate.strength._allowance", lambda weight: 10)
    assert found(*PLUS).programs == (UNTRIED,)


def test_kinds_leave_the_constant_out() -> None:
    """Suites with different constants share one kind of weakness."""
    assert kinds(Strength(programs=("returns one constant: 5", "returns its first argument"), overlap=0, tests=1)) == {
        "returns one constant",
        "returns its first argument",
    }


def test_strengths_fold_to_a_weakness() -> None:
    """The weak are counted, and the kind of program that passes most of them is named; ties go by the alphabet."""
    total = Strengths()
    assert total.weakness() == Weakness(suites=0, weak=0, commonest=None, passed=0)
    for programs in ((), ("b: 1", "a"), ("b: 2",), ("a", "b: 2"), ("a",)):
        total.add(Strength(programs=programs, overlap=0, tests=2))
    assert total.weakness() == Weakness(suites=5, weak=4, commonest="a", passed=3)


def test_strength_as_programs_read_it() -> None:
    """The keys of `strength` in gate.check/1."""
    assert found(PLUS[0], prompt="f(4, 9) == 13").as_json() == {
        "weak": True,
        "programs": ["returns one constant: 13", "looks up the prompt's examples"],
        "prompt_overlap": 1,
        "tests": 1,
    }
