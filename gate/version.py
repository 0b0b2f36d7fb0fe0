"""Which version of the gate this is."""

from __future__ import annotations

from importlib.metadata import version


def gate_version() -> str:
    """The installed distribution's version."""
    return version("acceptance-gate")
