"""The version that runs and reports name."""

from __future__ import annotations

import tomllib
from pathlib import Path

from gate.version import gate_version

ROOT = Path(__file__).resolve().parent.parent


def test_the_version_is_the_projects() -> None:
    """What is installed says the version that pyproject.toml says; `make setup` brings them together."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert gate_version() == project["version"]
