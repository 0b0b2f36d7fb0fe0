"""One report in each of the formats that people and their tools read."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from gate.report import plots
from gate.report.about import MARK, Places, about
from gate.report.content import Report
from gate.report.exports import evalplus, samples
from gate.report.html import page
from gate.report.junit import junit
from gate.report.marks import visible
from gate.report.story import Draw, Failure, Part, TaskStory

if TYPE_CHECKING:
    from gate.report.shapes import DrawJson, FailureJson, PartJson, TaskJson

SCHEMA = "gate.report/1"


def markdown(report: Report, places: Places) -> bytes:
    """The text, with a line at its end that only `gate verify` reads."""
    told = json.dumps(about(report, places), sort_keys=True).replace("--", "\\u002d\\u002d")
    return f"{report.text}\n{MARK}{told} -->\n".encode("utf-8", "backslashreplace")


def html(report: Report, places: Places) -> bytes:
    """One file that asks nobody for anything."""
    return page(report, about=about(report, places, drawn=True)).encode()


def as_json(report: Report, places: Places) -> bytes:
    """The content model: `gate.report/1`."""
    whole = {
        "schema": SCHEMA,
        "title": report.title,
        "about": about(report, places),
        "results": list(report.results),
        "headline": [{"label": tile.label, "value": tile.value, "note": tile.note} for tile in report.tiles],
        "text": report.text,
        "tasks": [story_json(story) for story in report.stories],
    }
    return json.dumps(whole, indent=1).encode() + b"\n"


def story_json(story: TaskStory) -> TaskJson:
    """One task with its draws."""
    return {
        "bank": story.bank,
        "task": story.id,
        "state": story.state,
        "reason": story.reason or None,
        "delivered": story.delivered,
        "draws": [_draw_json(draw) for draw in story.draws],
    }


def _draw_json(draw: Draw) -> DrawJson:
    tokens = draw.tokens
    return {
        "index": draw.index,
        "digest": draw.digest,
        "code": draw.code,
        "missing": draw.missing or None,
        "model": draw.model or None,
        "tokens": None if tokens is None else {"prompt_tokens": tokens.prompt, "completion_tokens": tokens.completion},
        "visible": _part_json(draw.visible),
        "hidden": _part_json(draw.hidden),
    }


def _part_json(part: Part | None) -> PartJson | None:
    if part is None:
        return None
    return {
        "outcome": part.outcome,
        "reason": part.reason or None,
        "detail": part.detail,
        "passed": part.passed,
        "total": part.total,
        "wall_s": part.usage.wall_s,
        "cpu_s": part.usage.cpu_s,
        "memory_bytes": part.usage.memory_bytes,
        "failure": None if part.failure is None else _failure_json(part.failure),
    }


def _failure_json(failure: Failure) -> FailureJson:
    return {"test": failure.test, "call": failure.call, "expected": failure.expected, "got": failure.got}


COLUMNS = (
    *("bank", "task", "state", "draw", "delivered", "digest"),
    *(f"{part}_{name}" for part in ("visible", "hidden") for name in ("outcome", "reason", "passed", "total")),
    *("wall_s", "cpu_s", "memory_bytes", "prompt_tokens", "completion_tokens"),
)


def as_csv(report: Report, places: Places) -> bytes:
    """A line for each draw, and one for a task without any."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for story in report.stories:
        writer.writerows(_csv_rows(story))
    return text.getvalue().encode()


def _csv_rows(story: TaskStory) -> Iterator[list[object]]:
    head = [_csv_text(story.bank), _csv_text(story.id), story.state]
    if not story.draws:
        yield [*head, *[""] * (len(COLUMNS) - len(head))]
    for draw in story.draws:
        parts = [value for part in (draw.visible, draw.hidden) for value in _csv_part(part)]
        usage = draw.visible.usage if draw.visible else None
        used = ["", "", ""] if usage is None else [usage.wall_s, usage.cpu_s, usage.memory_bytes]
        tokens = ["", ""] if draw.tokens is None else [draw.tokens.prompt, draw.tokens.completion]
        yield [*head, draw.index, int(draw.index == story.delivered), draw.digest, *parts, *used, *tokens]


def _csv_part(part: Part | None) -> list[object]:
    return [""] * 4 if part is None else [part.outcome, part.reason, part.passed, part.total]


def _csv_text(text: str) -> str:
    """Text that no spreadsheet takes for a formula."""
    shown = visible(text)
    return f"'{shown}" if shown.startswith(("=", "+", "-", "@", "\t")) else shown


# Slides


def _figures(report: Report) -> Sequence[plots.Figure]:
    return plots.figures(report.tables, report.stories)


def as_svg(report: Report, places: Places) -> bytes:
    """All figures under each other."""
    return plots.svg_of(_figures(report)).encode()


def as_png(report: Report, places: Places) -> bytes:
    """All figures under each other."""
    return plots.png_of(_figures(report))


FORMATS: Mapping[str, Callable[[Report, Places], bytes]] = {
    ".md": markdown,
    ".html": html,
    ".json": as_json,
    ".xml": junit,
    ".csv": as_csv,
    ".svg": as_svg,
    ".png": as_png,
    "eval_results.json": evalplus,
    ".jsonl": samples,
}


def format_of(name: str) -> str | None:
    """Which of FORMATS a file's name asks for: the longest ending that fits; None where none does."""
    fitting = [ending for ending in FORMATS if name.lower().endswith(ending)]
    return max(fitting, key=len, default=None)
