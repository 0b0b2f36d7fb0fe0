"""The ledger as a file: one JSON object a line, each bound to the line before.

Theory of operation. Every line carries `kind`, the UTC time and the SHA-256 of the line
before (without its newline; 64 zeros for the first), then what its kind says. A line is
written in one piece; where something is going to follow from it, it is also fsynced
before `append` returns. Only one process writes: the file is locked while it is open.
After a record that could not be written nothing more is: it may be there in part, and a
line behind it would make damage of what is now a torn end.
Opening a file again goes on where it ends: a torn last line, and nothing else, is cut.
A reply over 64 KB stands in the content store beside the file, and its line holds the
digest; whoever reads the lines gets the reply back in its place.
Lines end in \\n and nothing else separates them: texts may hold any other separator.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from types import TracebackType

from gate.backends.content import MAX_INLINE_BYTES, ContentStore
from gate.errors import BackendError, IntegrityError, SpecError
from gate.model import Json, digest_bytes

FIRST = "0" * 64
SYNCED_KINDS = frozenset({"run", "asked", "candidate", "verdict", "decision", "closed"})
ENDS = frozenset({"run", "closed"})  # enough where nothing follows before the end: a replay judges what is saved anyway
_RESERVED = frozenset({"kind", "time", "prev"})
_CHUNK_BYTES = 1 << 16


def utc_now() -> str:
    """The time as ISO 8601 in UTC, to the microsecond."""
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


class JsonlLedger:
    """A ledger file that this process writes; use as a context manager.

    Args:
        path: The file; made if it is not there.
        synced: The kinds of records that are on the disk when `append` returns.
        now: The clock, for tests.

    Attributes:
        head: SHA-256 of the last line, 64 zeros where there is none.
        cut_bytes: How long the torn end was that opening has cut off.

    Raises:
        SpecError: Another process writes it.
        BackendError: It cannot be opened or written.
    """

    def __init__(self, path: Path, *, synced: frozenset[str] = SYNCED_KINDS, now: Callable[[], str] = utc_now) -> None:
        self._now = now
        self._path = path
        self._synced = synced
        self._content = ContentStore.beside(path)
        self._file = _open_locked(path)
        self._failure: OSError | None = None
        try:
            self.cut_bytes = _cut_torn_end(self._file)
            self.head = _last_digest(self._file)
        except OSError as exc:
            os.close(self._file)
            raise BackendError(f"{path}: cannot be read: {exc.strerror}") from exc

    def __enter__(self) -> JsonlLedger:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._file)

    def append(self, kind: str, body: dict[str, Json]) -> str:
        """See `gate.seams.Ledger`.

        Raises:
            BackendError: This record, or one before it, could not be written.
        """
        if _RESERVED & body.keys():
            raise ValueError(f"a body may not hold {sorted(_RESERVED & body.keys())}")
        record = {"kind": kind, "time": self._now(), "prev": self.head, **body}
        line = _line_bytes(record)
        if kind == "observation" and len(line) > MAX_INLINE_BYTES:
            line = _line_bytes(self._content.shorten(record))
        if self._failure is None:
            self._failure = self._write(line + b"\n", synced=kind in self._synced)
        if self._failure is not None:
            raise BackendError(
                f"{self._path}: a record could not be written ({self._failure.strerror}): see to the disk"
            ) from self._failure
        self.head = digest_bytes(line)
        return self.head

    def _write(self, line: bytes, *, synced: bool) -> OSError | None:
        """Write one line; why not, where it may not be there as a whole."""
        try:
            if os.write(self._file, line) < len(line):
                return OSError(errno.ENOSPC, "the disk took only a part of it: is it full?")
            if synced:
                os.fsync(self._file)
        except OSError as exc:
            return exc
        return None


def _line_bytes(record: dict[str, Json]) -> bytes:
    return json.dumps(record, separators=(",", ":"), allow_nan=False).encode("ascii")


def _open_locked(path: Path) -> int:
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    except OSError as exc:
        raise BackendError(f"{path}: cannot be opened for writing: {exc.strerror}") from exc
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as exc:
        os.close(file)
        if isinstance(exc, BlockingIOError):
            raise SpecError(f"{path}: another gate writes this run; wait for it, or use another --out") from None
        raise BackendError(f"{path}: cannot be locked: {exc.strerror}") from exc
    return file


def is_locked(path: Path) -> bool:
    """Whether a process on this machine writes a ledger now; looked up, so that looking never gets in its way."""
    try:
        told, locks = path.stat(), Path("/proc/locks").read_text(encoding="ascii")
    except OSError:
        return False
    place = f"{os.major(told.st_dev):02x}:{os.minor(told.st_dev):02x}:{told.st_ino}"
    return any("FLOCK" in line and "WRITE" in line and place in line.split() for line in locks.splitlines())


def _cut_torn_end(file: int) -> int:
    """Cut what stands behind the last newline; how much it was."""
    size = os.fstat(file).st_size
    kept = _after_last_newline(file, size)
    if kept < size:
        os.ftruncate(file, kept)
        os.fsync(file)
    return size - kept


def _last_digest(file: int) -> str:
    """The digest of the last line of a file whose last line is whole."""
    size = os.fstat(file).st_size
    if size == 0:
        return FIRST
    start = _after_last_newline(file, size - 1)
    return digest_bytes(os.pread(file, size - 1 - start, start))


def _after_last_newline(file: int, end: int) -> int:
    """The offset after the last newline before `end`; 0 where there is none."""
    while end > 0:
        start = max(0, end - _CHUNK_BYTES)
        found = os.pread(file, end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of a ledger: where it starts, its digest, and the record on it.

    Attributes:
        stored: Digests of the replies that stand in the content store.
    """

    offset: int
    digest: str
    record: dict[str, Json]
    stored: tuple[str, ...] = ()


