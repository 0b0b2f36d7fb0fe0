"""A proxy between client and engine over Unix sockets, which may rewrite how containers are made.

All else goes through byte for byte, streams that both sides keep talking on included: what
the engine says is never parsed, and what the client says only until a request asks to
attach. A test uses it to let one field of a create request be lost on its way.
"""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

Rewrite = Callable[[dict[str, Any]], None]

_CREATE = re.compile(rb"^POST /(v[\d.]+/)?containers/create[ ?]")
_ATTACH = re.compile(rb"^POST /(v[\d.]+/)?containers/[^/]+/attach[ ?]")
_CHUNK_BYTES = 1 << 16


class EngineProxy:
    """Use as a context manager; `rewrite` changes the body of each create request in place.

    Attributes:
        address: For DOCKER_HOST.
        created: The create requests as they were passed on.
    """

    def __init__(self, path: Path, engine: str, rewrite: Rewrite = lambda body: None) -> None:
        self.address = f"unix://{path}"
        self.created: list[dict[str, Any]] = []
        self._engine = engine.removeprefix("unix://")
        self._rewrite = rewrite
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(64)
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> EngineProxy:
        self._start(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        hang_up(self._listener)
        self._listener.close()
        with self._lock:
            left = tuple(self._open)
        for each in left:
            hang_up(each)
        for thread in self._threads:
            thread.join(10)

    def _start(self, work: Callable[..., None], *args: Any) -> threading.Thread:
        thread = threading.Thread(target=work, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()
        return thread

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._start(self._pass_on, client)

    def _pass_on(self, client: socket.socket) -> None:
        with client, socket.socket(socket.AF_UNIX) as engine:
            engine.connect(self._engine)
            with self._lock:
                self._open |= {client, engine}
            answers = self._start(copy_stream, engine, client)
            with suppress(OSError), client.makefile("rb") as requests:
                self._send_requests(requests, engine)
            with suppress(OSError):
                engine.shutdown(socket.SHUT_WR)
            answers.join()
            with self._lock:
                self._open -= {client, engine}

    def _send_requests(self, requests: BinaryIO, engine: socket.socket) -> None:
        """One request after the other, each as it came, but for the one that is rewritten."""
        while (head := read_head(requests)) is not None:
            length = content_length(head)
            if length is None or _ATTACH.match(head):
                engine.sendall(head)
                while data := requests.read1(_CHUNK_BYTES):  # type: ignore[attr-defined]
                    engine.sendall(data)
                return
            body = requests.read(length)
            if _CREATE.match(head):
                head, body = self._rewritten(head, body)
            engine.sendall(head + body)

    def _rewritten(self, head: bytes, body: bytes) -> tuple[bytes, bytes]:
        config = json.loads(body)
        self._rewrite(config)
        self.created.append(config)
        body = json.dumps(config).encode()
        return re.sub(rb"(?i)\r\ncontent-length: *\d+", b"\r\nContent-Length: %d" % len(body), head), body


def read_head(requests: BinaryIO) -> bytes | None:
    """The request line and the header lines, with the empty line; None at the end of the stream."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        line = requests.readline()
        if not line:
            return None
        head += line
    return head


def content_length(head: bytes) -> int | None:
    """How long a request's body is; None where it comes in chunks and its end is not looked for."""
    if re.search(rb"(?i)\r\ntransfer-encoding:", head):
        return None
    found = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
    return int(found[1]) if found else 0


def copy_stream(source: socket.socket, target: socket.socket) -> None:
    """Copy until the source ends, then end the target; a target that has gone ends the source."""
    try:
        while data := source.recv(_CHUNK_BYTES):
            target.sendall(data)
    except OSError:
        hang_up(source)
    with suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)


def hang_up(connection: socket.socket) -> None:
    """Wake whoever waits on it; the owner closes it."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
