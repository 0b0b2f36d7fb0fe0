"""A run directory: what is written once, the ledger, and what is derived from both.

`run.json` and `suites.jsonl.gz` are written before the first draw and never again; the
ledger only grows; everything else can be made again from these three, byte for byte,
and holds no path.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gate.backends.jsonl import read_ledger
from gate.errors import BackendError, IntegrityError, SpecError
from gate.model import Json, SuiteSpec, Task, canonical_json
from gate.suite import load_bank_line


@dataclass(frozen=True, slots=True)
class RunDir:
    """The paths of one run."""

    path: Path

    @property
    def run_json(self) -> Path:
        """The resolved configuration, without secrets."""
        return self.path / "run.json"

    @property
    def suites(self) -> Path:
        """The tasks as loaded."""
        return self.path / "suites.jsonl.gz"

    @property
    def ledger(self) -> Path:
        """All records."""
        return self.path / "ledger.jsonl"

    def create(self) -> None:
        """Make the directory.

        Raises:
            SpecError: There is something in it already, or it cannot be made.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if any(self.path.iterdir()):
                raise SpecError(f"{self.path}: is not empty: choose another --out")
        except OSError as exc:
            raise SpecError(f"{self.path}: cannot be made ({exc.strerror}): choose another --out") from exc

    def discard(self) -> None:
        """Take back a directory in which nothing has happened yet."""
        self.suites.unlink(missing_ok=True)
        with suppress(OSError):
            self.path.rmdir()

    def write_suites(self, tasks: Iterable[Task]) -> tuple[str, int]:
        """Write the tasks as loaded; their digest (of the uncompressed lines) and number.

        Raises:
            BackendError: They cannot be written.
        """
        digest, number = hashlib.sha256(), 0
        with _writing(self.suites):
            with self.suites.open("wb") as raw, gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as file:
                for task in tasks:
                    line = canonical_json(task.suite.source).encode("ascii") + b"\n"
                    digest.update(line)
                    file.write(line)
                    number += 1
            sync(self.suites)
        return digest.hexdigest(), number

    def tasks(self) -> Iterator[Task]:
        """The tasks as loaded, from this run's own copy.

        Raises:
            IntegrityError: The copy is gone or damaged.
        """
        number = 0
        try:
            with gzip.open(self.suites, "rb") as file:
                for number, line in enumerate(file, 1):
                    yield load_bank_line(line, self.suites.name, number)
        except (OSError, EOFError, zlib.error, SpecError) as exc:
            raise IntegrityError(f"{self.suites}: is damaged after {number} tasks ({exc})") from exc

    def suite_specs(self) -> Iterator[SuiteSpec]:
        """The suites alone."""
        return (task.suite for task in self.tasks())

    def write_config(self, config: dict[str, Json]) -> bytes:
        """Write `run.json`; its bytes."""
        text = json.dumps(config, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
        data = text.encode("utf-8", "backslashreplace")  # a path's odd bytes become JSON's own escapes
        write_atomically(self.run_json, data)
        return data

    def read_config(self) -> dict[str, Json]:
        """What `run.json` holds.

        Raises:
            SpecError: There is no run here.
            IntegrityError: It is damaged.
        """
        try:
            found = json.loads(self.run_json.read_bytes())
        except OSError as exc:
            raise SpecError(f"{self.path}: holds no run ({exc.strerror}): name a run directory") from exc
        except (ValueError, RecursionError):
            raise IntegrityError(f"{self.run_json}: is damaged") from None
        if not isinstance(found, dict):
            raise IntegrityError(f"{self.run_json}: is damaged")
        return found

    def records(self) -> Iterator[dict[str, Json]]:
        """The ledger's records, in order, with the chain checked."""
        return read_ledger(self.ledger)

    def write_delivered(self) -> None:
        """Write `candidates.jsonl`, `delivered.jsonl` and `delivered/TASK.py` from the ledger.

        Programs are written byte for byte as they ran. What is kept in memory is one
        digest a delivered task.

        Raises:
            BackendError: They cannot be written.
        """
        wanted: dict[str, str] = {}
        for record in self.records():
            if record["kind"] == "decision" and record["outcome"] == "delivered":
                wanted[record["task"]] = record["delivered"]
        with (
            _writing(self.path),
            (self.path / "candidates.jsonl").open("wb") as candidates,
            (self.path / "delivered.jsonl").open("wb") as delivered,
        ):
            for record in self.records():
                if record["kind"] != "candidate":
                    continue
                row = {key: record[key] for key in ("task", "index", "digest", "code", "origin")}
                candidates.write(_sample_line(row))
                if wanted.get(record["task"]) == record["digest"]:
                    del wanted[record["task"]]
                    delivered.write(_sample_line(row))
                    self._write_program(record["task"], record["code"])

    def _write_program(self, task_id: str, code: str) -> None:
        path = self.path / "delivered" / f"{task_id}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(code.encode("utf-8", "surrogatepass"))


def _sample_line(row: dict[str, Json]) -> bytes:
    """One line in the field's convention for samples."""
    sample = {
        "task_id": row["task"],
        "solution": row["code"],
        "index": row["index"],
        "digest": row["digest"],
        "origin": row["origin"],
    }
    return json.dumps(sample, separators=(",", ":")).encode("ascii") + b"\n"


def write_atomically(path: Path, data: bytes) -> None:
    """Replace a file in one step; after a crash it is the old one or the new one.

    Raises:
        BackendError: It cannot be written.
    """
    beside = path.with_name(path.name + ".new")
    with _writing(path):
        beside.write_bytes(data)
        sync(beside)
        os.replace(beside, path)


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        raise BackendError(f"{path}: cannot be written ({exc.strerror or exc}): see to the disk") from exc


def sync(path: Path) -> None:
    """Have a file's bytes on the disk."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