def read_ledger(path: Path) -> Iterator[dict[str, Json]]:
    """The records of a ledger file; see `read_lines`."""
    return (line.record for line in read_lines(path))


def read_lines(path: Path) -> Iterator[Line]:
    """The lines of a ledger file, in order, with the chain checked on the way.

    Raises:
        BackendError: It cannot be read.
        IntegrityError: A line is torn, no record, or not bound to the line before.
    """
    previous = FIRST
    offset = 0
    content = ContentStore.beside(path)
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                record = _parse(path, number, line)
                if record["prev"] != previous:
                    raise IntegrityError(f"{path}:{number}: this record is not bound to the line before it")
                previous = digest_bytes(line.removesuffix(b"\n"))
                yield _line(offset, previous, record, content)
                offset += len(line)
    except OSError as exc:
        raise BackendError(f"{path}: cannot be read: {exc.strerror}") from exc


def _line(offset: int, digest: str, record: dict[str, Json], content: ContentStore) -> Line:
    """A line with the replies that it names put back in their places."""
    if record["kind"] != "observation":
        return Line(offset=offset, digest=digest, record=record)
    record, stored = content.lengthen(record)
    return Line(offset=offset, digest=digest, record=record, stored=stored)


def _parse(path: Path, number: int, line: bytes) -> dict[str, Json]:
    if not line.endswith(b"\n"):
        raise IntegrityError(f"{path}:{number}: the last record is torn")
    try:
        record = json.loads(line.decode("ascii"))
    except (ValueError, RecursionError):
        raise IntegrityError(f"{path}:{number}: this line is no record") from None
    if not isinstance(record, dict) or not record.keys() >= _RESERVED:
        raise IntegrityError(f"{path}:{number}: this line is no record")
    return record


