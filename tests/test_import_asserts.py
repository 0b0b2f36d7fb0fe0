"""`gate import asserts`: the parser that runs in the sandbox, and the suite that comes of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gate.cli import import_asserts
from gate.errors import SandboxError, SpecError
from gate.suite import load_suite
from gate.values import encode

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "sandbox"))

import asserts  # noqa: E402

HEAD = "import math\nimport pytest\nfrom words import f, Box\nimport words as w\n"


def read(text: str, entry_point: str | None = None) -> tuple[list[Any], list[str]]:
    """The tests of a text and the reasons of its rest."""
    answer = asserts.read_asserts(HEAD + text, entry_point)
    return [each["test"] for each in answer["tests"]], [each["why"] for each in answer["rest"]]


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("assert f(1) == 2", {"args": [1], "expected": 2}),
        ("assert 2 == f(1), 'says why'", {"args": [1], "expected": 2}),
        ("assert f(*[1, 2], k=(3,)) == {'a': None}", {"args": [1, 2], "kwargs": {"k": (3,)}, "expected": {"a": None}}),
        ("assert w.f(-1, 2 ** 70) == [b'x', 1j, ...][:0]", None),
        ("assert w.f(-1, 2 ** 70) == -1j", {"args": [-1, 2**70], "expected": -1j}),
        ("assert f(float('inf')) == set()", {"args": [float("inf")], "expected": set()}),
        ("assert f(1) is True", {"args": [1], "expected": True, "compare": "strict"}),
        ("assert f(1) is None", {"args": [1], "expected": None, "compare": "strict"}),
        ("assert f(1) is not None", {"args": [1], "expected": True, "project": "is_not_none"}),
        ("assert f(1)", {"args": [1], "expected": True, "project": "bool"}),
        ("assert not f(1)", {"args": [1], "expected": False, "project": "bool"}),
        ("assert f(1) in (2, 3)", {"args": [1], "any_of": [2, 3]}),
        ("assert f(1) in {'b', 'a'}", {"args": [1], "any_of": ["a", "b"]}),
        ("assert math.isclose(f(1), 2)", {"args": [1], "expected": 2.0, "tolerance": {"rel": 1e-9, "abs": 0.0}}),
        ("assert math.isclose(2.5, f(1), rel_tol=0, abs_tol=1e-3)",
         {"args": [1], "expected": 2.5, "tolerance": {"rel": 0.0, "abs": 1e-3}}),
        ("assert f(1) == pytest.approx(2)", {"args": [1], "expected": 2.0, "tolerance": {"rel": 1e-6, "abs": 1e-12}}),
        ("assert pytest.approx(2, abs=0.1) == f(1)",
         {"args": [1], "expected": 2.0, "tolerance": {"rel": 0.0, "abs": 0.1}}),
        ("assert f(1) == pytest.approx([1, 2.5], rel=0.1, nan_ok=True)",
         {"args": [1], "expected": [1.0, 2.5], "tolerance": {"rel": 0.1, "abs": 1e-12}, "nan_ok": True,
          "compare": "json"}),
        ("assert abs(f(1) - 2) < 1e-6", {"args": [1], "expected": 2.0, "tolerance": {"rel": 0.0, "abs": 1e-6}}),
        ("assert round(f(1), 2) == 0.5", {"args": [1], "expected": 0.5, "project": {"round": 2}}),
        ("assert set(f(1)) == {2}", {"args": [1], "expected": {2}, "project": "set"}),
        ("assert tuple(f(1)) == tuple([2])", {"args": [1], "expected": (2,), "project": "tuple"}),
        ("assert sorted(f([2, 1])) == [1, 2]", {"args": [[2, 1]], "expected": [1, 2], "compare": "unordered"}),
        ("with pytest.raises(IOError):\n    f(1)", {"args": [1], "raises": "OSError"}),
        ("pytest.raises(ValueError, f, 1, k=2)", {"args": [1], "kwargs": {"k": 2}, "raises": "ValueError"}),
        ("assert Box().get(1) == 2", {"args": [1], "expected": 2}),
        ("x = (1, 2)\nassert f(x) == x", {"args": [(1, 2)], "expected": (1, 2)}),
        ("r = f(1)\nassert r == 2", {"args": [1], "expected": 2}),
    ],
)  # fmt: skip
def test_what_is_data_becomes_a_test(text: str, meant: dict[str, Any] | None) -> None:
    """Each way of asserting on literals has one form in a suite; what has none is in the rest."""
    tests, rest = read(text)
    assert (tests, len(rest)) == (([meant], 0) if meant is not None else ([], 1))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("assert f(1) != 2", "must not come back"),
        ("assert f(1) not in (2,)", "must not come back"),
        ("assert f(1) > 2", "must not come back"),
        ("assert f(1) < 2", "inequality"),
        ("assert f(1) == 2 == 2", "chain"),
        ("assert f(1) == f(2)", "not written out"),
        ("assert f(x) == 2", "x is not written out"),
        ("assert f(1) in 'abc'", "list, tuple or set"),
        ("assert f(1) is 7", "identity"),
        ("assert len(f(1)) == 2", "len"),
        ("assert sorted(f(1)) == [2, 1]", "sorted"),
        ("assert isinstance(f(1), int)", "isinstance"),
        ("assert f(1) == 1 / 0", "has no value"),
        ("assert f(2 ** 10 ** 9) == 1", "too large"),
        ("assert f(1) == {[]}", "has no value"),
        ("assert f(range(3)) == 1", "range is no plain data"),
        ("assert f(1) == pytest.approx(2, abs=-1)", "no finite number"),
        ("assert f(1) or f(2)", "no call"),
        ("with pytest.raises(ValueError, match='x'):\n    f(1)", "more than the exception's class"),
        ("with pytest.raises(w.Error):\n    f(1)", "built-in exception"),
        ("with pytest.raises(ValueError):\n    f(1)\n    f(2)", "one call"),
        ("def helper():\n    assert f(1) == 2", "defines helper"),
        ("@pytest.mark.skip\ndef test_x():\n    assert f(1) == 2", "decorated"),
        ("def test_x(fixture):\n    assert f(fixture) == 2", "a fixture, which may change"),
        ("async def test_x():\n    assert f(1) == 2", "async"),
        ("if f:\n    assert f(1) == 2", "condition"),
        ("b = Box()\nassert b.get(1) == 2", "calls b, which the file binds anew"),
        ("import os\nos.remove('x')", "no assert"),
        ("x = [1]\nassert f(x) == x", "may have changed"),
        ("for i in (1, 2):\n    if i > 1:\n        break\n    assert f(i) == 2", "left early"),
        ("def test_x():\n    return\n    assert f(1) == 2", "after a return and is never reached"),
        ("def test_x():\n    raise ValueError\n    assert f(1) == 2", "after a raise and is never reached"),
        ("def test_x():\n    if w.slow:\n        return\n    assert f(1) == 2", "may end the test"),
        ("def test_x():\n    pytest.skip('no')\n    assert f(1) == 2", "may end the test"),
        ("def test_x(self):\n    assert False\n    assert f(1) == 2", "fixture"),
        ("def test_x():\n    assert 0, 'not yet'\n    assert f(1) == 2", "may end the test"),
        ("def test_x():\n    assert f(1) == 2\n    yield", "generator"),
        ("def test_x():\n    def inner():\n        assert f(1) == 2", "no assert"),
        ("def test_x():\n    f = w.g\n    assert f(1) == 2", "binds anew"),
        ("def test_x():\n    def f(x): return 2\n    assert f(1) == 2", "binds anew"),
        ("def test_x():\n    for f in (1, 2):\n        assert f(1) == 2", "binds anew"),
        ("def test_x():\n    assert f(1) == 2\n    del f", "binds anew"),
        ("def test_x():\n    global f\n    assert f(1) == 2", "binds anew"),
        (
            "def test_x():\n    try:\n        w.g()\n    except ValueError as f:\n        pass\n    assert f(1) == 2",
            "anew",
        ),
        ("def test_x():\n    if (f := w.g):\n        pass\n    assert f(1) == 2", "binds anew"),
        ("def test_x():\n    with open('x') as f:\n        pass\n    assert f(1) == 2", "binds anew"),
        ("def test_x():\n    match w.g():\n        case [*f]:\n            pass\n    assert f(1) == 2", "binds anew"),
        ("def test_x(f):\n    assert f(1) == 2", "fixture"),
        ("def test_x(*f):\n    assert f(1) == 2", "binds anew"),
        ("def test_x(*, f=None):\n    assert f(1) == 2", "binds anew"),
        ("def test_x(f=None, /):\n    assert f(1) == 2", "binds anew"),
        ("f = w.g\nassert f(1) == 2", "binds anew"),
        ("from other import f\nassert f(1) == 2", "binds anew"),
        ("def g():\n    global f\n    f = 1\nassert f(1) == 2", "binds anew"),
        ("try:\n    from fast import f\nexcept ImportError:\n    pass\nassert f(1) == 2", "binds anew"),
        ("w.LIMIT = 3\nassert f(1) == 2", "after a change of w"),
        ("def test_x():\n    w.TABLE[1] = 3\n    assert f(1) == 2", "after a change of w"),
        ("def test_x(monkeypatch):\n    monkeypatch.setattr(w, 'g', 1)\n    assert f(1) == 2", "fixture"),
        ("pytestmark = pytest.mark.skip\ndef test_x():\n    assert f(1) == 2", "under pytestmark"),
        ("def setup_function():\n    w.reset()\ndef test_x():\n    assert f(1) == 2", "after setup_function"),
        (
            "@pytest.fixture(autouse=True)\ndef env():\n    w.reset()\ndef test_x():\n    assert f(1) == 2",
            "fixture env",
        ),
        (
            "class TestX:\n    def setup_method(self):\n        pass\n    def test_x(self):\n        assert f(1) == 2",
            "after setup_method",
        ),
        (
            "class TestX:\n    pytestmark = [pytest.mark.xfail]\n    def test_x(self):\n        assert f(1) == 2",
            "pytestmark",
        ),
        (
            "class TestX:\n    def __init__(self):\n        pass\n    def test_x(self):\n        assert f(1) == 2",
            "constructor",
        ),
        ("class TestX(w.Base):\n    def test_x(self):\n        assert f(1) == 2", "on top of words.Base"),
        ("@pytest.mark.xfail\nclass TestX:\n    def test_x(self):\n        assert f(1) == 2", "decorated"),
        ("@pytest.mark.parametrize('a', [1], indirect=True)\ndef test_x(a):\n    assert f(a) == 2", "not written out"),
        (
            "@pytest.mark.parametrize('a', [pytest.param(1, marks=pytest.mark.skip)])\n"
            "def test_x(a):\n    assert f(a) == 2",
            "marks",
        ),
        ("class ValueError(Exception): pass\nwith pytest.raises(ValueError):\n    f(1)", "built-in exception"),
        ("from words import set\nassert set(f(1)) == {2}", "compares set(…)"),
        ("def sorted(x): return x\nassert sorted(f(1)) == [2]", "f(1)"),
    ],
)
def test_the_rest_says_why(text: str, why: str) -> None:
    """What no suite can say is never guessed: it is in the rest, with the reason."""
    tests, rest = read(text)
    assert tests == [] and any(why in reason for reason in rest), rest


def test_pytest_functions_are_read_set_by_set() -> None:
    """Parametrized functions, loops over literals and test classes give a test for each set of values."""
    text = """
