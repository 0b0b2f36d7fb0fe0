"""A run directory: what is written once, the ledger, and what is derived from both.

`run.json` and `suites.jsonl.gz` are written before the first draw and never again; the
ledger only grows; everything else can be made again from these three, byte for byte,
and holds no path. Save `run.log`, which is for people: no claim rests on it.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import shutil
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from gate.backends.content import ContentStore
from gate.backends.jsonl import read_ledger, read_lines
from gate.errors import BackendError, IntegrityError, SpecError
from gate.model import Json, SuiteSpec, Task, canonical_json, program_bytes
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

    @property
    def log(self) -> Path:
        """What happened when, for people; no claim rests on it."""
        return self.path / "run.log"

    @contextmanager
    def beginning(self) -> Iterator[RunDir]:
        """A directory beside this one, which becomes it in one step when the block ends well.

        So there is a whole run directory or none, whenever this process is killed.

        Raises:
            SpecError: There is something here already, or it cannot be made.
        """
        made = [parent for parent in self.path.parents if not parent.exists()]
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir())):
                raise SpecError(f"{self.path}: is not empty: choose another --out, or --resume it if it is a run")
            begun = Path(tempfile.mkdtemp(prefix=f".{self.path.name}.", suffix=".begun", dir=self.path.parent))
        except OSError as exc:
            raise SpecError(f"{self.path}: cannot be made ({exc.strerror}): choose another --out") from exc
        try:
            yield RunDir(begun)
            with _writing(self.path):
                begun.chmod(0o755)
                os.rename(begun, self.path)
                sync(self.path.parent)
        except BaseException:
            shutil.rmtree(begun, ignore_errors=True)
            with suppress(OSError):  # another run may have begun there meanwhile
                for parent in made:
                    parent.rmdir()
            raise

    def write_suites(self, tasks: Iterable[Task]) -> tuple[str, int]:
        """Write the tasks as loaded; the digest of the file's bytes, and their number.

        Raises:
            BackendError: They cannot be written.
        """
        number = 0
        with _writing(self.suites):
            with self.suites.open("wb") as raw, gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as file:
                for task in tasks:
                    file.write(canonical_json(task.suite.source).encode("ascii") + b"\n")
                    number += 1
            sync(self.suites)
        return self.suites_digest(), number

    def suites_digest(self) -> str:
        """SHA-256 of the bytes of the tasks as loaded.

        Raises:
            IntegrityError: They are gone.
        """
        try:
            with self.suites.open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as exc:
            raise IntegrityError(f"{self.suites}: cannot be read ({exc.strerror})") from exc

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

    def sweep_content(self) -> None:
        """Remove long replies that a killed process left without a line; due before a ledger is closed.

        Raises:
            BackendError: One cannot be removed.
        """
        store = ContentStore.beside(self.ledger)
        if any(store.names()):
            store.sweep({digest for line in read_lines(self.ledger) for digest in line.stored})

    def write_delivered(self, into: Path) -> None:
        """Write `candidates.jsonl`, `delivered.jsonl` and `delivered/TASK.py` from the ledger into a directory.

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
            _writing(into),
            (into / "candidates.jsonl").open("wb") as candidates,
            (into / "delivered.jsonl").open("wb") as delivered,
        ):
            for record in self.records():
                if record["kind"] != "candidate":
                    continue
                row = {key: record[key] for key in ("task", "index", "digest", "code", "origin")}
                candidates.write(_sample_line(row))
                if wanted.get(record["task"]) == record["digest"]:
                    del wanted[record["task"]]
                    delivered.write(_sample_line(row))
                    _write_program(into / "delivered" / f"{record['task']}.py", record["code"])


def _write_program(path: Path, code: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(program_bytes(code))


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
    """Have a file's bytes, or a directory's names, on the disk."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