class LineIndex:
    """Where the lines of each task stand, so that a task's records are read without all others.

    What it keeps is one number a line. Lines are added as `read_lines` gives them.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offsets: dict[str, array[int]] = {}

    def add(self, line: Line) -> None:
        """Note one line; those that speak of no task are not kept."""
        task_id = line.record.get("task")
        if isinstance(task_id, str):
            self._offsets.setdefault(task_id, array("Q")).append(line.offset)

    def task_ids(self) -> set[str]:
        """The tasks that lines speak of."""
        return set(self._offsets)

    def lines(self, task_id: str) -> Iterator[Line]:
        """The lines of one task, in order."""
        content = ContentStore.beside(self._path)
        with self._path.open("rb") as file:
            for offset in self._offsets.get(task_id, ()):
                file.seek(offset)
                text = file.readline().removesuffix(b"\n")
                yield _line(offset, digest_bytes(text), json.loads(text), content)


# The beginning of a line as `JsonlLedger` writes it: enough to find a task's lines without parsing them all.
_HEAD = re.compile(
    rb'\{"kind":"(?P<kind>\w+)","time":"[^"\\]*","prev":"(?P<prev>[0-9a-f]{64})"'
    rb'(?:,"task":(?P<task>"(?:[^"\\]|\\.)*")(?:,"index":\d+)?(?:,"part":"(?P<part>\w+)")?'
    rb'(?:,"outcome":"(?P<outcome>\w+)")?)?'
)


@dataclass(slots=True)
class Marks:
    """How far one task came: its draws, the verdicts that stand, and whether it is decided."""

    candidates: int = 0
    visible: int = 0
    hidden: int = 0
    is_decided: bool = False


class PoolIndex:
    """Where the lines of each task of a replay stand that its row is made of, and how far each task came.

    Reading checks the chain and looks at the beginning of each line only; what is kept is
    a number a line. Observations under hidden calls are passed over: no rule looks at them.

    Args:
        path: The ledger.

    Attributes:
        first: The record on the first line; None where there is no line.
        last: The record on the last line.
        head: SHA-256 of the last line.

    Raises:
        BackendError: It cannot be read.
        IntegrityError: A line is torn, no record, or not bound to the line before.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._content = ContentStore.beside(path)
        self._offsets: dict[str, array[int]] = {}
        self._marks: dict[str, Marks] = {}
        self.head = FIRST
        self.first: dict[str, Json] | None = None
        self.last: dict[str, Json] = {}
        try:
            self._read()
        except OSError as exc:
            raise BackendError(f"{path}: cannot be read: {exc.strerror}") from exc

    def _read(self) -> None:
        offset = 0
        line = b""
        with self._path.open("rb") as file:
            for number, line in enumerate(file, 1):
                begun = _beginning(self._path, number, line)
                if begun.prev != self.head:
                    raise IntegrityError(f"{self._path}:{number}: this record is not bound to the line before it")
                self.head = digest_bytes(line[:-1])
                if number == 1:
                    self.first = _parse(self._path, number, line)
                if begun.task is not None and not (begun.kind == "observation" and begun.part == "hidden"):
                    self._offsets.setdefault(begun.task, array("Q")).append(offset)
                    _mark(self._marks.setdefault(begun.task, Marks()), begun)
                offset += len(line)
            if line:
                self.last = _parse(self._path, number, line)

    def marks(self, task_id: str) -> Marks:
        """How far a task came."""
        return self._marks.get(task_id) or Marks()

    def task_ids(self) -> set[str]:
        """The tasks that lines speak of."""
        return set(self._offsets)

    def lines(self, task_id: str) -> Iterator[Line]:
        """The lines of one task that its row is made of, in order."""
        with self._path.open("rb") as file:
            for offset in self._offsets.get(task_id, ()):
                file.seek(offset)
                text = file.readline().removesuffix(b"\n")
                yield _line(offset, digest_bytes(text), json.loads(text), self._content)


@dataclass(frozen=True, slots=True)
class Beginning:
    """What the beginning of a line says."""

    kind: str
    prev: str
    task: str | None
    part: str | None
    outcome: str | None


def _beginning(path: Path, number: int, line: bytes) -> Beginning:
    """The beginning of a line; the whole is parsed only where another wrote it."""
    found = _HEAD.match(line)
    if found is None or not line.endswith(b"}\n"):
        record = _parse(path, number, line)
        task, part, outcome = (record.get(name) for name in ("task", "part", "outcome"))
        return Beginning(str(record["kind"]), str(record["prev"]), _text(task), _text(part), _text(outcome))
    task = None if found["task"] is None else _task_name(found["task"])
    part, outcome = (None if found[name] is None else found[name].decode() for name in ("part", "outcome"))
    return Beginning(found["kind"].decode(), found["prev"].decode(), task, part, outcome)


@lru_cache(maxsize=1024)
def _task_name(text: bytes) -> str:
    return str(json.loads(text))


def _text(value: Json) -> str | None:
    return value if isinstance(value, str) else None


def _mark(marks: Marks, begun: Beginning) -> None:
    if begun.kind == "candidate":
        marks.candidates += 1
    elif begun.kind == "decision":
        marks.is_decided = begun.outcome != "infra"
    elif begun.kind == "verdict" and begun.outcome != "error":
        marks.visible += begun.part == "visible"
        marks.hidden += begun.part == "hidden"
