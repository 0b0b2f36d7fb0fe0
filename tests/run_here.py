"""The command `gate` in this process, for tests that change something under it or want no process of their own."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gate.cli import app


def gate(*args: str | Path) -> int:
    """Its exit code."""
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as ended:
        patch.setattr(sys, "argv", ["gate", *map(str, args)])
        app.run()
    return int(ended.value.code or 0)
