"""summary.json: every key that is promised, integers for counts, and no path."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gate.report.data import run_json
from gate.summary import Containment, Hidden, Summary

RUN: dict[str, Any] = {
    "bank": {"name": "words", "reference": "/home/me/words.jsonl"},
    "options": {"isolation": "container"},
    "source": {"path": "/home/me/samples.jsonl"},
}


def summary(hidden: Hidden | None = None, containment: Containment | None = None) -> Summary:
    return Summary(
        tasks=3,
        delivered=1,
        refused=1,
        infra=1,
        not_run=0,
        draws=7,
        reasons={"crash": 5},
        refusals={"none_passed": 1},
        infra_reasons={"/home/me/samples.jsonl:3: changed": 1},
        hidden=hidden,
        containment=containment or Containment(tasks=0, contained=0),
    )


def test_the_summary_for_programs_has_these_keys() -> None:
    """Programs rely on each of them, by name and by type."""
    assert run_json(RUN, summary(), head="ab" * 32) == {
        "schema": "gate.run/1",
        "bank": "words",
        "tasks": 3,
        "delivered": 1,
        "refused": 1,
        "infra": 1,
        "not_run": 0,
        "draws": 7,
        "calls_per_task": 2.3333,
        "reasons": {"crash": 5},
        "refusals": {"none_passed": 1},
        "isolation": "container",
        "visible_subset_of_hidden": None,
        "strength": {"suites": 0, "weak": 0, "commonest": None, "passes": 0},
        "hidden": None,
        "head": "ab" * 32,
    }


def test_hidden_counts_are_integers_of_tasks() -> None:
    """Where ground truth was measured, its counts stand beside the decisions."""
    hidden = Hidden(success=1, wrong_delivered=0, unmeasured=0)
    found = run_json(RUN, summary(hidden, Containment(tasks=3, contained=3)), head="")
    assert found["hidden"] == {"success": 1, "wrong_delivered": 0, "unmeasured": 0}


@pytest.mark.parametrize(("contained", "holds"), [(3, True), (2, False)])
def test_containment_is_true_false_or_null(contained: int, holds: bool) -> None:
    """One task outside makes it false; null is for banks that hide nothing."""
    found = run_json(RUN, summary(containment=Containment(tasks=3, contained=contained)), head="")
    assert found["visible_subset_of_hidden"] is holds


def test_no_absolute_path_is_in_the_summary() -> None:
    """It can be moved and compared byte for byte: where it was made is not in it."""
    assert "/home" not in json.dumps(run_json(RUN, summary(), head=""))
