"""Boxes: single containers, made ready, ended and removed through the engine. Blocking calls.

Theory of operation. A box is created by image ID, attached, started, and ready when its
runner says so. It is attached before it is started, so nothing is missed, and the
attached stream has no time-out. A box has a name of our choice, which is registered
before the engine hears of it and struck off when the engine has removed it: whatever
becomes of the caller, or of the engine's answer, `close` can remove all that is left.
Until a box is ready nothing of a candidate is inside: whatever fails is ours.
"""

from __future__ import annotations

import secrets
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock
from typing import Any

import docker
import docker.errors
import requests.exceptions

from gate import wire
from gate.backends import cgroups, hardening
from gate.backends import labels as ours
from gate.backends.docker_client import ENGINE_ERRORS, reason
from gate.backends.exchange import Exchange, Remains, receive
from gate.backends.lifeline import Lifeline
from gate.errors import SandboxError
from gate.model import Json

CLOSE_TIMEOUT_S = 10.0
CLOSE_ATTEMPTS = 2
START_ATTEMPTS = 2
STOP_GRACE_S = 1

_STREAM = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
_READY_BYTES = 1 << 16
_GOING = (404, 409)  # gone, or on its way: a forced removal conflicts with nothing but another one


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What is fixed when a box is made."""

    memory_mb: int
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """One container whose runner is ready: its id, its attached stream, its counters.

    Attributes:
        name: The one that we gave it.
        lifeline: Whether the engine has lived since before it was made.
        stream: What the client gave; it owns the connection, so it is kept alive.
        socket: The socket below it; not blocking.
        splitter: Where the engine's stream has come to.
        python: The interpreter's version, by the runner's word.
        born_s: When it became ready, by the monotonic clock.
    """

    id: str
    name: str
    kind: Kind
    lifeline: Lifeline
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
        make: How a container is asked for; as `hardening.container_config`, which is the default.
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
        make: Callable[..., dict[str, Json]] | None = None,
    ) -> None:
        self._make = make
        self._client = client
        self._image = image
        self._seccomp = seccomp
        self._labels = labels
        self._runtime = runtime
        self._known: set[str] = set()  # the names of all that may be there
        self._going: set[str] = set()  # those of them that are being removed
        self._lock = Lock()
        self._lifeline: Lifeline | None = None
        self._removals = ThreadPoolExecutor(max_workers=removers, thread_name_prefix="remove")

    @property
    def left(self) -> frozenset[str]:
        """The names of the containers that may still be there."""
        return frozenset(self._known)

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
        config = (self._make or hardening.container_config)(
            image=self._image,
            seccomp=self._seccomp,
            memory_mb=kind.memory_mb,
            seed=kind.seed,
            runtime=self._runtime,
            labels=self._labels,
        )
        name = f"{ours.KEY}-{secrets.token_hex(8)}"
        answered = False
        try:
            lifeline = self._hold()
            self._known.add(name)
            created = self._client.create_container_from_config(config, name=name)  # type: ignore[no-untyped-call]
            answered = True
            return self._start(name, kind, config, created, lifeline)
        except docker.errors.ImageNotFound as exc:
            self.remove(name)
            raise SandboxError(
                "The engine no longer has the sandbox image: run `gate image build`, then `gate run --resume`."
            ) from exc
        except ENGINE_ERRORS as exc:
            self.remove(name)
            if not answered and not isinstance(exc, docker.errors.APIError):
                self._known.add(name)  # the engine may still be making it: `close` looks again
            raise SandboxError(f"The engine could not start a container: {reason(exc)}") from exc
        except (SandboxError, _NotReady):
            self.remove(name)
            raise

    def _start(self, name: str, kind: Kind, config: dict[str, Json], created: Any, lifeline: Lifeline) -> Box:
        """Attach and start what was created, hold it against what was asked for, and wait for its runner."""
        box_id: str = said(created, "Id")
        warnings = created.get("Warnings") or []
        discarded = hardening.discarded_limits(warnings)
        if discarded:
            raise SandboxError(f"The engine does not hold a limit that the sandbox needs: {discarded[0]}")
        stream = self._client.attach_socket(box_id, params=_STREAM)
        attached: socket.socket = getattr(stream, "_sock", stream)
        try:
            self._client.start(box_id)
            found = self._client.inspect_container(box_id)
            lost = hardening.lost_fields(config, found, swapless=bool(warnings))
            if lost:
                raise SandboxError(f"The engine did not keep a limit that the sandbox needs: {'; '.join(lost)}")
            splitter, python = _await_ready(attached)
        except BaseException:
            hang_up(stream, attached)
            raise
        return Box(
            id=box_id,
            name=name,
            kind=kind,
            lifeline=lifeline,
            stream=stream,
            socket=attached,
            splitter=splitter,
            counters=cgroups.find_counters(said(found, "State").get("Pid", 0), box_id),
            python=python,
            born_s=time.monotonic(),
        )

    def _hold(self) -> Lifeline:
        """What shows whether the engine has lived from now on; a new one where it has not."""
        with self._lock:
            if self._lifeline is None or self._lifeline.is_broken():
                if self._lifeline is not None:
                    self._lifeline.close()
                self._lifeline = Lifeline(self._client)
            return self._lifeline

    def end(self, box: Box) -> Remains:
        """Read the counters, end it, wait, inspect; then remove. Says where the engine failed."""
        reading = box.counters.read()
        try:
            # The engine does not call a container ended while it still has output to hand
            # on: an unread flood would hold its kill and its wait until they time out.
            hang_up(box.stream, box.socket)
            self._stop(box.id)
            state = said(self._client.inspect_container(box.id), "State")
        except ENGINE_ERRORS as exc:
            return Remains(reading=reading, fault=f"the engine lost the container: {reason(exc)}")
        finally:
            self._remove_soon(box.name)
        # Asked last: an engine that has answered just now was there all the time, or is another one.
        lost = box.lifeline.is_broken()
        return Remains(reading=reading, oom_killed=bool(state.get("OOMKilled")), fault=_fault(state), engine_lost=lost)

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
            self._client.wait(box_id, timeout=self._client.timeout)  # the SDK's own default is to wait without end

    def discard(self, box: Box) -> None:
        """Give up a box that was not used."""
        hang_up(box.stream, box.socket)
        self._remove_soon(box.name)

    def _remove_soon(self, name: str) -> None:
        self._going.add(name)
        try:
            self._removals.submit(self.remove, name)
        except RuntimeError:  # closed already: somebody was late
            self.remove(name)

    def remove(self, name: str) -> None:
        """Remove a container, running or not; one that cannot be removed now stays known, for `close`."""
        try:
            self._client.remove_container(name, force=True, v=True)
        except ENGINE_ERRORS as exc:
            if isinstance(exc, docker.errors.APIError) and exc.status_code in _GOING:
                self._known.discard(name)
        else:
            self._known.discard(name)
        self._going.discard(name)

    def close(self) -> None:
        """Remove every container that is still there; bounded."""
        deadline_s = time.monotonic() + CLOSE_TIMEOUT_S
        for _ in range(CLOSE_ATTEMPTS):
            for name in tuple(self._known - self._going):
                self._remove_soon(name)
            while self._going and time.monotonic() < deadline_s:
                time.sleep(0.01)
        self._removals.shutdown(wait=False, cancel_futures=True)
        if self._lifeline is not None:
            self._lifeline.close()


class _NotReady(Exception):
    """The container ended, or said something else, before its runner was ready."""


def _await_ready(attached: socket.socket) -> tuple[wire.StreamSplitter, str]:
    """Wait for the runner's word, which names its Python; then the stream is for whoever takes the box.

    Raises:
        _NotReady: It did not come, or something else did.
    """
    splitter = wire.StreamSplitter()
    exchange = Exchange(
        reader=wire.ReplyReader(0, program=False, max_bytes=_READY_BYTES),
        tail=wire.Tail(_READY_BYTES),
        splitter=splitter,
    )
    attached.settimeout(wire.READY_TIMEOUT_S)
    try:
        while exchange.reader.phase is wire.Phase.STARTING:
            receive(attached, exchange)
    except (EOFError, OSError, ValueError, wire.Violation, wire.Flood) as exc:
        raise _NotReady(exchange.tail.text().strip()[-300:] or str(exc) or type(exc).__name__) from exc
    attached.setblocking(False)
    return splitter, exchange.reader.python


def said(answer: Any, name: str) -> Any:
    """A part of what the engine answered.

    Raises:
        docker.errors.DockerException: It is not there.
    """
    part = answer.get(name) if isinstance(answer, dict) else None
    if not part:
        raise docker.errors.DockerException(f"it answered without {name}")
    return part


def _fault(state: dict[str, Any]) -> str | None:
    """What the engine says went wrong with a container, which nothing inside can bring about."""
    if state.get("Status") in ("removing", "dead"):
        return "the container was removed while it ran"
    if state.get("Error"):
        return f"the engine says of the container: {state['Error']}"
    if str(state.get("StartedAt") or "0001-").startswith("0001-"):
        return "the engine says that the container never started"
    return None


def hang_up(stream: Any, attached: socket.socket) -> None:
    """Close the attached stream for good; closing one of its two handles would not."""
    with suppress(OSError):
        attached.shutdown(socket.SHUT_RDWR)
    stream.close()
    attached.close()
