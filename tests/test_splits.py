"""Experiment 007: splits of all tests into V and the rest, held against counting by hand and against the record."""

from __future__ import annotations

import importlib.util
import json
import sys
from itertools import combinations
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

FOLDER = Path(__file__).resolve().parent.parent / "experiments/007-v-gt-is-not-lossless"


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("splits", FOLDER / "splits.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["splits"] = module
    spec.loader.exec_module(module)
    return module


splits = load()
vectors = st.lists(st.text("01", min_size=6, max_size=6), max_size=8)


def rows_of(programs: list[str], mutants: list[str] | None = None) -> Any:
    failed = [splits._failed(row) for row in programs]
    killed = tuple(filter(None, map(splits._failed, mutants or [])))
    return splits.Rows("t", 6, failed.count(0), tuple(filter(None, failed)), killed)


@given(vectors, st.sets(st.integers(0, 5), min_size=1, max_size=5))
def test_both_errors_are_what_counting_says(programs: list[str], chosen: set[int]) -> None:
    """Lossy is right by the rest and refused by V; weak is accepted by V and rejected by the rest."""
    of = splits.Errors()
    of.add(rows_of(programs), splits.bits_of(chosen))
    rest = set(range(6)) - chosen
    passes = [[{row[index] for index in part} == {"1"} for part in (chosen, rest)] for row in programs]
    assert (of.accepted, of.right) == (sum(v for v, _ in passes), sum(truth for _, truth in passes))
    assert (of.weak, of.lossy) == (sum(v and not t for v, t in passes), sum(t and not v for v, t in passes))


@given(vectors)
def test_over_all_halves_both_errors_are_equally_frequent(programs: list[str]) -> None:
    """Where V is half of all tests, V and the rest change places in the other half of the splits."""
    of = splits.Errors()
    for chosen in combinations(range(6), 3):
        of.add(rows_of(programs), splits.bits_of(chosen))
    assert of.weak == of.lossy and of.accepted == of.right


def test_a_split_is_the_same_each_time_and_hangs_on_nothing_else() -> None:
    """Another seed, size or task is another split; V has as many tests as it is to have."""
    rows = rows_of(["111111"])
    assert splits.choose(rows, 3, 1) == splits.choose(rows, 3, 1)
    assert len({tuple(splits.choose(rows, 3, seed)) for seed in range(20)}) > 10
    assert all(len(set(splits.choose(rows, size, 0))) == size for size in range(1, 7))


def test_a_mutation_score_has_its_bin() -> None:
    """Only all is all."""
    assert [splits.bin_of(score) for score in (0.0, 0.49, 0.5, 0.75, 0.99, 1.0)] == [
        *["under 50 %"] * 2,
        "50 to 75 %",
        *["75 to 100 %"] * 2,
        "all",
    ]


@pytest.fixture(scope="module")
def tasks() -> list[Any]:
    return list(splits.read_rows(FOLDER / "vectors.jsonl.gz")[0])


SAID = json.loads((FOLDER / "summary.json").read_text(encoding="utf-8"))


def test_the_recorded_counts_are_those_of_the_rows(tasks: list[Any]) -> None:
    """How many tasks, programs and mutants there are derives from the rows."""
    _, counts = splits.read_rows(FOLDER / "vectors.jsonl.gz")
    assert {name: SAID[name] for name in counts} == counts


@pytest.mark.parametrize("size", ["1", "34"])
def test_the_recorded_figures_derive_again(tasks: list[Any], size: str) -> None:
    """All splits with V of one size, from the rows, give the counts and shares that are recorded."""
    assert splits.by_size(tasks, lambda rows: int(size)) == SAID["by_size"][size]


def test_the_recorded_strength_derives_again(tasks: list[Any]) -> None:
    """So do the bins by mutation score, and each split is in one of them."""
    found = splits.by_mutants(tasks, 3)
    assert found == SAID["by_mutants"]["3"]
    assert sum(each["splits"] for each in found["bins"].values()) == splits.SEEDS * sum(bool(t.mutants) for t in tasks)
