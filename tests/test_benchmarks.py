"""Rows of LiveCodeBench, APPS and CommonOJ as suites, and what is refused of them."""

from __future__ import annotations

import base64
import json
import os
import pickle
import zlib
from typing import Any

import pytest

from gate.benchmarks import NotConvertible, benchmark_suite, pickled_text
from gate.suite import suite_from_tree


def packed(cases: Any, protocol: int = 4) -> str:
    """As LiveCodeBench packs its private cases."""
    return base64.b64encode(zlib.compress(pickle.dumps(json.dumps(cases), protocol))).decode()


STDIN = [{"input": "1\n", "output": "2\n", "testtype": "stdin"}]
CALLS = [{"input": '[1, 2]\n"a"', "output": '{"$x": 1.5}', "testtype": "functional"}]
LCB = {
    "question_id": "1873_A", "question_content": "Q", "starter_code": "", "metadata": "{}",
    "public_test_cases": json.dumps(STDIN), "private_test_cases": json.dumps(STDIN * 2),
}  # fmt: skip
LEETCODE = LCB | {
    "question_id": "2727", "starter_code": "class Solution:\n    def go(self, a, b):\n        ",
    "metadata": '{"func_name": "go"}', "public_test_cases": json.dumps(CALLS), "private_test_cases": packed(CALLS),
}  # fmt: skip


def lcb(**changes: Any) -> Any:
    return benchmark_suite("livecodebench", LCB | changes, visible=None)


def test_livecodebench_programs() -> None:
    """Public cases decide, private ones are hidden; a program has no entry point."""
    tree = lcb()
    assert tree["task"] == "livecodebench/1873_A" and "entry_point" not in tree
    assert tree["tests"] == [{"stdin": "1\n", "stdout": "2\n"}] and len(tree["hidden"]) == 2


def test_livecodebench_functions() -> None:
    """Each line of an input is an argument, and the method is that of the class which the starter code opens."""
    tree = benchmark_suite("livecodebench", LEETCODE, visible=None)
    assert tree["entry_point"] == "Solution.go" and tree["prompt"].startswith("Q\n\nclass Solution")
    assert tree["tests"] == tree["hidden"] == [{"args": [[1, 2], "a"], "expected": {"$dict": [["$x", 1.5]]}}]


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickled_text_is_read_without_unpickling(protocol: int) -> None:
    """The text is the same under every binary protocol, short or long, whatever is in it."""
    for text in ("", "a" * 300, "ü\u2028😀" * 30_000):
        assert pickled_text(pickle.dumps(text, protocol)) == text


class Bomb:
    """Leaves a mark when it is unpickled."""

    def __reduce__(self) -> Any:
        return os.putenv, ("GATE_TEST_BOMB", "1")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"private_test_cases": base64.b64encode(zlib.compress(pickle.dumps(Bomb()))).decode()}, "never unpickled"),
        ({"private_test_cases": base64.b64encode(zlib.compress(pickle.dumps([1]))).decode()}, "never unpickled"),
        ({"private_test_cases": base64.b64encode(zlib.compress(b"\x80\x04X\xff")).decode()}, "damaged pickle"),
        ({"private_test_cases": base64.b64encode(zlib.compress(b"junk")).decode()}, "damaged pickle"),
        ({"private_test_cases": base64.b64encode(zlib.compress(pickle.dumps("[]"))[:-3]).decode()}, "cut off"),
        ({"private_test_cases": base64.b64encode(b"junk").decode()}, "no zlib"),
        ({"private_test_cases": "?!"}, "neither"),
        ({"private_test_cases": "[1"}, "no strict JSON"),
        ({"public_test_cases": "{}"}, "no list"),
        ({"public_test_cases": "[]", "private_test_cases": "[]"}, "no test at all"),
        ({"public_test_cases": json.dumps(CALLS)}, "2 kinds"),
        ({"public_test_cases": json.dumps(CALLS), "private_test_cases": "[]"}, "func_name: is missing"),
        ({"question_id": 5}, "question_id: is no text"),
        ({"public_test_cases": json.dumps([{"input": 1, "output": "", "testtype": "stdin"}])}, "input"),
        ({"public_test_cases": json.dumps([STDIN[0], STDIN[0] | {"output": "3"}])}, "contradicts"),
    ],
)
def test_livecodebench_rows_that_make_no_suite(changes: Any, why: str) -> None:
    """A row is converted whole or refused with the reason, and nothing in it is ever unpickled."""
    with pytest.raises(NotConvertible, match=why):
        lcb(**changes)
    assert "GATE_TEST_BOMB" not in os.environ


