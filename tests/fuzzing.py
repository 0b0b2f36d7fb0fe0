"""What reads hostile bytes on the host, as functions of bytes, and mutators of valid streams to feed them.

A target takes any bytes and returns; it swallows the errors that are documented, and nothing
else: what comes out of it is a fault. A mutator starts from something valid and keeps most of
its structure, so that what is read is right up to the point where it is not.

    python tests/fuzzing.py TARGET INPUTS [SEED]    a run without coverage; exit code 1 and the input for a fault
"""

from __future__ import annotations

import base64
import contextlib
import gzip
import json
import os
import random
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gate import compare, records, rules, values
from gate.backends.samples import SamplesSource, open_samples
from gate.errors import SourceError, SpecError
from gate.extract import extract_program, response_text
from gate.model import (
    Call,
    Candidate,
    Exit,
    Expect,
    Limits,
    Observation,
    Outcome,
    SuiteSpec,
    Task,
    Test,
    canonical_json,
    program_bytes,
    program_text,
)
from gate.wire import TAIL_BYTES, Flood, Phase, ReplyReader, StreamSplitter, Tail, Violation

MAX_INPUT_BYTES = 1 << 16
MAX_INPUT_CPU_S = 10.0
MAX_ADDRESS_BYTES = 2 << 30
EXPECTS = (
    Expect(kind="value", values=([1, {"$tuple": [2, "a"]}],)),
    Expect(kind="value", values=({"$set": [1, 2]}, 0.5), compare="unordered"),
    Expect(kind="value", values=({"a": [1.0]},), compare="strict"),
    Expect(kind="raises", raises="ValueError"),
)
FUNCTION_TESTS = tuple(Test(call=Call(args=(1,)), expect=expect) for expect in EXPECTS)
PROGRAM_TESTS = (Test(call=Call(stdin="1\n"), expect=Expect(kind="stdout", stdout="6\n", compare="lines")),) * 4


def pieces(data: bytes, step: int) -> Iterator[bytes]:
    return (data[start : start + step] for start in range(0, len(data), step))


def read_replies(data: bytes) -> None:
    """The replies of a candidate, as read, judged and recorded; the first two bytes choose how."""
    how, step = data[0] if data else 0, data[1] + 1 if len(data) > 1 else 1
    program, calls, max_bytes = bool(how & 1), how >> 1 & 3, 1 << (how >> 3 & 15)
    reader = ReplyReader(calls, program=program, max_bytes=max_bytes)
    exit_ = Exit.OK
    try:
        for piece in pieces(data[2:], step * 16):
            reader.feed(piece)
    except Violation:
        exit_ = Exit.PROTOCOL
    except Flood:
        exit_ = Exit.OUTPUT_LIMIT
    whole = reader.phase is Phase.ENDED and reader.death is None
    if exit_ is Exit.OK and not whole:
        exit_ = Exit.CRASHED
    seen = Observation(candidate="", calls="", exit=exit_, replies=tuple(reader.replies), load=reader.load)
    verdict = rules.grade((PROGRAM_TESTS if program else FUNCTION_TESTS)[:calls], seen)
    assert verdict.outcome is Outcome.FAIL or (whole and exit_ is Exit.OK and len(reader.replies) == calls > 0)
    record = json.loads(canonical_json(records.observation_record("t", 0, "visible", seen)))
    assert records.read_observation(record) == seen


def split_frames(data: bytes) -> None:
    """The engine's stream, into replies and what was printed: the same however it is cut."""
    step = data[0] + 1 if data else 1
    assert split(data[1:], 1 << 20) == split(data[1:], step)


def split(data: bytes, step: int) -> tuple[bytes, bytes, bool] | None:
    """What came on stdout and on the others, and whether a frame is open; None where the stream is not the engine's."""
    splitter, tail = StreamSplitter(), Tail(1 << 16)
    found: dict[bool, bytearray] = {True: bytearray(), False: bytearray()}
    try:
        for piece in pieces(data, step):
            for stream, payload in splitter.feed(piece):
                found[stream == 1] += payload
    except ValueError:
        return None
    with contextlib.suppress(Flood):
        tail.feed(bytes(found[False]))
    assert len(tail.text()) <= 4 * TAIL_BYTES
    return bytes(found[True]), bytes(found[False]), splitter.is_within_frame


def decode_value(data: bytes) -> None:
    """Tagged JSON to a value; what decodes encodes again, to one form, and can be compared."""
    try:
        value = values.decode(values.loads(data))
    except values.CodecError:
        return
    with contextlib.suppress(values.TooLarge):
        form = values.dumps(values.encode(value))
        assert values.dumps(values.encode(values.decode(values.loads(form.encode("ascii"))))) == form
    for expect in EXPECTS[:3]:
        if not compare.agrees(expect, value):
            assert compare.explain(expect, value)


def task(task_id: str) -> Task:
    suite = SuiteSpec(
        task_id=task_id, prompt="", entry_point="f", limits=Limits(), tests=(), hidden=(), reference=None,
        must_fail=(), digest="", source={},
    )  # fmt: skip
    return Task(id=task_id, prompt="def f():\n", entry_point="f", suite=suite)


