"""`gate banks`: what is bundled."""

from __future__ import annotations

from gate.backends.banks import bundled_banks, open_bank
from gate.cli import exits, printing
from gate.model import Json
from gate.report.premise import containment_line
from gate.resources import suites_dir
from gate.summary import Containment, visible_is_contained


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
    """The counts of one bank."""
    tasks = visible = hidden = measured = contained = 0
    for task in open_bank(name, suites_dir()).tasks():
        tasks += 1
        visible += len(task.suite.tests)
        hidden += len(task.suite.hidden)
        measured += bool(task.suite.hidden)
        contained += bool(task.suite.hidden) and visible_is_contained(task.suite)
    containment = Containment(tasks=measured, contained=contained)
    return {
        "name": name,
        "tasks": tasks,
        "visible": visible,
        "hidden": hidden,
        "visible_subset_of_hidden": containment.holds,
        "line": containment_line(name, containment).removeprefix("- "),
    }
