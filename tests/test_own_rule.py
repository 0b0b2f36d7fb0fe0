"""A rule of the user's own: found by name, blind for hidden tests, its failure one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from gate.cli.own_rule import load_rule
from gate.errors import SpecError
from gate.model import Outcome, Verdict
from gate.outcomes import Cell, Row
from gate.pools import Choice

PASS = Verdict(outcome=Outcome.PASS)
ROW = Row(task_id="t", cells=(Cell(visible=PASS, hidden=PASS, behaviour="b", text="x"),) * 2)
CODE = """
from gate.pools import Choice

def last(row, draws):
    return Choice(index=min(draws, len(row.cells)) - 1, calls=draws)

def peeking(row, draws):
    return Choice(index=0 if row.cells[0].is_correct else None, calls=draws)

def broken(row, draws):
    return 1 / 0

number = 7
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module in the working directory, each time by another name."""
    name = f"rules_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(CODE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return name


def test_a_rule_is_found_and_bound_by_its_bytes(module: str) -> None:
    """It chooses as written, and the digest is that of its file."""
    rule = load_rule(f"{module}:last")
    assert rule.choose(ROW, 2) == Choice(index=1, calls=2)
    assert rule.as_json()["name"] == f"{module}:last"
    assert len(rule.digest) == 64


def test_a_rule_sees_no_hidden_verdict(module: str) -> None:
    """One that would deliver what is right by the hidden tests finds nothing that is."""
    assert load_rule(f"{module}:peeking").choose(ROW, 2) == Choice(index=None, calls=2)


@pytest.mark.parametrize("name", ["", "last", "no.such.module:rule", "{0}:absent", "{0}:number", ":", "majority"])
def test_what_is_no_rule_is_a_sentence(module: str, name: str) -> None:
    """A name that leads nowhere says what to write."""
    with pytest.raises(SpecError, match=r"write my\.module:rule"):
        load_rule(name.format(module))


def test_a_rule_that_fails_names_the_task(module: str) -> None:
    """Its exception is not ours to show as a traceback."""
    with pytest.raises(SpecError, match=r"failed on task 't' with 2 draws \(ZeroDivisionError"):
        load_rule(f"{module}:broken").choose(ROW, 2)
