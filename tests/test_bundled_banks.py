"""The bundled banks, held against their own provenance, findings and READMEs. No engine is needed."""

from __future__ import annotations

import gzip
import hashlib
import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

SUITES = Path(__file__).resolve().parent.parent / "suites"
sys.path.insert(0, str(SUITES))

import findings  # noqa: E402

from conversion.recipes import RECIPES  # noqa: E402
from gate.backends.banks import open_bank  # noqa: E402
from gate.cli import banks as cli_banks  # noqa: E402
from gate.model import SuiteSpec  # noqa: E402
from gate.summary import visible_is_contained  # noqa: E402

NAMES = list(RECIPES)
MAX_REPOSITORY_BYTES = 40 << 20


@cache
def suites(name: str) -> tuple[SuiteSpec, ...]:
    return tuple(findings.read_bank(SUITES / name))


@cache
def task(name: str, task_id: str) -> SuiteSpec:
    (found,) = [suite for suite in suites(name) if suite.task_id == task_id]
    return found


@cache
def record(name: str, file: str) -> Any:
    return json.loads((SUITES / name / file).read_text(encoding="ascii"))


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]


def test_seven_banks_are_bundled() -> None:
    """Every folder with a bank has a recipe that made it, and every recipe its folder."""
    assert len(NAMES) == 7
    assert sorted(path.parent.name for path in SUITES.glob("*/bank.jsonl*")) == sorted(NAMES)


def test_banks_are_small() -> None:
    """All of suites/ leaves the repository far below its 40 MB."""
    assert sum(path.stat().st_size for path in SUITES.rglob("*") if path.is_file()) < MAX_REPOSITORY_BYTES / 4


@pytest.mark.parametrize("name", NAMES)
def test_files_match_their_digests(name: str) -> None:
    """The bundled files are the bytes that the provenance speaks of, packed without a clock or a name."""
    for file, output in record(name, "provenance.json")["outputs"].items():
        packed = (SUITES / name / file).read_bytes()
        content = gzip.decompress(packed)
        assert hashlib.sha256(packed).hexdigest() == output["sha256"]
        assert hashlib.sha256(content).hexdigest() == output["content_sha256"]
        assert content.count(b"\n") == output["lines"]
        assert packed[3:8] == b"\0\0\0\0\0"


@pytest.mark.parametrize("name", NAMES)
def test_counts_are_the_banks_own(name: str) -> None:
    """Provenance counts what the loader finds, and says where everything comes from, under which licence."""
    known = record(name, "provenance.json")
    assert known["tasks"] == len(suites(name))
    assert known["visible"] == sum(len(suite.tests) for suite in suites(name))
    assert known["hidden"] == sum(len(suite.hidden) for suite in suites(name))
    assert known["visible_subset_of_hidden"] == record(name, "findings.json")["visible_subset_of_hidden"]["holds"]
    for source in known["sources"]:
        assert source["licence"] and source["repository"] and len(source["commit"]) == 40
    assert all(entry["why"] for entry in known["unconverted"] + known["not_data"])


@pytest.mark.parametrize("name", NAMES)
def test_gate_banks_says_what_it_would_count(name: str) -> None:
    """The counts that `gate banks` takes from the provenance are those that reading the bank gives."""
    bank = open_bank(name, SUITES)
    recorded = cli_banks.recorded_counts(bank.paths[0])
    measured = [suite for suite in suites(name) if suite.hidden]
    assert recorded == {
        "tasks": len(suites(name)),
        "visible": sum(len(suite.tests) for suite in suites(name)),
        "hidden": sum(len(suite.hidden) for suite in suites(name)),
        "tasks_with_hidden": len(measured),
        "tasks_visible_subset_of_hidden": sum(map(visible_is_contained, measured)),
    }


def test_counts_of_other_bytes_are_not_believed(tmp_path: Path) -> None:
    """A bank that its provenance does not speak of is counted by reading it."""
    content = gzip.decompress((SUITES / "quixbugs/bank.jsonl.gz").read_bytes())
    (tmp_path / "bank.jsonl.gz").write_bytes(gzip.compress(content[: content.index(b"\n") + 1]))
    (tmp_path / "provenance.json").write_bytes((SUITES / "quixbugs/provenance.json").read_bytes())
    assert cli_banks.recorded_counts(tmp_path / "bank.jsonl.gz") is None
    assert cli_banks.counted(open_bank(str(tmp_path / "bank.jsonl.gz"), SUITES))["tasks"] == 1


@pytest.mark.parametrize("name", NAMES)
def test_findings_are_what_the_bank_says(name: str) -> None:
    """What findings.json says of the tests derives again from the bank, exactly."""
    known = record(name, "findings.json")
    derived = json.loads(json.dumps(findings.static_findings(suites(name))))
    assert {key: known[key] for key in derived} == derived
    assert known.keys() == {"bank", *derived, "references"} and known["bank"] == name


