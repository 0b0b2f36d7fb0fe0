"""`gate schema`: the JSON Schema of a format, generated from the code that parses it."""

from __future__ import annotations

import json

from gate.cli import exits
from gate.errors import SpecError
from gate.lock import lock_json_schema
from gate.suite import suite_json_schema

SCHEMAS = {"lock": lock_json_schema, "suite": suite_json_schema}


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