def test_unpacking_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small text that unpacks to a large one is refused before it is large."""
    monkeypatch.setattr("gate.benchmarks.MAX_UNPACKED_BYTES", 1000)
    with pytest.raises(NotConvertible, match="unpacked"):
        lcb(private_test_cases=packed([{"input": "x" * 5000, "output": "", "testtype": "stdin"}]))


def apps(cases: Any, *, visible: int | None = None, **changes: Any) -> Any:
    row = {"problem_id": 7, "question": "Q", "input_output": json.dumps(cases), "starter_code": ""}
    return benchmark_suite("apps", row | changes, visible=visible)


def test_apps_programs() -> None:
    """An input or output is a text or a list of lines; the first tests decide where that is asked for."""
    cases = {"inputs": ["1\n", ["2", "3"], "4"], "outputs": ["a", ["b", "c"], "d"]}
    tree = apps(cases, visible=1, solutions='["print(1)"]')
    assert tree["tests"] == [{"stdin": "1\n", "stdout": "a"}]
    assert tree["hidden"] == [{"stdin": "2\n3", "stdout": "b\nc"}, {"stdin": "4", "stdout": "d"}]
    assert tree["reference"] == "print(1)" and tree["task"] == "apps/7"
    assert len(apps(cases)["tests"]) == 3


def test_apps_functions() -> None:
    """An answer is right as it is written or as the one member of its list; number keys are numbers again."""
    cases = {"fn_name": "go", "inputs": [[1, [2]], [{"3": 4}], [5], [6]], "outputs": [[6], [{"7": 8}], 9, [1, 2]]}
    tree = apps(cases, starter_code="class Solution:\n    def go(self): pass")
    assert tree["entry_point"] == "Solution.go"
    assert tree["tests"] == [
        {"args": [1, [2]], "any_of": [[6], 6]},
        {"args": [{"$dict": [[3, 4]]}], "any_of": [[{"$dict": [[7, 8]]}], {"$dict": [[7, 8]]}]},
        {"args": [5], "expected": 9},
        {"args": [6], "expected": [1, 2]},
    ]
    suite_from_tree(tree)
    assert apps(cases)["entry_point"] == "go"


def test_a_value_that_no_suite_can_hold_makes_none() -> None:
    """Deep nesting, which a suite does not take, is refused with the reason and no traceback."""
    deep: Any = 1
    for _ in range(300):
        deep = [deep]
    with pytest.raises(NotConvertible, match="no suite can hold"):
        apps({"fn_name": "go", "inputs": [[1]], "outputs": [[1, deep]]})


@pytest.mark.parametrize(
    ("cases", "why"),
    [
        ({"inputs": ["1"], "outputs": []}, "one length"),
        ({"inputs": "1", "outputs": "2"}, "one length"),
        ({"inputs": [1], "outputs": ["2"]}, "neither"),
        ({"inputs": [[1]], "outputs": ["2"]}, "neither"),
        ({"fn_name": "f", "inputs": ["1"], "outputs": [2]}, "no list of arguments"),
        ({"fn_name": "for", "inputs": [[1]], "outputs": [2]}, "Python's own"),
        ({"inputs": [], "outputs": []}, "empty"),
        ([], "no object"),
    ],
)
def test_apps_rows_that_make_no_suite(cases: Any, why: str) -> None:
    """A row of another form is refused with the reason."""
    with pytest.raises(NotConvertible, match=why):
        apps(cases)


OJ: dict[str, Any] = {
    "id": 3, "content": "Q", "labels": '{"problem_format": "Standard"}',
    "test": [{"input": {"stdin": a}, "output": {"stdout": b}} for a, b in ("12", "34")],
    "canonical_solution": {"cpp": ["#"], "python": ["print(2)"]},
}  # fmt: skip


def test_commonoj_programs() -> None:
    """A list of tests, as objects or as text that holds them."""
    tree = benchmark_suite("commonoj", OJ, visible=1)
    assert (tree["task"], tree["reference"]) == ("commonoj/3", "print(2)")
    assert (tree["tests"], tree["hidden"]) == ([{"stdin": "1", "stdout": "2"}], [{"stdin": "3", "stdout": "4"}])
    assert benchmark_suite("commonoj", OJ | {"test": json.dumps(OJ["test"])}, visible=1) == tree


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"labels": {"problem_format": "Testlib"}}, "need code"),
        ({"test": []}, "no list"),
        ({"test": [{"input": {"stdin": "", "a.txt": ""}, "output": {"stdout": "1"}}]}, "the file 'a.txt'"),
        ({"test": [{"input": {"stdin": ""}, "output": {}}]}, "stdout: is missing"),
        ({"id": None}, "no id"),
        ({"test": "eJx="}, "no strict JSON"),
    ],
)
def test_commonoj_rows_that_make_no_suite(changes: Any, why: str) -> None:
    """What needs a checker, other files or guessing is refused."""
    with pytest.raises(NotConvertible, match=why):
        benchmark_suite("commonoj", OJ | changes, visible=None)


def test_a_row_is_an_object() -> None:
    """Anything but an object is no row."""
    with pytest.raises(NotConvertible, match="no object"):
        benchmark_suite("apps", [1], visible=None)
