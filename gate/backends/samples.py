"""Candidates from saved samples: the source `samples:FILE` or `samples:FOLDER`.

Theory of operation. A file is JSONL or JSONL.gz in the field's convention; a folder
holds `TASK_ID/K.py`. Opening reads everything once, strictly, and keeps for each sample
where it stands and a check sum, never its text; a draw is a look-up that reads the one
sample again. So memory grows with the number of samples and not with their size, and a
file that changes between the two readings is noticed and not drawn from. A compressed
file cannot be looked up in, so it is unpacked into an unnamed temporary file, which the
system removes when this process ends, however it ends.

A draw that the samples cannot give is an empty candidate and counts as a draw.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import stat
import tempfile
import zlib
from array import array
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from io import BufferedReader
from itertools import count, islice
from pathlib import Path
from typing import IO, Protocol

from gate import values
from gate.errors import SourceError, SpecError
from gate.model import Candidate, Json, Task, program_text

MAX_LINE_BYTES = 16 << 20
MAX_SPOOL_BYTES = 8 << 30
MAX_FACTS = 32
MAX_FACT_CHARS = 200

_CHUNK_BYTES = 1 << 20
_GZIP_MAGIC = b"\x1f\x8b"
_NUMBERED = re.compile(r"(0|[1-9][0-9]{0,8})\.py\Z")
_NO_FACTS = frozenset({"task_id", "prompt", "solution", "completion", "file", "line", "missing"})
_SHAPE = "each line is one JSON object with task_id and with solution or completion"


class _Store(Protocol):
    """Where saved samples stand; a sample is its fields and the place where they were."""

    digest: str

    def counts(self) -> dict[str, int]: ...
    def count(self, task_id: str) -> int: ...
    def sample(self, task_id: str, index: int) -> tuple[dict[str, Json], dict[str, Json]] | None: ...
    def close(self) -> None: ...


class SamplesSource:
    """Draws saved samples: the first of a task is draw 0, the next is draw 1."""

    def __init__(self, store: _Store) -> None:
        self._store = store

    @property
    def digest(self) -> str:
        """SHA-256 of the file's bytes, in hex; of a folder, of its samples' names and bytes."""
        return self._store.digest

    def task_ids(self) -> Mapping[str, int]:
        """The tasks that have samples, and how many each has."""
        return self._store.counts()

    def count(self, task_id: str) -> int:
        """How many draws one task has; those that a folder leaves out between others count."""
        return self._store.count(task_id)

    async def draw(self, task: Task, index: int) -> Candidate:
        """The sample of that index; an empty candidate where there is none.

        Raises:
            SourceError: The samples changed, or cannot be read any more.
        """
        found = self._store.sample(task.id, index)
        if found is None:
            return absent(task, index)
        fields, place = found
        code = fields["solution"] if "solution" in fields else task.prompt + fields["completion"]
        return Candidate(task_id=task.id, index=index, code=code, origin=_facts(fields) | place)

    def close(self) -> None:
        """Give back the open file."""
        self._store.close()

    async def __aenter__(self) -> SamplesSource:
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.close()


def open_samples(path: Path) -> SamplesSource:
    """Open saved samples: a JSONL or JSONL.gz file, or a folder of `TASK_ID/K.py`.

    A file's line is an object with `task_id` and `solution` (a whole program, which wins)
    or `completion` (what follows the task's prompt); a repeated `task_id` is the next
    draw. In a folder, `K` is the index of the draw, and `/` in a task's id makes nested
    folders. Programs are kept byte for byte, whatever their encoding.

    Raises:
        SpecError: It cannot be opened, a line or a file in it is malformed (named by file
            and line), or it holds no samples.
        SourceError: There is no room to unpack it.
    """
    try:
        store: _Store = _Folder(path) if path.is_dir() else _Lines(path)
    except OSError as exc:
        raise SpecError(f"{path}: cannot be read ({exc.strerror or exc}): name a JSONL file or a folder") from exc
    if not store.counts():
        store.close()
        raise SpecError(f"{path}: holds no samples: {_SHAPE}, or a folder holds TASK_ID/0.py, TASK_ID/1.py, …")
    return SamplesSource(store)


def absent(task: Task, index: int) -> Candidate:
    """The empty candidate that stands for a draw that a source cannot give."""
    return Candidate(task_id=task.id, index=index, code="", origin={"missing": f"no sample {index} for this task"})


class _Lines:
    """The samples of one JSONL file, by the offsets of their lines."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with ExitStack() as opened:
            saved = opened.enter_context(_open_regular(path))
            self.digest = hashlib.file_digest(saved, "sha256").hexdigest()
            self._stream: IO[bytes] = opened.enter_context(_unpacked(saved, path)) if _is_gzip(saved) else saved
            self._places = _index(self._stream, path)
            self._opened = opened.pop_all()

    def count(self, task_id: str) -> int:
        return len(self._places.get(task_id, ())) // 3

    def counts(self) -> dict[str, int]:
        return {task_id: len(places) // 3 for task_id, places in self._places.items()}

    def sample(self, task_id: str, index: int) -> tuple[dict[str, Json], dict[str, Json]] | None:
        places = self._places.get(task_id, array("Q"))
        if not 0 <= index < len(places) // 3:
            return None
        offset, number, check = places[3 * index : 3 * index + 3]
        line = self._read(offset)
        if _check(line) != check:
            raise SourceError(f"{self._path}:{number}: changed since it was opened: start again")
        return _parse(line, f"{self._path}:{number}"), {"file": self._path.name, "line": number}

    def _read(self, offset: int) -> bytes:
        try:
            self._stream.seek(offset)
            return self._stream.readline(MAX_LINE_BYTES + 1)
        except OSError as exc:
            raise SourceError(f"{self._path}: {exc.strerror or exc}: see that the file is still there") from exc

    def close(self) -> None:
        self._opened.close()


class _Folder:
    """The samples of one folder, by task and number."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._checks: dict[str, dict[int, int]] = {}
        total = hashlib.sha256()
        for task_id, number in sorted(_numbered_files(root)):
            data = _read_program(root / task_id / f"{number}.py")
            self._checks.setdefault(task_id, {})[number] = _check(data)
            total.update(f"{task_id}/{number}.py\0{hashlib.sha256(data).hexdigest()}\n".encode())
        self.digest = total.hexdigest()

    def count(self, task_id: str) -> int:
        return 1 + max(self._checks.get(task_id, ()), default=-1)

    def counts(self) -> dict[str, int]:
        return {task_id: len(checks) for task_id, checks in self._checks.items()}

    def sample(self, task_id: str, index: int) -> tuple[dict[str, Json], dict[str, Json]] | None:
        check = self._checks.get(task_id, {}).get(index)
        if check is None:
            return None
        path = self._root / task_id / f"{index}.py"
        try:
            data = _read_program(path)
        except (OSError, SpecError) as exc:
            raise SourceError(f"{path}: cannot be read any more ({exc}): start again") from exc
        if _check(data) != check:
            raise SourceError(f"{path}: changed since it was opened: start again")
        return {"solution": program_text(data)}, {"file": f"{task_id}/{index}.py"}

    def close(self) -> None:
        """Nothing is held open."""


def _open_regular(path: Path) -> BufferedReader:
    """Open a file for reading; a FIFO or a device is refused before it can block."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise SpecError(f"{path}: is no regular file: save the samples to a file first")
    return path.open("rb")


def _is_gzip(stream: IO[bytes]) -> bool:
    """By its first bytes, not by its name: no JSON text begins with them."""
    stream.seek(0)
    return stream.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC


def _unpacked(packed: IO[bytes], path: Path) -> IO[bytes]:
    """The content of a gzip file as a temporary file that has no name."""
    packed.seek(0)
    with ExitStack() as opened:
        try:
            spool = opened.enter_context(tempfile.TemporaryFile())
            stream = opened.enter_context(gzip.GzipFile(fileobj=packed, mode="rb"))
            while chunk := stream.read(_CHUNK_BYTES):
                if spool.tell() + len(chunk) > MAX_SPOOL_BYTES:
                    raise SpecError(f"{path}: unpacks to more than {MAX_SPOOL_BYTES} bytes: split it")
                spool.write(chunk)
            spool.flush()
        except (gzip.BadGzipFile, EOFError, zlib.error) as exc:
            raise SpecError(f"{path}: is no whole gzip file ({exc}): write it again") from exc
        except OSError as exc:
            raise SourceError(f"{path}: cannot be unpacked ({exc.strerror or exc}): free space for it") from exc
        opened.pop_all()
    return spool


def _index(stream: IO[bytes], path: Path) -> dict[str, array[int]]:
    """Offset, line number and check sum of each sample, three numbers a sample, by task."""
    places: dict[str, array[int]] = {}
    for number, offset, line in _numbered_lines(stream, path):
        fields = _parse(line, f"{path}:{number}")
        places.setdefault(fields["task_id"], array("Q")).extend((offset, number, _check(line)))
    return places


def _numbered_lines(stream: IO[bytes], path: Path) -> Iterator[tuple[int, int, bytes]]:
    """Number, offset and bytes of each line that is not blank; only a line feed ends a line."""
    stream.seek(0)
    offset = 0
    for number in count(1):
        line = stream.readline(MAX_LINE_BYTES + 1)
        if not line:
            return
        if len(line) > MAX_LINE_BYTES and not line.endswith(b"\n"):
            raise SpecError(f"{path}:{number}: is longer than {MAX_LINE_BYTES} bytes: remove the line")
        if line.strip(b" \t\r\n"):
            yield number, offset, line
        offset += len(line)


def _parse(line: bytes, where: str) -> dict[str, Json]:
    """The fields of one line."""
    try:
        fields = values.loads(line)
    except values.CodecError as exc:
        what = "no JSON" if line.endswith(b"\n") else "torn, or no JSON"
        raise SpecError(f"{where}: {what} ({exc}): {_SHAPE}") from exc
    if not isinstance(fields, dict):
        raise SpecError(f"{where}: no JSON object: {_SHAPE}")
    if not isinstance(fields.get("task_id"), str):
        raise SpecError(f"{where}: task_id is missing or no text: {_SHAPE}")
    key = "solution" if "solution" in fields else "completion"
    if not isinstance(fields.get(key), str):
        raise SpecError(f"{where}: {key} is missing or no text: {_SHAPE}")
    return fields


def _facts(fields: Mapping[str, Json]) -> dict[str, Json]:
    """What a sample says beside its program, where that is short; never the program itself."""
    programs = [fields[key] for key in ("solution", "completion") if key in fields]
    facts = (item for item in fields.items() if _is_fact(*item) and item[1] not in programs)
    return dict(islice(facts, MAX_FACTS))


def _is_fact(key: str, value: Json) -> bool:
    if key in _NO_FACTS or len(key) > MAX_FACT_CHARS or key.startswith("$"):  # `$` would read as a tag
        return False
    if isinstance(value, str):
        return len(value) <= MAX_FACT_CHARS and "\n" not in value
    if isinstance(value, int):
        return abs(value) < 1 << 63
    return value is None or isinstance(value, float)


def _numbered_files(root: Path) -> Iterator[tuple[str, int]]:
    """Task and number of each `TASK_ID/K.py`; other files than `.py` are none of ours."""
    folders = [""]
    while folders:
        task_id = folders.pop()
        with os.scandir(root / task_id) as entries:
            for entry in entries:
                child = f"{task_id}/{entry.name}" if task_id else entry.name
                if entry.is_dir(follow_symlinks=False):
                    folders.append(child)
                elif entry.name.endswith(".py") or (entry.is_symlink() and entry.is_dir()):
                    yield task_id, _number(entry, task_id)


def _number(entry: os.DirEntry[str], task_id: str) -> int:
    """The K of a `K.py`; whatever else looks like a sample is refused, for it would be missing silently."""
    where = os.fsencode(entry.path).decode("utf-8", "backslashreplace")
    if not entry.is_file(follow_symlinks=False):
        raise SpecError(f"{where}: is no regular file or folder, and links are not followed: copy what it names")
    match = _NUMBERED.match(entry.name)
    if not task_id or match is None:
        raise SpecError(f"{where}: a folder of samples holds TASK_ID/0.py, TASK_ID/1.py, …: rename or remove it")
    if any("\ud800" <= char <= "\udfff" for char in task_id):
        raise SpecError(f"{where}: the name of its folder is not UTF-8: rename it")
    return int(match[1])


def _read_program(path: Path) -> bytes:
    """The bytes of one regular file; a link in its place is not followed, a FIFO does not block."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise SpecError(f"{path}: is no regular file: remove it")
        data = stream.read(MAX_LINE_BYTES + 1)
    if len(data) > MAX_LINE_BYTES:
        raise SpecError(f"{path}: is longer than {MAX_LINE_BYTES} bytes: remove it")
    return data


def _check(data: bytes) -> int:
    """Eight bytes of SHA-256 as a number: enough to notice a change, small enough for an array."""
    return int.from_bytes(hashlib.sha256(data).digest()[:8], "big")
