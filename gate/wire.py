"""What goes in and out of a sandbox, as bytes: requests, the engine's stream, replies.

Theory of operation. All of this is pure: bytes in, facts out, no socket and no clock.

A request is lines of JSON: a header (mode, entry point, code in base64, how many calls,
limits that the runner keeps as a backstop), then one line a call. Expected values have
no place in it. Replies are lines of JSON on the container's stdout:

    {"ready": 1, "python": "3.12.7"}            before any byte of the candidate is sent
    {"loaded": 1}                               function tasks only
    {"load": KIND, "message"}                   instead of all that follows but `died`
    {"i": 0, "value": …} | {"i": 0, "raised": [names], "message"}
    {"i": 0, "unserialisable": why} | {"i": 0, "too_large": why}
    {"i": 0, "printed": base64, "status": n}    programs on stdin and stdout
    {"end": n}                                  after n replies
    {"died": status}                            always the last line: not a byte follows it

Everything after `ready` is written by processes that the candidate owns, so every line
is hostile: sizes are bounded before parsing, the order is exact, and whatever deviates
is a `Violation`, which is the candidate's own doing. How the bytes are cut into chunks
changes nothing: what the limit leaves room for is read, then the rest is a `Flood`.
"""

from __future__ import annotations

import base64
import binascii
import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from gate import values
from gate.model import Call, Json, Limits, LoadFailure, Reply

READY_TIMEOUT_S = 60.0
BACKSTOP_S = 30.0
TAIL_BYTES = 4096
MESSAGE_CHARS = 2000
LOAD_KINDS = ("syntax_error", "missing_entry_point", "raised")
_FRAME_HEADER_BYTES = 8
_LINE_ALLOWANCE_BYTES = 65536
_CELL_HEADER = struct.Struct(">BBxxIII")  # kind, flags, CPU seconds, wall seconds, length of the request
_CELL_RUN, _CELL_KILL = 1, 2
_CELL_PROGRAM, _CELL_INSPECT = 1, 2
CELL_KILL = _CELL_HEADER.pack(_CELL_KILL, 0, 0, 0, 0)


class Phase(Enum):
    """How far the replies have come."""

    STARTING = "starting"
    LOADING = "loading"
    CALLING = "calling"
    DONE = "done"  # all is said but the child's death
    ENDED = "ended"


class Violation(Exception):
    """The replies are not what the protocol asks for."""


class Flood(Exception):
    """More bytes came back than the limit allows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """The candidate's process ended before its end marker; negative for a signal."""

    status: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CellEnding:
    """The end of a candidate in a cell.

    Attributes:
        status: The wait status of process 1 of its pid namespace.
        memory_bytes: The most memory that one of its processes held.
        seen: Where it was asked for, what each of its processes was held to.
    """

    status: int
    memory_bytes: int
    seen: tuple[Json, ...] = ()


def encode_header(code: bytes, entry_point: str | None, calls: int, limits: Limits, *, wall_s: float) -> bytes:
    """The first line of a request, which is sent once the runner is ready: all but the calls.

    Args:
        code: Exactly the bytes that run.
        entry_point: `name` or `Class.method`; None for programs on stdin.
        calls: How many follow.
        limits: Only the output limit goes in; time and memory are held from outside.
        wall_s: When the runner gives up by itself, should nobody outside be left.
    """
    header = {
        "mode": "program" if entry_point is None else "function",
        "entry_point": entry_point,
        "code": base64.b64encode(code).decode("ascii"),
        "calls": calls,
        "max_bytes": limits.output_kb * 1024,
        "wall_s": wall_s,
    }
    return values.dumps(header).encode("ascii") + b"\n"


def encode_calls(calls: Sequence[Call]) -> bytes:
    """The other lines of a request, the same for all candidates of a task: calls without what is expected of them."""
    return b"".join(values.dumps(call.as_json()).encode("ascii") + b"\n" for call in calls)


class StreamSplitter:
    """Takes the engine's multiplexed stream apart: 8 bytes of header, then a payload.

    Stream 1 is the container's stdout, 2 its stderr. The header comes from the engine,
    the payload from inside. State is at most one incomplete header; payloads are handed
    on as they come.
    """

    def __init__(self) -> None:
        self._header = bytearray()
        self._left_bytes = 0
        self._stream = 0

    @property
    def is_within_frame(self) -> bool:
        """Whether a frame has begun and not ended; the engine sends whole ones."""
        return bool(self._header or self._left_bytes)

    @property
    def is_over(self) -> bool:
        """Whether nothing more can come; only a cell says so before the stream ends."""
        return False

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """Split some bytes into (stream, payload) pieces, in order.

        Raises:
            ValueError: The header is not the engine's format: not a multiplexed stream.
        """
        pieces: list[tuple[int, bytes]] = []
        view = memoryview(data)
        while view:
            if self._left_bytes:
                piece = bytes(view[: self._left_bytes])
                view = view[len(piece) :]
                self._left_bytes -= len(piece)
                pieces.append((self._stream, piece))
            else:
                view = self._feed_header(view)
        return pieces

    def _feed_header(self, view: memoryview) -> memoryview:
        missing = _FRAME_HEADER_BYTES - len(self._header)
        self._header += view[:missing]
        if len(self._header) == _FRAME_HEADER_BYTES:
            if self._header[0] > 2 or self._header[1:4] != b"\0\0\0":
                raise ValueError("the engine's stream is not multiplexed as documented")
            self._stream = self._header[0]
            self._left_bytes = int.from_bytes(self._header[4:], "big")
            self._header.clear()
        return view[missing:]


