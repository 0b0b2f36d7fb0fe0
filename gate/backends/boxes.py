"""Boxes: single containers, made ready, ended and removed through the engine. Blocking calls.

Theory of operation. A box is created by image ID, attached, started, and ready when its
runner says so. It is attached before it is started, so nothing is missed, and the
attached stream has no time-out. Every box is registered before it is started and taken
from the register when the engine has removed it, so whatever becomes of the caller,
`close` can remove all that is left. Until a box is ready nothing of a candidate is
inside: whatever fails is ours.
"""

from __future__ import annotations

import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import docker
import docker.errors
import requests.exceptions

from gate import wire
from gate.backends import cgroups, hardening
from gate.backends.docker_client import ENGINE_ERRORS, reason
from gate.backends.exchange import Exchange, Remains, receive
from gate.errors import SandboxError

CLOSE_TIMEOUT_S = 10.0
START_ATTEMPTS = 2
STOP_GRACE_S = 1

_STREAM = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
_READY_BYTES = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What is fixed when a box is made."""

    memory_mb: int
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """One container whose runner is ready: its id, its attached stream, its counters.

    Attributes:
        stream: What the client gave; it owns the connection, so it is kept alive.
        socket: The socket below it; not blocking.
        splitter: Where the engine's stream has come to.
        python: The interpreter's version, by the runner's word.
        born_s: When it became ready, by the monotonic clock.
    """

    id: str
    kind: Kind
    stream: Any
    socket: socket.socket
    splitter: wire.StreamSplitter
    counters: cgroups.Counters
    python: str
    born_s: float

    def is_alive(self) -> bool:
        """Whether it still waits for a request: nothing has come, and it has not hung up."""
        try:
            return self.socket.recv(1, socket.MSG_PEEK) is None
        except BlockingIOError:
            return True
        except OSError:
            return False


class Boxes:
    """Makes and ends boxes on one engine.

    Args:
        client: The engine.
        image: The image's ID.
        seccomp: The system call profile's content.
        labels: Whose the containers are.
        runtime: The OCI runtime's name; None for the engine's default.
        removers: How many containers are removed at once.
    """

    def __init__(
        self,
        client: docker.APIClient,
        image: str,
        *,
        seccomp: str,
        labels: dict[str, str],
        runtime: str | None,
        removers: int,
    ) -> None:
        self._client = client
        self._image = image
        self._seccomp = seccomp
        self._labels = labels
        self._runtime = runtime
        self._known: set[str] = set()
        self._going: set[str] = set()
        self._removals = ThreadPoolExecutor(max_workers=removers, thread_name_prefix="remove")

    def open(self, kind: Kind) -> Box:
        """A box that is ready; one that dies before that is replaced once.

        Raises:
            SandboxError: The engine could not make one, or it did not become ready.
        """
        for attempt in range(START_ATTEMPTS):
            try:
                return self._open(kind)
            except _NotReady as exc:
                if attempt + 1 == START_ATTEMPTS:
                    raise SandboxError(f"A container did not become ready: {exc}") from exc
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _open(self, kind: Kind) -> Box:
        config = hardening.container_config(
            image=self._image,
            seccomp=self._seccomp,
            memory_mb=kind.memory_mb,
            seed=kind.seed,
            runtime=self._runtime,
            labels=self._labels,
        )
        box_id = ""
        try:
            created = self._client.create_container_from_config(config)  # type: ignore[no-untyped-call]
            box_id = created["Id"]
            self._known.add(box_id)
            warnings = created.get("Warnings") or []
            discarded = hardening.discarded_limits(warnings)
            if discarded:
                raise SandboxError(f"The engine does not hold a limit that the sandbox needs: {discarded[0]}")
            stream = self._client.attach_socket(box_id, params=_STREAM)
            self._client.start(box_id)
            found = self._client.inspect_container(box_id)
            lost = hardening.lost_fields(config, found, swapless=bool(warnings))
            if lost:
                raise SandboxError(f"The engine did not keep a limit that the sandbox needs: {lost[0]}")
            return _await_ready(box_id, kind, stream, cgroups.find_counters(found["State"].get("Pid", 0)))
        except ENGINE_ERRORS as exc:
            self.remove(box_id)
            raise SandboxError(f"The engine could not start a container: {reason(exc)}") from exc
        except (SandboxError, _NotReady):
            self.remove(box_id)
            raise

    def end(self, box: Box) -> Remains:
        """Read the counters, end it, wait, inspect; then remove. Says where the engine failed."""
        reading = box.counters.read()
        try:
            # The engine does not call a container ended while it still has output to hand
            # on: an unread flood would hold its kill and its wait until they time out.
            hang_up(box.stream, box.socket)
            self._stop(box.id)
            state = self._client.inspect_container(box.id)["State"]
        except ENGINE_ERRORS as exc:
            return Remains(reading=reading, fault=f"the engine lost the container: {reason(exc)}")
        finally:
            self._going.add(box.id)
            self._removals.submit(self.remove, box.id)
        return Remains(reading=reading, oom_killed=bool(state.get("OOMKilled")), fault=_fault(state))

    def _stop(self, box_id: str) -> None:
        """Wait until the container has ended; kill it if it does not.

        Process 1 ends at once when the stream has closed, and with it the whole pid
        namespace. That costs less than a kill, for which the engine starts its runtime
        anew; nothing is left to the runner's good will, for the kill follows.
        """
        try:
            self._client.wait(box_id, timeout=STOP_GRACE_S)
        except (requests.exceptions.ReadTimeout, requests.exceptions.ConnectionError):
            with suppress(docker.errors.APIError):  # it may have stopped in between
                self._client.kill(box_id)
            self._client.wait(box_id)

    def discard(self, box: Box) -> None:
        """Give up a box that was not used."""
        hang_up(box.stream, box.socket)
        self._going.add(box.id)
        self._removals.submit(self.remove, box.id)

    def remove(self, box_id: str) -> None:
        """Remove a container, running or not; one that is gone is gone."""
        if not box_id:
            return
        with suppress(*ENGINE_ERRORS):
            with suppress(docker.errors.NotFound):
                self._client.remove_container(box_id, force=True, v=True)
            self._known.discard(box_id)
            self._going.discard(box_id)

    def close(self) -> None:
        """Remove every container that is still there; bounded."""
        deadline_s = time.monotonic() + CLOSE_TIMEOUT_S
        for box_id in tuple(self._known - self._going):
            self._going.add(box_id)
            self._removals.submit(self.remove, box_id)
        while self._known and time.monotonic() < deadline_s:
            time.sleep(0.01)
        self._removals.shutdown(wait=False, cancel_futures=True)


class _NotReady(Exception):
    """The container ended, or said something else, before its runner was ready."""


def _await_ready(box_id: str, kind: Kind, stream: Any, counters: cgroups.Counters) -> Box:
    """Wait for the runner's word; then the stream is for whoever takes the box."""
    attached: socket.socket = getattr(stream, "_sock", stream)
    exchange = Exchange(
        reader=wire.ReplyReader(0, program=False, max_bytes=_READY_BYTES),
        tail=wire.Tail(_READY_BYTES),
        splitter=wire.StreamSplitter(),
    )
    attached.settimeout(wire.READY_TIMEOUT_S)
    try:
        while exchange.reader.phase is wire.Phase.STARTING:
            receive(attached, exchange)
    except (EOFError, OSError, ValueError, wire.Violation, wire.Flood) as exc:
        hang_up(stream, attached)
        raise _NotReady(exchange.tail.text().strip()[-300:] or str(exc) or type(exc).__name__) from exc
    attached.setblocking(False)
    return Box(
        id=box_id,
        kind=kind,
        stream=stream,
        socket=attached,
        splitter=exchange.splitter,
        counters=counters,
        python=exchange.reader.python,
        born_s=time.monotonic(),
    )


def _fault(state: dict[str, Any]) -> str | None:
    """What the engine says went wrong with a container, which nothing inside can bring about."""
    if state.get("Status") in ("removing", "dead"):
        return "the container was removed while it ran"
    if state.get("Error"):
        return f"the engine says of the container: {state['Error']}"
    if str(state.get("StartedAt", "")).startswith("0001-"):
        return "the engine says that the container never started"
    return None


def hang_up(stream: Any, attached: socket.socket) -> None:
    """Close the attached stream for good; closing one of its two handles would not."""
    with suppress(OSError):
        attached.shutdown(socket.SHUT_RDWR)
    stream.close()
    attached.close()
