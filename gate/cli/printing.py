"""What people and programs read: results on stdout, progress on stderr.

Text that a candidate had a hand in is never written to a terminal as it is.
"""

from __future__ import annotations

import json
import sys
from collections import Counter

from gate import records
from gate.model import Decision, Json
from gate.summary import Summary


def print_json(value: Json) -> None:
    """One JSON object on stdout."""
    print(json.dumps(value, ensure_ascii=True, allow_nan=False))


def say(text: str) -> None:
    """One line of progress on stderr."""
    print(text, file=sys.stderr, flush=True)


def escape(text: str) -> str:
    """Hostile text made safe for a terminal: control characters and lone surrogates are spelled out."""
    return "".join(char if char.isprintable() or char == "\n" else _spelled(char) for char in text)


def _spelled(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def decision_line(decision: Decision) -> str:
    """One decision in words, with its task."""
    return f"{escape(decision.task_id)}: {decision_words(decision)}"


def decision_words(decision: Decision) -> str:
    """One decision in words, and in one line whatever its reason holds."""
    after = f"after {decision.draws} draw" + ("" if decision.draws == 1 else "s")
    if decision.outcome == "delivered":
        return f"delivered {after}"
    reason = escape(" ".join((decision.reason or "").split()))
    return f"{decision.outcome} {after} ({reason})"


def counts_sentence(summary: Summary) -> str:
    """The counts that add up to all tasks."""
    tasks = f"{summary.tasks} task{'' if summary.tasks == 1 else 's'}"
    return (
        f"{tasks} = {summary.delivered} delivered + {summary.refused} refused "
        f"+ {summary.infra} infra + {summary.not_run} not run"
    )


def counts_line(counts: Counter[str], total: int) -> str:
    """`40 of 157 tasks: 30 delivered, 10 refused, 0 infra`."""
    names = ("delivered", "refused", "infra")
    return f"{counts.total()} of {total} tasks: " + ", ".join(f"{counts[name]} {name}" for name in names)


def record_line(kind: str, body: dict[str, Json]) -> str:
    """One record of the ledger in words; empty for kinds that are not worth a line."""
    if kind == "decision":
        return decision_line(records.read_decision(body))
    draw = f"{escape(str(body.get('task')))}, draw {body.get('index')}"
    if kind == "fault":
        return f"{draw}: no draw used up: {escape(body['what'])}"
    if kind == "candidate":
        missing = body["origin"].get("missing")
        what = f"no program ({escape(str(missing))})" if missing else f"{len(body['code'])} characters"
        return f"{draw}: {what}{', from the cache' if body['origin'].get('cache') == 'hit' else ''}"
    if kind == "verdict":
        return f"{draw}, {body['part']}: {body['outcome']}{' (' + body['reason'] + ')' if body['reason'] else ''}"
    return ""


def duration_words(duration_s: float) -> str:
    """`40 s`, `12 min`, `3.5 h`."""
    if duration_s < 90:
        return f"{duration_s:.0f} s"
    return f"{duration_s / 60:.0f} min" if duration_s < 5400 else f"{duration_s / 3600:.1f} h"