def encode_cell_run(request: bytes, *, program: bool, inspect: bool, cpu_s: float, wall_s: float) -> bytes:
    """A request as a cell's broker takes it.

    Args:
        request: What a runner would be sent.
        program: Whether it is for a program on stdin; the process that forks need not read it to know.
        inspect: Have the candidate's processes looked at from outside, while they run.
        cpu_s: When the kernel ends a process of it, should nobody outside do so.
        wall_s: When the cell ends itself, should nobody outside do so.
    """
    flags = program * _CELL_PROGRAM | inspect * _CELL_INSPECT
    return _CELL_HEADER.pack(_CELL_RUN, flags, math.ceil(cpu_s), math.ceil(wall_s), len(request)) + request


class CellSplitter:
    """Takes what a cell sends apart: within the engine's stream, frames of one candidate, in the same format.

    Stream 1 is the candidate's replies, 2 what it printed; both are handed on. Stream 0 is
    the broker's own and comes last: the candidate's pid namespace has ended.

    Args:
        outer: Where the engine's stream has come to.
    """

    def __init__(self, outer: StreamSplitter) -> None:
        self._outer = outer
        self._inner = StreamSplitter()
        self._said = bytearray()

    @property
    def is_within_frame(self) -> bool:
        """Whether a frame of the engine has begun and not ended."""
        return self._outer.is_within_frame

    @property
    def is_over(self) -> bool:
        """Whether the candidate is gone, by the broker's word."""
        return bool(self._said) and not self._inner.is_within_frame

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """Split some bytes into (stream, payload) pieces of the candidate's, in order.

        Raises:
            ValueError: It is not the engine's format, or the cell complains.
        """
        pieces: list[tuple[int, bytes]] = []
        for stream, payload in self._outer.feed(data):
            if stream != 1:
                raise ValueError(
                    f"the cell says: {payload.decode('utf-8', 'backslashreplace').strip()[:MESSAGE_CHARS]}"
                )
            if self.is_over:
                raise ValueError("the cell sent something after the candidate's end")
            for inner, part in self._inner.feed(payload):
                if inner == 0:
                    self._said += part
                else:
                    pieces.append((inner, part))
        return pieces

    def ending(self) -> CellEnding:
        """What the broker said at the candidate's end.

        Raises:
            ValueError: It is not over, or that was not said as documented.
        """
        try:
            match values.loads(bytes(self._said)) if self.is_over else None:
                case {"status": int(status), "memory_bytes": int(memory_bytes), "seen": list(seen)}:
                    return CellEnding(status=status, memory_bytes=memory_bytes, seen=tuple(seen))
                case {"status": int(status), "memory_bytes": int(memory_bytes), **rest} if not rest:
                    return CellEnding(status=status, memory_bytes=memory_bytes)
        except values.CodecError as exc:
            raise ValueError(f"the cell's last word is no JSON: {exc}") from None
        raise ValueError("the cell did not say how the candidate ended")


