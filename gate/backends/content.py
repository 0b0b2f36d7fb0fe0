"""Replies too long for a line of the ledger, by the digest of what they are.

Theory of operation. A reply whose JSON is longer than 64 KB is written to
`content/DIGEST.json.gz` beside the ledger, whole and synced before its line is, and the
line holds `{"kind", "stored", "bytes"}` in its place. The digest is that of the text, so the chain of
lines binds it; what is read is held against it. Equal replies stand there once. A
process that is killed between the two leaves a file that no line names: `sweep` removes
those before a ledger is closed.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gate.errors import BackendError, IntegrityError
from gate.model import Json, canonical_json, digest_bytes

FOLDER = "content"
MAX_INLINE_BYTES = 64 << 10
MAX_REPLY_BYTES = 256 << 20
_SUFFIX = ".json.gz"
_DIGEST = re.compile(r"[0-9a-f]{64}\Z")


@dataclass(frozen=True, slots=True)
class ContentStore:
    """The folder that holds them."""

    path: Path

    @classmethod
    def beside(cls, ledger: Path) -> ContentStore:
        """The store of a ledger file."""
        return cls(ledger.with_name(FOLDER))

    def shorten(self, record: dict[str, Json]) -> dict[str, Json]:
        """An observation's record with its long replies in the store.

        Raises:
            BackendError: One cannot be written.
        """
        replies = [self._shortened(reply) for reply in record["replies"]]
        return {**record, "replies": replies}

    def _shortened(self, reply: dict[str, Json]) -> dict[str, Json]:
        text = canonical_json(reply).encode("ascii")
        if len(text) <= MAX_INLINE_BYTES:
            return reply
        digest = digest_bytes(text)
        try:
            self._write(digest, text)
        except OSError as exc:
            raise BackendError(
                f"{self.path}: a reply could not be written ({exc.strerror or exc}): see to the disk"
            ) from exc
        return {"kind": reply["kind"], "stored": digest, "bytes": len(text)}

    def _write(self, digest: str, text: bytes) -> None:
        target = self._file(digest)
        if target.exists():
            return
        self.path.mkdir(exist_ok=True)
        beside = target.with_name(target.name + ".new")
        with beside.open("wb") as file:
            file.write(gzip.compress(text, 6, mtime=0))
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, target)

    def lengthen(self, record: dict[str, Json]) -> tuple[dict[str, Json], tuple[str, ...]]:
        """An observation's record with its replies in their places, and the digests of those from the store.

        Raises:
            IntegrityError: One is not there, or is not what the line says.
        """
        replies = record.get("replies")
        if not isinstance(replies, list) or not any(isinstance(reply, dict) and "stored" in reply for reply in replies):
            return record, ()
        stored = tuple(str(reply["stored"]) for reply in replies if isinstance(reply, dict) and "stored" in reply)
        whole = [self._read(reply) if isinstance(reply, dict) and "stored" in reply else reply for reply in replies]
        return {**record, "replies": whole}, stored

    def _read(self, short: dict[str, Json]) -> Json:
        digest = short["stored"]
        if not isinstance(digest, str) or _DIGEST.match(digest) is None:
            raise IntegrityError(f"{self.path}: a line names a reply by no digest")
        file = self._file(digest)
        try:
            with file.open("rb") as packed:
                unpacking = zlib.decompressobj(wbits=31)
                text = unpacking.decompress(packed.read(MAX_REPLY_BYTES), MAX_REPLY_BYTES)
        except (OSError, zlib.error) as exc:
            raise IntegrityError(f"{file}: cannot be read ({exc}), and a line of the ledger rests on it") from exc
        if digest_bytes(text) != digest or len(text) != short.get("bytes"):
            raise IntegrityError(f"{file}: is not the reply that a line of the ledger names")
        reply = json.loads(text)
        if reply.get("kind") != short.get("kind"):
            raise IntegrityError(f"{file}: is a reply of another kind than its line says")
        return reply

    def _file(self, digest: str) -> Path:
        return self.path / f"{digest}{_SUFFIX}"

    def names(self) -> Iterator[str]:
        """The names of the files in it."""
        if self.path.is_dir():
            yield from sorted(each.name for each in self.path.iterdir())

    def unnamed(self, named: set[str]) -> list[str]:
        """The files that no line names.

        Args:
            named: The digests that lines name.
        """
        wanted = {f"{digest}{_SUFFIX}" for digest in named}
        return [name for name in self.names() if name not in wanted]

    def sweep(self, named: set[str]) -> None:
        """Remove the files that no line names.

        Raises:
            BackendError: One cannot be removed.
        """
        try:
            for name in self.unnamed(named):
                (self.path / name).unlink()
        except OSError as exc:
            raise BackendError(f"{self.path}: cannot be swept ({exc.strerror or exc}): see to the disk") from exc
