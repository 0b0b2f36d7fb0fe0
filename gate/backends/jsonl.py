"""The ledger as a file: one JSON object a line, each bound to the line before.

Theory of operation. Every line carries `kind`, the UTC time and the SHA-256 of the line
before (without its newline; 64 zeros for the first), then what its kind says. A line is
written in one piece; where something is going to follow from it, it is also fsynced
before `append` returns. Only one process writes: the file is locked while it is open.
After a record that could not be written nothing more is: it may be there in part, and a
line behind it would make damage of what is now a torn end.
Lines end in \\n and nothing else separates them: texts may hold any other separator.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType

from gate.errors import BackendError, IntegrityError, SpecError
from gate.model import Json, digest_bytes

FIRST = "0" * 64
SYNCED_KINDS = frozenset({"run", "candidate", "verdict", "decision", "closed"})
_RESERVED = frozenset({"kind", "time", "prev"})


def utc_now() -> str:
    """The time as ISO 8601 in UTC, to the microsecond."""
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


class JsonlLedger:
    """A ledger file that this process writes; use as a context manager.

    Args:
        path: The file; made if it is not there.
        now: The clock, for tests.

    Raises:
        SpecError: Another process writes it.
        BackendError: It cannot be opened or written.
    """

    def __init__(self, path: Path, *, now: Callable[[], str] = utc_now) -> None:
        self._now = now
        self._path = path
        self._file = _open_locked(path)
        self._failure: OSError | None = None
        self.head = FIRST

    def __enter__(self) -> JsonlLedger:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._file)

    def append(self, kind: str, body: dict[str, Json]) -> None:
        """See `gate.seams.Ledger`.

        Raises:
            BackendError: This record, or one before it, could not be written.
        """
        if _RESERVED & body.keys():
            raise ValueError(f"a body may not hold {sorted(_RESERVED & body.keys())}")
        record = {"kind": kind, "time": self._now(), "prev": self.head, **body}
        line = json.dumps(record, separators=(",", ":"), allow_nan=False).encode("ascii")
        if self._failure is None:
            self._failure = self._write(line + b"\n", synced=kind in SYNCED_KINDS)
        if self._failure is not None:
            raise BackendError(
                f"{self._path}: a record could not be written ({self._failure.strerror}): see to the disk"
            ) from self._failure
        self.head = digest_bytes(line)

    def _write(self, line: bytes, *, synced: bool) -> OSError | None:
        """Write one line; why not, where it may not be there as a whole."""
        try:
            if os.write(self._file, line) < len(line):
                return OSError(errno.ENOSPC, "the disk took only a part of it")
            if synced:
                os.fsync(self._file)
        except OSError as exc:
            return exc
        return None


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


def read_ledger(path: Path) -> Iterator[dict[str, Json]]:
    """The records of a ledger file, in order, with the chain checked on the way.

    Raises:
        BackendError: It cannot be read.
        IntegrityError: A line is torn, no record, or not bound to the line before.
    """
    previous = FIRST
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                text = line.removesuffix(b"\n")
                record = _parse(path, number, line)
                if record["prev"] != previous:
                    raise IntegrityError(f"{path}:{number}: this record is not bound to the line before it")
                previous = digest_bytes(text)
                yield record
    except OSError as exc:
        raise BackendError(f"{path}: cannot be read: {exc.strerror}") from exc


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
