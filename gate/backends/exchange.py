"""One conversation with a runner: the request out, the replies in, within the limits.

Theory of operation. The request is written while replies are read, so neither side can
block the other. Wall time is ours, by a monotonic clock, without the time in which the
host had no CPU for a candidate that was ready to run; CPU time is the counters';
output is counted. Loading and each call have limits of their own, the whole has two
more. What was seen is put together at the end, by the word of the engine and of the
kernel first, the stream's second; exit codes prove nothing. Until the request is on its
way as a whole the runner does nothing with it, so what fails before that is ours.
"""

from __future__ import annotations

import signal
import socket
from contextlib import suppress
from dataclasses import dataclass, field

import anyio

from gate import wire
from gate.backends.cgroups import Counters, OpenCounters, Reading
from gate.model import MAX_TOTAL_WALL_S, Exit, Json, Limits, Observation, Usage

CHUNK_BYTES = 1 << 18
TICK_S = 0.1  # how often the limits are looked at
SOON_S = 0.005  # and how often at most, where one is near

_STDOUT = 1


@dataclass(slots=True, kw_only=True)
class Exchange:
    """What came of one request: how the stream ended and what was read on the way."""

    reader: wire.ReplyReader
    tail: wire.Tail
    splitter: wire.StreamSplitter | wire.CellSplitter
    exit: Exit | None = None  # None where the stream just ended
    limit: str | None = None
    detail: str = ""
    wall_s: float = 0.0
    cpu_before_s: float | None = None
    unsent: bool = False  # the request is not whole on its way: nothing of a candidate is inside


@dataclass(frozen=True, slots=True, kw_only=True)
class Remains:
    """What the engine and the kernel said at the end.

    Attributes:
        fault: What the engine did wrong, if it did.
        engine_lost: The engine went away while the container was there, or came back.
    """

    reading: Reading = field(default_factory=Reading)
    oom_killed: bool = False
    fault: str | None = None
    engine_lost: bool = False


async def converse(
    connection: socket.socket,
    counters: Counters | OpenCounters,
    exchange: Exchange,
    request: bytes,
    limits: Limits,
    calls: int,
) -> None:
    """Send the request and read the replies until the end, a limit or a violation."""
    exchange.cpu_before_s = counters.read_cpu_s()
    exchange.unsent = True
    started_s = anyio.current_time()
    rest = send_now(connection, memoryview(request))
    if rest:
        await _read_and_write(connection, counters, exchange, rest, limits, calls)
    else:  # a small request is on its way at once, and needs no task of its own
        exchange.unsent = False
        await _read_to_the_end(connection, counters, exchange, limits, calls)
    exchange.wall_s = anyio.current_time() - started_s


async def _read_and_write(
    connection: socket.socket,
    counters: Counters | OpenCounters,
    exchange: Exchange,
    request: memoryview,
    limits: Limits,
    calls: int,
) -> None:
    async def write() -> None:
        exchange.unsent = not await send(connection, request)

    async with anyio.create_task_group() as group:
        group.start_soon(write)
        await _read_to_the_end(connection, counters, exchange, limits, calls)
        group.cancel_scope.cancel()


async def _read_to_the_end(
    connection: socket.socket, counters: Counters | OpenCounters, exchange: Exchange, limits: Limits, calls: int
) -> None:
    """Read, and note how it ended."""
    try:
        await _read_replies(connection, counters, exchange, limits, calls)
    except (EOFError, OSError):
        exchange.detail = "the stream ended before the last reply"
    except ValueError as exc:
        exchange.exit, exchange.detail = Exit.FAULT, str(exc)
    except wire.Violation as exc:
        exchange.exit, exchange.detail = Exit.PROTOCOL, str(exc)
    except wire.Flood as exc:
        exchange.exit, exchange.limit, exchange.detail = Exit.OUTPUT_LIMIT, "output", str(exc)


async def _read_replies(
    connection: socket.socket, counters: Counters | OpenCounters, exchange: Exchange, limits: Limits, calls: int
) -> None:
    """Read until the last reply; loading and each call have limits of their own."""
    started_s = step_s = anyio.current_time()
    started_cpu_s = step_cpu_s = exchange.cpu_before_s
    waiting = Waiting(counters, started_s)
    tick_s = TICK_S
    while True:
        with anyio.move_on_after(tick_s):
            await anyio.wait_readable(connection)
            if receive(connection, exchange):
                if exchange.reader.phase is wire.Phase.ENDED:
                    return
                step_s, step_cpu_s = anyio.current_time(), counters.read_cpu_s()
                waiting.step(step_s)
                tick_s = TICK_S
                continue
        now_s, cpu_s = anyio.current_time(), counters.read_cpu_s()
        waiting.look(now_s, tick_s / 2)
        passed = (
            ("cpu", since(cpu_s, step_cpu_s), limits.cpu_s),
            ("total_cpu", since(cpu_s, started_cpu_s), limits.total_cpu_s),
            ("wall", now_s - step_s - waiting.in_step_s, limits.wall_s),
            ("total_wall", now_s - started_s - waiting.in_all_s, limits.total_wall_s(calls)),
            ("total_wall", now_s - started_s, MAX_TOTAL_WALL_S),
        )
        for name, used_s, limit_s in passed:
            if used_s >= limit_s:
                exchange.exit, exchange.limit = Exit.TIME_LIMIT, name
                exchange.detail = f"over {limit_s:g} s of {name.replace('_', ' ')} time"
                return
        tick_s = next_look_s([limit_s - used_s for _, used_s, limit_s in passed])


