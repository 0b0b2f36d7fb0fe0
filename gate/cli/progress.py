"""Progress on stderr: a live view on a terminal, plain lines elsewhere, nothing if asked for nothing."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from gate.cli import printing
from gate.cli.standing import Standing
from gate.model import Decision, Json

_PLAIN_LINE_S = 10.0


class Progress(Protocol):
    """Takes decisions as they fall, and records as they are kept."""

    def advance(self, decision: Decision) -> None:
        """Show one decision."""
        ...

    def note(self, kind: str, body: dict[str, Json]) -> None:
        """Take in one record of the ledger."""
        ...


class Lines:
    """Progress as plain lines: one every few seconds, or one for every decision and every fault."""

    def __init__(self, standing: Standing, *, every_decision: bool) -> None:
        self._standing = standing
        self._every_decision = every_decision
        self._said_s = time.monotonic()

    def advance(self, decision: Decision) -> None:
        """See `Progress`."""
        self._standing.advance(decision)
        if self._every_decision:
            printing.say(printing.decision_line(decision))
        if time.monotonic() - self._said_s >= _PLAIN_LINE_S:
            self._said_s = time.monotonic()
            counts = printing.counts_line(self._standing.counts, self._standing.total)
            printing.say(f"{counts}; {self._standing.words()}" if self._standing.draws else counts)

    def note(self, kind: str, body: dict[str, Json]) -> None:
        """See `Progress`."""
        self._standing.note(kind, body)
        if self._every_decision and kind == "fault":
            printing.say(printing.record_line(kind, body))


class Silence:
    """No progress at all."""

    def advance(self, decision: Decision) -> None:
        """See `Progress`."""

    def note(self, kind: str, body: dict[str, Json]) -> None:
        """See `Progress`."""


class Watching:
    """Hands every record to the log, and to the progress once there is one."""

    def __init__(self, log: Callable[[str, dict[str, Json]], None]) -> None:
        self._log = log
        self.show: Callable[[str, dict[str, Json]], None] = lambda kind, body: None

    def note(self, kind: str, body: dict[str, Json]) -> None:
        """Take in one record."""
        self._log(kind, body)
        self.show(kind, body)


@contextmanager
def progress(total: int, *, quiet: bool, verbose: bool, cost: Callable[[], str] = lambda: "") -> Iterator[Progress]:
    """A live view on a terminal, plain lines elsewhere."""
    standing = Standing(total, cost)
    if quiet:
        yield Silence()
    elif verbose or not sys.stderr.isatty():
        yield Lines(standing, every_decision=verbose)
    else:
        from gate.cli.live import live_view

        with live_view(standing) as view:
            yield view
