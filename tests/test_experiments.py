"""What stands in experiments/ is whole: a prediction for each question, and figures that agree with each other."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from gate.cli.attack_record import verify_record
from gate.cli.own_rule import load_rule
from gate.model import Outcome, Verdict
from gate.outcomes import Cell, Row
from gate.pools import Choice
from gate.stats import mcnemar

FOLDER = Path(__file__).resolve().parent.parent / "experiments"
QUESTIONS = sorted(each for each in FOLDER.iterdir() if each.name[:3].isdigit())
SUMMARIES = [
    path
    for path in sorted(FOLDER.glob("*/summary.json"))
    if json.loads(path.read_text(encoding="utf-8"))["schema"] == "gate.replay/1"
]


@pytest.mark.parametrize("folder", QUESTIONS, ids=lambda folder: folder.name)
def test_each_question_has_its_prediction(folder: Path) -> None:
    """A folder holds a question and what was expected of it, and the README names it."""
    goal = (folder / "GOAL.md").read_text(encoding="utf-8")
    assert "**Question.**" in goal and "**Prediction**" in goal
    assert f"`{folder.name}/`" in (FOLDER / "README.md").read_text(encoding="utf-8")
    figures = (folder / "summary.json").is_file() or any(folder.glob("*/attack.json"))
    assert (folder / "RESULT.md").is_file() is figures


@pytest.mark.parametrize("path", SUMMARIES, ids=lambda path: path.parent.name)
def test_the_figures_agree_with_each_other(path: Path) -> None:
    """Delivered and refused add up, no rule beats the ceiling, and each p follows from its b and c."""
    said = json.loads(path.read_text(encoding="utf-8"))
    for counts in said["rules"].values():
        assert counts["delivered"] + counts["refused"] == said["tasks"]
        assert counts["success"] <= said["rules"]["oracle"]["success"]
    for pair in said["pairs"]:
        again = mcnemar(b=pair["b"], c=pair["c"], n=pair["n"])
        first, second = (said["rules"][pair[name]]["success"] for name in ("first", "second"))
        assert pair["b"] - pair["c"] == first - second
        assert (pair["p_exact"], pair["delta_pp"]) == (again.p_exact, again.delta_pp)


@pytest.mark.parametrize("record", sorted(FOLDER.glob("*/*/attack.json")), ids=lambda path: path.parent.name)
def test_a_recorded_attack_follows_from_its_outcomes(record: Path) -> None:
    """The tables that are kept are what their outcomes add up to, and data let nothing through that it must not."""
    assert verify_record(record.parent) == []
    rows = json.loads(record.read_bytes())["rows"]
    held = [row for row in rows if row["gauge"] == "data" and row["attack"] not in ("generic_gauged", "weak_oracle")]
    assert held and all(row["delivered"] == 0 for row in held)


def test_the_readme_quotes_the_recorded_attack() -> None:
    """Each figure of the README's table is the one that was recorded."""
    record = json.loads((FOLDER / "006-attack-the-gauge" / "humaneval" / "attack.json").read_bytes())
    delivered = {(row["attack"], row["gauge"]): row["delivered"] for row in record["rows"]}
    text = (FOLDER.parent / "README.md").read_text(encoding="utf-8")
    assert f"on {record['tasks']} tasks of HumanEval" in text
    lines = {"exec_smuggling": "exec smuggling", "stateful_gauge": "stateful", "swapped_suite": "swapped"}
    for attack, words in {**lines, "forged_records": "forged records"}.items():
        (line,) = [line for line in text.splitlines() if line.startswith(f"| {words}")]
        figures = [int(cell) for cell in line.split("|")[2:5]]
        assert figures == [delivered[attack, gauge] for gauge in ("code", "code_process", "data")]


def cell(behaviour: str | None, passed: int) -> Cell:
    verdict = Verdict(outcome=Outcome.FAIL, reason="wrong_answer", passed=passed, total=3)
    return Cell(visible=verdict, hidden=None, behaviour=behaviour, text="")


@pytest.mark.parametrize(
    ("cells", "chosen"),
    [
        ([cell("a", 1), cell("b", 3), cell("a", 1)], 1),  # 2 x 1 against 1 x 3
        ([cell("a", 2), cell("b", 3), cell("a", 2)], 0),  # 2 x 2 against 1 x 3
        ([cell(None, 0), cell("b", 1)], 1),
        ([cell(None, 0), cell("b", 0)], None),
        ([], None),
    ],
)
def test_the_example_rule_weighs_agreement_with_tests(
    cells: list[Cell], chosen: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The largest product of group size and tests passed wins; nothing that passes no test is delivered."""
    monkeypatch.setattr(sys, "path", [str(FOLDER), *sys.path])
    rule = load_rule("agreement:agreement")
    assert rule.choose(Row(task_id="t", cells=tuple(cells)), 5) == Choice(index=chosen, calls=len(cells))
