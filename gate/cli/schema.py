"""`gate schema`: the JSON Schema of a format, generated from the code that parses or writes it."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial

from gate.cli import exits
from gate.errors import SpecError
from gate.lock import lock_json_schema
from gate.model import Json
from gate.report.shapes import SHAPES, json_schema
from gate.suite import suite_json_schema

SCHEMAS: dict[str, Callable[[], dict[str, Json]]] = {
    "suite": suite_json_schema,
    "lock": lock_json_schema,
    **{name: partial(json_schema, name) for name in SHAPES},
}


def schema(name: str | None) -> int:
    """Print one schema, or the names.

    Raises:
        SpecError: There is no such schema.
    """
    if name is None:
        print("\n".join(SCHEMAS))
    elif name not in SCHEMAS:
        raise SpecError(f"gate schema: unknown {name!r} (known: {', '.join(SCHEMAS)})")
    else:
        print(json.dumps(SCHEMAS[name](), indent=2))
    return exits.DONE
