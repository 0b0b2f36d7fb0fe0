"""A run directory: written once, read strictly, and derived again byte for byte."""

from __future__ import annotations

import errno
import gzip
import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from gate import records
from gate.backends.jsonl import JsonlLedger
from gate.backends.rundir import RunDir, write_atomically
from gate.errors import BackendError, IntegrityError, SpecError
from gate.model import Candidate, Decision, Json, Task
from gate.suite import suite_from_tree, task_of

SURROGATE = "x = '\ud800'\r\n# no line feed at the end"


def task(task_id: str, expected: Json = 1) -> Task:
    test = {"args": ["\u2028\x85"], "expected": expected}
    return task_of(suite_from_tree({"version": 1, "task": task_id, "entry_point": "f", "tests": [test]}))


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    return begun(tmp_path / "runs" / "one")


def begun(path: Path) -> RunDir:
    with RunDir(path).beginning():
        pass
    return RunDir(path)


def test_a_run_begins_in_one_step(tmp_path: Path) -> None:
    """Until all is written there is no run directory; then there is a whole one, with its parents."""
    run = RunDir(tmp_path / "runs" / "one")
    with run.beginning() as new:
        new.write_config({"a": 1})
        assert not run.path.exists()
    assert run.read_config() == {"a": 1}
    assert [path.name for path in run.path.parent.iterdir()] == ["one"]


def test_a_run_that_does_not_begin_leaves_nothing(tmp_path: Path) -> None:
    """What goes wrong at the beginning leaves neither the directory nor a part of it."""
    with pytest.raises(RuntimeError), RunDir(tmp_path / "runs" / "of" / "one").beginning() as new:
        new.write_config({"a": 1})
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_an_empty_directory_is_taken(tmp_path: Path) -> None:
    """A directory that was made beforehand is used."""
    (tmp_path / "one").mkdir()
    assert begun(tmp_path / "one").path.is_dir()


def test_a_directory_with_something_in_it_is_refused(run: RunDir) -> None:
    """Nobody's results are written over: the message says what to do."""
    (run.path / "notes.txt").touch()
    with pytest.raises(SpecError, match=r"one: is not empty: choose another --out"):
        begun(run.path)


def test_a_directory_that_cannot_be_made_is_a_usage_error(tmp_path: Path) -> None:
    """A file in the way is a sentence that names it."""
    (tmp_path / "file").touch()
    for place in ("file", "file/below"):
        with pytest.raises(SpecError, match=r"file.*: (cannot be made|is not empty)"):
            begun(tmp_path / place)


def test_the_tasks_come_back_as_they_were_loaded(run: RunDir) -> None:
    """Task, suite and digest are read back equal, in order, from the run's own copy."""
    tasks = [task("a"), task("words/reverse", {"$tuple": [1, "\u2028"]}), task("c")]
    digest, number = run.write_suites(tasks)
    assert list(run.tasks()) == tasks
    assert [suite.digest for suite in run.suite_specs()] == [each.suite.digest for each in tasks]
    assert number == 3
    assert digest == hashlib.sha256(run.suites.read_bytes()).hexdigest() == run.suites_digest()


def test_the_copy_of_the_tasks_is_the_same_bytes_again(run: RunDir, tmp_path: Path) -> None:
    """No time and no name is in it: the same tasks give the same file."""
    other = begun(tmp_path / "other")
    assert run.write_suites([task("a"), task("b")]) == other.write_suites([task("a"), task("b")])
    assert run.suites.read_bytes() == other.suites.read_bytes()


@pytest.mark.parametrize("damage", ["cut", "flipped", "no gzip", "no suite", "gone"])
def test_a_damaged_copy_is_an_integrity_error(run: RunDir, damage: str) -> None:
    """What was bound by digest and does not load any more is no usage error."""
    run.write_suites([task("a"), task("b")])
    data = run.suites.read_bytes()
    middle = len(data) // 2
    damaged = {
        "cut": data[:-9],
        "flipped": data[:middle] + bytes([data[middle] ^ 0xFF]) + data[middle + 1 :],
        "no gzip": b"tasks",
        "no suite": gzip.compress(b'{"version": 1}\n'),
    }
    if damage == "gone":
        run.suites.unlink()
    else:
        run.suites.write_bytes(damaged[damage])
    with pytest.raises(IntegrityError, match=r"suites\.jsonl\.gz: is damaged after \d tasks"):
        list(run.tasks())


def test_the_configuration_comes_back(run: RunDir) -> None:
    """What is written is read, its bytes are handed back for the digest, and odd path bytes survive."""
    config = {"b": 1, "a": {"path": "/home/\udcff", "name": "é"}}
    data = run.write_config(config)
    assert run.read_config() == config
    assert run.run_json.read_bytes() == data
    assert run.write_config(dict(reversed(config.items()))) == data


