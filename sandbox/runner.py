"""Runs one candidate: calls in, replies out. Standard library and `values` alone.

Theory of operation. Inside the container this file is process 1 and the only thing that
starts. It says ready, reads one request (see gate/wire.py for the lines), writes the
candidate into a small tmpfs of its own and forks:

- the *supervisor* (process 1) reaps, and watches three things: the request pipe (when
  it closes, nobody outside is left: exit, which kills all), its own deadline (the
  backstop of the limits that are held from outside), and the death of the child, which
  it reports. It survives the candidate's out-of-memory kill, so the cgroup with the
  evidence stays until the host has read it.
- the *child* is the candidate's. For function tasks it loads the file as a module and
  answers call by call on a private descriptor. For programs there is one child a call:
  `__main__`, a regular file as fd 0, a pipe as fd 1 that the supervisor drains.

What the child prints goes to the container's stderr, which is no result channel.
Nothing here is a secret or a check: expected values are not in the container, so a
candidate that takes this process over can only answer, which it could do anyway.
"""

from __future__ import annotations

import _ctypes
import binascii
import importlib.machinery
import json
import os
import select
import signal
import sys
import time
import types

import values

# Every import here is paid for by each candidate: `base64`, `contextlib` and `importlib.util` would cost 2 ms of CPU.
MYPY = False  # the name that mypy takes for true
if MYPY:
    from collections.abc import Callable, Iterator
    from typing import Any, NoReturn

SOURCE_DIR = "/src"
MODULE_NAME = "solution"
READY_WAIT_S = 900.0
TICK_S = 0.05
MESSAGE_CHARS = 2000
PIPE_CHUNK_BYTES = 1 << 16
_PR_SET_DUMPABLE = 4

# What a candidate may replace for reasons of its own is held here: it must not change how the runner ends.
_write = os.write
_exit = os._exit
_getpid = os.getpid
_from_text = json.JSONDecoder().decode
_prctl = _ctypes.dlsym(_ctypes.dlopen(None, 0), "prctl")  # type: ignore[arg-type]  # the process itself
_streams = (sys.stdout, sys.stderr)
_EXCEPTIONS = {
    thing: thing.__name__
    for thing in vars(__import__("builtins")).values()
    if isinstance(thing, type) and issubclass(thing, BaseException)
}


class _Channel:
    """The request pipe and the private reply descriptor."""

    def __init__(self) -> None:
        self.requests = os.dup(0)
        self.replies = os.dup(1)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        os.dup2(2, 1)
        self._buffer = bytearray()

    def reply(self, record: dict[str, Any]) -> None:
        write_all(self.replies, values.dumps(record).encode("ascii") + b"\n")

    def read_line(self, deadline: float) -> bytes:
        """The next line of the request; without one in time, or at its end, all is over."""
        scanned = 0
        while (end := self._buffer.find(b"\n", scanned)) < 0:
            scanned = len(self._buffer)
            if not select.select([self.requests], [], [], max(0.0, deadline - time.monotonic()))[0]:
                os._exit(0)
            chunk = os.read(self.requests, 1 << 20)
            if not chunk:
                os._exit(0)
            self._buffer += chunk
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return line

    def is_closed(self, wait_s: float, child: int | None = None) -> bool:
        """Wait a moment, or until a child ends; true when nobody holds the other end any more."""
        poll = select.poll()
        poll.register(self.requests, 0)  # hang-up is reported whatever is asked for
        if child is not None:
            poll.register(child, select.POLLIN)
        return self.requests in dict(poll.poll(wait_s * 1000))


class _Job:
    """One request, with its calls still as text: each is decoded afresh when it is made."""

    def __init__(self, channel: _Channel) -> None:
        deadline = time.monotonic() + READY_WAIT_S
        header: Any = _from_text(channel.read_line(deadline).decode())
        self.program: bool = header["mode"] == "program"
        self.entry_point: str = header["entry_point"]
        self.code = binascii.a2b_base64(header["code"])
        self.max_bytes: int = header["max_bytes"]
        self.deadline: float = time.monotonic() + header["wall_s"]
        self.calls = [channel.read_line(deadline) for _ in range(header["calls"])]

    def call(self, index: int) -> Any:
        return _from_text(self.calls[index].decode())


