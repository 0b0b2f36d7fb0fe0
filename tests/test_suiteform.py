"""The form of a suite: its keys, one by one, and the schema that comes from them."""

from __future__ import annotations

from typing import Any

import pytest

from gate.compare import builtin_exception
from gate.errors import SpecError
from gate.suite import suite_from_tree, suite_json_schema
from gate.suiteform import EXPECTATIONS, TEXT_COMPARATORS, VALUE_COMPARATORS, is_name

CALLS: dict[str, Any] = {"version": 1, "task": "t", "entry_point": "f", "tests": [{"args": [1], "expected": 2}]}
TEST_KEYS = "args, kwargs, expected, any_of, raises, stdin, stdout, compare, tolerance, nan_ok, project"


def refusal(tree: Any) -> str:
    """What is said about a tree that is refused."""
    with pytest.raises(SpecError) as caught:
        suite_from_tree(tree, "s")
    text = str(caught.value)
    assert text.isprintable()
    return text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 2}, "version: must be 1, the only version there is, not 2"),
        ({"version": True}, "version: must be 1, the only version there is, not true"),
        ({"version": 1.0}, "version: must be 1, the only version there is, not 1.0"),
        ({"version": "1"}, "version: must be 1, the only version there is, not '1'"),
        ({"task": 7}, "task: should be text, not 7"),
        ({"task": "a" * 129}, "task: longer than 128 characters: shorten it"),
        ({"task": "a.py/b"}, "task: 'a.py/b' names a folder like a program file: only the last part may end in .py"),
        ({"prompt": None}, "prompt: should be text, not null"),
        ({"prompt": "\udc00"}, "prompt: holds half a surrogate pair, which no file can hold: remove it"),
        ({"entry_point": None}, "entry_point: should be text, not null"),
        ({"compare": "fuzzy"}, f"compare: unknown 'fuzzy' (known: {', '.join(VALUE_COMPARATORS + TEXT_COMPARATORS)})"),
        ({"compare": ["json"]}, f"compare: unknown a list (known: {', '.join(VALUE_COMPARATORS + TEXT_COMPARATORS)})"),
        ({"limits": []}, "limits: should be an object, not a list"),
        ({"limits": {"wall_s": 0}}, "limits.wall_s: should be greater than 0, not 0"),
        ({"limits": {"wall_s": 301}}, "limits.wall_s: should be less than or equal to 300, not 301"),
        ({"limits": {"wall_s": True}}, "limits.wall_s: should be a number, not true"),
        ({"limits": {"wall_s": "10s"}}, "limits.wall_s: should be a number, not '10s'"),
        ({"limits": {"wall_s": 10**400}}, "limits.wall_s: should be a number, not an integer of 1329 bits"),
        ({"limits": {"cpu_s": -1}}, "limits.cpu_s: should be greater than 0, not -1"),
        ({"limits": {"cpu_s": 300.5}}, "limits.cpu_s: should be less than or equal to 300, not 300.5"),
        ({"limits": {"total_cpu_s": 601}}, "limits.total_cpu_s: should be less than or equal to 600, not 601"),
        ({"limits": {"memory_mb": 15}}, "limits.memory_mb: should be greater than or equal to 16, not 15"),
        ({"limits": {"memory_mb": 8193}}, "limits.memory_mb: should be less than or equal to 8192, not 8193"),
        ({"limits": {"memory_mb": 64.0}}, "limits.memory_mb: should be an integer, not 64.0"),
        ({"limits": {"memory_mb": True}}, "limits.memory_mb: should be an integer, not true"),
        ({"limits": {"output_kb": 0}}, "limits.output_kb: should be greater than or equal to 1, not 0"),
        ({"limits": {"output_kb": 65537}}, "limits.output_kb: should be less than or equal to 65536, not 65537"),
        (
            {"limits": {"pids": 3}},
            "limits.pids: unknown key (known: wall_s, cpu_s, memory_mb, output_kb, total_cpu_s)",
        ),
        ({"reference": " \n"}, "reference: is empty: write a program, or remove it"),
        ({"reference": None}, "reference: should be text, not null"),
        ({"must_fail": "def f(): 1"}, "must_fail: should be a list, not 'def f(): 1'"),
        ({"must_fail": ["x", ""]}, "must_fail[1]: is empty: write a program, or remove it"),
        (
            {"seed": 1},
            "seed: unknown key (known: version, task, prompt, entry_point, compare, limits, reference, must_fail, "
            "tests, hidden)",
        ),
    ],
)
def test_a_key_of_the_suite_is_checked(change: dict[str, Any], message: str) -> None:
    """Each key holds what it may hold and nothing else."""
    assert refusal(CALLS | change) == f"s: {message}"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"args": {"0": 1}}, ".args: should be a list, not an object"),
        ({"args": None}, ".args: should be a list, not null"),
        ({"kwargs": [1]}, ".kwargs: should be an object, not a list"),
        ({"kwargs": {"a b": 1}}, ".kwargs: 'a b' is no name of a parameter: write an identifier"),
        ({"kwargs": {"\ufb01": 1}}, ".kwargs: '\\ufb01' is no name of a parameter: write an identifier"),
        ({"nan_ok": 1}, ".nan_ok: should be true or false, not 1"),
        ({"compare": "fuzzy"}, f".compare: unknown 'fuzzy' (known: {', '.join(VALUE_COMPARATORS + TEXT_COMPARATORS)})"),
        ({"tolerance": 0.1}, ".tolerance: should be an object, not 0.1"),
        ({"tolerance": {}}, ".tolerance: is empty: write rel, abs, or both"),
        ({"tolerance": {"rel": -0.1}}, ".tolerance.rel: should be greater than or equal to 0, not -0.1"),
        ({"tolerance": {"abs": True}}, ".tolerance.abs: should be a number, not true"),
        ({"tolerance": {"relative": 1}}, ".tolerance.relative: unknown key (known: rel, abs)"),
        (
            {"project": "sorted"},
            ".project: unknown 'sorted' (known: set, tuple, list, int, bool, is_not_none, {round: n})",
        ),
        ({"project": {"round": 1.5}}, ".project: round takes an integer from -100 to 100, not 1.5"),
        ({"project": {"round": True}}, ".project: round takes an integer from -100 to 100, not true"),
        ({"project": {"round": -(10**9)}}, ".project: round takes an integer from -100 to 100, not -1000000000"),
        (
            {"project": {"round": 1, "x": 1}},
            ".project: unknown an object (known: set, tuple, list, int, bool, is_not_none, {round: n})",
        ),
        ({"skip": True}, f".skip: unknown key (known: {TEST_KEYS})"),
    ],
)
def test_a_key_of_a_test_is_checked(change: dict[str, Any], message: str) -> None:
    """A test has the keys that it may have, each of its type."""
    tests = [*CALLS["tests"], {"args": [3], "expected": 4} | change]
    assert refusal(CALLS | {"tests": tests}) == f"s: tests[1]{message}"


