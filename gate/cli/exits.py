"""The exit codes, and which of them a summary asks for."""

from __future__ import annotations

from gate.summary import Summary

DONE = 0
REFUSED = 1
USAGE = 2
WORLD = 3
INTEGRITY = 4
STOPPED = 130


def exit_code(summary: Summary, infra_budget: float) -> int:
    """0 where all is delivered, 1 where not, 3 where no headline may be printed."""
    if not summary.has_headline(infra_budget):
        return WORLD
    return DONE if summary.delivered == summary.tasks else REFUSED