def serve() -> Callable[[], object]:
    """Answer one request; returns only in a program's child, with what it has to run."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # process 1 ignores what it does not handle
    set_dumpable(False)
    channel = _Channel()
    channel.reply({"ready": 1, "python": sys.version.split()[0]})
    job = _Job(channel)
    path = write_source(job.code)
    return serve_program(channel, job, path) if job.program else serve_function(channel, job, path)


def serve_function(channel: _Channel, job: _Job, path: str) -> NoReturn:
    """One child that answers all calls; its death is always reported."""
    pid = os.fork()
    if pid == 0:
        become_candidate(channel)
        answer_calls(channel, job, path)
        flush_streams()
        _exit(0)
    child = os.pidfd_open(pid)
    while (status := dict(reap()).get(pid)) is None:
        if channel.is_closed(TICK_S, child) or time.monotonic() > job.deadline:
            os._exit(0)
    channel.reply({"died": status})
    wait_for_the_end(channel, job)


def serve_program(channel: _Channel, job: _Job, path: str) -> Callable[[], object]:
    """One child a call; each comes back here as a return, the supervisor never."""
    for index in range(len(job.calls)):
        program = run_program(channel, job, index, path)
        if program is not None:
            return program
    channel.reply({"end": len(job.calls)})
    channel.reply({"died": 0})
    wait_for_the_end(channel, job)


def set_dumpable(whether: bool) -> None:
    """Whether another process of the same user may look into this one: its memory, environment, descriptors.

    Raises:
        OSError: The kernel would not have it.
    """
    if _ctypes.call_function(_prctl, (_PR_SET_DUMPABLE, int(whether), 0, 0, 0)) != 0:
        raise OSError("prctl(PR_SET_DUMPABLE) failed")


def write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[_write(descriptor, view) :]


def write_source(code: bytes) -> str:
    """The candidate as a real file, read-only once written."""
    path = os.path.join(SOURCE_DIR, MODULE_NAME + ".py")
    with open(path, "wb") as file:
        file.write(code)
    os.chmod(path, 0o555)
    os.chmod(SOURCE_DIR, 0o555)
    return path


def become_candidate(channel: _Channel) -> None:
    """Leave the supervisor behind: no request pipe, first to go when memory runs out."""
    os.close(channel.requests)
    set_dumpable(True)  # inherited; a closed process could not open its own files in /proc either
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")
    for name in ("runner", "values"):
        sys.modules.pop(name, None)
    sys.path[0] = SOURCE_DIR
    sys.dont_write_bytecode = True


def flush_streams() -> None:
    """Have what was printed on its way; a candidate may have closed the streams."""
    for stream in _streams:
        try:
            stream.flush()
        except (ValueError, OSError):
            continue


def reap() -> Iterator[tuple[int, int]]:
    """All children that ended, as (pid, status); the status of a signal is negative."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        yield pid, os.waitstatus_to_exitcode(status)


def wait_for_the_end(channel: _Channel, job: _Job) -> NoReturn:
    """Stay until the host has read the counters and ends the container."""
    while not channel.is_closed(TICK_S) and time.monotonic() < job.deadline:
        for _ in reap():
            pass
    os._exit(0)


def compile_source(code: bytes, path: str) -> tuple[types.CodeType | None, str]:
    """The candidate's code object, or None and what is wrong with the text."""
    try:
        return importlib.machinery.SourceFileLoader(MODULE_NAME, path).source_to_code(code, path), ""
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError) as exc:
        return None, describe(exc)


def answer_calls(channel: _Channel, job: _Job, path: str) -> None:
    """Load the module, then make the calls in order in this one process."""
    sys.argv[:] = [path]
    sys.modules["__main__"] = types.ModuleType("__main__")
    code, fault = compile_source(job.code, path)
    if code is None:
        channel.reply({"load": "syntax_error", "message": fault})
        return
    asked = _getpid()
    try:
        function = find_entry_point(load_module(code, path), job.entry_point)
        end_a_copy(asked)
    except BaseException as exc:
        if _getpid() != asked:
            raise
        channel.reply({"load": "raised", "message": describe(exc)})
        return
    if not callable(function):
        channel.reply({"load": "missing_entry_point", "message": "no callable %s" % job.entry_point})
        return
    channel.reply({"loaded": 1})
    for index in range(len(job.calls)):
        call = job.call(index)
        args = [values.decode(arg) for arg in call["args"]]
        kwargs = {name: values.decode(value) for name, value in call["kwargs"].items()}
        channel.reply({"i": index, **make_call(function, args, kwargs, job.max_bytes, asked)})
    channel.reply({"end": len(job.calls)})


def end_a_copy(asked: int) -> None:
    """End a process that the candidate forked and that has come back here: only the one that was asked answers.

    It ends as a process does that has nothing left to do, with its exit hooks. One that
    comes back by an exception ends by that, as `sys.exit()` in a child is meant.
    """
    if _getpid() != asked:
        raise SystemExit


def load_module(code: types.CodeType, path: str) -> Any:
    """Run the candidate's text as a module that is registered like any other.

    What is found under its name afterwards counts, as it does for `import`.
    """
    loader = importlib.machinery.SourceFileLoader(MODULE_NAME, path)
    spec = importlib.machinery.ModuleSpec(MODULE_NAME, loader, origin=path)
    spec.has_location = True
    module = types.ModuleType(MODULE_NAME)
    vars(module).update(__spec__=spec, __loader__=loader, __file__=path, __cached__=spec.cached, __package__="")
    sys.modules[MODULE_NAME] = module
    exec(code, module.__dict__)
    return sys.modules.get(MODULE_NAME, module)


def find_entry_point(module: Any, entry_point: str) -> Any:
    """`name`, or `Class.method` on one instance of the class; None where it is absent."""
    owner, _, method = entry_point.partition(".")
    found = getattr(module, owner, None)
    if not method or not callable(found):
        return found
    return getattr(found(), method, None)


