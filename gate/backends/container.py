"""A fresh, hardened container for each candidate, over the Docker API.

Theory of operation. A *box* is one container on its way: created by image ID, attached,
started, and ready when its runner says so. Attached stdio is the one transport. The
request is written while replies are read, so neither side can block the other. Limits
are held from here: wall time by our own monotonic clock, CPU time and memory by the
counters of the container's cgroup, output by counting. After the end marker, the end
of the stream or a deadline the counters are read while the container lives, then it is
killed, waited for, inspected and removed; what the engine says then is evidence, exit
codes are none.

Blame by channel. Before the runner is ready, nothing of the candidate is inside, so
whatever fails is ours (SandboxError). Once the request is on its way, what comes up
the pipes is the candidate's doing; only the engine's own failure, or a container that
it no longer knows, is a FAULT.

A blocking call in a thread cannot be cancelled and its result would be lost with the
task, so every container is registered before it is started and `close` removes all
that is left.
"""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, TypeVar

import anyio
import docker
import docker.errors
from anyio import to_thread

from gate import wire
from gate.backends import cgroups, hardening
from gate.backends.docker_client import ENGINE_ERRORS, reason
from gate.backends.image import Image
from gate.errors import SandboxError
from gate.model import Call, Candidate, Exit, Json, Limits, Observation, Usage, digest_json

CHUNK_BYTES = 1 << 18
TICK_S = 0.1
CLOSE_TIMEOUT_S = 10.0
START_ATTEMPTS = 2

_T = TypeVar("_T")
_STREAM = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
_STDOUT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """One started container: its id, its attached stream and where its counters stand."""

    id: str
    stream: Any  # what the client gave; it owns the connection, so it is kept alive
    socket: socket.socket
    counters: cgroups.Counters


@dataclass(slots=True)
class Exchange:
    """What came of one request: how the stream ended and what was read on the way."""

    reader: wire.ReplyReader
    tail: wire.Tail
    splitter: wire.StreamSplitter = field(default_factory=wire.StreamSplitter)
    exit: Exit | None = None  # None where the stream just ended
    limit: str | None = None
    detail: str = ""
    wall_s: float = 0.0
    cpu_before_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Remains:
    """What the engine and the kernel said at the end; `fault` where the engine failed."""

    reading: cgroups.Reading = field(default_factory=cgroups.Reading)
    oom_killed: bool = False
    fault: str | None = None