def load_samples(data: bytes) -> None:
    """A file of saved samples, and every draw that it holds."""
    descriptor = os.memfd_create("samples")
    try:
        os.write(descriptor, data)
        with contextlib.suppress(SpecError, SourceError):
            source = open_samples(Path(f"/proc/self/fd/{descriptor}"))
            try:
                draw_all(source)
            finally:
                source.close()
    finally:
        os.close(descriptor)


def draw_all(source: SamplesSource) -> None:
    for task_id, number in source.task_ids().items():
        for index in range(number):
            coroutine = source.draw(task(task_id), index)
            try:
                coroutine.send(None)
            except StopIteration as done:
                check_candidate(done.value)
            else:
                raise AssertionError("a look-up has waited")


def check_candidate(candidate: Candidate) -> None:
    """It has bytes and a digest, can be screened and recorded."""
    rules.screen(candidate)
    record = json.loads(canonical_json(records.candidate_record(candidate)))
    assert records.read_candidate(record).digest == candidate.digest


def extract(data: bytes) -> None:
    """The program in what a model has written: nothing is in it that was not there."""
    text = program_text(data)
    with contextlib.suppress(values.CodecError):
        text += response_text(values.loads(data))
    for entry_point in ("f", "Class.method", None):
        program = extract_program(text, entry_point)
        program_bytes(program)
        rest = iter(text)
        assert all(char in rest for char in program.replace("\n", "")), "in order, each character is one of the text's"


def line(record: Any) -> bytes:
    return values.dumps(record).encode("ascii") + b"\n"


def frame(stream: int, payload: bytes) -> bytes:
    return bytes([stream, 0, 0, 0]) + len(payload).to_bytes(4, "big") + payload


READY = line({"ready": 1, "python": "3.12.7"})
LOADED = line({"loaded": 1})
TAGGED = [
    values.dumps(values.encode(value)).encode("ascii")
    for value in (
        [1, (2, "a"), {"x": None}], {1, 2, (3, -1)}, frozenset({"a", b"b"}), {(1, 2): [float("inf")]}, 1 << 20_000,
        -(1 << 14_000), 0.5 + 2j, "\ud800é\0", b"\xff\0", [[[[[]]]]] * 3, {"$a": 1, "b": {"c": {}}}, True, -0.0, 10**17,
    )
]  # fmt: skip
ANSWERS = [
    *(b'"value":' + tagged for tagged in TAGGED),
    b'"raised":["ValueError","Exception"],"message":"no"',
    b'"unserialisable":"a value of type generator"',
    b'"too_large":"more bytes than the limit"',
]
PROGRAMS = [
    "def f(x):\n    return x\n",
    "class Class:\n    def method(self): ...\n",
    "",
    "é\ud800\udcff",
    "x = '''\n```\n'''\n",
]
MARKS = (
    b"<think>", b"</think>", b"<thinking>", b"\n```python\n", b"\n```\n", b"\n~~~\n", b"````", b"   ```", b"def f(",
    b'{"$tuple":[', b'{"$set":[', b'{"$dict":[[', b'{"$bytes":"', b'{"$int":"0x', b'{"$float":"nan"}', b'{"$complex":[',
    b"]", b"}", b"[", b"{", b'"', b"\\", b"\\ud800", b"\\u0000", b"null", b"true", b"NaN", b"-Infinity", b"1e999",
    b"-0", b"9" * 4300, b"9" * 4301, b"[" * 700, b"]" * 700, b'{"a":' * 300, b'{"died":0}\n', b'{"end":1}\n', b"\n",
    b'{"loaded":1}\n', b'{"i":0,"printed":"Ng==","status":0}\n', b'{"i":0,"value":1}\n', b"\0", b"\xff",
    b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\x01\0\0\0\0\0\0\x05", b"\x02\0\0\0\xff\xff\xff\xff", b"\x1f\x8b\x08\0",
    b"\r\n", b'"task_id":"a",', b'"solution":"",',
)  # fmt: skip


def valid_replies(chance: random.Random) -> bytes:
    """A conversation that keeps to the protocol, behind the two bytes that say how it is read."""
    calls, program = chance.randrange(4), chance.random() < 0.3
    said = [READY] if program else [READY, LOADED]
    for index in range(calls):
        answer = b'"printed":"Ng==","status":0' if program else chance.choice(ANSWERS)
        said.append(b'{"i":%d,%s}\n' % (index, answer))
    said += [line({"end": calls}), line({"died": chance.choice((0, 0, -9, 1))})]
    return bytes([chance.randrange(16) << 3 | calls << 1 | program, chance.randrange(256)]) + b"".join(said)


def valid_frames(chance: random.Random) -> bytes:
    """A conversation in the engine's frames, something printed in between; the first byte says how to cut."""
    framed = bytearray([chance.randrange(256)])
    for piece in pieces(valid_replies(chance)[2:], chance.randrange(1, 200)):
        framed += frame(1, piece)
        if chance.random() < 0.2:
            framed += frame(2, bytes(chance.randrange(50)))
    return bytes(framed)


