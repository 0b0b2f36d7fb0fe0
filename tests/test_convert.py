"""`suites/convert.py` and what it is made of, on made-up data."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import pytest

SUITES = Path(__file__).resolve().parent.parent / "suites"
sys.path.insert(0, str(SUITES))

import convert  # noqa: E402

from conversion import forms  # noqa: E402
from conversion.banks import Row, contained  # noqa: E402
from conversion.banks import convert as convert_rows  # noqa: E402
from conversion.recipes import RECIPES  # noqa: E402
from gate.errors import SpecError  # noqa: E402
from gate.suite import suite_from_tree  # noqa: E402


def case(expected: Any, **rest: Any) -> dict[str, Any]:
    return {"args": [1], "kwargs": {}, "expected": expected, **rest}


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (case(2), {"expected": 2}),
        (case(None, compare="is"), {"expected": None, "compare": "strict"}),
        (case(False, compare="truthy"), {"expected": False, "project": "bool"}),
        (case(True, compare="is_not_none"), {"expected": True, "project": "bool"}),
        (case(False, compare="is_not_none"), {"any_of": [None, False], "compare": "strict"}),
        (case(0.5, compare="approx", abs_tol=1e-6, strict=True),
         {"expected": 0.5, "tolerance": {"rel": 0.0, "abs": 1e-6}}),
        (case(0.5, compare="approx", abs_tol=1e-6, rel_tol=1e-7),
         {"expected": 0.5, "tolerance": {"rel": 1e-7, "abs": 1e-6}}),
        (case(0.5, compare="approx", isclose={"abs_tol": 1e-3}, fn="math.isclose"),
         {"expected": 0.5, "tolerance": {"rel": 1e-9, "abs": 1e-3}}),
        (case([2, 1], compare="project", project="tuple", project_expected=True),
         {"expected": {"$tuple": [2, 1]}, "project": "tuple"}),
        (case({"$tuple": [2, 1, 2]}, compare="project", project="set", project_expected=True),
         {"expected": {"$set": [1, 2]}, "project": "set"}),
        (case(35, compare="project", project="int", project_expected=False), {"expected": 35, "project": "int"}),
        (case(-0.5, compare="project", project="round", project_args=[2], project_expected=False),
         {"expected": -0.5, "project": {"round": 2}}),
        (case(0.123, compare="project", project="round", project_args=[2], project_expected=True),
         {"expected": 0.12, "project": {"round": 2}}),
    ],
)  # fmt: skip
def test_each_comparison_has_one_form(given: dict[str, Any], meant: dict[str, Any]) -> None:
    """Each way in which the data compares becomes one form of a suite, and says no more than that."""
    assert forms.convert_test(given) == {"args": [1]} | meant


def test_keyword_arguments_are_kept() -> None:
    """Keyword arguments are part of the call; an empty set of them is not written."""
    given = {"args": [], "kwargs": {"k": {"$tuple": []}}, "expected": 0}
    assert forms.convert_test(given) == {"args": [], "kwargs": {"k": {"$tuple": []}}, "expected": 0}


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (case(1, compare="fuzzy"), "fuzzy"),
        (case(1, compare="is"), "not None, True or False"),
        (case(1, compare="truthy"), "True or False"),
        (case(1, surprise=3), "surprise"),
        (case(1, compare="approx", isclose={"rel_tol": 1}, fn="numpy.isclose"), "math.isclose"),
        (case(1, compare="approx", abs_tol=1, rel_tol=1, strict=True), "strict"),
        (case(1, compare="project", project="sorted"), "sorted"),
        (case(1, compare="project", project="set", project_args=[1]), "set"),
        (case(1, compare="project", project="round", project_args=[]), "digits"),
        (case({"$object": 1}), "tagged JSON"),
        ({"args": [{"$set": [1, 1]}], "kwargs": {}, "expected": 1}, "tagged JSON"),
    ],
)
def test_what_has_no_form_says_why(given: dict[str, Any], why: str) -> None:
    """A comparison that no suite can name is refused with the reason, never guessed."""
    with pytest.raises(forms.Unconvertible, match=why):
        forms.convert_test(given)


def row(task_id: str, visible: list[Any], hidden: list[Any]) -> dict[str, Any]:
    return {
        "task_id": task_id, "prompt": "P", "entry_point": "f", "visible": visible, "hidden": hidden,
        "visible_source": "docstring-doctest", "hidden_plus": [case(9)],
    }  # fmt: skip


def write(path: Path, rows: list[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(entry) + "\n" for entry in rows))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A small DIR: T/0 within GT, T/1 not and with a bad visible test, T/2 with a bad hidden test, T/3 no data."""
    root = tmp_path / "data"
    write(root / "small/humaneval_157.jsonl", [
        row("T/0", [case(1)], [case(True, compare="truthy"), case(1)]),
        row("T/1", [case(1), case(1, compare="fuzzy")], [case(True, compare="is")]),
        row("T/2", [case(1)], [case(1), case(1, compare="fuzzy")]),
    ])  # fmt: skip
    write(root / "banks/humaneval.jsonl", [{"task_id": f"T/{n}", "reference": f"ref {n}"} for n in range(4)])
    sample = {"task_id": "T/0", "sample_index": 0, "model": "m", "solution": "\ud800", "published_passed": False}
    write(root / "small/samples_davinci002_k5.jsonl", [sample | {"prompt": "not kept"}])
    return root


def read(path: Path) -> list[Any]:
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]


