"""A replay's claims derived again: whatever is changed in its record is found, though the chain is made anew."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from echo_sandbox import EchoSandbox, install, task_line, write_bank, write_pool
from test_cli_replay import POOLS, replayed, verified

from gate.backends.jsonl import FIRST, read_ledger
from gate.cli.report import report_one
from gate.errors import GateError
from gate.model import Json, digest_bytes

Records = list[dict[str, Json]]


@pytest.fixture
def out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A replay at its end."""
    install(EchoSandbox(), monkeypatch.setattr)
    bank = write_bank(tmp_path / "bank.jsonl", [task_line(number) for number in range(5)])
    replayed(bank, write_pool(tmp_path / "pool.jsonl", POOLS), out=tmp_path / "out")
    return tmp_path / "out"


def forge(out: Path, change: Callable[[Records], None]) -> None:
    """Change the records, chain them anew, keep each verdict's references, and make the reports again."""
    found = list(read_ledger(out / "ledger.jsonl"))
    old = [digest_bytes(line) for line in (out / "ledger.jsonl").read_bytes().splitlines()]
    for record, digest in zip(found, old, strict=True):
        record["was"] = digest
    change(found)
    renamed: dict[str, str] = {}
    previous, lines = FIRST, []
    for record in found:
        body = {key: value for key, value in record.items() if key != "was"}
        if "seen" in body:
            body["seen"] = [renamed.get(each, each) for each in body["seen"]]
        line = json.dumps({**body, "prev": previous}, separators=(",", ":")).encode()
        previous = digest_bytes(line)
        renamed[record.get("was", "")] = previous
        lines.append(line + b"\n")
    (out / "ledger.jsonl").write_bytes(b"".join(lines))
    with contextlib.suppress(GateError), contextlib.redirect_stdout(io.StringIO()):
        report_one(out, as_json=False)


def pick(found: Records, kind: str, **of: Json) -> dict[str, Json]:
    """The first record of a kind with these values."""
    return next(each for each in found if each["kind"] == kind and all(each.get(key) == of[key] for key in of))


def test_the_forger_is_no_forgery(out: Path) -> None:
    """Chained anew without a change the replay verifies: what is found below is the change."""
    forge(out, lambda found: None)
    assert verified(out) == (0, [])


def changed(kind: str, of: dict[str, Json], to: dict[str, Any]) -> Callable[[Records], None]:
    return lambda found: pick(found, kind, **of).update(to)


def dropped(kind: str, **of: Json) -> Callable[[Records], None]:
    return lambda found: found.remove(pick(found, kind, **of))


FORGERIES: dict[str, Callable[[Records], None]] = {
    "a failure that passes on V": changed(
        "verdict", {"task": "t/4", "index": 0, "part": "visible"}, {"outcome": "pass", "reason": None}
    ),
    "a failure that passes on GT": changed(
        "verdict", {"task": "t/2", "index": 0, "part": "hidden"}, {"outcome": "pass", "reason": None}
    ),
    "a refusal that delivers": changed("decision", {"task": "t/4"}, {"outcome": "delivered", "index": 0}),
    "a delivery of another draw": changed("decision", {"task": "t/0"}, {"index": 1}),
    "a decision after fewer draws": changed("decision", {"task": "t/1"}, {"draws": 1}),
    "another program": changed("candidate", {"task": "t/4", "index": 0}, {"code": "ok"}),
    "another program with its digest": changed(
        "candidate", {"task": "t/4", "index": 0}, {"code": "ok", "digest": digest_bytes(b"ok")}
    ),
    "another reply": changed(
        "observation",
        {"task": "t/4", "index": 0, "part": "visible"},
        {"replies": [{"kind": "returned", "value": 1}, {"kind": "returned", "value": 2}]},
    ),
    "calls of another suite": changed("observation", {"task": "t/0", "part": "hidden"}, {"calls": "0" * 64}),
    "no repetition of a pass": changed("observation", {"task": "t/0", "part": "visible"}, {"where": {"seed": 1}}),
    "a draw left unjudged on V": dropped("verdict", task="t/4", index=4, part="visible"),
    "a draw left unjudged on GT": dropped("verdict", task="t/4", index=4, part="hidden"),
    "a task left undecided": dropped("decision", task="t/4"),
    "counts of its own": changed("closed", {}, {"delivered": 5, "refused": 0}),
    "an error instead of a failure": changed(
        "verdict", {"task": "t/4", "index": 4, "part": "hidden"}, {"outcome": "error", "reason": "infra"}
    ),
    "a task that is none": lambda found: found.insert(-1, {**pick(found, "candidate"), "task": "t/9"}),
    "GT before the decision": lambda found: found.insert(1, pick(found, "verdict", part="hidden")),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_each_forgery_is_found(out: Path, name: str) -> None:
    """A change that a forger chained anew and reported anew does not derive, and the exit code is 4."""
    forge(out, FORGERIES[name])
    code, mismatches = verified(out)
    assert (code, bool(mismatches)) == (4, True)


@pytest.mark.parametrize("name", ["summary.json", "REPORT.md"])
def test_a_changed_figure_is_found(out: Path, name: str) -> None:
    """A figure in a derived file that the ledger does not give is named with its line; so is a file too many."""
    path = out / name
    path.write_text(path.read_text(encoding="utf-8").replace("2", "3", 1), encoding="utf-8")
    code, mismatches = verified(out)
    assert code == 4 and mismatches[0]["where"].startswith(name)
    path.unlink()
    assert verified(out)[0] == 4


def test_a_file_that_does_not_belong_is_found(out: Path) -> None:
    """A replay holds what derives from it and nothing else."""
    (out / "delivered.jsonl").write_text("", encoding="utf-8")
    assert [each["where"] for each in verified(out)[1]] == ["delivered.jsonl"]


def test_it_verifies_where_it_is_moved(out: Path, tmp_path: Path) -> None:
    """No path of the place it was made in is part of what derives."""
    moved = out.rename(tmp_path / "elsewhere")
    assert verified(moved) == (0, [])
    assert str(tmp_path) not in (moved / "REPORT.md").read_text(encoding="utf-8")
    assert str(tmp_path) not in (moved / "summary.json").read_text(encoding="utf-8")