def make_call(function: Any, args: list[Any], kwargs: dict[str, Any], max_bytes: int, asked: int) -> dict[str, Any]:
    """The reply to one call, without its number."""
    try:
        result = function(*args, **kwargs)
        end_a_copy(asked)
    except BaseException as exc:
        if _getpid() != asked:
            raise
        return {"raised": exception_names(exc), "message": describe(exc)}
    try:
        tagged = values.encode(result, max_bytes=max_bytes)
        if len(values.dumps(tagged)) > max_bytes:
            return {"too_large": "the result's text is over %d bytes" % max_bytes}
        return {"value": tagged}
    except values.TooLarge as exc:
        return {"too_large": describe(exc)}
    except BaseException as exc:
        return {"unserialisable": describe(exc)}


def exception_names(exc: BaseException) -> list[str]:
    """Names of the built-in exceptions along the MRO; a class of the same name does not count."""
    mro = type.__dict__["__mro__"].__get__(type(exc))
    return [_EXCEPTIONS[kind] for kind in mro if kind in _EXCEPTIONS]


def describe(exc: BaseException) -> str:
    """One bounded line for an exception, which may be hostile itself."""
    try:
        text = str.__str__(str(exc))
    except BaseException:
        text = "(its text cannot be had)"
    return ("%s: %s" % (type.__dict__["__name__"].__get__(type(exc)), text))[:MESSAGE_CHARS]


def run_program(channel: _Channel, job: _Job, index: int, path: str) -> Callable[[], object] | None:
    """Run the candidate as a program on one input.

    In the supervisor the reply is sent and None returned; in the child what it has to
    run is returned, so that it runs, ends and is cleaned up as a program of its own.
    """
    stdout, stdout_end = os.pipe()
    fault, fault_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        become_candidate(channel)
        os.close(channel.replies)
        os.close(stdout)
        os.close(fault)
        code, message = compile_source(job.code, path)
        if code is None:
            write_all(fault_end, message.encode("utf-8", "replace"))
            os._exit(0)
        os.close(fault_end)
        return prepare_program(code, path, job.call(index)["stdin"], stdout_end)
    os.close(stdout_end)
    os.close(fault_end)
    output, status = drain(channel, job, pid, stdout)
    os.close(stdout)
    end_leftovers()
    with open(fault, "rb") as file:
        message = file.read().decode()
    if message:
        channel.reply({"load": "syntax_error", "message": message})
        channel.reply({"died": 0})
        wait_for_the_end(channel, job)
    if len(output) > job.max_bytes:
        channel.reply({"i": index, "too_large": "the output is over %d bytes" % job.max_bytes})
    else:
        printed = binascii.b2a_base64(output, newline=False).decode("ascii")
        channel.reply({"i": index, "printed": printed, "status": status})
    return None


def prepare_program(code: types.CodeType, path: str, stdin: str, stdout: int) -> Callable[[], object]:
    """Make this process look like `python solution.py < input > output`."""
    file = os.memfd_create("input", 0)
    write_all(file, stdin.encode("utf-8", "surrogatepass"))
    os.lseek(file, 0, os.SEEK_SET)
    os.dup2(file, 0)
    os.close(file)
    os.dup2(stdout, 1)
    os.close(stdout)
    sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)  # type: ignore[misc]
    sys.stdout = sys.__stdout__ = open(1, "w", encoding="utf-8", errors="surrogateescape", closefd=False)  # type: ignore[misc]
    sys.argv[:] = [path]
    module = types.ModuleType("__main__")
    module.__file__ = path
    vars(module)["__builtins__"] = __builtins__
    sys.modules["__main__"] = module
    return lambda: exec(code, module.__dict__)


def drain(channel: _Channel, job: _Job, child: int, stdout: int) -> tuple[bytes, int]:
    """Take the child's output until it is dead; EOF is not waited for, a grandchild may linger."""
    os.set_blocking(stdout, False)
    output = bytearray()
    pause_s = 0.001
    while True:
        at_end = take(stdout, output, job.max_bytes)
        status = dict(reap()).get(child)
        if status is not None:
            take(stdout, output, job.max_bytes)
            return bytes(output), status
        if len(output) > job.max_bytes:
            os.kill(child, signal.SIGKILL)
        if channel.is_closed(0) or time.monotonic() > job.deadline:
            os._exit(0)
        if at_end or len(output) > job.max_bytes:
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, TICK_S)
        else:
            select.select([stdout], [], [], TICK_S)


def take(stdout: int, output: bytearray, max_bytes: int) -> bool:
    """Move what is in the pipe to `output`, up to a little over the limit; true at its end."""
    while len(output) <= max_bytes:
        try:
            chunk = os.read(stdout, PIPE_CHUNK_BYTES)
        except BlockingIOError:
            return False
        if not chunk:
            return True
        output += chunk
    return False


def end_leftovers() -> None:
    """Kill and reap whatever the program left behind; process 1 itself is not hit."""
    try:
        os.kill(-1, signal.SIGKILL)
        while True:
            os.waitpid(-1, 0)
    except (ProcessLookupError, ChildProcessError):
        return
