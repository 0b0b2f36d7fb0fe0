"""Process 1 of a cell: relays frames between the attached stdio and one candidate at a time.

Theory of operation. It forks the zygote (zygote.py) and stays its broker: the only process in
the container that reads candidates' bytes, and one that never forks again. Requests come as a
header and so many bytes of a runner's request (see gate/wire.py for both); it makes a socket
and a pipe for that one candidate, hands the other ends to the zygote, and sends the bytes on.
What comes back goes out in frames: replies, what was printed, and a last one when the kernel
has ended the candidate's whole pid namespace. So no descriptor of one candidate is ever open
in another.

It dies, and with it the container, when its stdin ends, when nobody has wanted anything for
a long time, when a candidate is over its deadline and nobody outside did anything about it,
and whenever something is not as it should be: then the driver judges that candidate anew.
"""

from __future__ import annotations

import _socket
import json
import os
import select
import signal
import struct
import sys
import time

import zygote

MYPY = False  # the name that mypy takes for true
if MYPY:
    from collections.abc import Callable
    from typing import NoReturn

HEADER = struct.Struct(">BBxxIII")  # kind, flags, CPU seconds, wall seconds, length of the request
RUN, KILL = 1, 2
PROGRAM, INSPECT = 1, 2
FRAME = struct.Struct(">BxxxI")  # as the engine's own: which stream, how many bytes
OVER, REPLIES, PRINTED = 0, 1, 2

IDLE_S = 900.0
LINGER_MS = 20  # replies that come within this time go out together; limits are looked at less often
TICK_MS = 200
CHUNK_BYTES = 1 << 16
NAMESPACES = ("user", "pid", "mnt", "net", "ipc", "uts", "cgroup")


def main() -> Callable[[], object]:
    """Never returns in the broker; in a program's process, with what it has to run."""
    control, end = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    try:
        pid = zygote.fork()
    except OSError as exc:
        die("the zygote cannot be made: %s" % exc)
    if pid == 0:
        control.close()
        return zygote.begin(end).serve()
    end.close()
    try:
        Broker(control, pid).serve()
    except Exception as exc:
        die("the broker failed: %r" % exc)


