"""An engine that plays what it is told to: a small part of Docker's HTTP API on a Unix socket.

It makes no containers. What the process in one would say is played by a function, its
`runner`, on the attached stream; what the engine says of it can be replaced request by
request. It keeps what became of each container, so that a test can tell what is left.
"""

from __future__ import annotations

import base64
import json
import re
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO
from urllib.parse import parse_qs, urlsplit

from engine_proxy import content_length, hang_up, read_head

STDOUT, STDERR = 1, 2
NEVER = "0001-01-01T00:00:00Z"
API = "1.41"


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What the engine says in place of the truth.

    Attributes:
        status: The HTTP status; 0: it hangs up without a word.
        body: The JSON body; a text is an error's message.
        wait_s: How long it thinks before.
        honest: After thinking it does what it was asked for.
    """

    status: int = 0
    body: Any = None
    wait_s: float = 0.0
    honest: bool = False


HANGS = Answer(wait_s=60.0)
BREAKS_OFF = Answer()


def error(status: int, message: str) -> Answer:
    return Answer(status=status, body={"message": message})


@dataclass(eq=False)
class FakeContainer:
    """One container: what it was made of, its state as inspect tells it, and what became of it."""

    id: str
    name: str
    config: dict[str, Any]
    state: dict[str, Any] = field(default_factory=lambda: {"Status": "created", "StartedAt": NEVER, "Error": ""})
    uses: Counter[str] = field(default_factory=Counter)
    attached: socket.socket | None = None
    started: threading.Event = field(default_factory=threading.Event)
    ended: threading.Event = field(default_factory=threading.Event)
    removed: bool = False

    def end(self, code: int, **state: Any) -> None:
        """It has ended; the first end is the one that counts."""
        if not self.ended.is_set():
            self.state |= {"Status": "exited", "Running": False, "ExitCode": code, **state}
            self.ended.set()

    def hang_up(self) -> None:
        self.started.set()  # whoever waits for the start waits no longer
        if self.attached is not None:
            hang_up(self.attached)


class Stage:
    """What a runner sees of its container and of the engine: the attached stream, from inside."""

    def __init__(self, engine: FakeEngine, container: FakeContainer, stream: BinaryIO) -> None:
        self.engine = engine
        self.container = container
        self._stream = stream
        self.code = ""
        self.calls: list[dict[str, Any]] = []

    def send(self, data: bytes) -> None:
        """Raw bytes, as they are."""
        assert self.container.attached is not None
        self.container.attached.sendall(data)

    def frame(self, stream: int, data: bytes) -> None:
        self.send(struct.pack(">BxxxI", stream, len(data)) + data)

    def say(self, *records: dict[str, Any]) -> None:
        for record in records:
            self.frame(STDOUT, json.dumps(record).encode() + b"\n")

    def ready(self) -> None:
        self.say({"ready": 1, "python": "3.12.7"})

    def read_request(self) -> None:
        """The whole request; ends the container where the other side hangs up before."""
        header = json.loads(self._stream.readline() or b"null")
        if header is None:
            raise EOFError
        self.code = base64.b64decode(header["code"]).decode()
        self.calls = [json.loads(self._stream.readline()) for _ in range(header["calls"])]
        self.engine.requests.append(self.code)

    def wait_for_the_end(self) -> None:
        """As process 1 does: until the other side hangs up."""
        self._stream.read()


Runner = Callable[[Stage], None]
Play = Mapping[str, Answer | Sequence[Answer | None]]


def answer_with(values: Callable[[str, list[Any]], Any]) -> Runner:
    """A sound runner, of a candidate that returns these values."""

    def run(stage: Stage) -> None:
        stage.ready()
        stage.read_request()
        stage.say({"loaded": 1})
        for number, call in enumerate(stage.calls):
            stage.say({"i": number, "value": values(stage.code, call["args"])})
        stage.say({"end": len(stage.calls)}, {"died": 0})
        stage.wait_for_the_end()

    return run


adds = answer_with(lambda code, args: sum(args))


class FakeEngine:
    """Use as a context manager.

    Args:
        path: Where its socket is.
        runner: Plays process 1 in each container.
        play: What it says in place of the truth, by verb: one answer for every time, or
            one for each time with each container, the last of them from then on; None is
            the truth. The verbs: create attach start inspect wait kill delete events.
        images: What it says that it has.
        warnings: What it warns of when it creates a container.

    Attributes:
        containers: All that were ever made.
        requests: The code in each request that reached a runner.
        accepted: How many connections were made to it.
    """

    def __init__(
        self,
        path: Path,
        runner: Runner = adds,
        play: Play | None = None,
        *,
        images: Sequence[dict[str, Any]] = (),
        warnings: Sequence[str] = (),
    ) -> None:
        self.address = f"unix://{path}"
        self.containers: list[FakeContainer] = []
        self.requests: list[str] = []
        self.accepted = 0
        self.runner = runner
        self._path = path
        self._play = dict(play or {})
        self._images = list(images)
        self._warnings = list(warnings)
        self._lock = threading.Lock()
        self._connections: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._gone = threading.Event()

    def __enter__(self) -> FakeEngine:
        self.revive()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.die()
        for container in self.containers:
            container.end(137)
            container.hang_up()
        for thread in self._threads:
            thread.join(10)

    @property
    def left(self) -> list[str]:
        """The names of the containers that nobody has removed."""
        return [container.name for container in self.containers if not container.removed]

    def revive(self) -> None:
        """Listen, for the first time or again; the containers of the time before have been stopped."""
        for container in self.containers:
            container.end(137)
        self._gone = threading.Event()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self._path))
        self._listener.listen(64)
        self._start(self._accept, self._listener)

    def die(self) -> None:
        """As by kill -9: nobody listens, and every connection is closed."""
        self._path.unlink(missing_ok=True)
        self._gone.set()
        hang_up(self._listener)
        self._listener.close()
        with self._lock:
            left = tuple(self._connections)
        for connection in left:
            hang_up(connection)

    def _start(self, work: Callable[..., None], *args: Any) -> None:
        thread = threading.Thread(target=work, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            self.accepted += 1
            self._start(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        with self._lock:
            self._connections.add(connection)
        with connection, suppress(OSError, ValueError), connection.makefile("rb") as requests:
            while (head := read_head(requests)) is not None:
                body = requests.read(content_length(head) or 0)
                method, target, _ = head.split(b"\r\n", 1)[0].decode().split(" ")
                if not self._answer(connection, requests, method, target, body):
                    break
        with self._lock:
            self._connections.discard(connection)

    def _answer(self, connection: socket.socket, requests: BinaryIO, method: str, target: str, body: bytes) -> bool:
        """Answer one request; whether another may follow on the connection."""
        url = urlsplit(target)
        path = re.sub(r"^/v[\d.]+", "", url.path)
        found = re.fullmatch(r"/containers/([^/]+)(?:/(attach|start|json|wait|kill))?", path)
        if path == "/containers/create":
            return self._create(connection, json.loads(body), parse_qs(url.query).get("name", [""])[0])
        if path == "/containers/json":
            return reply(connection, 200, [])
        if found:
            verb = {None: "delete", "json": "inspect"}.get(found[2], found[2])
            return self._of_container(connection, requests, str(verb), found[1])
        if path == "/events":
            return self._tell_events(connection)
        facts: dict[str, Any] = {
            "/version": {"ApiVersion": API, "MinAPIVersion": "1.12", "Version": "20.10.0"},
            "/info": {"Runtimes": {"runc": {}}, "DefaultRuntime": "runc", "CgroupVersion": "1"},
            "/images/json": self._images,
        }
        return reply(connection, 200 if path in facts else 404, facts.get(path, {"message": "page not found"}))

    def _instead(self, verb: str, container: FakeContainer | None) -> Answer | None:
        """What is said in place of the truth, if anything; thinks first."""
        played = self._play.get(verb)
        number = 0
        if container is not None:
            number = container.uses[verb]
            container.uses[verb] += 1
        answer = played[min(number, len(played) - 1)] if isinstance(played, Sequence) else played
        if answer is not None:
            self._gone.wait(answer.wait_s)
        return None if answer is None or answer.honest else answer

    def _create(self, connection: socket.socket, config: dict[str, Any], name: str) -> bool:
        played = self._instead("create", None)
        if played is not None:
            return give(connection, played)
        with self._lock:
            number = len(self.containers)
            container = FakeContainer(id=f"{number:064x}", name=name, config=config)
            self.containers.append(container)
        return reply(connection, 201, {"Id": container.id, "Warnings": self._warnings})

    def _of_container(self, connection: socket.socket, requests: BinaryIO, verb: str, reference: str) -> bool:
        known = (each for each in self.containers if reference in (each.id, each.name) and not each.removed)
        container = next(known, None)
        if container is None:
            return reply(connection, 404, {"message": f"No such container: {reference}"})
        played = self._instead(verb, container)
        if played is not None:
            return give(connection, played)
        if verb == "attach":
            return self._attach(connection, requests, container)
        if verb == "inspect":
            config = {name: value for name, value in container.config.items() if name != "HostConfig"}
            said = {"Id": container.id, "State": container.state, "Config": config}
            return reply(connection, 200, {**said, "HostConfig": container.config["HostConfig"]})
        if verb == "wait":
            container.ended.wait(60)
            return reply(connection, 200, {"StatusCode": container.state.get("ExitCode", 0)})
        if verb == "start":
            container.state |= {"Status": "running", "Running": True, "Pid": 0, "StartedAt": "2026-01-01T00:00:01Z"}
            container.started.set()
        else:
            container.end(137)
            container.hang_up()
        container.removed = container.removed or verb == "delete"
        return reply(connection, 204, None)

    def _attach(self, connection: socket.socket, requests: BinaryIO, container: FakeContainer) -> bool:
        """The connection is the container's stream from now on, until its runner has ended."""
        container.attached = connection
        connection.sendall(b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n")
        container.started.wait(60)
        if container.state["Status"] == "running":
            with suppress(OSError, EOFError):
                self.runner(Stage(self, container, requests))
            container.end(0)
        return False

    def _tell_events(self, connection: socket.socket) -> bool:
        played = self._instead("events", None)
        if played is not None:
            return give(connection, played)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
        with suppress(OSError):
            connection.recv(1)  # nothing ever comes: it ends when one side goes
        return False


def give(connection: socket.socket, answer: Answer) -> bool:
    return reply(connection, answer.status, answer.body) if answer.status else False


def reply(connection: socket.socket, status: int, body: Any) -> bool:
    """One answer with its length; a body of bytes goes out as it is."""
    text = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    head = f"HTTP/1.1 {status} SAID\r\nContent-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n"
    with suppress(OSError):
        connection.sendall(head.encode() + text)
        return True
    return False


def settle(condition: Callable[[], bool], within_s: float = 5.0) -> bool:
    """Whether something comes true soon."""
    deadline_s = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline_s:
            return False
        time.sleep(0.01)
    return True