@pytest.mark.parametrize("b", [10])
@pytest.mark.parametrize(("a", "c"), [(1, 2), pytest.param(3, 4, id="x")])
def test_p(a, b, c):
    assert f(a, b) == c
class TestBox:
    def test_m(self):
        for a, c in [(5, 6)]:
            assert f(a) == c
"""
    tests, rest = read(text)
    assert [(test["args"], test["expected"]) for test in tests] == [([1, 10], 2), ([3, 10], 4), ([5], 6)]
    assert rest == []


def test_a_name_that_was_changed_is_no_literal() -> None:
    """After a statement that may change a value, the name stands for nothing any more."""
    tests, rest = read("def test_x():\n    x = [1]\n    x.append(2)\n    assert f(x) == 3\n")
    assert tests == [] and rest == ["is a statement, no assert", "x is not written out"]


def test_a_module_name_that_is_bound_twice_is_no_literal_in_functions() -> None:
    """A function runs after all of the module, so the first of two values may not be what it sees."""
    tests, rest = read("x = 1\ndef test_x():\n    assert f(x) == 2\nx = 5\n")
    assert tests == [] and rest == ["x is not written out"]


def test_a_loop_and_what_follows_it_share_their_names() -> None:
    """What a loop binds stays bound, from one round to the next and after it."""
    text = "def test_x():\n    a = 1\n    for b in (2, 3):\n        assert f(a) == b\n        a = b\n"
    text += "    assert f(a, b) == 9\n"
    tests, rest = read(text)
    assert [(test["args"], test["expected"]) for test in tests] == [([1], 2), ([2], 3), ([3, 3], 9)]
    assert rest == []


def test_a_value_that_a_call_can_change_is_good_for_one_use() -> None:
    """A list that was handed over once may be another by the next use: next assert, round or set of parameters."""
    for text in (
        "x = [1]\nassert f(x) == 1\nassert f(x) == 2",
        "x = [1]\nfor a in (1, 2):\n    assert f(x) == a",
        "def test_x():\n    for a in [[1]]:\n        assert f(a) == 1\n        assert f(a) == 2",
        "@pytest.mark.parametrize('a', [[1]])\n@pytest.mark.parametrize('b', [1, 2])\n"
        "def test_x(a, b):\n    assert f(a) == b",
        "x = [1]\ndef test_x():\n    assert f(x) == 2\nassert f(x) == 1",
    ):
        tests, rest = read(text)
        assert [test["expected"] for test in tests] == [1], text
        assert len(rest) == 1 and "may have changed" in rest[0]
    assert read("x = [1]\ny = x\nassert f(x) == 1\nassert f(y) == 2")[0] == []


def test_the_last_of_two_definitions_is_the_one_that_runs() -> None:
    """A test that is defined again never runs in its first form."""
    tests, rest = read("def test_x():\n    assert f(1) == 2\ndef test_x():\n    assert f(1) == 3\n")
    assert [test["expected"] for test in tests] == [3]
    assert rest == ["defines test_x, which is defined again below"]


def test_functions_of_one_name_from_two_modules_are_not_one() -> None:
    """`words.f` and `other.f` are two functions: no suite is made of both, nor of one by guess."""
    tests, rest = read("import other\nassert f(1) == 1\nassert w.f(2) == 2\nassert other.f(1) == 3\n")
    assert tests == [] and len(rest) == 3
    assert all("one of several: other.f, words.f" in why for why in rest)
    assert len(read("assert f(1) == 1\nassert w.f(2) == 2\n")[0]) == 2


def test_what_stands_before_an_end_is_taken() -> None:
    """Only what follows a return, a skip or a raise is in doubt; other tests are not."""
    text = (
        "def test_x():\n    assert f(1) == 2\n    return\n    assert f(2) == 3\ndef test_y():\n    assert f(3) == 4\n"
    )
    tests, rest = read(text)
    assert [test["expected"] for test in tests] == [2, 4] and len(rest) == 1


def test_a_unittest_class_is_read() -> None:
    """Plain asserts in the methods of a TestCase count; what it prepares leaves them out."""
    text = "import unittest\nclass Words(unittest.TestCase):\n    def test_x(self):\n        assert f(1) == 2\n"
    assert len(read(text)[0]) == 1
    assert read(text + "    def setUp(self):\n        w.reset()\n")[0] == []


def test_a_check_of_two_functions_is_left_out() -> None:
    """`check(f)` and `check(g)` in one file test two functions."""
    tests, rest = read("def check(c):\n    assert c(1) == 2\ncheck(f)\ncheck(g)\n")
    assert tests == [] and "several functions: f, g" in rest[0]


@pytest.mark.parametrize("name", ["sum", "check"])
def test_entry_points_named_like_others(name: str) -> None:
    """A built-in's name is under test only where that is said; `check` is a name like any other."""
    text = f"assert {name}(10, 15) == 6"
    tests, rest = read(text, name)
    assert (len(tests), rest) == (1, [])
    assert len(read("assert sum(10, 15) == 6")[0]) == 0


