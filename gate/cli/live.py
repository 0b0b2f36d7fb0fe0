"""The live view on a terminal: how far a run is, what it has cost, which tasks are under way.

What is shown is made anew with each record, in the thread that keeps it; the thread of the
library that draws it only ever sees whole texts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as RichProgress
from rich.text import Text

from gate.cli import printing
from gate.cli.standing import Standing
from gate.model import Decision, Json

MAX_TASKS = 6


class LiveView:
    """Progress as a bar with two lines below it."""

    def __init__(self, standing: Standing, console: Console) -> None:
        columns = (BarColumn(), MofNCompleteColumn(), TextColumn("tasks"), TimeElapsedColumn())
        self._standing = standing
        self._bar = RichProgress(*columns, console=console)
        self._task = self._bar.add_task("", total=standing.total)
        self.live = Live(self._shown(), console=console, transient=True, refresh_per_second=4)

    def advance(self, decision: Decision) -> None:
        """See `gate.cli.progress.Progress`."""
        self._standing.advance(decision)
        self._bar.update(self._task, completed=self._standing.counts.total())
        self.live.update(self._shown())

    def note(self, kind: str, body: dict[str, Json]) -> None:
        """See `gate.cli.progress.Progress`."""
        self._standing.note(kind, body)
        self.live.update(self._shown())

    def _shown(self) -> Group:
        counts = ", ".join(f"{self._standing.counts[name]} {name}" for name in ("delivered", "refused", "infra"))
        lines = (f"{counts}; {self._standing.words()}", current_line(self._standing.current))
        return Group(self._bar, *(Text(line, no_wrap=True, overflow="ellipsis") for line in lines if line))


def current_line(current: dict[str, int]) -> str:
    """The tasks under way, with the draw that each is at; the first few, and how many more there are."""
    shown = [f"{printing.escape(task)} (draw {number})" for task, number in list(current.items())[:MAX_TASKS]]
    more = [f"and {len(current) - MAX_TASKS} more"] if len(current) > MAX_TASKS else []
    return "now: " + ", ".join(shown + more) if shown else ""


@contextmanager
def live_view(standing: Standing) -> Iterator[LiveView]:
    """The view on stderr, which goes when the block ends."""
    view = LiveView(standing, Console(stderr=True))
    with view.live:
        yield view