def valid_value(chance: random.Random) -> bytes:
    some = [chance.choice(TAGGED) for _ in range(chance.randrange(1, 5))]
    return some[0] if len(some) == 1 else b"[" + b",".join(some) + b"]"


def valid_samples(chance: random.Random) -> bytes:
    keys = ("solution", "completion", "note")
    rows: list[dict[str, Any]] = [
        {"task_id": chance.choice("abc"), **{chance.choice(keys): chance.choice(PROGRAMS) for _ in range(2)}}
        for _ in range(chance.randrange(1, 6))
    ]
    return b"".join(json.dumps({"solution": "", **row}).encode() + b"\n" for row in rows)


def valid_answer(chance: random.Random) -> bytes:
    parts = []
    for _ in range(chance.randrange(1, 5)):
        mark, program = chance.choice(("```", "````", "~~~")), chance.choice(PROGRAMS)
        parts.append(
            chance.choice((f"<think>{program}</think>", f"\n{mark}python\n{program}{mark}\n", "Words.\n", program))
        )
    text = program_bytes("".join(parts))
    if chance.random() < 0.2:
        return json.dumps({"content": [{"type": "text", "text": program_text(text)}]}).encode()
    return text


def mutate(data: bytes, chance: random.Random) -> bytes:
    """A few changes: bytes and marks put in, pieces left out, doubled, moved or repeated."""
    changed = bytearray(data)
    for _ in range(chance.choice((0, 1, 1, 1, 2, 3, 6))):
        size = len(changed)
        start = chance.randrange(size + 1)
        end = min(size, start + chance.choice((1, 2, 4, 16, 64, 256)))
        kind = chance.randrange(8)
        if kind == 0 and size:
            changed[start % size] = chance.randrange(256)
        elif kind == 1:
            changed[start:start] = chance.choice(MARKS)
        elif kind == 2:
            del changed[start:end]
        elif kind == 3:
            changed[start:start] = changed[start:end] * chance.choice((1, 2, 50))
        elif kind == 4:
            changed[start:end] = chance.choice(MARKS)
        elif kind == 5:
            moved = changed[start:end]
            del changed[start:end]
            place = chance.randrange(len(changed) + 1)
            changed[place:place] = moved
        elif kind == 6:
            del changed[start:]
        else:
            rows = bytes(changed).split(b"\n")
            place, other = chance.randrange(len(rows)), chance.randrange(len(rows))
            rows[place], rows[other] = rows[other], rows[place]
            changed = bytearray(b"\n".join(rows))
    return bytes(changed[:MAX_INPUT_BYTES])


def mutate_samples(data: bytes, chance: random.Random) -> bytes:
    """Before it is compressed, after it, or where it never is."""
    changed = mutate(data, chance)
    if chance.random() < 0.3:
        changed = gzip.compress(changed, 1, mtime=0)
        if chance.random() < 0.5:
            changed = mutate(changed, chance)
    return changed


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One reader of bytes, something valid to start from, and how that is changed."""

    run: Callable[[bytes], None]
    valid: Callable[[random.Random], bytes]
    mutate: Callable[[bytes, random.Random], bytes] = mutate

    def input(self, seed: int, number: int) -> bytes:
        """Input number so-and-so of a run: the same whenever it is asked for."""
        chance = random.Random(seed << 40 | number)
        return self.mutate(self.valid(chance), chance)


TARGETS = {
    "replies": Target(run=read_replies, valid=valid_replies),
    "frames": Target(run=split_frames, valid=valid_frames),
    "values": Target(run=decode_value, valid=valid_value),
    "samples": Target(run=load_samples, valid=valid_samples, mutate=mutate_samples),
    "answers": Target(run=extract, valid=valid_answer),
}


class Hang(BaseException):
    """One input took too long; no `except Exception` hides it."""


def _hang(number: int, frame: object) -> None:
    raise Hang(f"over {MAX_INPUT_CPU_S} s of CPU time for one input")


def peak_kb() -> int:
    """The most memory that this process has held."""
    with open("/proc/self/status") as file:
        return next(int(row.split()[1]) for row in file if row.startswith("VmHWM"))


def fuzz(name: str, inputs: int, seed: int = 0) -> None:
    """Run a target on so many inputs; a fault is raised with the input that made it."""
    target = TARGETS[name]
    for number in range(inputs):
        data = target.input(seed, number)
        signal.setitimer(signal.ITIMER_PROF, MAX_INPUT_CPU_S)
        try:
            target.run(data)
        except BaseException as exc:
            exc.add_note(f"{name}: input {number} of seed {seed}: {base64.b64encode(data).decode()}")
            raise
    signal.setitimer(signal.ITIMER_PROF, 0)


def main(name: str, inputs: int, seed: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MAX_ADDRESS_BYTES, MAX_ADDRESS_BYTES))
    signal.signal(signal.SIGPROF, _hang)
    fuzz(name, min(inputs, 100), seed)
    before_kb = peak_kb()
    fuzz(name, inputs, seed)
    print(json.dumps({"target": name, "inputs": inputs, "grown_kb": peak_kb() - before_kb}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 0)