class Broker:
    """Relays for one candidate after the other.

    Args:
        control: The zygote's end of all talk.
        pid: The zygote's pid.
    """

    def __init__(self, control: _socket.socket, pid: int) -> None:
        self._control = control
        self._zygote = pid
        self._buffer = bytearray()
        self._near = select.poll()
        for descriptor in (0, control.fileno()):
            self._near.register(descriptor, select.POLLIN)

    def serve(self) -> NoReturn:
        """Say ready, then take requests until stdin ends."""
        said = self._control.recv(CHUNK_BYTES)
        if said != zygote.READY:
            die("the zygote cannot be made: " + (said.decode("utf-8", "replace") or "it ended"))
        write_all(b'{"ready":1,"python":"%s"}\n' % sys.version.split()[0].encode())
        while True:
            kind, flags, cpu_s, wall_s, length = self._next_header()
            if kind == RUN:
                self._run(flags, cpu_s, wall_s, length)
            elif kind != KILL:  # one that came when the candidate was over already means nothing
                die("a request of no known kind")

    def _next_header(self) -> tuple[int, int, int, int, int]:
        while len(self._buffer) < HEADER.size:
            events = dict(self._near.poll(IDLE_S * 1000))
            if self._control.fileno() in events:
                die("the zygote ended")
            if not events:
                os._exit(0)
            self._read_stdin()
        header = HEADER.unpack_from(self._buffer)
        del self._buffer[: HEADER.size]
        return header

    def _read_stdin(self) -> None:
        """Some more of it; at its end nobody outside is left."""
        data = os.read(0, CHUNK_BYTES)
        if not data:
            os._exit(0)
        self._buffer += data

    def _run(self, flags: int, cpu_s: int, wall_s: int, length: int) -> None:
        replies, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_STREAM)
        printed, printed_end = os.pipe()
        given = struct.pack("=2i", theirs.fileno(), printed_end)
        request = zygote.REQUEST.pack(bool(flags & PROGRAM), cpu_s)
        self._control.sendmsg([request], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, given)])
        theirs.close()
        os.close(printed_end)
        self._send(replies, length)
        try:
            self._relay(replies.fileno(), printed, time.monotonic() + wall_s, flags)
        finally:
            replies.close()
            os.close(printed)

    def _send(self, candidate: _socket.socket, length: int) -> None:
        """The request, as it comes; nothing is blocked by it, for nothing runs before it has been read."""
        lives = True
        while length:
            if not self._buffer:
                self._read_stdin()
            part = bytes(self._buffer[:length])
            del self._buffer[: len(part)]
            length -= len(part)
            try:
                if lives:
                    candidate.sendall(part)
            except OSError:  # it has died, for memory perhaps: the rest of its request is nobody's
                lives = False

    def _relay(self, replies: int, printed: int, deadline: float, flags: int) -> None:
        """What the candidate says, until its pid namespace has ended."""
        channel = {replies: REPLIES, printed: PRINTED}
        for descriptor in channel:
            os.set_blocking(descriptor, False)
        moved = b""
        busy = True  # at first nothing is to be had but all of it at once
        killed = False
        report: dict[str, object] = {}
        while True:
            ended = self._await(() if busy else tuple(channel), LINGER_MS if busy else TICK_MS)
            if ended is None and KILL in self._orders():
                killed = True
            if killed and ended is None:
                self._kill()
            moved = drain(channel, whole=ended is not None)
            if flags & INSPECT and moved and not report and ended is None:
                report = self._inspect()
            if ended is not None:
                status, memory_bytes = ended
                if not flags & PROGRAM:  # a program's process 1 has reported each death itself
                    died = b'{"died":%d}\n' % os.waitstatus_to_exitcode(status)
                    moved += FRAME.pack(REPLIES, len(died)) + died
                said = json.dumps({"status": status, "memory_bytes": memory_bytes, **report}).encode()
                write_all(moved + FRAME.pack(OVER, len(said)) + said)
                return
            write_all(moved)
            busy = bool(moved) and len(moved) < CHUNK_BYTES
            if time.monotonic() > deadline:
                die("a candidate is over its deadline")

    def _kill(self) -> None:
        """End what the zygote has forked; again and again, for it may not have done so yet."""
        for pid in children(self._zygote):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue

    def _await(self, others: tuple[int, ...], wait_ms: int) -> tuple[int, int] | None:
        """Wait for something to happen; how the candidate ended, once it has."""
        poll = self._near
        if others:
            poll = select.poll()
            for descriptor in (0, self._control.fileno(), *others):
                poll.register(descriptor, select.POLLIN)
        events = dict(poll.poll(wait_ms))
        if 0 in events:
            self._read_stdin()
        if self._control.fileno() not in events:
            return None
        message = self._control.recv(zygote.ENDED.size)
        if len(message) != zygote.ENDED.size:
            die("the zygote ended")
        return zygote.ENDED.unpack(message)

    def _orders(self) -> list[int]:
        """Headers that came while a candidate runs: nothing but the order to kill it has a place there."""
        orders = []
        while len(self._buffer) >= HEADER.size:
            orders.append(self._next_header()[0])
        if set(orders) - {KILL}:
            die("a request while a candidate runs")
        return orders

    def _inspect(self) -> dict[str, object]:
        """What the candidate's processes are held to, seen from outside their namespaces; nothing if they have gone."""
        processes = children(self._zygote)
        try:
            return {"seen": [describe(pid, (os.getpid(), self._zygote)) for pid in processes]}
        except FileNotFoundError:
            return {}


def drain(channel: dict[int, int], *, whole: bool) -> bytes:
    """What is there to be read, in frames; what has come to its end is struck off."""
    frames = []
    for descriptor, stream in tuple(channel.items()):
        while True:
            try:
                data = os.read(descriptor, CHUNK_BYTES)
            except BlockingIOError:
                break
            except ConnectionResetError:  # it died with some of its request unread
                data = b""
            if not data:
                del channel[descriptor]
                break
            frames.append(FRAME.pack(stream, len(data)) + data)
            if not whole:
                break
    return b"".join(frames)


def children(parent: int) -> list[int]:
    """The processes that a process has forked and not yet buried."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open("/proc/%s/stat" % name, "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()
            except OSError:
                continue  # it has gone in the meantime
            if int(fields[1]) == parent:
                found.append(int(name))
    return found


def describe(pid: int, ours: tuple[int, int]) -> dict[str, object]:
    """Which namespaces of a process are neither the broker's nor the zygote's, and what the kernel says of it."""
    apart = [name for name in NAMESPACES if link(pid, name) not in [link(each, name) for each in ours]]
    with open("/proc/%d/status" % pid) as file:
        lines = dict(line.rstrip("\n").partition(":")[::2] for line in file)
    status = {name: lines.get(name, "").strip() for name in ("CapPrm", "CapEff", "CapBnd", "NoNewPrivs", "Seccomp")}
    with open("/proc/%d/oom_score_adj" % pid) as file:
        return {
            "is_init": lines.get("NSpid", "").split()[-1:] == ["1"],
            "apart": apart,
            "status": status,
            "oom_score_adj": int(file.read()),
        }


def link(pid: int, name: str) -> str:
    return os.readlink("/proc/%d/ns/%s" % (pid, name))


def write_all(data: bytes) -> None:
    """Out of the container; a driver that has gone ends it."""
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


def die(why: str) -> NoReturn:
    """Say why, once, and end the container."""
    os.write(2, (why + "\n").encode())
    os._exit(1)
