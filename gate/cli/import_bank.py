"""`gate import livecodebench|apps|commonoj`: the rows of a benchmark's file as a bank."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from gate.backends.banks import raw_lines
from gate.benchmarks import NotConvertible, benchmark_suite
from gate.cli import exits, printing
from gate.document import MAX_BYTES, parse_line
from gate.errors import SpecError
from gate.model import Json


@dataclass(kw_only=True)
class Imported:
    """What became of a file.

    Attributes:
        left_out: `(where, why)` of each row that has no suite.
    """

    tasks: int = 0
    visible: int = 0
    hidden: int = 0
    left_out: list[tuple[str, str]] = field(default_factory=list)

    def as_json(self) -> dict[str, Json]:
        """As `gate.import/1` spells it."""
        return {
            "tasks": self.tasks,
            "visible": self.visible,
            "hidden": self.hidden,
            "left_out": [{"where": where, "why": why} for where, why in self.left_out],
        }


def import_bank(reader: str, path: Path, *, out: Path, visible: int | None, as_json: bool) -> int:
    """Convert, write, count, and say with the exit code: 0 all rows, 1 some were left out, 2 none is left."""
    if not out.name.endswith((".jsonl", ".jsonl.gz")):
        raise SpecError(f"{out}: a bank is a .jsonl or .jsonl.gz file: name it so")
    with _written_whole(out) as stream:
        done = convert_rows(reader, path, stream, visible)
        for where, why in done.left_out:
            printing.say(f"left out: {where}: {printing.escape(why)}")
        if not done.tasks:
            raise SpecError(f"{path}: no row of it makes a suite: see that it is a file of {reader}")
    if as_json:
        printing.print_json({"schema": "gate.import/1", "bank": str(out), **done.as_json()})
    else:
        counts = f"{done.tasks} tasks, {done.visible} visible and {done.hidden} hidden tests"
        print(f"{out}: {counts}; {len(done.left_out)} rows left out")
    return exits.REFUSED if done.left_out else exits.DONE


def convert_rows(reader: str, path: Path, stream: IO[bytes], visible: int | None) -> Imported:
    """Write a line for each row that makes a suite; nothing but the ids stays in memory.

    Raises:
        SpecError: The file cannot be read.
    """
    done = Imported()
    places: dict[str, str] = {}
    for where, row in _rows(path, done):
        try:
            tree = benchmark_suite(reader, row, visible=visible)
            first = places.setdefault(tree["task"], where)
            if first != where:
                raise NotConvertible(f"the task {tree['task']} is at {first} already")
        except NotConvertible as exc:
            done.left_out.append((where, str(exc)))
            continue
        stream.write(json.dumps(tree, separators=(",", ":")).encode("ascii") + b"\n")
        done.tasks += 1
        done.visible += len(tree["tests"])
        done.hidden += len(tree["hidden"])
    return done


def _rows(path: Path, done: Imported) -> Iterator[tuple[str, Json]]:
    """The rows with their places; a line that is no strict JSON is left out by its number."""
    if path.name.lower().endswith(".json"):
        yield from _listed_rows(path)
        return
    for number, line in raw_lines(path):
        try:
            row = parse_line(line, path.name, number)
        except SpecError as exc:
            where, _, why = str(exc).partition(": ")
            done.left_out.append((where, why))
            continue
        yield f"{path.name}:{number}", row


def _listed_rows(path: Path) -> Iterator[tuple[str, Json]]:
    """The rows of a file that is one JSON list, or one object."""
    try:
        with path.open("rb") as stream:
            tree = parse_line(stream.read(MAX_BYTES + 1), path.name, 1)
    except OSError as exc:
        raise SpecError(f"{path}: cannot be read ({exc.strerror}): name a file of rows") from exc
    for number, row in enumerate(tree if isinstance(tree, list) else [tree]):
        yield f"{path.name}[{number}]", row


@contextmanager
def _written_whole(out: Path) -> Iterator[IO[bytes]]:
    """A file that stands under its name only when all of it is written; gzip has no clock in it.

    Raises:
        SpecError: It cannot be written.
    """
    part = out.with_name(f".{out.name}.part")
    try:
        with part.open("wb") as file:
            if out.name.endswith(".gz"):
                with gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=9, mtime=0) as packed:
                    yield packed  # type: ignore[misc]
            else:
                yield file
        os.replace(part, out)
    except OSError as exc:
        raise SpecError(f"{out}: cannot be written ({exc.strerror}): name a place where files can be") from exc
    finally:
        part.unlink(missing_ok=True)
