"""The command line: verbs, printing, exit codes. It alone knows both the engine and the backends."""

from __future__ import annotations


def main() -> None:
    """The command `gate`."""
    from gate.cli.app import run

    run()
