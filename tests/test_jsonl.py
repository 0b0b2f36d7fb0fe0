"""The ledger as a file: a chain in which nothing can be changed unseen, and nothing is half kept."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gate.backends.jsonl import FIRST, SYNCED_KINDS, JsonlLedger, LineIndex, read_ledger, read_lines, utc_now
from gate.errors import BackendError, IntegrityError, SpecError
from gate.model import digest_bytes

TIME = "2031-05-06T07:08:09.000001Z"

leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
bodies = st.dictionaries(
    st.text().filter(lambda key: key not in ("kind", "time", "prev")),
    st.recursive(leaves, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8),
    max_size=4,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.jsonl"


def write(path: Path, *bodies: dict[str, Any], kind: str = "note") -> str:
    """A new ledger of some records; its head."""
    path.unlink(missing_ok=True)
    with JsonlLedger(path, now=lambda: TIME) as ledger:
        for body in bodies:
            ledger.append(kind, body)
        return ledger.head


def raw_lines(path: Path) -> list[bytes]:
    return path.read_bytes().removesuffix(b"\n").split(b"\n")


def test_each_line_is_bound_to_the_line_before(path: Path) -> None:
    """`prev` is the SHA-256 of the line before, without its newline; 64 zeros for the first."""
    head = write(path, {"n": 0}, {"n": 1}, {"n": 2})
    lines = raw_lines(path)
    assert len(lines) == 3
    previous = "0" * 64
    for line in lines:
        assert json.loads(line)["prev"] == previous
        previous = digest_bytes(line)
    assert head == previous


def test_a_record_has_kind_time_and_chain_before_its_body(path: Path) -> None:
    """A line reads from left to right: what it is, when, after what, then what it says."""
    write(path, {"task": "a", "index": 0}, kind="candidate")
    (line,) = raw_lines(path)
    assert list(json.loads(line).items()) == [
        ("kind", "candidate"),
        ("time", TIME),
        ("prev", FIRST),
        ("task", "a"),
        ("index", 0),
    ]


@settings(max_examples=40)
@given(st.lists(bodies, max_size=5))
def test_what_is_appended_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, all_bodies: list[dict[str, Any]]
) -> None:
    """Records come back equal, in order, whatever texts and numbers they hold."""
    path = tmp_path_factory.getbasetemp() / "round-trip.jsonl"
    write(path, *all_bodies)
    fixed = {"kind", "time", "prev"}
    assert [{key: record[key] for key in record.keys() - fixed} for record in read_ledger(path)] == all_bodies


@pytest.mark.parametrize(
    "separator", ["\u2028", "\u2029", "\x85", "\x1c", "\x1d", "\x1e", "\x0b", "\x0c", "\r", "\n", "\r\n"]
)
def test_a_separator_inside_a_text_ends_no_line(path: Path, separator: str) -> None:
    """Only our own line feed ends a line: other tools' line ends are text."""
    text = f"before{separator}after"
    write(path, {"code": text}, {"n": 1})
    assert len(path.read_bytes().splitlines()) == path.read_bytes().decode().count("\n") == 2
    assert next(read_ledger(path))["code"] == text


def test_lone_surrogates_are_kept(path: Path) -> None:
    """A text that is not UTF-8 stands in an ASCII file, and comes back as it was."""
    write(path, {"code": "\ud800x\udfff"})
    assert path.read_bytes().isascii()
    assert next(read_ledger(path))["code"] == "\ud800x\udfff"


def test_a_reply_as_deep_as_the_wire_allows_is_kept(path: Path) -> None:
    """What comes through the wire's limit on nesting can be written and read back."""
    value: Any = 0
    for _ in range(640):
        value = [value]
    write(path, {"replies": [{"value": value}]})
    assert next(read_ledger(path))["replies"] == [{"value": value}]


def test_a_byte_that_changes_anywhere_is_found(path: Path) -> None:
    """A flipped bit in any byte is an integrity error, or another head where the last line has it."""
    head = write(path, {"a": 1}, {"b": "text"}, {"c": None})
    data = path.read_bytes()
    for at in range(len(data)):
        flipped = bytearray(data)
        flipped[at] ^= 1 << at % 8
        path.write_bytes(flipped)
        try:
            list(read_ledger(path))
        except IntegrityError:
            continue
        assert at > data[:-1].rfind(b"\n")
        assert digest_bytes(raw_lines(path)[-1]) != head


@pytest.mark.parametrize("lines", [[1, 2], [0, 2], [0, 2, 1], [0, 0, 1, 2], [1, 0, 2]])
def test_a_line_that_is_missing_moved_or_doubled_is_found(path: Path, lines: list[int]) -> None:
    """The order and the number of all lines but the last are bound, and the message says where."""
    write(path, {"n": 0}, {"n": 1}, {"n": 2})
    all_lines = raw_lines(path)
    path.write_bytes(b"".join(all_lines[index] + b"\n" for index in lines))
    with pytest.raises(IntegrityError, match=r"ledger\.jsonl:[123]: this record is not bound"):
        list(read_ledger(path))


def test_a_torn_end_is_found_after_the_whole_lines(path: Path) -> None:
    """A last line without its line feed is torn wherever it is cut; what stands before it is read."""
    write(path, {"n": 0}, {"n": 1})
    data = path.read_bytes()
    first = len(raw_lines(path)[0]) + 1
    for length in range(first + 1, len(data)):
        path.write_bytes(data[:length])
        records = read_ledger(path)
        assert next(records)["n"] == 0
        with pytest.raises(IntegrityError, match=r":2: the last record is torn"):
            next(records)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{",
        b"[]",
        b"1",
        b"null",
        b"{}",
        b'{"kind":"a","time":"b"}',
        b"\xff",
        '{"kind":"é"}'.encode(),
        b"[" * 100_000,
    ],
    ids=["empty", "cut", "list", "number", "null", "nothing in it", "no prev", "not UTF-8", "not ASCII", "deep"],
)
def test_a_line_that_is_no_record_is_an_integrity_error(path: Path, line: bytes) -> None:
    """Whatever a forged line does to the parser, it is a damaged ledger and no crash of ours."""
    path.write_bytes(line + b"\n")
    with pytest.raises(IntegrityError, match=r":1: this line is no record"):
        list(read_ledger(path))


def test_a_ledger_that_is_not_there_is_our_world(path: Path) -> None:
    """A file that cannot be read is no judgement on what it holds."""
    with pytest.raises(BackendError, match="cannot be read"):
        list(read_ledger(path))


def test_a_second_writer_is_refused(path: Path) -> None:
    """Two writers would break the chain: the second is a usage error, and the first goes on."""
    with JsonlLedger(path) as ledger:
        with pytest.raises(SpecError, match="another gate writes this run"):
            JsonlLedger(path)
        ledger.append("note", {"n": 0})
    assert len(raw_lines(path)) == 1
    JsonlLedger(path).__exit__(None, None, None)


