"""`gate attack` on real gauges in the sandbox, small: data holds, and code is broken by what should break it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from run_here import gate

from gate.cli import attack as verb
from gate.errors import SpecError

SOME = ("plain", "exec_smuggling", "stateful_gauge", "swapped_suite", "forged_records", "generic_gauged", "weak_oracle")


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The record of an attack on the first eight tasks of HumanEval."""
    folder = tmp_path_factory.mktemp("attack")
    chosen = [part for name in SOME for part in ("--attack", name)]
    assert gate("attack", "--limit", "8", "--out", folder, *chosen) == 0
    return folder


def rows(record: Path) -> dict[tuple[str, str], Any]:
    found = json.loads((record / "attack.json").read_bytes())
    assert found["schema"] == "gate.attack/1"
    return {(row["attack"], row["gauge"]): row for row in found["rows"]}


@pytest.mark.docker
def test_data_holds_and_code_does_not(record: Path) -> None:
    """Against data 0 of N get through; the naive gauge lets through at least 90 % of N, and its self-check says ok."""
    found = rows(record)
    for name in ("plain", "exec_smuggling", "stateful_gauge", "swapped_suite", "forged_records"):
        assert (found[name, "data"]["n"], found[name, "data"]["delivered"]) == (8, 0), name
    for name in ("exec_smuggling", "stateful_gauge", "swapped_suite", "forged_records"):
        assert found[name, "code"]["delivered"] >= 0.9 * 8, name
        assert found[name, "code"]["self_check"] == "ok"
    for name in ("exec_smuggling", "stateful_gauge", "swapped_suite"):
        assert found[name, "code_process"]["delivered"] >= 0.9 * 8, name
        assert found[name, "data"]["self_check"] == "noticed"
    assert all(found["plain", gauge]["delivered"] == 0 for gauge in ("code", "code_process", "data"))
    assert all(found["plain", gauge]["self_check"] == "ok" for gauge in ("code", "code_process", "data"))


@pytest.mark.docker
def test_a_stateful_gauge_drops_deliveries_and_says_ok(record: Path) -> None:
    """The pool's own candidates are delivered no more, while the gauge's self-check says ok; data drops none."""
    found = rows(record)
    for gauge in ("code", "code_process"):
        drop = found["stateful_gauge", gauge]["delivery_drop"]
        assert drop["b"] >= 4 and drop["c"] == 0 and found["stateful_gauge", gauge]["self_check"] == "ok"
    assert found["stateful_gauge", "data"]["delivery_drop"]["b"] == 0


@pytest.mark.docker
def test_what_is_left_is_measured(record: Path) -> None:
    """A look-up of the prompt passes weak suites, which the strength check notices; both residuals have their n."""
    found = rows(record)
    generic = found["generic_gauged", "data"]
    assert generic["delivered"] > 4 and generic["self_check"] == "noticed"
    assert all(found["weak_oracle", gauge]["n"] == 8 for gauge in ("code", "code_process", "data"))


@pytest.mark.docker
def test_each_class_of_hostile_programs_is_held_by_data(tmp_path: Path) -> None:
    """A class of the corpus, whole, against the naive gauge and ours: some get through code, none through data."""
    some = ("--attack", "weak matching", "--gauge", "code", "--gauge", "data")
    assert gate("attack", "--limit", "1", "--out", tmp_path, *some) == 0
    found = rows(tmp_path)
    assert found["weak matching", "data"]["delivered"] == 0
    assert found["weak matching", "code"]["delivered"] > 5
    assert found["weak matching", "code"]["against_data"]["c"] == 0


@pytest.mark.docker
def test_a_record_is_made_without_being_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no folder is named a new one stands in runs/, as for a run."""
    monkeypatch.chdir(tmp_path)
    assert gate("attack", "--limit", "1", "--attack", "plain", "--gauge", "data") == 0
    (made,) = (tmp_path / "runs").iterdir()
    assert made.name.startswith("attack-humaneval-") and gate("verify", made) == 0


@pytest.mark.docker
def test_a_record_is_verified(record: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The rows follow from the outcomes; one that was changed does not, nor does another table."""
    assert gate("verify", record) == 0
    path = record / "attack.json"
    whole, table = path.read_bytes(), (record / "ATTACK.md").read_text()
    told = json.loads(whole)
    told["rows"][0]["delivered"] += 1
    path.write_text(json.dumps(told))
    assert gate("verify", record) == 4
    del told["rows"][0]
    path.write_text(json.dumps(told))
    assert gate("verify", path) == 4
    path.write_bytes(whole)
    (record / "ATTACK.md").write_text(table.replace("0 of 8", "1 of 8", 1))
    assert gate("verify", record) == 4
    (record / "ATTACK.md").write_text(table)
    path.write_text("{}")
    assert gate("verify", record) == 2
    path.write_bytes(whole)


def test_without_a_checkout_there_is_no_attack(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gauges that are code are no part of an installation: one sentence, exit 2."""
    monkeypatch.setattr(verb, "checkout_dir", lambda name: None)
    with pytest.raises(SpecError, match="run it from one"):
        verb.read_arms()
    assert gate("attack") == 2


@pytest.mark.parametrize("arguments", [["--attack", "nothing"], ["--gauge", "dta"], ["--out", "/dev/null/x"]])
def test_unknown_names_are_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A name that is none, or no folder: one sentence with what there is, before anything runs."""
    assert gate("attack", *arguments) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_the_gauges_that_are_code_are_never_imported() -> None:
    """They are texts: no module of ours imports them, and every hostile case stands in one class."""
    arms = verb.read_arms()
    root = Path(verb.__file__).resolve().parent.parent
    assert not [path for path in root.rglob("*.py") if "experiments.attacks" in path.read_text(encoding="utf-8")]
    hostile = {
        path.parent.name
        for path in (root.parent / "tests" / "cases").glob("*/case.yaml")
        if "kind: hostile" in path.read_text(encoding="utf-8")
    }
    assert [case.id for case in arms.cases if case.id not in hostile] == []
    assert hostile == {case.id for case in arms.cases} and len(arms.cases) == len(hostile)
    assert len(arms.classes) == 7
