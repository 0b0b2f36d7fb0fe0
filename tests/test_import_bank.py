"""`gate import livecodebench|apps|commonoj`: files in, a bank out, and a line for what is not in it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from gate.backends.banks import open_bank
from gate.cli.import_bank import import_bank
from gate.errors import SpecError


def row(number: int, **changes: Any) -> dict[str, Any]:
    cases = {"inputs": [f"{number}\n", "9\n"], "outputs": [f"{number}", "9"]}
    return {"problem_id": number, "question": "Q", "input_output": json.dumps(cases)} | changes


def test_a_file_becomes_a_bank(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rows that make suites are in the bank, the others are named by line with the reason, and counted."""
    rows = [json.dumps(row(1)), "", "{no json", json.dumps(row(2, input_output="{}")), json.dumps(row(1)), "[]"]
    (tmp_path / "rows.jsonl").write_text("\n".join([*rows, json.dumps(row(3))]))
    out = tmp_path / "bank.jsonl.gz"
    assert import_bank("apps", tmp_path / "rows.jsonl", out=out, visible=1, as_json=True) == 1
    said = capsys.readouterr()
    counts = json.loads(said.out)
    assert (counts["schema"], counts["tasks"], counts["visible"], counts["hidden"]) == ("gate.import/1", 2, 2, 2)
    assert [each["where"] for each in counts["left_out"]] == [f"rows.jsonl:{line}" for line in (3, 4, 5, 6)]
    assert said.err.count("left out: ") == 4 and "apps/1 is at rows.jsonl:1 already" in said.err
    tasks = list(open_bank(str(out), tmp_path).tasks())
    assert [(task.id, len(task.suite.tests), len(task.suite.hidden)) for task in tasks] == [
        ("apps/1", 1, 1),
        ("apps/3", 1, 1),
    ]


def test_the_same_rows_give_the_same_bytes(tmp_path: Path) -> None:
    """A packed bank has no clock and no name in it; a list in a .json file is rows, too."""
    packed = gzip.compress(json.dumps(row(1)).encode() + b"\n")
    (tmp_path / "rows.jsonl.gz").write_bytes(packed)
    (tmp_path / "rows.json").write_text(json.dumps([row(1)]))
    outs = [tmp_path / "a.jsonl.gz", tmp_path / "b.jsonl.gz"]
    for source, out in zip(("rows.jsonl.gz", "rows.json"), outs, strict=True):
        assert import_bank("apps", tmp_path / source, out=out, visible=None, as_json=False) == 0
    assert outs[0].read_bytes() == outs[1].read_bytes()


@pytest.mark.parametrize(
    ("name", "content", "out", "why"),
    [
        ("missing.jsonl", None, "bank.jsonl", "cannot be read"),
        ("missing.json", None, "bank.jsonl", "cannot be read"),
        ("rows.jsonl", "[]", "bank.jsonl", "no row of it"),
        ("rows.jsonl", json.dumps(row(1)), "bank.yaml", ".jsonl or .jsonl.gz"),
        ("rows.jsonl", json.dumps(row(1)), "no/bank.jsonl", "cannot be written"),
    ],
)
def test_bad_files_get_one_sentence(tmp_path: Path, name: str, content: str | None, out: str, why: str) -> None:
    """What cannot be read, converted or written is refused, and no half of a bank is left."""
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(SpecError, match=why):
        import_bank("apps", tmp_path / name, out=tmp_path / out, visible=None, as_json=False)
    assert {path.name for path in tmp_path.iterdir()} <= {name}