def next_look_s(left_s: list[float]) -> float:
    """How long to wait for replies before limits are looked at again, by what is left of each.

    None is reached sooner than what is left of it goes by: a container has one core, so CPU time is no faster.
    """
    return max(SOON_S, min(TICK_S, *left_s))


class Waiting:
    """The time in which a candidate was ready to run and had no CPU; it does not count as wall time.

    Without this a loaded host takes a right program for one that hangs. What counts is the
    thread that waited longest: a program that sleeps does not wait for a CPU, and threads
    that wait for each other's use up CPU time as fast, so nobody gains by it.
    """

    def __init__(self, counters: Counters | OpenCounters, now_s: float) -> None:
        self.in_step_s = 0.0
        self.in_all_s = 0.0
        self._counters = counters
        self._since_s = self._looked_s = now_s
        self._before_s = counters.read_waits_s()

    def step(self, now_s: float) -> None:
        """A new step has begun; what was waited for before belongs to the last one."""
        self._since_s, self.in_step_s = now_s, 0.0

    def look(self, now_s: float, least_s: float) -> None:
        """Add what was waited since the last look, if that is so long ago; never more than the time gone by."""
        if now_s - self._looked_s < least_s:
            return
        waits_s = self._counters.read_waits_s()
        more_s = max((wait_s - self._before_s.get(thread, 0.0) for thread, wait_s in waits_s.items()), default=0.0)
        self.in_step_s += min(more_s, now_s - max(self._since_s, self._looked_s))
        self.in_all_s += min(more_s, now_s - self._looked_s)
        self._before_s, self._looked_s = waits_s, now_s


def since(now: float | None, before: float | None) -> float:
    """How much a counter grew; nothing where nobody can say."""
    return 0.0 if now is None or before is None else now - before


def receive(connection: socket.socket, exchange: Exchange) -> bool:
    """Take what is there off the stream; whether the replies moved on.

    Raises:
        EOFError: The stream is at its end.
        ValueError: It is not the engine's stream.
        wire.Violation, wire.Flood: See `wire.ReplyReader` and `wire.Tail`.
    """
    try:
        data = connection.recv(CHUNK_BYTES)
    except BlockingIOError:
        return False
    if not data:
        raise EOFError("the stream is at its end")
    moved = False
    for stream, payload in exchange.splitter.feed(data):
        if stream == _STDOUT:
            moved |= exchange.reader.feed(payload)
        else:
            exchange.tail.feed(payload)
    if exchange.splitter.is_over and exchange.reader.phase is not wire.Phase.ENDED:
        raise EOFError("the candidate is gone without its last record")
    return moved


def send_now(connection: socket.socket, data: memoryview) -> memoryview:
    """Write what the other side takes at once; what is left. Where it went away, all is."""
    with suppress(BlockingIOError, ConnectionError):
        return data[connection.send(data) :]
    return data


async def send(connection: socket.socket, data: bytes | memoryview) -> bool:
    """Write all, as the other side takes it; false where it went away, which shows on the reading side too."""
    view = memoryview(data)
    with suppress(ConnectionError):
        while view:
            try:
                view = view[connection.send(view) :]
            except BlockingIOError:
                await anyio.wait_writable(connection)
        return True
    return False


def observation(
    candidate: str, calls: str, exchange: Exchange, remains: Remains, where: dict[str, Json]
) -> Observation:
    """Put together what was seen."""
    exit_, limit, detail = how_it_ended(exchange, remains)
    cpu_s = remains.reading.cpu_s
    used_s = None if cpu_s is None or exchange.cpu_before_s is None else cpu_s - exchange.cpu_before_s
    return Observation(
        candidate=candidate,
        calls=calls,
        exit=exit_,
        replies=tuple(exchange.reader.replies),
        load=exchange.reader.load,
        limit=limit,
        detail=detail,
        output_tail=exchange.tail.text(),
        usage=Usage(wall_s=exchange.wall_s, cpu_s=used_s, memory_bytes=remains.reading.memory_bytes),
        where=where,
    )


def how_it_ended(exchange: Exchange, remains: Remains) -> tuple[Exit, str | None, str]:
    """(exit, limit, detail): the engine's faults, then the kernel's kills, then the stream."""
    if remains.fault is not None:
        return Exit.FAULT, None, remains.fault
    kills = remains.reading.oom_kills
    if kills or (kills is None and remains.oom_killed):
        return Exit.MEMORY_LIMIT, "memory", "the kernel killed a process of it for memory"
    if exchange.unsent:
        return Exit.FAULT, None, f"the container failed before the candidate was in it: {exchange.detail}"
    if exchange.exit is not None:
        return exchange.exit, exchange.limit, exchange.detail
    if exchange.reader.phase is wire.Phase.ENDED and exchange.reader.death is None:
        return Exit.OK, None, ""
    return how_it_broke_off(exchange, remains)


def how_it_broke_off(exchange: Exchange, remains: Remains) -> tuple[Exit, str | None, str]:
    """The end of a stream that ended early: the engine's doing where it can have been, else the candidate's."""
    if remains.engine_lost:
        return Exit.FAULT, None, "the engine went away, or was started anew, while the candidate ran"
    if exchange.splitter.is_within_frame:
        return Exit.FAULT, None, "the engine's stream was cut in the middle of a frame"
    death = exchange.reader.death
    if death is not None:
        return Exit.CRASHED, None, f"its process {death_text(death.status)} before the last reply"
    return Exit.CRASHED, None, exchange.detail


def death_text(status: int) -> str:
    """`ended with status 3` or `was ended by SIGSEGV`."""
    if status >= 0:
        return f"ended with status {status}"
    try:
        return f"was ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"was ended by signal {-status}"