def test_a_place_without_a_run_is_a_usage_error(tmp_path: Path) -> None:
    """A directory that holds no run is the wrong argument."""
    with pytest.raises(SpecError, match="holds no run"):
        RunDir(tmp_path).read_config()


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"1", b"\xff", b"[" * 100_000])
def test_a_damaged_configuration_is_an_integrity_error(run: RunDir, data: bytes) -> None:
    """A run.json that is cut, or no object, binds nothing."""
    run.run_json.write_bytes(data)
    with pytest.raises(IntegrityError, match=r"run\.json: is damaged"):
        run.read_config()


def drawn(task_id: str, index: int, code: str) -> Candidate:
    return Candidate(task_id=task_id, index=index, code=code, origin={"line": index})


def delivered(candidate: Candidate) -> Decision:
    return Decision(
        task_id=candidate.task_id, outcome="delivered", delivered=candidate.digest, index=candidate.index, draws=5
    )


def keep(run: RunDir, *parts: Candidate | Decision) -> None:
    with JsonlLedger(run.ledger) as ledger:
        for part in parts:
            if isinstance(part, Candidate):
                ledger.append("candidate", records.candidate_record(part))
            else:
                ledger.append("decision", records.decision_record(part))


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().removesuffix(b"\n").split(b"\n") if line]


def test_what_is_delivered_is_the_bytes_that_ran(run: RunDir) -> None:
    """A delivered program stands byte for byte in a file of its task, and in one file for all."""
    wrong, right, other = drawn("words/a", 0, "wrong"), drawn("words/a", 1, SURROGATE), drawn("b", 0, "refused")
    refused = Decision(task_id="b", outcome="refused", reason="none_passed", draws=1)
    keep(run, wrong, right, delivered(right), other, refused)
    run.write_delivered(run.path)
    files = [path for path in (run.path / "delivered").rglob("*") if path.is_file()]
    assert files == [run.path / "delivered" / "words" / "a.py"]
    assert files[0].read_bytes() == right.code_bytes
    assert rows(run.path / "delivered.jsonl") == [
        {"task_id": "words/a", "solution": SURROGATE, "index": 1, "digest": right.digest, "origin": {"line": 1}}
    ]


def test_all_candidates_stand_in_one_file(run: RunDir) -> None:
    """Every draw, in the ledger's order, in the field's convention for samples."""
    pool = [drawn("a", 0, "x"), drawn("b", 0, "\u2028\x85\x1e"), drawn("a", 1, "")]
    keep(run, *pool)
    run.write_delivered(run.path)
    found = rows(run.path / "candidates.jsonl")
    assert [(row["task_id"], row["index"], row["solution"]) for row in found] == [
        (each.task_id, each.index, each.code) for each in pool
    ]
    assert (run.path / "delivered.jsonl").read_bytes() == b""


def test_equal_programs_are_delivered_once(run: RunDir) -> None:
    """Two draws with the same bytes are one delivery, and two tasks with the same bytes are two."""
    first, again, other = drawn("a", 0, "same"), drawn("a", 1, "same"), drawn("b", 0, "same")
    keep(run, first, again, delivered(first), other, delivered(other))
    run.write_delivered(run.path)
    assert [(row["task_id"], row["index"]) for row in rows(run.path / "delivered.jsonl")] == [("a", 0), ("b", 0)]


def test_what_is_derived_is_the_same_bytes_again(run: RunDir) -> None:
    """Derived files can be removed and made again, or made twice, without a difference."""
    right = drawn("a", 0, "x")
    keep(run, right, delivered(right))
    names = ("candidates.jsonl", "delivered.jsonl", "delivered/a.py")
    run.write_delivered(run.path)
    before = [(run.path / name).read_bytes() for name in names]
    run.write_delivered(run.path)
    assert [(run.path / name).read_bytes() for name in names] == before


def test_nothing_is_derived_from_a_damaged_ledger(run: RunDir) -> None:
    """A chain that does not hold ends the derivation."""
    right = drawn("a", 0, "x")
    keep(run, right, delivered(right))
    run.ledger.write_bytes(run.ledger.read_bytes().replace(b'"draws":5', b'"draws":4'))
    run.ledger.write_bytes(run.ledger.read_bytes() + b"{}\n")
    with pytest.raises(IntegrityError):
        run.write_delivered(run.path)
    assert not (run.path / "delivered").exists()


def refuse(*_: Any) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_is_our_world(run: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be written is a failure of our world, with the reason in its sentence."""
    right = drawn("a", 0, "x")
    keep(run, right, delivered(right))
    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(BackendError, match=r"suites\.jsonl\.gz: cannot be written \(No space left"):
        run.write_suites([task("a")])
    with pytest.raises(BackendError, match=r"run\.json: cannot be written \(No space left"):
        run.write_config({})
    monkeypatch.setattr(Path, "write_bytes", refuse)
    with pytest.raises(BackendError, match=r"one: cannot be written \(No space left"):
        run.write_delivered(run.path)


def test_a_file_is_replaced_in_one_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the new bytes are on the disk the old file stands, whatever goes wrong on the way."""
    path = tmp_path / "summary.json"
    write_atomically(path, b"old")
    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(BackendError):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    monkeypatch.undo()
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["summary.json"]
