"""What a bank's `provenance.json` counts as left behind when the bank was made."""

from __future__ import annotations

import json
from pathlib import Path

from gate.backends.banks import Bank
from gate.errors import SpecError
from gate.model import Json

NAME = "provenance.json"
MAX_BYTES = 64 << 20
_COUNTED = {"unconverted_tests": "unconverted", "left_out_tasks": "not_data"}


def bank_counts(bank: Bank) -> dict[str, int]:
    """Tests that have no form as data, and tasks that were left out; 0 where no provenance stands beside the bank.

    Raises:
        SpecError: There is one that says something else.
    """
    found = _read(bank.paths[0].parent / NAME, bank.name)
    counts = {}
    for name, key in _COUNTED.items():
        listed = found.get(key, [])
        if not isinstance(listed, list):
            raise SpecError(f"{bank.name}/{NAME}: {key} is no list")
        counts[name] = len(listed)
    return counts


def _read(path: Path, bank: str) -> dict[str, Json]:
    """A provenance that speaks of this bank; an empty one where there is none."""
    try:
        with path.open("rb") as stream:
            found = json.loads(stream.read(MAX_BYTES))
    except FileNotFoundError:
        return {}
    except OSError as exc:
        raise SpecError(f"{path}: cannot be read ({exc.strerror or exc})") from exc
    except (ValueError, RecursionError) as exc:
        raise SpecError(f"{path}: is no JSON ({exc})") from exc
    return found if isinstance(found, dict) and found.get("bank") == bank else {}
