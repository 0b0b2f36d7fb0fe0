"""What is written for programs keeps to the schema that `gate schema` prints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from golden import make
from pools_made import rows_of
from pydantic import TypeAdapter, ValidationError
from reported import run_of

from gate.cli.recorded import read_recorded
from gate.model import Json
from gate.report.content import compose
from gate.report.formats import FORMATS
from gate.report.replay import replay_json, split_json
from gate.report.shapes import SHAPES, ByStrengthJson, PoolJson, json_schema
from gate.summary import Containment
from gate.tables import Tally, split, table


def holds(name: str, value: Json) -> None:
    """A value, as it is written, is of its shape: nothing is missing and nothing is too much."""
    TypeAdapter(SHAPES[name]).validate_json(json.dumps(value, allow_nan=False))


def test_a_run_keeps_to_its_schema() -> None:
    """The golden run's result, as written and as printed with its directory."""
    summary = json.loads((make.RUN / "summary.json").read_bytes())
    holds("run", summary)
    holds("run", {**summary, "run_dir": "runs/x"})
    with pytest.raises(ValidationError):
        holds("run", {**summary, "more": 1})


def test_a_replay_keeps_to_its_schema() -> None:
    """With what joins from pool and bank, with its head and without, with every key that may be missing."""
    tally = Tally(5)
    for row in rows_of({"all right": 3, "single": 2, "refused": 4}):
        tally.add(row)
    found = replay_json(table(tally, bank="x", containment=Containment(tasks=9, contained=9)), isolation="cell")
    counts = dict.fromkeys(get_type_hints(PoolJson), 0)
    joined = {**found, "bank": "x", "infra": 0, "not_run": 0, "pool": counts}
    holds("replay", joined)
    stratum = dict.fromkeys(get_type_hints(ByStrengthJson), 0) | {"name": "sound"}
    holds("replay", {**joined, "head": "ab" * 32, "label": "research", "by_strength": [stratum]})
    with pytest.raises(ValidationError):
        holds("replay", {key: value for key, value in joined.items() if key != "rules"})


def test_a_comparison_keeps_to_its_schema() -> None:
    """One pair with the tasks that tell the two apart."""
    holds("compare", split_json(split("old", "new", [("a", True, False), ("b", True, True)])))


def test_a_report_keeps_to_its_schema(tmp_path: Path) -> None:
    """Of one run and of two, the golden one and one with a model, each task and draw."""
    pool = {"t/1": ["def f(value): return 2\n", "x"], "t/2": ["y"]}
    where = run_of(tmp_path / "run", pool, bank="bank")
    for runs in ([make.RUN], [make.RUN, where.path]):
        whole = compose([read_recorded(run) for run in runs])
        holds("report", json.loads(FORMATS[".json"](whole, ["at"] * len(runs))))


def resolved(schema: Json, whole: dict[str, Any]) -> set[str]:
    """The names that a schema and all that it refers to speak of."""
    if isinstance(schema, list):
        return set().union(*(resolved(each, whole) for each in schema))
    if not isinstance(schema, dict):
        return set()
    if "$ref" in schema:
        return resolved(whole["$defs"][schema["$ref"].rpartition("/")[2]], whole)
    return set(schema.get("properties", ())) | set().union(*(resolved(each, whole) for each in schema.values()))


@pytest.mark.parametrize("name", SHAPES)
def test_each_schema_stands_alone(name: str) -> None:
    """A schema names its draft and itself, forbids what it does not name, and refers to nothing outside."""
    schema = json_schema(name)
    assert schema["$schema"].startswith("https://json-schema.org/")
    assert (schema["title"], schema["additionalProperties"]) == (f"gate.{name}/1", False)
    assert schema["properties"]["schema"]["const"] == f"gate.{name}/1"
    assert resolved({key: value for key, value in schema.items() if key != "$defs"}, schema) >= set(schema["required"])
