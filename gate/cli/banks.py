"""`gate banks`: what is bundled."""

from __future__ import annotations

import json
from pathlib import Path

from gate.backends.banks import Bank, bundled_banks, open_bank
from gate.cli import exits, printing
from gate.model import Json, digest_bytes
from gate.report.premise import containment_line
from gate.resources import suites_dir
from gate.summary import Containment, visible_is_contained

COUNTS = ("tasks", "visible", "hidden", "tasks_with_hidden", "tasks_visible_subset_of_hidden")


def banks(*, as_json: bool) -> int:
    """List the bundled banks with their counts."""
    rows = [describe(name) for name in bundled_banks(suites_dir())]
    if as_json:
        keys = ("name", "tasks", "visible", "hidden", "visible_subset_of_hidden")
        listed = [{key: row[key] for key in keys} for row in rows]
        printing.print_json({"schema": "gate.banks/1", "banks": listed})
    else:
        for row in rows:
            print(f"{row['name']}: {row['tasks']} tasks, {row['visible']} visible and {row['hidden']} hidden tests")
            print(f"  {row['line']}")
    return exits.DONE


def describe(name: str) -> dict[str, Json]:
    """The counts of one bank: those of its provenance where they are of exactly these bytes, else counted now."""
    bank = open_bank(name, suites_dir())
    counts = recorded_counts(bank.paths[0]) or counted(bank)
    containment = Containment(tasks=counts["tasks_with_hidden"], contained=counts["tasks_visible_subset_of_hidden"])
    return {
        "name": name,
        "tasks": counts["tasks"],
        "visible": counts["visible"],
        "hidden": counts["hidden"],
        "visible_subset_of_hidden": containment.holds,
        "line": containment_line(name, containment).removeprefix("- "),
    }


def recorded_counts(path: Path) -> dict[str, Json] | None:
    """What `provenance.json` beside a bank counts, if it speaks of the bytes that are there."""
    try:
        record = json.loads((path.parent / "provenance.json").read_bytes())
        same = record["outputs"][path.name]["sha256"] == digest_bytes(path.read_bytes())
        return {key: record[key] for key in COUNTS} if same else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def counted(bank: Bank) -> dict[str, Json]:
    """The counts of a bank, by reading all of it."""
    counts = dict.fromkeys(COUNTS, 0)
    for task in bank.tasks():
        counts["tasks"] += 1
        counts["visible"] += len(task.suite.tests)
        counts["hidden"] += len(task.suite.hidden)
        counts["tasks_with_hidden"] += bool(task.suite.hidden)
        counts["tasks_visible_subset_of_hidden"] += bool(task.suite.hidden) and visible_is_contained(task.suite)
    return counts
