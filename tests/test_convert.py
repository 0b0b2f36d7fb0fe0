"""`suites/convert.py` on made-up data, and the bundled banks against their own provenance."""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SUITES = Path(__file__).resolve().parent.parent / "suites"
HUMANEVAL = SUITES / "humaneval"


def load_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("suites_convert", SUITES / "convert.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


convert = load_script()


def case(expected: Any, **rest: Any) -> dict[str, Any]:
    return {"args": [1], "kwargs": {}, "expected": expected, **rest}


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (case(2), {"expected": 2}),
        (case(None, compare="is"), {"expected": None, "compare": "strict"}),
        (case(False, compare="truthy"), {"expected": False, "project": "bool"}),
        (case(True, compare="is_not_none"), {"expected": True, "project": "is_not_none"}),
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
    assert convert.convert_test(given) == {"args": [1]} | meant


def test_keyword_arguments_are_kept() -> None:
    """Keyword arguments are part of the call; an empty set of them is not written."""
    given = {"args": [], "kwargs": {"k": {"$tuple": []}}, "expected": 0}
    assert convert.convert_test(given) == {"args": [], "kwargs": {"k": {"$tuple": []}}, "expected": 0}


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
    with pytest.raises(convert.Unconvertible, match=why):
        convert.convert_test(given)


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
    assert convert.main(["humaneval", "--data", str(data), "--out", str(tmp_path / "out")]) == 1
    record = json.loads((tmp_path / "out/provenance.json").read_text())
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
    convert.write_humaneval(data, tmp_path / "out")
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
        convert.write_humaneval(data, tmp_path / name)
        files = sorted(path for path in (tmp_path / name).rglob("*") if path.is_file())
        trees.append({path.relative_to(tmp_path / name): path.read_bytes() for path in files})
    assert trees[0] == trees[1] and len(trees[0]) == 3
    assert trees[0][Path("bank.jsonl.gz")][3:8] == b"\0\0\0\0\0"  # no name flag, time 0


@pytest.fixture(scope="module")
def record() -> Any:
    return json.loads((HUMANEVAL / "provenance.json").read_text())


@pytest.fixture(scope="module")
def bank() -> list[Any]:
    return read(HUMANEVAL / "bank.jsonl.gz")


def test_bundled_files_match_their_digests(record: Any) -> None:
    """The bundled bank and samples are the bytes that the provenance speaks of."""
    for name, output in record["outputs"].items():
        packed = (HUMANEVAL / name).read_bytes()
        content = gzip.decompress(packed)
        assert hashlib.sha256(packed).hexdigest() == output["sha256"]
        assert hashlib.sha256(content).hexdigest() == output["content_sha256"]
        assert content.count(b"\n") == output["lines"]


def test_bundled_bank_matches_its_counts(record: Any, bank: list[Any]) -> None:
    """The bank holds the 157 tasks whose hidden tests are all data, and the counts are its own."""
    assert len(bank) == len({line["task"] for line in bank}) == record["tasks"] == 157
    assert sum(len(line["tests"]) for line in bank) == record["visible"] == 443
    assert sum(len(line["hidden"]) for line in bank) == record["hidden"] == 1103
    assert sum(map(convert.contained, bank)) == record["tasks_visible_subset_of_hidden"] == 91
    assert record["visible_subset_of_hidden"] is False and record["unconverted"] == []
    left_out = {entry["task"] for entry in record["not_data"]}
    assert {line["task"] for line in bank} | left_out == {f"HumanEval/{n}" for n in range(164)}
    assert len(left_out) == 7


def test_bundled_bank_has_tests_everywhere(bank: list[Any]) -> None:
    """Every task has a visible test, a hidden test and a reference that defines its entry point."""
    for line in bank:
        assert line["tests"] and line["hidden"] and f"def {line['entry_point']}(" in line["reference"]
        assert line["reference"].startswith(line["prompt"])


def test_bundled_bank_does_not_contradict_itself(bank: list[Any]) -> None:
    """Among the visible tests of a task, and among its hidden ones, a call has one answer."""
    for line in bank:
        for tests in (line["tests"], line["hidden"]):
            answers = {json.dumps(test["args"]): test["expected"] for test in tests}
            assert all(answers[json.dumps(test["args"])] == test["expected"] for test in tests)


def test_bundled_samples_fit_the_bank(bank: list[Any]) -> None:
    """Each task of the bank has five samples with a published verdict, and no other task has any."""
    drawn: dict[str, list[int]] = {}
    for sample in read(HUMANEVAL / "samples/davinci-002-k5.jsonl.gz"):
        assert isinstance(sample["solution"], str) and isinstance(sample["published_passed"], bool)
        drawn.setdefault(sample["task_id"], []).append(sample["sample_index"])
    assert drawn == {line["task"]: [0, 1, 2, 3, 4] for line in bank}


@pytest.mark.parametrize("word", ["157", "443", "1,103", "91 of 157"])
def test_readme_says_the_counts(word: str) -> None:
    """The bank's README quotes the counts that the provenance records."""
    assert word in (HUMANEVAL / "README.md").read_text(encoding="utf-8")