@pytest.mark.parametrize(
    ("expectation", "message"),
    [
        ({"any_of": []}, ".any_of: is empty: write at least one answer"),
        ({"any_of": 3}, ".any_of: should be a list, not 3"),
        ({"raises": "ValuError"}, ".raises: unknown 'ValuError' (known: the built-in exceptions, as ValueError)"),
        ({"raises": "IOError"}, ".raises: unknown 'IOError' (known: the built-in exceptions, as ValueError)"),
        ({"raises": "print"}, ".raises: unknown 'print' (known: the built-in exceptions, as ValueError)"),
        ({"raises": "int"}, ".raises: unknown 'int' (known: the built-in exceptions, as ValueError)"),
        ({"raises": None}, ".raises: should be text, not null"),
    ],
)
def test_an_expectation_is_checked(expectation: dict[str, Any], message: str) -> None:
    """What is expected is a list of answers or the name that an exception bears itself."""
    assert refusal(CALLS | {"tests": [{"args": [1]} | expectation]}) == f"s: tests[0]{message}"


@pytest.mark.parametrize("task", ["t", "words/reverse", "HumanEval/0", "a-b_c.d", "x.py", "a/b/c.py", "9", "a" * 128])
def test_a_task_id_can_name_a_file(task: str) -> None:
    """Letters, digits and ._- in parts joined by slashes are an id."""
    assert suite_from_tree(CALLS | {"task": task}).task_id == task


