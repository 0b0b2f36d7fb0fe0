"""Replies too long for a line: by digest, once, and never another than the line says."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from gate.backends.content import MAX_INLINE_BYTES, ContentStore
from gate.errors import IntegrityError
from gate.model import Json

LONG = {"kind": "returned", "value": "x" * MAX_INLINE_BYTES}
SHORT = {"kind": "returned", "value": "x"}


@pytest.fixture
def store(tmp_path: Path) -> ContentStore:
    return ContentStore.beside(tmp_path / "ledger.jsonl")


def record(*replies: Json) -> dict[str, Json]:
    return {"kind": "observation", "replies": list(replies)}


def test_only_what_is_too_long_goes_there(store: ContentStore) -> None:
    """A short reply stays in its line; a long one is replaced, comes back whole, and is kept once."""
    before = record(SHORT, LONG, LONG)
    short = store.shorten(before)
    assert short["replies"][0] == SHORT
    assert [set(reply) for reply in short["replies"][1:]] == [{"kind", "stored", "bytes"}] * 2
    assert len(list(store.names())) == 1
    whole, stored = store.lengthen(short)
    assert whole == before
    assert len(set(stored)) == 1


def test_the_limit_is_64_kb_of_json(store: ContentStore) -> None:
    """At the limit it stays, one byte above it goes."""
    around = len('{"kind":"returned","value":""}')
    for more, kept in ((0, True), (1, False)):
        reply = {"kind": "returned", "value": "x" * (MAX_INLINE_BYTES - around + more)}
        assert (store.shorten(record(reply))["replies"] == [reply]) is kept


@pytest.mark.parametrize(
    "change",
    [
        lambda path: path.unlink(),
        lambda path: path.write_bytes(b"no gzip"),
        lambda path: path.write_bytes(path.read_bytes()[:40]),
        lambda path: path.write_bytes(gzip.compress(b'{"kind":"returned","value":1}')),
    ],
)
def test_whatever_else_stands_there_is_an_integrity_error(store: ContentStore, change: object) -> None:
    """Gone, garbage, cut or another reply: the line rests on it, so nothing is believed."""
    short = store.shorten(record(LONG))
    (name,) = store.names()
    change(store.path / name)  # type: ignore[operator]
    with pytest.raises(IntegrityError):
        store.lengthen(short)


@pytest.mark.parametrize("stored", ["../../etc/passwd", "A" * 64, 7, ""])
def test_a_name_that_is_no_digest_is_not_opened(store: ContentStore, stored: Json) -> None:
    """What a line names is a digest and never a path."""
    with pytest.raises(IntegrityError, match="no digest"):
        store.lengthen(record({"kind": "returned", "stored": stored, "bytes": 1}))


def test_what_no_line_names_is_swept(store: ContentStore) -> None:
    """A killed process may leave a file without a line; the others stay."""
    short = store.shorten(record(LONG))
    _, stored = store.lengthen(short)
    (store.path / "left.json.gz.new").write_bytes(b"")
    assert store.unnamed(set(stored)) == ["left.json.gz.new"]
    store.sweep(set(stored))
    assert store.lengthen(short)[0] == record(LONG)
    assert store.unnamed(set(stored)) == []