class ContainerSandbox:
    """The `container` boundary; use as an async context manager.

    Args:
        client: The engine.
        image: What containers are made of.
        seccomp: The system call profile's content.
        labels: Whose the containers are.
        runtime: The OCI runtime's name; None for the engine's default.
        concurrency: How many candidates run at once.
    """

    def __init__(
        self,
        client: docker.APIClient,
        image: Image,
        *,
        seccomp: str,
        labels: dict[str, str],
        runtime: str | None = None,
        concurrency: int = 1,
    ) -> None:
        self._client = client
        self._image = image
        self._seccomp = seccomp
        self._labels = labels
        self._runtime = runtime
        self._concurrency = concurrency
        self._slots = anyio.CapacityLimiter(concurrency)
        self._threads = anyio.CapacityLimiter(2 * concurrency + 4)
        self._door = anyio.Lock()
        self._known: set[str] = set()
        self._going: set[str] = set()
        self._removals = ThreadPoolExecutor(max_workers=concurrency + 1, thread_name_prefix="remove")

    async def __aenter__(self) -> ContainerSandbox:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Remove every container that is still there; bounded, also when cancelled."""
        with anyio.CancelScope(shield=True):
            await self._in_thread(self._close)

    def _close(self) -> None:
        deadline_s = time.monotonic() + CLOSE_TIMEOUT_S
        for box_id in tuple(self._known - self._going):
            self._going.add(box_id)
            self._removals.submit(self._remove, box_id)
        while self._known and time.monotonic() < deadline_s:
            time.sleep(0.01)
        self._removals.shutdown(wait=False, cancel_futures=True)

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
        wall_s = limits.total_wall_s(len(calls)) + wire.BACKSTOP_S
        request = wire.encode_request(candidate.code_bytes, entry_point, calls, limits, wall_s=wall_s)
        reader = wire.ReplyReader(len(calls), program=entry_point is None, max_bytes=limits.output_kb * 1024)
        tokens = await self._enter(alone)
        try:
            box, exchange = await self._start(reader, limits, seed)
            try:
                await self._converse(box, exchange, request, limits, len(calls))
            finally:
                with anyio.CancelScope(shield=True):
                    remains = await self._in_thread(self._end, box)
        finally:
            for token in tokens:
                self._slots.release_on_behalf_of(token)
        where: dict[str, Json] = {
            "isolation": "container",
            "runtime": self._runtime or "default",
            "image": self._image.content,
            "python": reader.python,
            "seed": seed,
            "alone": alone,
            "counters": box.counters.source,
        }
        calls_digest = digest_json([call.as_json() for call in calls])
        return observation(candidate.digest, calls_digest, exchange, remains, where)

    async def _enter(self, alone: bool) -> list[object]:
        """Take a slot, or all of them: whoever wants all keeps the others out meanwhile."""
        tokens: list[object] = []
        async with self._door:
            try:
                for _ in range(self._concurrency if alone else 1):
                    token = object()
                    await self._slots.acquire_on_behalf_of(token)
                    tokens.append(token)
            except BaseException:
                for token in tokens:
                    self._slots.release_on_behalf_of(token)
                raise
        return tokens

    async def _in_thread(self, function: Callable[..., _T], *args: Any) -> _T:
        return await to_thread.run_sync(function, *args, limiter=self._threads)

    async def _start(self, reader: wire.ReplyReader, limits: Limits, seed: int) -> tuple[Box, Exchange]:
        """A box whose runner is ready; one that dies before that is replaced once."""
        for attempt in range(START_ATTEMPTS):
            box = await self._in_thread(self._open, limits.memory_mb, seed)
            exchange = Exchange(reader=reader, tail=wire.Tail(limits.output_kb * 1024))
            try:
                with anyio.fail_after(wire.READY_TIMEOUT_S):
                    while reader.phase is wire.Phase.STARTING:
                        await anyio.wait_readable(box.socket)
                        receive(box.socket, exchange)
                return box, exchange
            except (TimeoutError, EOFError, OSError, ValueError, wire.Violation, wire.Flood) as exc:
                remains = await self._in_thread(self._end, box)
                if attempt + 1 == START_ATTEMPTS:
                    raise SandboxError(start_failure(exc, exchange, remains)) from exc
            except BaseException:
                with anyio.CancelScope(shield=True):
                    await self._in_thread(self._end, box)
                raise
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _open(self, memory_mb: int, seed: int) -> Box:
        """Create, attach, start, and find the counters. Attached first, so nothing is missed."""
        config = hardening.container_config(
            image=self._image.id,
            seccomp=self._seccomp,
            memory_mb=memory_mb,
            seed=seed,
            runtime=self._runtime,
            labels=self._labels,
        )
        box_id = ""
        try:
            created = self._client.create_container_from_config(config)  # type: ignore[no-untyped-call]
            box_id = created["Id"]
            self._known.add(box_id)
            discarded = hardening.discarded_limits(created.get("Warnings"))
            if discarded:
                raise SandboxError(f"The engine does not hold a limit that the sandbox needs: {discarded[0]}")
            stream = self._client.attach_socket(box_id, params=_STREAM)
            attached = raw_socket(stream)
            self._client.start(box_id)
            state = self._client.inspect_container(box_id)["State"]
        except ENGINE_ERRORS as exc:
            self._remove(box_id)
            raise SandboxError(f"The engine could not start a container: {reason(exc)}") from exc
        except SandboxError:
            self._remove(box_id)
            raise
        counters = cgroups.find_counters(state.get("Pid", 0))
        return Box(id=box_id, stream=stream, socket=attached, counters=counters)

    async def _converse(self, box: Box, exchange: Exchange, request: bytes, limits: Limits, calls: int) -> None:
        """Send the request and read the replies until the end, a limit or a violation."""
        exchange.cpu_before_s = box.counters.read_cpu_s()
        started_s = anyio.current_time()
        async with anyio.create_task_group() as group:
            group.start_soon(send, box.socket, request)
            try:
                await self._read_replies(box, exchange, limits, calls)
            except (EOFError, OSError):
                exchange.detail = "the stream ended before the last reply"
            except ValueError as exc:
                exchange.exit, exchange.detail = Exit.FAULT, str(exc)
            except wire.Violation as exc:
                exchange.exit, exchange.detail = Exit.PROTOCOL, str(exc)
            except wire.Flood as exc:
                exchange.exit, exchange.limit, exchange.detail = Exit.OUTPUT_LIMIT, "output", str(exc)
            group.cancel_scope.cancel()
        exchange.wall_s = anyio.current_time() - started_s

    async def _read_replies(self, box: Box, exchange: Exchange, limits: Limits, calls: int) -> None:
        """Read until the last reply; loading and each call have limits of their own."""
        started_s = step_s = anyio.current_time()
        started_cpu_s = step_cpu_s = exchange.cpu_before_s
        while exchange.reader.phase is not wire.Phase.ENDED:
            with anyio.move_on_after(TICK_S):
                await anyio.wait_readable(box.socket)
                if receive(box.socket, exchange):
                    step_s, step_cpu_s = anyio.current_time(), box.counters.read_cpu_s()
                    continue
            now_s, cpu_s = anyio.current_time(), box.counters.read_cpu_s()
            passed = (
                ("cpu", since(cpu_s, step_cpu_s), limits.cpu_s),
                ("total_cpu", since(cpu_s, started_cpu_s), limits.total_cpu_s),
                ("wall", now_s - step_s, limits.wall_s),
                ("total_wall", now_s - started_s, limits.total_wall_s(calls)),
            )
            for name, used_s, limit_s in passed:
                if used_s >= limit_s:
                    exchange.exit, exchange.limit = Exit.TIME_LIMIT, name
                    exchange.detail = f"over {limit_s:g} s of {name.replace('_', ' ')} time"
                    return

    def _end(self, box: Box) -> Remains:
        """Read the counters, kill, wait, inspect; then remove. Says where the engine failed."""
        reading = box.counters.read()
        try:
            # The engine does not call a container ended while it still has output to hand
            # on: an unread flood would hold its kill and its wait until they time out.
            hang_up(box)
            with suppress(docker.errors.APIError):  # it may have stopped by itself
                self._client.kill(box.id)
            self._client.wait(box.id)
            state = self._client.inspect_container(box.id)["State"]
        except ENGINE_ERRORS as exc:
            return Remains(reading=reading, fault=f"the engine lost the container: {reason(exc)}")
        finally:
            self._going.add(box.id)
            self._removals.submit(self._remove, box.id)
        fault = None
        if state.get("Status") in ("removing", "dead"):  # by somebody else: nothing inside can
            fault = "the container was removed while it ran"
        elif state.get("Error"):
            fault = f"the engine says of the container: {state['Error']}"
        elif str(state.get("StartedAt", "")).startswith("0001-"):
            fault = "the engine says that the container never started"
        return Remains(reading=reading, oom_killed=bool(state.get("OOMKilled")), fault=fault)

    def _remove(self, box_id: str) -> None:
        """Remove a container, running or not; one that is gone is gone."""
        if not box_id:
            return
        with suppress(*ENGINE_ERRORS):
            with suppress(docker.errors.NotFound):
                self._client.remove_container(box_id, force=True, v=True)
            self._known.discard(box_id)
            self._going.discard(box_id)


def observation(
    candidate: str, calls: str, exchange: Exchange, remains: Remains, where: dict[str, Json]
) -> Observation:
    """Put together what was seen, by the word of the engine and the kernel first."""
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
    if exchange.exit is not None:
        return exchange.exit, exchange.limit, exchange.detail
    death = exchange.reader.death
    if death is not None:
        return Exit.CRASHED, None, f"its process {death_text(death.status)} before the last reply"
    if exchange.reader.phase is wire.Phase.ENDED:
        return Exit.OK, None, ""
    return Exit.CRASHED, None, exchange.detail


def death_text(status: int) -> str:
    """`ended with status 3` or `was ended by SIGSEGV`."""
    if status >= 0:
        return f"ended with status {status}"
    try:
        return f"was ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"was ended by signal {-status}"


def start_failure(exc: BaseException, exchange: Exchange, remains: Remains) -> str:
    """One sentence for a container that never became ready."""
    why = remains.fault or exchange.tail.text().strip()[-300:] or str(exc) or type(exc).__name__
    return f"A container did not become ready: {why}"


def since(now: float | None, before: float | None) -> float:
    """How much a counter grew; nothing where nobody can say."""
    return 0.0 if now is None or before is None else now - before


def receive(connection: socket.socket, exchange: Exchange) -> bool:
    """Take what is there off the stream; whether the replies moved on.

    Raises:
        EOFError: The stream is at its end.
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
    return moved


async def send(connection: socket.socket, data: bytes) -> None:
    """Write all, as the other side takes it; a broken pipe shows on the reading side."""
    view = memoryview(data)
    with suppress(ConnectionError):
        while view:
            try:
                view = view[connection.send(view) :]
            except BlockingIOError:
                await anyio.wait_writable(connection)


def hang_up(box: Box) -> None:
    """Close the attached stream for good; closing one of its two handles would not."""
    with suppress(OSError):
        box.socket.shutdown(socket.SHUT_RDWR)
    box.stream.close()
    box.socket.close()


def raw_socket(stream: Any) -> socket.socket:
    """The socket below the client's attached stream, without a time-out and not blocking."""
    attached: socket.socket = getattr(stream, "_sock", stream)
    attached.setblocking(False)
    return attached
