"""Banks of tasks on disk: a suite file, a JSONL(.gz) file, a folder, or a bundled bank.

Theory of operation. A bank is opened by name and read as a stream, as often as somebody
asks; nothing of it stays in memory but eight bytes for each task id, to find an id that
comes twice. Which place had it first is looked up by reading again, and only then, so
two ids with the same eight bytes cost time and no error. Lines end at b"\\n" alone, and
a compressed file is unpacked line by line, each within a cap.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import stat
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import IO, BinaryIO, cast

from gate.document import MAX_BYTES
from gate.errors import SpecError
from gate.lock import bank_digest
from gate.model import Task
from gate.suite import load_bank_line, load_suite, task_of

_SUITES = (".yaml", ".yml", ".json")
_LINES = (".jsonl", ".jsonl.gz")
_SCHEMA = ".schema.json"  # an editor's, beside the suites
_SUFFIX = re.compile(r"\.(?:ya?ml|json|jsonl|jsonl\.gz)\Z", re.IGNORECASE)
_PIECE_BYTES = 1 << 20
_MAX_BLANK_BYTES = 100_000  # between two tasks; a megabyte of gzip can hold a thousand of them
_BUNDLED = ("bank.jsonl.gz", "bank.jsonl")
_KINDS = "a .yaml, .yml, .json, .jsonl or .jsonl.gz file, or a folder of them"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bank:
    """Tasks that are read from disk each time they are asked for.

    Attributes:
        name: A bundled bank's name, or that of the file or folder without suffixes.
        paths: The files, in the order in which they are read.
    """

    name: str
    paths: tuple[Path, ...]

    def tasks(self) -> Iterator[Task]:
        """Read the tasks one by one, in order.

        Raises:
            SpecError: A file cannot be read, a suite is wrong, a task id comes twice, or
                there is no task at all.
        """
        seen: set[int] = set()
        for place, task in self._placed():
            key = _key(task.id)
            if key in seen:
                self._refuse_repeat(task.id, place)
            seen.add(key)
            yield task
        if not seen:
            raise SpecError(f"{_shown(self.paths[0])}: no task in it: write one suite on each line")

    def findings(self) -> Iterator[tuple[str, Task | SpecError]]:
        """Read all that there is, and go on after what does not load: places, with tasks or what is wrong there."""
        seen: set[int] = set()
        refused = False
        try:
            for place, load in self._pieces():
                try:
                    task = load()
                    key = _key(task.id)
                    if key in seen:
                        self._refuse_repeat(task.id, place)
                    seen.add(key)
                    yield place, task
                except SpecError as exc:
                    refused = True
                    yield place, exc
            if not seen and not refused:
                raise SpecError(f"{_shown(self.paths[0])}: no task in it: write one suite on each line")
        except SpecError as exc:
            yield _shown(self.paths[0]), exc

    def digest(self) -> str:
        """SHA-256 over the task ids and the suites' digests, in order.

        Raises:
            SpecError: As `tasks`.
        """
        return bank_digest((task.id, task.suite.digest) for task in self.tasks())

    def _placed(self) -> Iterator[tuple[str, Task]]:
        return ((place, load()) for place, load in self._pieces())

    def _pieces(self) -> Iterator[tuple[str, Callable[[], Task]]]:
        """The place of each task, and what loads it."""
        for path in self.paths:
            if path.name.lower().endswith(_LINES):
                yield from _lines(path)
            else:
                yield _shown(path), partial(_suite, path)

    def _refuse_repeat(self, task_id: str, place: str) -> None:
        """Raise if the task id really stands at an earlier place."""
        for first, load in takewhile(lambda piece: piece[0] != place, self._pieces()):
            try:
                task = load()
            except SpecError:  # that place has its own finding
                continue
            if task.id == task_id:
                raise SpecError(f"{place}: task: {task_id!r} is at {first} already: rename or remove one of them")


def open_bank(reference: str, bundled: Path) -> Bank:
    """Find a bank.

    Args:
        reference: A bundled bank's name, or the path of a file or a folder.
        bundled: The folder of the bundled banks.

    Raises:
        SpecError: There is no such bank, or nothing in it that can be read.
    """
    names = bundled_banks(bundled)
    if reference in names:
        return Bank(name=reference, paths=_bank_files(bundled / reference))
    path = Path(reference)
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        known = f"; the bundled banks are {', '.join(names)}" if names else ""
        raise SpecError(f"{_shown(path)}: no such bank: name {_KINDS}{known}") from None
    if stat.S_ISDIR(mode):
        return Bank(name=path.resolve().name, paths=_bank_files(path) or _suite_files(path))
    if not _is_bank_file(path.name):
        raise SpecError(f"{_shown(path)}: no bank: name {_KINDS}")
    _refuse_unreadable(path)
    return Bank(name=_SUFFIX.sub("", path.name), paths=(path,))


def bundled_banks(bundled: Path) -> list[str]:
    """The names of the bundled banks, sorted."""
    if not bundled.is_dir():
        return []
    return sorted(folder.name for folder in bundled.iterdir() if _bank_files(folder))


def _bank_files(folder: Path) -> tuple[Path, ...]:
    """The file that is the bank of a folder laid out as ours are, if it has one: what lies beside it is no suite."""
    return tuple(folder / name for name in _BUNDLED if (folder / name).is_file())[:1]


def _key(task_id: str) -> int:
    return int.from_bytes(hashlib.blake2b(task_id.encode(), digest_size=8).digest(), "big")


def _is_bank_file(name: str) -> bool:
    return not name.lower().endswith(_SCHEMA) and name.lower().endswith(_SUITES + _LINES) and not name.startswith(".")


def _suite_files(folder: Path) -> tuple[Path, ...]:
    """The suite files below a folder, sorted; hidden files and other suffixes do not count."""

    def refuse(error: OSError) -> None:
        raise SpecError(f"{_shown(Path(str(error.filename)))}: cannot be read ({error.strerror}): make it readable")

    found: list[Path] = []
    for root, folders, names in os.walk(folder, onerror=refuse):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in folders:
            _refuse_outside(Path(root, name), folder)
        found.extend(Path(root, name) for name in names if _is_bank_file(name))
    if not found:
        raise SpecError(f"{_shown(folder)}: no suite in it: name {_KINDS}")
    for path in found:
        _refuse_outside(path, folder)
        _refuse_unreadable(path)
    return tuple(sorted(found, key=lambda path: path.relative_to(folder).parts))


def _refuse_outside(path: Path, folder: Path) -> None:
    if path.is_symlink() and not path.resolve().is_relative_to(folder.resolve()):
        raise SpecError(f"{_shown(path)}: a link that leaves the folder: put the file itself there")


def _refuse_unreadable(path: Path) -> None:
    with _open(path) as stream:
        if not stream.read(1):
            raise SpecError(f"{_shown(path)}: an empty file: write a suite, or remove it")


def _open(path: Path) -> BinaryIO:
    """Open a regular file; a pipe or a device is refused and never waited for."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        stream = os.fdopen(descriptor, "rb")
    except (OSError, ValueError) as exc:
        raise SpecError(f"{_shown(path)}: cannot be read ({_reason(exc)}): make it readable") from exc
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        stream.close()
        raise SpecError(f"{_shown(path)}: no regular file: put a file there, or remove it")
    return stream


