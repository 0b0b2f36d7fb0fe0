"""Lines in, lines out: the same content always gives the same bytes."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from gate.model import Json, digest_bytes


def read_lines(path: Path) -> Iterator[Json]:
    """The objects of a JSONL or JSONL.gz file, in order."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
        for line in stream:
            yield json.loads(line)


def compact_lines(rows: Iterable[Json]) -> bytes:
    """JSONL without blanks, keys in the order given."""
    return b"".join(json.dumps(row, separators=(",", ":")).encode("ascii") + b"\n" for row in rows)


def write_gzip(path: Path, content: bytes) -> dict[str, Json]:
    """Write content with an empty gzip header; the digests of what was written."""
    packed = gzip.compress(content, compresslevel=9, mtime=0)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(packed)
    return {"sha256": digest_bytes(packed), "content_sha256": digest_bytes(content), "lines": content.count(b"\n")}


def write_json(path: Path, value: Json) -> None:
    """Write one JSON value for people to read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="ascii")


def input_digests(data: Path, names: Iterable[str]) -> dict[str, Json]:
    """SHA-256 of the files that a bank is made from."""
    return {name: {"sha256": digest_bytes((data / name).read_bytes())} for name in names}
