"""A scripted server that speaks the OpenAI protocol, over a real loopback socket.

It answers each request by the next step of its script (the last one again when they run
out), or by what a function says of the request, and notes every request that it got:
tests count from this log and not from what the client believes.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """How one request is answered.

    Attributes:
        body: Sent as it is, where it is bytes; else as JSON.
        name: What a test calls it.
        wait_s: How long to wait before the answer.
        cut: Close after half of the body, without a word.
        reset: Break the connection instead of an answer.
        drip_s: How long to wait before each byte of the body.
    """

    status: int = 200
    body: Any = b""
    headers: dict[str, str] = field(default_factory=dict)
    wait_s: float = 0.0
    cut: bool = False
    reset: bool = False
    drip_s: float = 0.0
    name: str = ""

    @property
    def body_bytes(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request, as the server got it; header names in lower case."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]


def completion(content: Any, *, finish: str | None = "stop", **message: Any) -> Step:
    """An answer with one choice; `message` has the message's other fields."""
    choice = {"index": 0, "message": {"role": "assistant", "content": content, **message}, "finish_reason": finish}
    usage = {"prompt_tokens": 9, "completion_tokens": 7, "total_tokens": 16}
    return Step(body={"id": "answer-1", "model": "stub-1", "choices": [choice], "usage": usage})


def stream(*deltas: str, finish: str | None = "stop", done: bool = True) -> Step:
    """An answer as a stream of events, one for each piece of the text."""
    chunks: list[Any] = [{"id": "answer-1", "choices": [{"index": 0, "delta": {"content": each}}]} for each in deltas]
    if finish is not None:
        chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    events = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks] + ["data: [DONE]\n\n"] * done
    return Step(body="".join(events).encode(), headers={"Content-Type": "text/event-stream"})


def error(status: int, message: str = "no", *, headers: dict[str, str] | None = None, **fields: Any) -> Step:
    """An answer that is an error."""
    return Step(status=status, body={"error": {"message": message, **fields}}, headers=headers or {})


class FakeOpenAI:
    """The server, between `with` and its end.

    Attributes:
        requests: All that it got, in order.
        served: With what each of them was answered, in the same order.
        most: The most requests that were being answered at one time.
    """

    def __init__(self, script: Step | Iterable[Step] | Callable[[Request], Step]) -> None:
        self._script = script if callable(script) else _in_turn([script] if isinstance(script, Step) else script)
        self._lock = threading.Lock()
        self._active = 0
        self.closing = threading.Event()
        self.requests: list[Request] = []
        self.served: list[Step] = []
        self.most = 0
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.fake = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    @property
    def url(self) -> str:
        """Its base URL."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def begin(self, request: Request) -> Step:
        """Note a request, and say how it is answered."""
        with self._lock:
            self.requests.append(request)
            self._active += 1
            self.most = max(self.most, self._active)
            self.served.append(self._script(request))
            return self.served[-1]

    def end(self) -> None:
        """A request has been answered."""
        with self._lock:
            self._active -= 1

    def __enter__(self) -> FakeOpenAI:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _in_turn(steps: Iterable[Step]) -> Callable[[Request], Step]:
    left = list(steps)
    return lambda request: left.pop(0) if len(left) > 1 else left[0]


class _Server(ThreadingHTTPServer):
    request_queue_size = 128  # with fewer, the kernel breaks connections that no test meant to
    daemon_threads = False  # so that closing waits for every answer, and none outlives its test
    fake: FakeOpenAI

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is part of the script."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 5
    server: _Server

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers["content-length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        step = self.server.fake.begin(Request(path=self.path, headers=headers, body=json.loads(data)))
        try:
            self.server.fake.closing.wait(step.wait_s)
        finally:
            self.server.fake.end()  # before the answer: who has it may already send the next request
        self._reset() if step.reset else self._answer(step)

    def _answer(self, step: Step) -> None:
        body = step.body_bytes
        self.send_response(step.status)
        for name, value in {"Content-Type": "application/json", **step.headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.close_connection = self.close_connection or step.cut
        for piece in _pieces(body[: len(body) // 2] if step.cut else body, step.drip_s):
            self.server.fake.closing.wait(step.drip_s)
            self.wfile.write(piece)

    def _reset(self) -> None:
        """Close at once and with RST: a lingering time of zero throws away what is left."""
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        os.close(self.connection.detach())

    def log_message(self, format: str, *args: Any) -> None:
        """The log is `requests`."""


def _pieces(body: bytes, drip_s: float) -> Iterable[bytes]:
    return (bytes([byte]) for byte in body) if drip_s else [body]
