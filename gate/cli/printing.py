"""What people and programs read: results on stdout, progress on stderr.

Text that a candidate had a hand in is never written to a terminal as it is.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from gate.model import Decision, Json
from gate.summary import Summary

_PLAIN_LINE_S = 10.0


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


class Progress(Protocol):
    """Takes decisions as they fall."""

    def advance(self, decision: Decision) -> None:
        """Show one decision."""
        ...


class Lines:
    """Progress as plain lines: one every few seconds, or one for every decision."""

    def __init__(self, total: int, *, every_decision: bool) -> None:
        self._total = total
        self._every_decision = every_decision
        self._counts: Counter[str] = Counter()
        self._said_s = time.monotonic()

    def advance(self, decision: Decision) -> None:
        """See `Progress`."""
        self._counts[decision.outcome] += 1
        if self._every_decision:
            say(decision_line(decision))
        if time.monotonic() - self._said_s >= _PLAIN_LINE_S:
            self._said_s = time.monotonic()
            say(counts_line(self._counts, self._total))


class Silence:
    """No progress at all."""

    def advance(self, decision: Decision) -> None:
        """See `Progress`."""


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
    return (
        f"{summary.tasks} tasks = {summary.delivered} delivered + {summary.refused} refused "
        f"+ {summary.infra} infra + {summary.not_run} not run"
    )


def counts_line(counts: Counter[str], total: int) -> str:
    """`40 of 157 tasks: 30 delivered, 10 refused, 0 infra`."""
    names = ("delivered", "refused", "infra")
    return f"{counts.total()} of {total} tasks: " + ", ".join(f"{counts[name]} {name}" for name in names)


@contextmanager
def progress(total: int, *, quiet: bool, verbose: bool) -> Iterator[Progress]:
    """A bar on a terminal, plain lines elsewhere."""
    if quiet:
        yield Silence()
    elif verbose or not sys.stderr.isatty():
        yield Lines(total, every_decision=verbose)
    else:
        with _bar(total) as bar:
            yield bar


@contextmanager
def _bar(total: int) -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as RichProgress

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with RichProgress(*columns, console=Console(stderr=True), transient=True) as rich:
        task = rich.add_task("", total=total)
        counts: Counter[str] = Counter()

        class Bar:
            def advance(self, decision: Decision) -> None:
                counts[decision.outcome] += 1
                names = ("delivered", "refused", "infra")
                words = ", ".join(f"{counts[name]} {name}" for name in names)
                rich.update(task, advance=1, description=words)

        yield Bar()
