"""Places in a document, and values, as error messages show them."""

from __future__ import annotations

import json
import re

Path = tuple[str | int, ...]

_PLAIN_STEP = re.compile(r"[$A-Za-z_][A-Za-z0-9_-]{0,59}\Z")


def path_text(path: Path) -> str:
    """A path as people write it: `tests[3].compare`."""
    return "".join(map(_step_text, path)).removeprefix(".")


def _step_text(step: str | int) -> str:
    if isinstance(step, str) and _PLAIN_STEP.match(step):
        return f".{step}"
    return f"[{shown(step)}]"


def shown(value: object) -> str:
    """A JSON value in a few words, on one line and printable anywhere."""
    if isinstance(value, str):
        return ascii(value) if len(value) <= 60 else ascii(value[:60]) + "…"
    if isinstance(value, int) and value.bit_length() > 64:
        return f"an integer of {value.bit_length()} bits"
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    return json.dumps(value)