def test_a_check_of_a_candidate_tests_what_it_is_called_with() -> None:
    """HumanEval's `check(candidate)` is read for the function that the file checks at its end."""
    text = "METADATA = {'author': 'x'}\ndef check(candidate):\n    assert candidate(1) == 2\ncheck(f)\n"
    answer = asserts.read_asserts(text)
    assert [(each["entry"], each["test"]) for each in answer["tests"]] == [("f", {"args": [1], "expected": 2})]
    assert answer["rest"] == []


@pytest.mark.parametrize("text", ["assert (", "\0", "(" * 10_000, "x = 1\n  y"])
def test_no_python_is_one_line_of_the_rest(text: str) -> None:
    """A file that does not parse has no tests and one reason."""
    answer = asserts.read_asserts(text)
    assert answer["tests"] == [] and "is no Python" in answer["rest"][0]["why"]


ODD = ["no", "010", "1e3", "0o17", "2001-01-01", "\u2028\x85\x7f\ufeff\x00", "😀", "a: b #c", "- x", '"', "'", "\\", ""]


def test_the_suite_says_what_the_asserts_said() -> None:
    """Whatever the texts look like, the YAML that is written loads as the same tests."""
    odd = [*ODD, 1e-06, -1e22, 1.5e-7, 1e400, 2**70, True, None]
    tests = [{"args": [encode(value)], "expected": encode({"1e-06": (value,)})} for value in odd]
    suite = load_suite(import_asserts.suite_text("T/1", "f", tests).encode(), "s")
    assert [(test.call.args, test.expect.values) for test in suite.tests] == [
        ((test["args"][0],), (test["expected"],)) for test in tests
    ]


