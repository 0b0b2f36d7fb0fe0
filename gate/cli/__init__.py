"""The command line: verbs, printing, exit codes. It alone knows both the engine and the backends."""

from __future__ import annotations

import signal
import sys
from types import FrameType
from typing import NoReturn


def main() -> None:
    """The command `gate`; SIGTERM is Ctrl-C from the first moment on, also while modules load."""
    try:
        signal.signal(signal.SIGTERM, _interrupt)
        from gate.cli.app import run

        run()
    except KeyboardInterrupt:
        from gate.cli.exits import STOPPED

        print("gate: stopped", file=sys.stderr)
        raise SystemExit(STOPPED) from None


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt
