"""The wire: hostile bytes can only be a violation or a flood, and how they are cut changes nothing."""

from __future__ import annotations

import base64
import json
import tracemalloc
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gate import values, wire
from gate.model import Call, Expect, Limits, LoadFailure, Reply, Test
from gate.wire import (
    LOAD_KINDS,
    MESSAGE_CHARS,
    TAIL_BYTES,
    Death,
    Flood,
    Phase,
    ReplyReader,
    StreamSplitter,
    Tail,
    Violation,
    encode_calls,
    encode_header,
)

MAX_BYTES = 4096
READY = {"ready": 1, "python": "3.12.7"}
LOADED = {"loaded": 1}
DIED = {"died": 0}

Record = dict[str, Any]

texts = st.text(st.characters(), max_size=20)  # lone surrogates included
leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts
keys = texts | st.sampled_from(["i", "value", "ready", "loaded", "load", "message", "end", "died", "printed", "status"])
any_json = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4), max_leaves=8
)
function_answers = st.one_of(
    any_json.map(lambda value: {"value": value}),
    st.builds(lambda types, text: {"raised": types, "message": text}, st.lists(texts, max_size=5), texts),
    texts.map(lambda text: {"unserialisable": text}),
    texts.map(lambda text: {"too_large": text}),
)
program_answers = st.one_of(
    st.builds(
        lambda output, status: {"printed": base64.b64encode(output).decode(), "status": status},
        st.binary(max_size=20),
        st.integers(-64, 255),
    ),
    texts.map(lambda text: {"too_large": text}),
)


def line(record: Any) -> bytes:
    return values.dumps(record).encode("ascii") + b"\n"


def lines(records: Iterable[Any]) -> bytes:
    return b"".join(map(line, records))


def numbered(answers: Iterable[Record]) -> list[Record]:
    return [{"i": index, **answer} for index, answer in enumerate(answers)]


def function_talk(answers: Sequence[Record]) -> list[Record]:
    return [READY, LOADED, *numbered(answers), {"end": len(answers)}, DIED]


def program_talk(answers: Sequence[Record]) -> list[Record]:
    return [READY, *numbered(answers), {"end": len(answers)}, DIED]


@st.composite
def talks(draw: st.DrawFn) -> tuple[bool, int, list[Record]]:
    """A whole conversation that keeps to the protocol: mode, calls, records."""
    program = draw(st.booleans())
    answers = draw(st.lists(program_answers if program else function_answers, max_size=4))
    talk = (program_talk if program else function_talk)(answers)
    start = talk[: -2 - len(answers)]
    end = draw(st.sampled_from(["whole", "died early", "not loaded"]))
    if end == "died early":
        kept = draw(st.integers(0, len(answers)))
        talk = [*start, *numbered(answers[:kept]), {"died": draw(st.integers(-64, 255))}]
    elif end == "not loaded":
        talk = [READY, {"load": draw(st.sampled_from(LOAD_KINDS)), "message": draw(texts)}, DIED]
    return program, len(answers), talk


def cut(data: bytes, places: Iterable[int]) -> list[bytes]:
    bounds = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in pairwise(bounds)]


def read(
    data: bytes | Sequence[bytes], calls: int = 1, *, program: bool = False, max_bytes: int = MAX_BYTES
) -> ReplyReader:
    reader = ReplyReader(calls, program=program, max_bytes=max_bytes)
    for chunk in [data] if isinstance(data, bytes) else data:
        reader.feed(chunk)
    return reader


def facts(reader: ReplyReader) -> tuple[Any, ...]:
    return reader.phase, reader.replies, reader.load, reader.death, reader.python


def end_of(data: Sequence[bytes], calls: int, *, program: bool, max_bytes: int = MAX_BYTES) -> tuple[Any, ...]:
    """What came of it, good or bad: the error's type, and all that was read before it."""
    reader = ReplyReader(calls, program=program, max_bytes=max_bytes)
    error: type[Exception] | None = None
    try:
        for chunk in data:
            reader.feed(chunk)
    except (Violation, Flood) as exc:
        error = type(exc)
    return error, *facts(reader)


@given(talks(), st.lists(st.integers(0, 10_000), max_size=30))
def test_how_a_conversation_is_cut_changes_nothing(talk: tuple[bool, int, list[Record]], places: list[int]) -> None:
    """A conversation reads the same in one chunk, in any chunks, and byte by byte."""
    program, calls, records = talk
    data = lines(records)
    whole = facts(read(data, calls, program=program))
    assert whole[0] is Phase.ENDED
    assert facts(read(cut(data, places), calls, program=program)) == whole
    assert facts(read([bytes([byte]) for byte in data], calls, program=program)) == whole


@given(talks(), st.binary(min_size=1, max_size=40), st.lists(st.integers(0, 10_000), max_size=10), st.integers(0, 500))
def test_how_hostile_bytes_are_cut_changes_nothing(
    talk: tuple[bool, int, list[Record]], noise: bytes, places: list[int], max_bytes: int
) -> None:
    """Noise in a conversation has the same end, after the same replies, however it is cut."""
    program, calls, records = talk
    data = lines(records)
    at = sum(places) % (len(data) + 1)
    data = data[:at] + noise + data[at:]
    whole = end_of([data], calls, program=program, max_bytes=max_bytes)
    assert end_of(cut(data, places), calls, program=program, max_bytes=max_bytes) == whole


@given(st.lists(st.binary(max_size=200), max_size=10), st.integers(0, 3), st.booleans())
@example([b"\n"], 1, False)
@example([b"\xff\n"], 1, False)
@example([b"\xef\xbb\xbf" + line(READY)], 1, False)
def test_random_bytes_raise_nothing_else(chunks: list[bytes], calls: int, program: bool) -> None:
    """Random bytes are a violation, a flood, or not a whole line yet; never another exception."""
    end_of(chunks, calls, program=program)


@given(st.lists(any_json, max_size=8), st.integers(0, 3), st.booleans(), st.booleans())
def test_random_records_raise_nothing_else(records: list[Any], calls: int, program: bool, ready: bool) -> None:
    """Random lines of JSON, also after a right start, raise a violation or nothing."""
    start = [READY] + ([] if program else [LOADED])
    error, *_ = end_of([lines([*(start if ready else []), *records])], calls, program=program)
    assert error in (None, Violation)


@st.composite
def mutated_talks(draw: st.DrawFn) -> tuple[bool, int, list[Any]]:
    """A conversation with one record dropped, doubled, swapped, changed or made up."""
    program, calls, records = draw(talks())
    mutated: list[Any] = list(records)
    at = draw(st.integers(0, len(mutated) - 1))
    match draw(st.sampled_from(["drop", "double", "swap", "change", "insert"])):
        case "drop":
            del mutated[at]
        case "double":
            mutated.insert(at, mutated[at])
        case "swap":
            mutated[at - 1], mutated[at] = mutated[at], mutated[at - 1]
        case "change":
            key = draw(st.sampled_from(sorted(mutated[at])))
            mutated[at] = {**mutated[at], key: draw(any_json)}
        case "insert":
            mutated.insert(at, draw(any_json))
    return program, calls, mutated


@given(mutated_talks())
def test_a_mutated_conversation_is_a_violation_or_another_right_one(talk: tuple[bool, int, list[Any]]) -> None:
    """What a change makes is a violation, or has a reply to each call, or says why it has not."""
    program, calls, records = talk
    error, phase, replies, load, death, _ = end_of([lines(records)], calls, program=program)
    assert error in (None, Violation)
    if phase is Phase.ENDED and error is None and load is None and death is None:
        assert len(replies) == calls


# What each break of the protocol looks like: function mode, two calls.
ONE, TWO = {"i": 0, "value": 1}, {"i": 1, "value": 2}
BREAKS: dict[str, list[Any]] = {
    "nothing ready": [LOADED],
    "two ready": [READY, READY],
    "ready is true": [{"ready": True, "python": "3.12"}],
    "ready without a version": [{"ready": 1}],
    "a version that is no text": [{"ready": 1, "python": 3}],
    "ready and more": [{**READY, "i": 0}],
    "two loaded": [READY, LOADED, LOADED],
    "loaded is true": [READY, {"loaded": True}],
    "loaded is 1.0": [READY, {"loaded": 1.0}],
    "loaded and more": [READY, {**LOADED, "i": 0}],
    "a reply before loaded": [READY, ONE],
    "an end before loaded": [READY, {"end": 0}],
    "a load failure of no known kind": [READY, {"load": "lazy", "message": ""}],
    "a load failure of a list": [READY, {"load": ["raised"], "message": ""}],
    "a load failure without text": [READY, {"load": "raised", "message": None}],
    "a load failure after loaded": [READY, LOADED, {"load": "raised", "message": ""}],
    "two load failures": [READY, *[{"load": "raised", "message": ""}] * 2],
    "loaded after a load failure": [READY, {"load": "raised", "message": ""}, LOADED],
    "a reply too many": [READY, LOADED, ONE, TWO, {"i": 2, "value": 3}],
    "a reply missing": [READY, LOADED, ONE, {"end": 2}],
    "a forged early end": [READY, LOADED, ONE, {"end": 1}],
    "an end of nothing": [READY, LOADED, {"end": 0}],
    "an end that counts wrong": [READY, LOADED, ONE, TWO, {"end": 3}],
    "an end that is a float": [READY, LOADED, ONE, TWO, {"end": 2.0}],
    "an end and more": [READY, LOADED, ONE, TWO, {"end": 2, "i": 2}],
    "two ends": [READY, LOADED, ONE, TWO, {"end": 2}, {"end": 2}],
    "a reply after the end": [READY, LOADED, ONE, TWO, {"end": 2}, {"i": 2, "value": 0}],
    "the same reply twice": [READY, LOADED, ONE, ONE],
    "replies in the wrong order": [READY, LOADED, TWO],
    "an index that is true": [READY, LOADED, ONE, {"i": True, "value": 2}],
    "an index that is false": [READY, LOADED, {"i": False, "value": 2}],
    "an index that is a float": [READY, LOADED, {"i": 0.0, "value": 2}],
    "an index that is text": [READY, LOADED, {"i": "0", "value": 2}],
    "an index below zero": [READY, LOADED, {"i": -1, "value": 2}],
    "no index": [READY, LOADED, {"value": 2}],
    "no answer": [READY, LOADED, {"i": 0}],
    "two answers in one": [READY, LOADED, {"i": 0, "value": 1, "too_large": ""}],
    "an answer and more": [READY, LOADED, {"i": 0, "value": 1, "pass": True}],
    "types that are text": [READY, LOADED, {"i": 0, "raised": "ValueError", "message": ""}],
    "types that are numbers": [READY, LOADED, {"i": 0, "raised": [1], "message": ""}],
    "too many types": [READY, LOADED, {"i": 0, "raised": ["E"] * 51, "message": ""}],
    "raised without text": [READY, LOADED, {"i": 0, "raised": ["E"]}],
    "a message that is no text": [READY, LOADED, {"i": 0, "raised": ["E"], "message": 1}],
    "a why that is no text": [READY, LOADED, {"i": 0, "unserialisable": None}],
    "a size that is no text": [READY, LOADED, {"i": 0, "too_large": 9}],
    "a program's reply": [READY, LOADED, {"i": 0, "printed": "", "status": 0}],
    "died twice": [READY, LOADED, DIED, DIED],
    "a reply after died": [READY, LOADED, ONE, DIED, TWO],
    "ready after died": [READY, DIED, READY],
    "died with true": [READY, {"died": True}],
    "died with a float": [READY, {"died": 1.0}],
    "died with null": [READY, {"died": None}],
    "died of more than a status": [READY, {"died": 256}],
    "died of a huge signal": [READY, {"died": -(10**30)}],
    "died and more": [READY, LOADED, {**DIED, "i": 0}],
    "a list": [READY, [LOADED]],
    "a number": [READY, 1],
    "an empty object": [READY, LOADED, {}],
}
PROGRAM_BREAKS: dict[str, list[Any]] = {
    "a function's loaded": [READY, LOADED],
    "a function's value": [READY, ONE],
    "a function's exception": [READY, {"i": 0, "raised": ["E"], "message": ""}],
    "a function's unserialisable": [READY, {"i": 0, "unserialisable": ""}],
    "a status that is true": [READY, {"i": 0, "printed": "", "status": True}],
    "a status that is a float": [READY, {"i": 0, "printed": "", "status": 0.0}],
    "a status beyond a status": [READY, {"i": 0, "printed": "", "status": 256}],
    "a huge status": [READY, {"i": 0, "printed": "", "status": 10**400}],
    "no status": [READY, {"i": 0, "printed": ""}],
    "output that is no base64": [READY, {"i": 0, "printed": "a", "status": 0}],
    "output with blanks in its base64": [READY, {"i": 0, "printed": "YQ ==", "status": 0}],
    "output that is not ASCII": [READY, {"i": 0, "printed": "é===", "status": 0}],
    "output with lone surrogates": [READY, {"i": 0, "printed": "\ud800", "status": 0}],
    "output that is a list": [READY, {"i": 0, "printed": [], "status": 0}],
    "output and more": [READY, {"i": 0, "printed": "", "status": 0, "value": 1}],
    "an early end": [READY, {"i": 0, "printed": "", "status": 0}, {"end": 1}],
}


@pytest.mark.parametrize("name", BREAKS)
def test_a_break_of_the_protocol_is_a_violation(name: str) -> None:
    """Extra, missing, doubled, reordered and mistyped records are the candidate's own doing, at once."""
    *before, last = BREAKS[name]
    reader = read(lines(before), calls=2)
    with pytest.raises(Violation):
        reader.feed(line(last))


@pytest.mark.parametrize("name", PROGRAM_BREAKS)
def test_a_program_that_breaks_the_protocol_is_a_violation(name: str) -> None:
    """The other mode's records, and statuses and outputs that cannot be, are violations."""
    *before, last = PROGRAM_BREAKS[name]
    reader = read(lines(before), calls=2, program=True)
    with pytest.raises(Violation):
        reader.feed(line(last))


@pytest.mark.parametrize(
    "text",
    [b'{"ready":1,"ready":1,"python":""}', b"{'ready':1}", b"", b"\xff", b"NaN", b"[" * 5000, b"1" * 5000, b'"\\'],
    ids=["duplicate key", "quotes", "empty", "not UTF-8", "NaN", "deep", "digits", "open text"],
)
def test_a_line_that_is_no_json_is_a_violation(text: bytes) -> None:
    """What is not strict JSON is a violation, however it fails to be."""
    with pytest.raises(Violation):
        read(text + b"\n")


@pytest.mark.parametrize("rest", [b"x", b"\n", b" ", line(DIED), line(ONE), b"{"])
def test_not_a_byte_follows_the_last_record(rest: bytes) -> None:
    """A byte after `died` is a violation, a whole line or not, in the same chunk or a later one."""
    data = lines(function_talk([{"value": 1}]))
    with pytest.raises(Violation):
        read(data + rest)
    reader = read(data)
    with pytest.raises(Violation):
        reader.feed(rest)


def test_the_replies_are_what_was_said() -> None:
    """Each kind of record becomes the reply of its kind."""
    answers: list[Record] = [
        {"value": {"$tuple": [1, None]}},
        {"raised": ["KeyError", "LookupError"], "message": "'a'"},
        {"unserialisable": "a value of type generator"},
        {"too_large": "more bytes than the limit"},
    ]
    reader = read(lines(function_talk(answers)), calls=4)
    assert reader.replies == [
        Reply(kind="returned", value={"$tuple": [1, None]}),
        Reply(kind="raised", types=("KeyError", "LookupError"), message="'a'"),
        Reply(kind="unserialisable", message="a value of type generator"),
        Reply(kind="too_large", message="more bytes than the limit"),
    ]
    assert (reader.phase, reader.load, reader.death, reader.python) == (Phase.ENDED, None, None, "3.12.7")


def test_a_programs_output_is_kept_as_bytes() -> None:
    """Output stays base64 of bytes, with the exit status of its run."""
    reader = read(lines(program_talk([{"printed": "//4=", "status": -9}])), program=True)
    assert reader.replies == [Reply(kind="printed", value={"$bytes": "//4="}, status=-9)]


@pytest.mark.parametrize("program", [False, True])
def test_a_load_failure_stands_instead_of_all_replies(program: bool) -> None:
    """A candidate that does not load has a reason and no replies, and its death is no crash."""
    reader = read(lines([READY, {"load": "syntax_error", "message": "line 1"}, DIED]), program=program)
    assert reader.load == LoadFailure(kind="syntax_error", message="line 1")
    assert (reader.phase, reader.replies, reader.death) == (Phase.ENDED, [], None)


def test_an_early_death_is_kept_with_what_was_replied() -> None:
    """A process that ends before its end marker leaves its replies and its status."""
    reader = read(lines([READY, LOADED, ONE, {"died": -11}]), calls=2)
    assert reader.death == Death(status=-11)
    assert reader.replies == [Reply(kind="returned", value=1)]


def test_a_death_after_the_end_marker_is_no_early_death() -> None:
    """How the process ends once all is said does not matter."""
    reader = read(lines([READY, LOADED, ONE, {"end": 1}, {"died": 1}]))
    assert (reader.phase, reader.death) == (Phase.ENDED, None)


def test_the_largest_of_each_kind_is_taken() -> None:
    """Fifty names along an MRO and a status of 255 are still what they say."""
    answer = {"raised": ["E"] * 50, "message": ""}
    assert read(lines([READY, LOADED, {"i": 0, **answer}])).replies[0].types == ("E",) * 50
    for status in (255, -255):
        assert read(lines([READY, {"died": status}])).death == Death(status=status)


def test_messages_and_names_are_cut() -> None:
    """Texts of a candidate are bounded: messages, names of types, and the version."""
    answers: list[Record] = [
        {"raised": ["E" * 500], "message": "m" * 9000},
        {"unserialisable": "u" * 9000},
        {"too_large": "t" * 9000},
    ]
    talk = function_talk(answers)
    reader = read(lines([{"ready": 1, "python": "3" * 500}, *talk[1:]]), calls=3, max_bytes=1 << 20)
    assert {len(reply.message) for reply in reader.replies} == {MESSAGE_CHARS}
    assert (len(reader.replies[0].types[0]), len(reader.python)) == (200, 40)


@pytest.mark.parametrize(("record", "moved"), [(b"", False), (b'{"load', False), (line(LOADED), True)])
def test_feed_says_whether_something_moved_on(record: bytes, moved: bool) -> None:
    """Half a line is no progress: a candidate cannot buy time with single bytes."""
    assert read(line(READY)).feed(record) is moved


def test_a_line_beyond_the_limit_is_a_flood_before_it_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line that is too long is never handed to the parser, whether it ends or not."""
    reader = read(lines([READY, LOADED]))

    def parse(data: bytes) -> None:
        raise AssertionError(f"{len(data)} bytes came to the parser")

    monkeypatch.setattr(values, "loads", parse)
    with pytest.raises(Flood):
        reader.feed(line({"i": 0, "value": "x" * 200_000}))


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_one_line_is_bounded_where_many_may_come(end: bytes) -> None:
    """The room that a thousand replies have together is not one reply's."""
    reader = read(lines([READY, LOADED]), calls=1000)
    with pytest.raises(Flood, match="a reply is larger"):
        reader.feed(line({"i": 0, "value": "x" * 200_000}).removesuffix(b"\n") + end)


def test_many_small_lines_beyond_the_limit_are_a_flood() -> None:
    """The sum of all replies is bounded, not just each of them."""
    reader = ReplyReader(1000, program=False, max_bytes=MAX_BYTES)
    reader.feed(lines([READY, LOADED]))
    with pytest.raises(Flood):
        for index in range(1000):
            reader.feed(line({"i": index, "value": "x" * 2000}))
    assert 0 < len(reader.replies) < 1000


def test_many_right_replies_in_one_chunk_are_no_flood() -> None:
    """A chunk that is longer than a line may be is right where each line in it is."""
    data = lines(function_talk([{"value": "x" * 900}] * 300))
    assert len(read(data, calls=300, max_bytes=1024).replies) == 300


def test_what_the_limit_leaves_room_for_is_right() -> None:
    """A reply as large as the output limit comes through, escaped to twice its size."""
    text = "é" * (MAX_BYTES // 6)
    assert read(lines(function_talk([{"value": text}]))).replies[0].value == text


def test_a_flood_takes_no_more_memory_than_the_limit() -> None:
    """A candidate that never ends its line is cut off in bounded memory."""
    reader = read(lines([READY, LOADED]))
    chunk = b"x" * (1 << 18)
    tracemalloc.start()
    with pytest.raises(Flood):
        for _ in range(1000):
            reader.feed(chunk)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 1 << 20


def frame(stream: int, payload: bytes) -> bytes:
    return bytes([stream, 0, 0, 0]) + len(payload).to_bytes(4, "big") + payload


def joined(pieces: Iterable[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    """Pieces with neighbours of the same stream put together."""
    whole: list[tuple[int, bytes]] = []
    for stream, payload in pieces:
        if whole and whole[-1][0] == stream:
            payload = whole.pop()[1] + payload
        whole.append((stream, payload))
    return whole


@given(
    st.lists(st.tuples(st.integers(0, 2), st.binary(max_size=40)), max_size=8),
    st.lists(st.integers(0, 10_000), max_size=20),
)
def test_any_cutting_of_the_stream_gives_the_same_payloads(frames: list[tuple[int, bytes]], places: list[int]) -> None:
    """Frames come out as they went in: empty ones, several in a chunk, one over many chunks."""
    data = b"".join(frame(stream, payload) for stream, payload in frames)
    splitter = StreamSplitter()
    pieces = [piece for chunk in cut(data, places) for piece in splitter.feed(chunk)]
    assert joined(pieces) == joined(each for each in frames if each[1])
    assert all(payload for _, payload in pieces)


def test_payloads_are_handed_on_as_they_come() -> None:
    """A frame that is announced as huge is not waited for."""
    splitter = StreamSplitter()
    assert splitter.feed(frame(1, b"x" * 4000)[:8]) == []
    assert splitter.feed(b"ab") == [(1, b"ab")]


@pytest.mark.parametrize(
    "header", [b"\x03\0\0\0\0\0\0\1", b"\1\1\0\0\0\0\0\1", b"\1\0\0\1\0\0\0\1", b"HTTP/1.1", b'{"ready"']
)
def test_another_format_is_our_own_fault(header: bytes) -> None:
    """A header that is not the engine's format is a ValueError: nothing inside writes headers."""
    splitter = StreamSplitter()
    assert splitter.feed(frame(2, b"ok") + header[:7]) == [(2, b"ok")]
    with pytest.raises(ValueError, match="not multiplexed"):
        splitter.feed(header[7:])


@given(st.lists(st.binary(max_size=3000), max_size=8))
def test_the_tail_counts_all_and_keeps_the_end(chunks: list[bytes]) -> None:
    """What is kept is the last 4 KB of all that came, however it came."""
    tail = Tail(1 << 20)
    for chunk in chunks:
        tail.feed(chunk)
    assert tail.text() == b"".join(chunks)[-TAIL_BYTES:].decode("utf-8", "backslashreplace")


def test_the_tail_floods_beyond_its_limit_only() -> None:
    """The limit itself may be printed; one byte more is a flood, and the end of it is kept."""
    tail = Tail(10_000)
    tail.feed(b"a" * 9_999)
    tail.feed(b"b")
    with pytest.raises(Flood, match="more than 9 KB"):
        tail.feed(b"c")
    assert tail.text() == "a" * (TAIL_BYTES - 2) + "bc"


def test_a_tail_that_is_not_utf8_is_escaped() -> None:
    """Bytes that are no text are spelled out and lose nothing."""
    tail = Tail(100)
    tail.feed(b"a\xff\xc3\xa9")
    assert tail.text() == "a\\xffé"


def request_of(code: bytes, entry_point: str | None, calls: Sequence[Call], limits: Limits) -> bytes:
    return encode_header(code, entry_point, len(calls), limits, wall_s=42.0) + encode_calls(calls)


def request_lines(code: bytes, entry_point: str | None, calls: Sequence[Call]) -> list[Any]:
    data = request_of(code, entry_point, calls, Limits(output_kb=7))
    assert data.endswith(b"\n")
    return [values.loads(part) for part in data.removesuffix(b"\n").split(b"\n")]


@given(st.binary(max_size=50), texts, st.lists(st.builds(Call, args=st.tuples(texts)), max_size=3))
def test_a_request_says_what_to_run_and_no_more(code: bytes, entry_point: str, calls: list[Call]) -> None:
    """The header has the code byte for byte, the output limit and how many calls follow, one a line."""
    header, *sent = request_lines(code, entry_point, calls)
    assert sent == [call.as_json() for call in calls]
    assert header == {
        "mode": "function",
        "entry_point": entry_point,
        "code": base64.b64encode(code).decode(),
        "calls": len(calls),
        "max_bytes": 7 * 1024,
        "wall_s": 42.0,
    }


def test_a_program_is_asked_for_by_its_input() -> None:
    """Without an entry point it is a program, and a call is its standard input."""
    header, call = request_lines(b"", None, [Call(stdin="3\n")])
    assert (header["mode"], header["entry_point"], call) == ("program", None, {"stdin": "3\n"})


def test_an_expected_value_is_in_no_request() -> None:
    """Of a test only its call goes in: the answer is not in the bytes, in no spelling."""
    expect = Expect(kind="value", values=("the right answer", 271828))
    test = Test(call=Call(args=("question",), kwargs={"k": 1}), expect=expect)
    data = request_of(b"pass", "f", [test.call], Limits())
    assert b"question" in data
    assert all(secret not in data for secret in (b"right answer", b"271828", b"expect", b"compare"))
    for row in data.splitlines()[1:]:
        assert set(json.loads(row)) == {"args", "kwargs"}


def test_lone_surrogates_survive_the_wire() -> None:
    """A text that is not UTF-8 reaches the other side as it was, in an ASCII line."""
    data = request_of(b"", "f", [Call(args=("\ud800",), kwargs={"\udfff": "\u2028"})], Limits())
    assert data.isascii()
    assert values.loads(data.split(b"\n")[1]) == {"args": ["\ud800"], "kwargs": {"\udfff": "\u2028"}}


def framed(stream: int, payload: bytes) -> bytes:
    return bytes([stream, 0, 0, 0]) + len(payload).to_bytes(4, "big") + payload


OVER = b'{"status": 256, "memory_bytes": 4096}'


@given(st.lists(st.tuples(st.sampled_from((1, 2)), st.binary(max_size=20)), max_size=6), st.data())
def test_a_cells_frames_come_apart_however_they_are_cut(parts: list[tuple[int, bytes]], data: st.DataObject) -> None:
    """What a candidate said and printed is handed on, in order, and its end is known, whatever the chunks are."""
    inner = b"".join(framed(stream, payload) for stream, payload in parts) + framed(0, OVER)
    cut = data.draw(st.integers(0, len(inner) - 1))
    outer = framed(1, inner[:cut]) + framed(1, inner[cut:])
    splitter = wire.CellSplitter(wire.StreamSplitter())
    pieces: list[tuple[int, bytes]] = []
    at = 0
    while at < len(outer):
        assert not splitter.is_over
        size = data.draw(st.integers(1, 40))
        pieces += splitter.feed(outer[at : at + size])
        at += size
    for stream in (1, 2):
        wanted = b"".join(payload for each, payload in parts if each == stream)
        assert b"".join(payload for each, payload in pieces if each == stream) == wanted
    assert splitter.is_over
    assert splitter.ending() == wire.CellEnding(status=256, memory_bytes=4096)


def test_a_cell_that_complains_is_no_candidate() -> None:
    """What comes on the container's stderr, or after the end, is an error with its text."""
    with pytest.raises(ValueError, match="the cell says: the zygote ended"):
        wire.CellSplitter(wire.StreamSplitter()).feed(framed(2, b"the zygote ended\n"))
    splitter = wire.CellSplitter(wire.StreamSplitter())
    splitter.feed(framed(1, framed(0, OVER)))
    with pytest.raises(ValueError, match="after the candidate's end"):
        splitter.feed(framed(1, framed(1, b"more")))


@pytest.mark.parametrize("said", [b"{}", b"[]", b"{", b'{"status": "0", "memory_bytes": 1}'])
def test_an_end_that_is_not_said_as_documented_is_an_error(said: bytes) -> None:
    """The broker's last word has one form."""
    splitter = wire.CellSplitter(wire.StreamSplitter())
    splitter.feed(framed(1, framed(0, said)))
    with pytest.raises(ValueError):
        splitter.ending()
    with pytest.raises(ValueError):
        wire.CellSplitter(wire.StreamSplitter()).ending()


def test_what_was_seen_from_outside_comes_with_the_end() -> None:
    """A look from outside that was asked for stands in the last word."""
    splitter = wire.CellSplitter(wire.StreamSplitter())
    splitter.feed(framed(1, framed(0, b'{"status": 0, "memory_bytes": 1, "seen": [{"apart": []}]}')))
    assert splitter.ending().seen == ({"apart": []},)