def _suite(path: Path) -> Task:
    """The one task of a suite file."""
    with _open(path) as stream:
        try:
            data = stream.read(MAX_BYTES + 1)
        except OSError as exc:
            raise SpecError(f"{_shown(path)}: cannot be read ({_reason(exc)})") from exc
    return task_of(load_suite(data, _shown(path)))


def _lines(path: Path) -> Iterator[tuple[str, Callable[[], Task]]]:
    """The places of a JSONL file's tasks, and what loads them; blank lines do not count."""
    name = _shown(path)
    for number, line in raw_lines(path):
        yield f"{name}:{number}", partial(load_bank_line, line, name, number)


def raw_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines of a JSONL or JSONL.gz file that are not blank, with their numbers from 1.

    Raises:
        SpecError: The file cannot be read, its gzip data is damaged, or a line is too long.
    """
    name = _shown(path)
    with _open(path) as file, closing(_unpacked(file, name)) as stream:
        number = blank_bytes = 0
        while line := _line(stream, name, number + 1):
            number += 1
            if not line.isspace():
                blank_bytes = 0
                yield number, line
                continue
            blank_bytes += len(line)
            if blank_bytes > _MAX_BLANK_BYTES:
                raise SpecError(f"{name}:{number}: over {_MAX_BLANK_BYTES} bytes of blank lines: remove them")


def _unpacked(file: BinaryIO, name: str) -> IO[bytes]:
    return cast(IO[bytes], gzip.GzipFile(fileobj=file)) if name.lower().endswith(".gz") else file


def _line(stream: IO[bytes], name: str, number: int) -> bytes:
    """The next line, b"" at the end."""
    try:
        line = _read_line(stream)
    except (EOFError, zlib.error, gzip.BadGzipFile) as exc:
        raise SpecError(f"{name}:{number}: damaged or cut gzip data ({exc}): copy the file again") from exc
    except OSError as exc:
        raise SpecError(f"{name}:{number}: cannot be read ({_reason(exc)})") from exc
    if line is None:
        raise SpecError(f"{name}:{number}: a line longer than {MAX_BYTES >> 20} MiB: split the task")
    return line


def _read_line(stream: IO[bytes]) -> bytes | None:
    """The next line, None where it is too long; read by pieces, it never stands in memory twice."""
    piece = stream.readline(_PIECE_BYTES)
    if len(piece) < _PIECE_BYTES:
        return piece
    line = bytearray(piece)
    while piece and not line.endswith(b"\n"):
        piece = stream.readline(_PIECE_BYTES)
        line += piece
        if len(line) > MAX_BYTES:
            return None
    return bytes(line)


def _reason(exc: Exception) -> str:
    return exc.strerror or str(exc) if isinstance(exc, OSError) else str(exc)


def _shown(path: Path) -> str:
    """A path as messages show it, printable whatever bytes it is made of."""
    text = path.as_posix()
    return text if text.isprintable() else ascii(text)[1:-1]
