"""Observations kept across runs: what was seen once need not be run again.

Theory of operation. An SQLite file holds observations by the digest of all that they
depend on: the bytes of the program, the entry point, the calls, the limits, the image's
content (which covers the runner and the Python version), the boundary, the runtime, the
hash seed and whether it ran alone. Verdicts are never kept: the rules give them anew.

What says nothing of the candidate is not kept: a fault of ours, and a time limit that
may be the host's fault. Such a first look waits until the second one, alone, has come;
then both are kept in one step, for together they are an answer.

Every row carries a check sum over its key and content, so damage is an error and never
another observation. Several processes may use one file. Rows go into it by the dozen, in
one transaction, for one costs as much as many: a killed process leaves whole rows, and
what it had not yet written is run again. The file only saves time: it can be deleted at will.
"""

from __future__ import annotations

import json
import os
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from types import TracebackType

from gate import records, rules
from gate.backends.spelling import Spelling
from gate.errors import BackendError, SpecError
from gate.model import Call, Candidate, Exit, Json, Limits, Observation, digest_bytes, digest_json
from gate.seams import Sandbox

FORMAT = 1
BUSY_S = 120.0
SPELLED = 16  # sequences of calls whose digest is kept: one for each task that is judged at the time, or so
HELD_BACK = 64  # rows that are written together
_MAX_BYTES = 512 << 20
_TABLE = """
CREATE TABLE IF NOT EXISTS observations (
    key BLOB PRIMARY KEY, content BLOB NOT NULL, checksum BLOB NOT NULL
) WITHOUT ROWID
"""


class ObservationCache:
    """The file of observations; use as a context manager.

    Raises:
        SpecError: The file belongs to somebody else: what stands in it may be made up.
        BackendError: It cannot be opened, is damaged, or is no such file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._unwritten: dict[str, tuple[bytes, bytes, bytes]] = {}
        with self._trouble():
            _refuse_foreign(path)
            self._base = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None)
            try:
                self._begin()
            except BaseException:
                self._base.close()
                raise

    def _begin(self) -> None:
        self._base.execute("PRAGMA journal_mode = WAL")
        self._base.execute("PRAGMA synchronous = NORMAL")
        (version,) = self._base.execute("PRAGMA user_version").fetchone()
        if version not in (0, FORMAT):
            raise BackendError(f"{self._path}: holds observations of another version of gate: delete it")
        self._base.execute(_TABLE)
        self._base.execute(f"PRAGMA user_version = {FORMAT}")

    def __enter__(self) -> ObservationCache:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            with suppress(BackendError) if exc is not None else nullcontext():  # what went wrong first is what is told
                self._write()
        finally:
            self._base.close()

    def get(self, key: str) -> Observation | None:
        """The observation under a key; None where there is none.

        Raises:
            BackendError: It is damaged.
        """
        with self._trouble():
            row = self._unwritten.get(key)
            if row is None:
                row = self._base.execute("SELECT * FROM observations WHERE key = ?", (bytes.fromhex(key),)).fetchone()
            return None if row is None else _unpack(key, row[1], row[2])

    def put(self, found: Sequence[tuple[str, Observation]]) -> None:
        """Keep some observations, all or none of them; what is there already stays.

        Raises:
            BackendError: They cannot be written.
        """
        self._unwritten.update((key, _pack(key, seen)) for key, seen in found)
        if len(self._unwritten) >= HELD_BACK:
            self._write()

    def _write(self) -> None:
        """Write what is held back.

        Raises:
            BackendError: It cannot be written.
        """
        if not self._unwritten:
            return
        with self._trouble():
            self._base.execute("BEGIN IMMEDIATE")
            try:
                self._base.executemany("INSERT OR IGNORE INTO observations VALUES (?, ?, ?)", self._unwritten.values())
                self._base.execute("COMMIT")
            except BaseException:
                if self._base.in_transaction:
                    self._base.execute("ROLLBACK")
                raise
        self._unwritten.clear()

    @contextmanager
    def _trouble(self) -> Iterator[None]:
        """Whatever goes wrong with the file, as one sentence."""
        try:
            yield
        except sqlite3.OperationalError as exc:
            if exc.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
                raise self._damaged(exc) from exc
            raise BackendError(f"{self._path}: cannot be used ({exc}): see to the disk, or delete it") from exc
        except (sqlite3.Error, _DamageError) as exc:
            raise self._damaged(exc) from exc
        except OSError as exc:
            raise BackendError(f"{self._path}: cannot be used ({exc.strerror or exc}): see to the disk") from exc

    def _damaged(self, exc: Exception) -> BackendError:
        return BackendError(f"{self._path}: is damaged ({exc}): delete it, it only saves time")


class _DamageError(Exception):
    """A row that is not what was written."""


def _refuse_foreign(path: Path) -> None:
    """Refuse a file that another user could have filled; make one that only this user writes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o644)
    try:
        owner = os.fstat(descriptor).st_uid
    finally:
        os.close(descriptor)
    if owner != os.geteuid():
        raise SpecError(f"{path}: belongs to another user, and so does what it says: use another --out")