@pytest.mark.parametrize("name", NAMES)
def test_every_exception_has_its_reason(name: str) -> None:
    """A reference that does not pass is one of the bank's tasks, and somebody wrote down why it does not."""
    references = record(name, "findings.json")["references"]
    tasks = {suite.task_id: suite for suite in suites(name)}
    assert references["run"] + len(references["missing"]) == len(tasks)
    assert references["missing"] == [suite.task_id for suite in suites(name) if suite.reference is None]
    for entry in references["exceptions"]:
        assert tasks[entry["task"]].reference is not None and entry["outcome"] == "fail"
        assert entry["why"] == findings.REASONS[name, entry["task"]]


@pytest.mark.parametrize("name", NAMES)
def test_readme_says_the_counts(name: str) -> None:
    """The bank's README quotes the counts of the provenance, and a licence stands beside it."""
    known = record(name, "provenance.json")
    text = (SUITES / name / "README.md").read_text(encoding="utf-8")
    for count in ("tasks", "visible", "hidden"):
        assert f"{known[count]:,}" in text, count
    assert all(source["repository"] in text for source in known["sources"])
    found = record(name, "findings.json")
    assert f"- {len(found['weak'])} of {found['tasks']} suites are weak: " in text
    assert (SUITES / name / "LICENSE.txt").stat().st_size > 500


@pytest.mark.parametrize("name", NAMES)
def test_samples_fit_the_bank(name: str) -> None:
    """Saved samples are in draw order, each with a published verdict, and speak of tasks of the bank alone."""
    recipe = RECIPES[name]
    if recipe.samples is None:
        assert not (SUITES / name / "samples").exists()
        return
    drawn: dict[str, list[int]] = {}
    for sample in lines(SUITES / name / recipe.samples.written):
        assert isinstance(sample["solution"], str) and isinstance(sample["published_passed"], bool)
        drawn.setdefault(sample["task_id"], []).append(sample["sample_index"])
    assert drawn == {suite.task_id: list(range(recipe.samples.draws)) for suite in suites(name)}


# The traps


def test_a_wrong_docstring_example_is_known() -> None:
    """HumanEval/47's example says 15.0 where the benchmark says 8.0: no right program passes its visible tests."""
    for name in ("humaneval", "humaneval-plus"):
        (found,) = [
            entry for entry in record(name, "findings.json")["contradictions"] if entry["task"] == "HumanEval/47"
        ]
        assert (found["visible_says"], found["hidden_says"]) == ([15.0], [8.0])
        broken = [entry["task"] for entry in record(name, "findings.json")["references"]["exceptions"]]
        assert "HumanEval/47" in broken


def test_names_of_harnesses_and_builtins_are_entry_points_like_others() -> None:
    """A program may be asked to define `check` or `sum`, however a harness or Python uses the name."""
    assert {task("mbpp", "Mbpp/56").entry_point, task("mbpp-plus", "Mbpp/56").entry_point} == {"check"}
    assert {task("mbpp", "Mbpp/126").entry_point, task("mbpp-plus", "Mbpp/126").entry_point} == {"sum"}


def test_a_task_without_visible_tests_stays_where_it_can_be_measured() -> None:
    """Mbpp/596 is in mbpp-plus, to be refused with no draw; in mbpp it has no test at all, and is named."""
    assert task("mbpp-plus", "Mbpp/596").tests == () and len(task("mbpp-plus", "Mbpp/596").hidden) > 50
    assert record("mbpp-plus", "findings.json")["without_visible_tests"] == ["Mbpp/596"]
    assert [entry["task"] for entry in record("mbpp", "provenance.json")["not_data"]] == ["Mbpp/596"]


def test_who_answers_with_truth_values_is_not_refused() -> None:
    """Where the benchmark asks for something or nothing, None and False are no, True is yes."""
    for task_id in ("Mbpp/737", "Mbpp/787", "Mbpp/794"):
        for test in task("mbpp-plus", task_id).hidden:
            expect = test.expect
            assert (expect.project, expect.values) == ("bool", (True,)) or (
                (expect.compare, expect.project, expect.values) == ("strict", None, (None, False))
            )


def test_where_items_were_yielded_a_list_is_asked_for() -> None:
    """A generator is no plain data, so the prompt asks for a list; the change is on record."""
    changed = record("quixbugs", "provenance.json")["changed"]
    assert sorted(changed) == ["QuixBugs/flatten", "QuixBugs/kheapsort"]
    for task_id in changed:
        assert task("quixbugs", task_id).prompt.endswith("as a list, not as a generator.")