def test_a_contradiction_is_named_by_its_lines() -> None:
    """Asserts that no program can pass together make no suite; the message has the lines of the file."""
    tests = [import_asserts.Found(line=line, entry="f", what={"args": [1], "expected": line}) for line in (3, 8)]
    suite = import_asserts.suite_text("T", "f", [each.what for each in tests])
    with pytest.raises(SpecError, match=r"x\.py: line 8: contradicts line 3: the same call"):
        import_asserts._loaded(suite, tests, Path("x.py"))


@pytest.mark.parametrize("answer", [None, {}, {"tests": [1], "rest": []}, {"tests": [{"line": "x"}], "rest": []}])
def test_an_answer_of_another_form_is_our_fault(answer: Any) -> None:
    """The parser's answer is read as data of one form, and anything else ends the import."""
    with pytest.raises(SandboxError):
        import_asserts.read_answer(answer)


def gate(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gate", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=110)


@pytest.mark.docker
def test_a_file_is_parsed_in_the_sandbox_and_never_run(tmp_path: Path) -> None:
    """`gate import asserts` makes a suite, lists the rest by line, and runs nothing of the file."""
    (tmp_path / "test_f.py").write_text(HEAD + "open('ran', 'w')\nassert f(1) == 2\nassert f(2) != 2\n")
    said = gate("import", "asserts", "test_f.py", cwd=tmp_path)
    assert said.returncode == 1, said.stderr
    suite = load_suite(said.stdout.encode(), "stdout")
    assert (suite.task_id, suite.entry_point, len(suite.tests)) == ("test_f", "f", 1)
    assert suite.tests[0].expect.compare == "python"
    assert said.stderr.splitlines() == [
        "test_f.py:5: left out: is a statement, no assert",
        "test_f.py:7: left out: != says what must not come back, or leaves open what must",
    ]
    assert not (tmp_path / "ran").exists()


@pytest.mark.docker
def test_a_file_that_the_parser_cannot_take_is_refused(tmp_path: Path) -> None:
    """A file made to exhaust the parser ends it in the sandbox, with one sentence here."""
    (tmp_path / "bomb.py").write_text("assert f('x' * 10 ** 10) == 1\nassert f([0] * 10 ** 9) == 1\n")
    said = gate("import", "asserts", "bomb.py", cwd=tmp_path)
    assert (said.returncode, said.stdout) == (2, "") and said.stderr.count("\n") <= 3