def test_a_second_process_is_refused(path: Path) -> None:
    """The lock holds between processes, and ends with the process that has it."""
    code = (
        "import sys\nfrom pathlib import Path\nfrom gate.backends.jsonl import JsonlLedger\n"
        "JsonlLedger(Path(sys.argv[1]))\nprint('open', flush=True)\ninput()"
    )
    command = [sys.executable, "-c", code, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as first:
        assert first.stdout is not None
        first.stdout.readline()
        with pytest.raises(SpecError, match="another gate"):
            JsonlLedger(path)
        first.kill()
    JsonlLedger(path).__exit__(None, None, None)


@pytest.fixture
def descriptors() -> Iterator[None]:
    """As many open files after a test as before it."""
    before = os.listdir("/proc/self/fd")
    yield
    assert len(os.listdir("/proc/self/fd")) == len(before)


@pytest.mark.usefixtures("descriptors")
def test_a_refused_writer_leaves_no_open_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that cannot be locked is closed again, whatever the reason."""

    def refuse(file: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(BackendError, match="No locks available"):
        JsonlLedger(path)


def test_a_place_that_cannot_be_written_is_our_world(tmp_path: Path) -> None:
    """A directory that is not there is a sentence that names it."""
    with pytest.raises(BackendError, match="cannot be opened for writing: No such file"):
        JsonlLedger(tmp_path / "gone" / "ledger.jsonl")


@pytest.mark.parametrize("size", [1, 1 << 16, (1 << 16) + 1, 200_000])
def test_a_ledger_that_is_opened_again_goes_on(path: Path, size: int) -> None:
    """The next record is bound to the last one, however long that is, and nothing is cut."""
    head = write(path, {"n": 0}, {"text": "x" * size})
    before = path.read_bytes()
    with JsonlLedger(path) as ledger:
        assert (ledger.head, ledger.cut_bytes) == (head, 0)
        assert path.read_bytes() == before
        ledger.append("note", {"n": 2})
    assert path.read_bytes().startswith(before)
    assert len(list(read_ledger(path))) == 3


def test_a_torn_end_and_nothing_else_is_cut(path: Path) -> None:
    """Opening cuts what stands behind the last line feed, says how much that was, and the chain goes on."""
    write(path, {"n": 0}, {"n": 1})
    data = path.read_bytes()
    first = len(raw_lines(path)[0]) + 1
    for length in range(len(data)):
        path.write_bytes(data[:length])
        kept = first if length >= first else 0
        with JsonlLedger(path) as ledger:
            assert ledger.cut_bytes == length - kept
            assert path.read_bytes() == data[:kept]
            ledger.append("note", {"n": "next"})
        assert [record["n"] for record in read_ledger(path)] == [*([0] if kept else []), "next"]


def test_a_second_writer_cuts_nothing(path: Path) -> None:
    """What looks torn may be a line that the first writer is about to end."""
    with JsonlLedger(path) as ledger:
        ledger.append("note", {"n": 0})
        with path.open("ab") as file:
            file.write(b'{"kind":')
        data = path.read_bytes()
        with pytest.raises(SpecError):
            JsonlLedger(path)
        assert path.read_bytes() == data


def test_append_says_under_which_digest_a_record_is_kept(path: Path) -> None:
    """The digest is the line's own, so that another record can name it."""
    with JsonlLedger(path) as ledger:
        digests = [ledger.append("note", {"n": number}) for number in range(3)]
        assert ledger.head == digests[-1]
    assert digests == [digest_bytes(line) for line in raw_lines(path)] == [line.digest for line in read_lines(path)]


def test_the_lines_of_a_task_are_found_again(path: Path) -> None:
    """An index gives the lines of each task, in order, as a full reading would; unknown tasks have none."""
    write(path, {"task": "a", "n": 0}, {"n": 1}, {"task": "b", "n": "\u2028"}, {"task": "a", "n": 3}, {"task": ["a"]})
    index, lines = LineIndex(path), list(read_lines(path))
    for line in lines:
        index.add(line)
    assert list(index.lines("a")) == [lines[0], lines[3]]
    assert list(index.lines("b")) == [lines[2]]
    assert list(index.lines("c")) == []


def full(*_: Any) -> int:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("broken", ["write", "fsync"])
def test_a_full_disk_is_our_world_and_nothing_is_kept(path: Path, monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    """A record that could not be written or synced is not the head, and the reason is named."""
    with JsonlLedger(path) as ledger:
        ledger.append("decision", {"n": 0})
        head = ledger.head
        monkeypatch.setattr(os, broken, full)
        with pytest.raises(BackendError, match=r"could not be written \(No space left on device\)"):
            ledger.append("decision", {"n": 1})
        assert ledger.head == head
        monkeypatch.undo()
    assert next(read_ledger(path))["n"] == 0


@pytest.mark.parametrize("broken", ["write", "fsync", "short write"])
def test_nothing_follows_a_record_that_was_not_kept(path: Path, monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    """After a failure nothing more is written, even when the disk has room again: the end stays a torn end."""
    write_some = os.write
    with JsonlLedger(path) as ledger:
        ledger.append("decision", {"n": 0})
        if broken == "short write":
            monkeypatch.setattr(os, "write", lambda file, data: write_some(file, data[: len(data) // 2]))
        else:
            monkeypatch.setattr(os, broken, full)
        with pytest.raises(BackendError):
            ledger.append("decision", {"n": 1})
        monkeypatch.undo()
        size_bytes = path.stat().st_size
        with pytest.raises(BackendError, match="could not be written"):
            ledger.append("decision", {"n": 2})
        assert path.stat().st_size == size_bytes
    if broken == "short write":
        with pytest.raises(IntegrityError, match=":2: the last record is torn"):
            list(read_ledger(path))
    else:
        assert next(read_ledger(path))["n"] == 0


@pytest.mark.parametrize("kind", sorted(SYNCED_KINDS))
def test_what_something_follows_from_is_synced_first(path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """The record is whole in the file when it is synced, and synced before `append` returns."""
    sizes: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda file: sizes.append(os.fstat(file).st_size))
    with JsonlLedger(path) as ledger:
        ledger.append(kind, {"n": 0})
        assert sizes == [path.stat().st_size]


def test_the_kinds_that_decide_are_synced() -> None:
    """What a run begins, asks, draws, judges, decides and ends with is on the disk before anything follows."""
    assert sorted(SYNCED_KINDS) == ["asked", "candidate", "closed", "decision", "run", "verdict"]


def test_a_record_is_written_in_one_piece(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One write a record, so that a crash leaves a torn end and no torn middle."""
    written: list[bytes] = []
    write_all = os.write

    def note(file: int, data: bytes) -> int:
        written.append(data)
        return write_all(file, data)

    monkeypatch.setattr(os, "write", note)
    write(path, {"text": "x" * 100_000}, {"n": 1})
    assert written == [line + b"\n" for line in raw_lines(path)]


@pytest.mark.parametrize("key", ["kind", "time", "prev"])
def test_a_body_cannot_forge_the_chain(path: Path, key: str) -> None:
    """The keys that bind a record are ours: a body that holds one is refused and not written."""
    with JsonlLedger(path) as ledger, pytest.raises(ValueError, match=key):
        ledger.append("note", {key: FIRST})
    assert path.read_bytes() == b""


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}, b"x"], ids=["nan", "inf", "set", "bytes"])
def test_what_is_no_json_is_not_written(path: Path, value: Any) -> None:
    """A value that other readers would not take never gets into the file."""
    with JsonlLedger(path) as ledger, pytest.raises((ValueError, TypeError)):
        ledger.append("note", {"value": value})
    assert path.read_bytes() == b""


def test_the_time_is_utc_to_the_microsecond() -> None:
    """One spelling of time, which sorts as text."""
    assert len(utc_now()) == len(TIME)
    assert utc_now().endswith("Z")
    assert utc_now() <= utc_now()