class Tail:
    """The end of what a candidate printed beside its replies; counts all of it.

    Raises:
        Flood: from `feed`, beyond `max_bytes` in all.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._total_bytes = 0
        self._kept = b""

    def feed(self, data: bytes) -> None:
        """Count some bytes and keep the last of them."""
        self._total_bytes += len(data)
        self._kept = (self._kept + data[-TAIL_BYTES:])[-TAIL_BYTES:]
        if self._total_bytes > self._max_bytes:
            raise Flood(f"printed more than {self._max_bytes // 1024} KB")

    def text(self) -> str:
        """The kept end as text; what is not UTF-8 is escaped."""
        return self._kept.decode("utf-8", "backslashreplace")


class ReplyReader:
    """Reads the replies of one candidate to a known number of calls.

    Args:
        calls: How many there are.
        program: Whether each is a run of a program, not a function call.
        max_bytes: The output limit.
        python: The interpreter's version where another reader has read `ready` already.

    Attributes:
        phase: How far it has come.
        replies: The replies so far, in the order of the calls.
        load: Why the candidate did not load, if it did not.
        death: How its process ended before it had said all, if it did.
        python: The interpreter's version, once ready.
    """

    def __init__(self, calls: int, *, program: bool, max_bytes: int, python: str = "") -> None:
        self.phase = Phase.STARTING
        self.replies: list[Reply] = []
        self.load: LoadFailure | None = None
        self.death: Death | None = None
        self.python = python
        self._calls = calls
        self._program = program
        if python:
            self._start()
        self._line = bytearray()
        self._max_line_bytes = 2 * max_bytes + _LINE_ALLOWANCE_BYTES
        self._left_bytes = 2 * max_bytes + _LINE_ALLOWANCE_BYTES + 1024 * calls

    def feed(self, data: bytes) -> bool:
        """Read some more bytes.

        Returns:
            Whether the phase or the number of replies moved on.

        Raises:
            Violation: The protocol was broken.
            Flood: More than the limit came back.
        """
        within = data if len(data) <= self._left_bytes else data[: self._left_bytes]
        self._left_bytes -= len(within)
        first, *rest = within.split(b"\n")
        self._extend_line(first)
        for part in rest:
            self._read_line(bytes(self._line))
            self._line.clear()
            self._extend_line(part)
        if len(within) < len(data):
            raise Flood("the replies are larger than the output limit")
        return bool(rest)

    def _extend_line(self, part: bytes) -> None:
        if part and self.phase is Phase.ENDED:
            raise Violation("something after the last record")
        if len(self._line) + len(part) > self._max_line_bytes:
            raise Flood("a reply is larger than the output limit")
        self._line += part

    def _read_line(self, line: bytes) -> None:
        try:
            record = values.loads(line)
        except values.CodecError as exc:
            raise Violation(f"a reply is no JSON: {exc}") from None
        if type(record) is not dict:
            raise Violation("a reply is no object")
        if self.phase is Phase.STARTING:
            self._read_ready(record)
        elif set(record) == {"died"}:
            self._read_death(record)
        elif self.phase is Phase.DONE:
            raise Violation("a record after the last one")
        elif self.phase is Phase.LOADING:
            self._read_loaded(record)
        else:
            self._read_reply(record)

    def _read_ready(self, record: dict[str, Json]) -> None:
        if set(record) != {"ready", "python"} or not _is_one(record["ready"]) or type(record["python"]) is not str:
            raise Violation("the runner did not say that it is ready")
        self.python = record["python"][:40]
        self._start()

    def _start(self) -> None:
        self.phase = Phase.CALLING if self._program else Phase.LOADING

    def _read_loaded(self, record: dict[str, Json]) -> None:
        if set(record) == {"loaded"} and _is_one(record["loaded"]):
            self.phase = Phase.CALLING
        elif set(record) == {"load", "message"}:
            self._read_load_failure(record)
        else:
            raise Violation("a reply before the candidate was loaded")

    def _read_load_failure(self, record: dict[str, Json]) -> None:
        if record["load"] not in LOAD_KINDS or type(record["message"]) is not str:
            raise Violation("a load failure of no known kind")
        self.load = LoadFailure(kind=record["load"], message=record["message"][:MESSAGE_CHARS])
        self.phase = Phase.DONE

    def _read_death(self, record: dict[str, Json]) -> None:
        if not _is_status(record["died"]):
            raise Violation("an exit status that cannot be one")
        if self.phase is not Phase.DONE:
            self.death = Death(status=record["died"])
        self.phase = Phase.ENDED

    def _read_reply(self, record: dict[str, Json]) -> None:
        if self._program and set(record) == {"load", "message"}:
            self._read_load_failure(record)
        elif set(record) == {"end"}:
            if type(record["end"]) is not int or record["end"] != self._calls or len(self.replies) != self._calls:
                raise Violation(f"an end marker after {len(self.replies)} of {self._calls} replies")
            self.phase = Phase.DONE
        else:
            if type(record.get("i")) is not int or record["i"] != len(self.replies) or record["i"] >= self._calls:
                raise Violation(f"a reply out of order where number {len(self.replies)} was due")
            self.replies.append(parse_reply(record, program=self._program))


def parse_reply(record: dict[str, Json], *, program: bool) -> Reply:
    """One reply from its record, whose number was checked already.

    Raises:
        Violation: The record is of no known kind, or of the other mode's.
    """
    if not program and len(record) == 2 and "value" in record:  # most are
        return Reply(kind="returned", value=record["value"])
    match {key: value for key, value in record.items() if key != "i"}:
        case {"printed": str(text), "status": status, **rest} if program and not rest and _is_status(status):
            return Reply(kind="printed", value={"$bytes": _checked_base64(text)}, status=status)
        case {"value": value, **rest} if not program and not rest:
            return Reply(kind="returned", value=value)
        case {"raised": list(types), "message": str(message), **rest} if not program and not rest:
            if not all(type(name) is str for name in types) or len(types) > 50:
                raise Violation("an exception whose types are no names")
            return Reply(kind="raised", types=tuple(name[:200] for name in types), message=message[:MESSAGE_CHARS])
        case {"unserialisable": str(message), **rest} if not program and not rest:
            return Reply(kind="unserialisable", message=message[:MESSAGE_CHARS])
        case {"too_large": str(message), **rest} if not rest:
            return Reply(kind="too_large", message=message[:MESSAGE_CHARS])
    raise Violation("a reply of no known kind")


def _is_one(value: Json) -> bool:
    return type(value) is int and value == 1


def _is_status(value: Json) -> bool:
    """By exact type: true and 1.0 equal 1, and are no status."""
    return type(value) is int and abs(value) <= 255


def _checked_base64(text: str) -> str:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise Violation("output that is no base64") from None
    return text