def test_conversion_counts_what_it_leaves_out(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What does not convert is listed with the reason, on stderr too, and the exit code says so."""
    assert convert.main(["humaneval", "--data", str(data), "--out", str(tmp_path)]) == 1
    record = json.loads((tmp_path / "humaneval/provenance.json").read_text())
    assert [(entry["task"], entry["where"]) for entry in record["unconverted"]] == [
        ("T/1", "tests[1]"),
        ("T/2", "hidden[1]"),
    ]
    assert [entry["task"] for entry in record["not_data"]] == ["T/2", "T/3"]
    assert (record["tasks"], record["visible"], record["hidden"]) == (2, 2, 3)
    assert (record["tasks_visible_subset_of_hidden"], record["visible_subset_of_hidden"]) == (1, False)
    assert "T/2 hidden[1]: compares by 'fuzzy'" in capsys.readouterr().err


def test_bank_lines_are_suites(data: Path, tmp_path: Path) -> None:
    """A bank line has a suite's keys and no others; the stronger tests of others stay out."""
    convert.write_bank(RECIPES["humaneval"], data, tmp_path / "out")
    first, second = read(tmp_path / "out/bank.jsonl.gz")
    assert first == {
        "version": 1, "task": "T/0", "prompt": "P", "entry_point": "f", "compare": "python", "reference": "ref 0",
        "tests": [{"args": [1], "expected": 1}],
        "hidden": [{"args": [1], "expected": True, "project": "bool"}, {"args": [1], "expected": 1}],
    }  # fmt: skip
    assert second["hidden"] == [{"args": [1], "expected": True, "compare": "strict"}]
    (sample,) = read(tmp_path / "out/samples/davinci-002-k5.jsonl.gz")
    assert sample == {
        "task_id": "T/0", "sample_index": 0, "model": "m", "solution": "\ud800", "published_passed": False,
    }  # fmt: skip


def test_second_run_writes_the_same_bytes(data: Path, tmp_path: Path) -> None:
    """Two runs, in two places, write the same bytes: no clock and no path is in them."""
    trees = []
    for name in ("one", "two"):
        convert.write_bank(RECIPES["humaneval"], data, tmp_path / name)
        files = sorted(path for path in (tmp_path / name).rglob("*") if path.is_file())
        trees.append({path.relative_to(tmp_path / name): path.read_bytes() for path in files})
    assert trees[0] == trees[1] and len(trees[0]) == 3
    assert trees[0][Path("bank.jsonl.gz")][3:8] == b"\0\0\0\0\0"  # no name flag, time 0


def task(**parts: Any) -> Row:
    given: dict[str, Any] = {
        "task_id": "T/0", "prompt": "P", "entry_point": "f", "visible": [], "hidden": [], "reference": None,
        "visible_from": "somewhere",
    }  # fmt: skip
    return Row(**given | parts)


def test_a_task_without_tests_is_no_task() -> None:
    """Where no test of a task has a form, the task is named and not in the bank."""
    done = convert_rows(iter([task(lost=(("tests[0]", "is a program"),))]), {})
    assert done.lines == [] and [entry["task"] for entry in done.not_data] == ["T/0"]
    assert done.unconverted == [{"task": "T/0", "where": "tests[0]", "why": "is a program"}]


def test_a_task_with_hidden_tests_alone_stays() -> None:
    """Without a visible test a task stands in the bank with none: it will be refused, not forgotten."""
    done = convert_rows(iter([task(hidden=[case(1)])]), {})
    assert [(line["tests"], len(line["hidden"])) for line in done.lines] == [([], 1)]
    assert done.visible_from == {}


def test_visible_tests_that_contradict_each_other_are_left_out() -> None:
    """Of two answers for one call nobody knows which is meant; equal repetitions and other calls stay."""
    other = {"args": [2], "kwargs": {}, "expected": 5}
    done = convert_rows(iter([task(visible=[case(1), other, case(2), other], hidden=[case(1)])]), {})
    assert done.lines[0]["tests"] == [{"args": [2], "expected": 5}] * 2
    assert [entry["where"] for entry in done.unconverted] == ["tests[0]", "tests[2]"]


def test_a_slow_task_gets_its_limits() -> None:
    """Limits beyond the default stand in the suite of the task that they are for, and in no other."""
    rows = [task(task_id=task_id, visible=[case(1)]) for task_id in ("T/0", "T/1")]
    first, second = convert_rows(iter(rows), {}, {"T/1": {"wall_s": 300}}).lines
    assert "limits" not in first and suite_from_tree(second).limits.wall_s == 300


def test_a_task_whose_hidden_tests_contradict_each_other_does_not_load() -> None:
    """The loader refuses what no program can pass, so no such bank can be bundled."""
    done = convert_rows(iter([task(visible=[case(1)], hidden=[case(1), case(2)])]), {})
    with pytest.raises(SpecError, match="contradicts"):
        suite_from_tree(done.lines[0])


def test_programs_are_converted_as_they_are() -> None:
    """A pair of stdin and stdout is a test already; anything more has no form."""
    pair = {"stdin": "1\n", "stdout": "2\n"}
    program = task(entry_point=None, visible=[pair, pair | {"timeout": 3}], hidden=[pair])
    done = convert_rows(iter([program]), {})
    assert done.lines == [{"version": 1, "task": "T/0", "prompt": "P", "tests": [pair], "hidden": [pair]}]
    assert [entry["where"] for entry in done.unconverted] == ["tests[1]"]


def test_contained_means_word_for_word() -> None:
    """V ⊆ GT counts a visible test only where the same call expects the same in the same way."""
    strict = {"args": [1], "expected": True, "compare": "strict"}
    loose = {"args": [1], "expected": True}
    assert contained({"tests": [loose], "hidden": [strict, loose]})
    assert not contained({"tests": [loose], "hidden": [strict]})