@pytest.mark.parametrize(
    "task",
    ["", "/a", "a/", "a//b", "../a", "a/../b", "a..b", ".a", "-a", "a b", "a\n", "é", "a\\b", "a:b", "a/.b", "\ud800"],
)
def test_an_id_that_could_leave_its_folder_is_refused(task: str) -> None:
    """Ids become file names, so nothing that a path could be turned by is in them."""
    text = refusal(CALLS | {"task": task})
    assert text.endswith("is no task id: write letters, digits and ._- in parts joined by /, without ..")


@pytest.mark.parametrize("entry_point", ["f", "_f", "Class.method", "f1", "été", "match", "_", "__f"])
def test_an_entry_point_is_a_name(entry_point: str) -> None:
    """A function, or a method of a class."""
    assert suite_from_tree(CALLS | {"entry_point": entry_point}).entry_point == entry_point


@pytest.mark.parametrize(
    "entry_point",
    ["", "f()", "a.b.c", ".f", "f.", "1f", "f\n", "ﬁ", "class", "A.lambda", "__init__", "A.__call__", "None", "\ud800"],
)
def test_an_entry_point_that_is_no_name_is_refused(entry_point: str) -> None:
    """Expressions, keywords and double-underscore names are no entry point."""
    assert refusal(CALLS | {"entry_point": entry_point}).startswith("s: entry_point: ")


def test_a_flood_of_unknown_keys_is_one_error() -> None:
    """A million unknown keys do not make a million errors."""
    text = refusal(CALLS | {"limits": {f"k{number}": 1 for number in range(50_000)}})
    assert text == "s: limits: has 50000 keys (known: wall_s, cpu_s, memory_mb, output_kb, total_cpu_s)"


def test_names_are_judged_as_python_looks_them_up() -> None:
    """A name that Python would normalise to another is no name, and an alias is no exception's."""
    assert is_name("naïve")
    assert not is_name("ﬁ")
    assert builtin_exception("KeyError") is KeyError
    assert builtin_exception("EnvironmentError") is None
    assert builtin_exception("NoSuchError") is None


def test_the_schema_comes_from_the_models() -> None:
    """The schema names every key, closes every object and requires what must be there."""
    schema = suite_json_schema()
    test = schema["$defs"]["TestForm"]
    assert schema["required"] == ["version", "task", "tests"]
    assert schema["properties"]["version"] == {"const": 1}
    assert list(test["properties"]) == TEST_KEYS.split(", ")
    assert test["oneOf"] == [{"required": [key]} for key in EXPECTATIONS]
    assert test["properties"]["compare"]["enum"] == [*VALUE_COMPARATORS, *TEXT_COMPARATORS]
    assert schema["$defs"]["LimitsForm"]["properties"]["wall_s"] == {
        "default": 10.0,
        "exclusiveMinimum": 0,
        "maximum": 300,
        "type": "number",
    }
    assert all(part["additionalProperties"] is False for part in (schema, *schema["$defs"].values()))


def test_a_suite_with_every_key_of_the_schema_loads() -> None:
    """What the schema names is what the loader takes."""
    tree = CALLS | {
        "prompt": "p",
        "compare": "python",
        "limits": {"wall_s": 1, "cpu_s": 0.5, "memory_mb": 16, "output_kb": 1, "total_cpu_s": 2},
        "reference": "def f(x): return x",
        "must_fail": ["def f(x): return 0"],
        "hidden": [],
    }
    assert set(tree) == set(suite_json_schema()["properties"])
    suite = suite_from_tree(tree)
    assert (suite.limits.wall_s, suite.limits.total_cpu_s, suite.limits.output_kb) == (1.0, 2.0, 1)
    assert suite.must_fail == ("def f(x): return 0",)