def _pack(key: str, seen: Observation) -> tuple[bytes, bytes, bytes]:
    record = records.observation_record("", 0, "visible", seen)
    content = zlib.compress(json.dumps(record, separators=(",", ":")).encode("ascii"), 1)
    return bytes.fromhex(key), content, _checksum(key, content)


def _unpack(key: str, content: Json, checksum: Json) -> Observation:
    if not isinstance(content, bytes) or checksum != _checksum(key, content):
        raise _DamageError("a row does not match its check sum")
    unpacking = zlib.decompressobj()
    return records.read_observation(json.loads(unpacking.decompress(content, _MAX_BYTES)))


def _checksum(key: str, content: bytes) -> bytes:
    return bytes.fromhex(digest_bytes(bytes.fromhex(key) + content))


class CachedSandbox:
    """A sandbox that runs only what was not seen before.

    Args:
        sandbox: Where the others run.
        cache: What was seen.
        conditions: What observations depend on beside their arguments: image content,
            boundary, runtime.

    Attributes:
        ran: How many observations were made anew.
        known: How many were there.
    """

    def __init__(self, sandbox: Sandbox, cache: ObservationCache, conditions: dict[str, Json]) -> None:
        self._sandbox = sandbox
        self._cache = cache
        self._conditions = digest_json([FORMAT, conditions])
        self._doubted: dict[str, tuple[str, Observation]] = {}
        self._spelling = Spelling(SPELLED)
        self.ran = 0
        self.known = 0

    async def observe(
        self,
        candidate: Candidate,
        entry_point: str | None,
        calls: Sequence[Call],
        limits: Limits,
        *,
        seed: int = 0,
        alone: bool = False,
    ) -> Observation:
        """See `gate.seams.Sandbox`."""
        subject = self._subject(candidate, entry_point, calls, limits, seed)
        key = digest_json([subject, alone])
        kept = self._cache.get(key)
        if kept is not None:
            self.known += 1
            return kept
        self.ran += 1
        seen = await self._sandbox.observe(candidate, entry_point, calls, limits, seed=seed, alone=alone)
        self._keep(subject, key, seen, limits, alone=alone)
        return seen

    def _keep(self, subject: str, key: str, seen: Observation, limits: Limits, *, alone: bool) -> None:
        doubted = self._doubted.pop(subject, None)
        if seen.exit is Exit.FAULT:
            return
        if not alone and rules.needs_confirmation(seen, limits):
            self._doubted[subject] = (key, seen)
        elif not alone:
            self._cache.put([(key, seen)])
        elif doubted is not None:
            self._cache.put([doubted, (key, seen)])

    def _subject(
        self, candidate: Candidate, entry_point: str | None, calls: Sequence[Call], limits: Limits, seed: int
    ) -> str:
        return digest_json(
            [
                self._conditions,
                candidate.digest,
                entry_point,
                self._spelling.of(calls).digest,
                [limits.wall_s, limits.cpu_s, limits.memory_mb, limits.output_kb, limits.total_cpu_s],
                seed,
            ]
        )
