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
import _signal  # type: ignore[import-not-found]  # `signal` without its enumerations
import binascii
import importlib.machinery
import json
import os
import select
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
SOURCE_PATH = "/src/solution.py"
READY_WAIT_S = 900.0
TICK_S = 0.05
MESSAGE_CHARS = 2000
PIPE_CHUNK_BYTES = 1 << 16
OURS = ("runner", "values", "cell", "zygote", "callfilter")
_PR_SET_DUMPABLE = 4

# What a candidate may replace for reasons of its own is held here: it must not change how the runner ends.
_open, _read, _write, _close, _exit = os.open, os.read, os.write, os.close, os._exit
_chmod, _fchmod, _getpid, _monotonic = os.chmod, os.fchmod, os.getpid, time.monotonic
_scan_once = json.JSONDecoder().scan_once  # type: ignore[attr-defined]  # typeshed does not know it
_call = _ctypes.call_function
_prctl = _ctypes.dlsym(_ctypes.dlopen(None, 0), "prctl")  # type: ignore[arg-type]  # the process itself
_SOURCE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
_SIGINT, _set_signal, _raise_interrupt = _signal.SIGINT, _signal.signal, _signal.default_int_handler
_flushes = (sys.stdout.flush, sys.stderr.flush)
_EXCEPTIONS = {
    thing: thing.__name__
    for thing in vars(__import__("builtins")).values()
    if isinstance(thing, type) and issubclass(thing, BaseException)
}


class Channel:
    """The request pipe and the private reply descriptor.

    Args:
        requests: Where requests are read.
        replies: Where replies are written.
        stays: Whether the supervisor stays after the candidate's death, for its counters.
        received: What has been read already.
    """

    def __init__(self, requests: int, replies: int, *, stays: bool, received: bytes = b"") -> None:
        self.requests = requests
        self.replies = replies
        self.stays = stays
        self._buffer = bytearray(received)

    def reply(self, record: dict[str, Any]) -> None:
        write_all(self.replies, values.dumps(record).encode("ascii") + b"\n")

    def read_line(self, deadline: float) -> bytes:
        """The next line of the request; without one in time, or at its end, all is over."""
        scanned = 0
        while (end := self._buffer.find(b"\n", scanned)) < 0:
            scanned = len(self._buffer)
            # In a cell nothing comes late: the broker has the whole request, and an eye on the time.
            if self.stays and not select.select([self.requests], [], [], max(0.0, deadline - _monotonic()))[0]:
                _exit(0)
            chunk = _read(self.requests, PIPE_CHUNK_BYTES)
            if not chunk:
                _exit(0)
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


class Job:
    """One request, with its calls still as text: each is decoded afresh when it is made."""

    def __init__(self, channel: Channel) -> None:
        deadline = _monotonic() + READY_WAIT_S
        header = from_text(channel.read_line(deadline))
        self.program: bool = header["mode"] == "program"
        self.entry_point: str = header["entry_point"]
        self.code = binascii.a2b_base64(header["code"])
        self.max_bytes: int = header["max_bytes"]
        self.deadline: float = _monotonic() + header["wall_s"]
        self.calls = [channel.read_line(deadline) for _ in range(header["calls"])]

    def call(self, index: int) -> Any:
        return from_text(self.calls[index])


def from_text(line: bytes) -> Any:
    """What one line of the request says; it is our own, so it is one value and nothing else."""
    return _scan_once(line.decode(), 0)[0]


def serve() -> Callable[[], object]:
    """Answer one request; returns only in a program's child, with what it has to run."""
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)  # process 1 ignores what it does not handle
    set_dumpable(False)
    channel = Channel(os.dup(0), os.dup(1), stays=True)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    channel.reply({"ready": 1, "python": sys.version.split()[0]})
    job = Job(channel)
    write_source(job.code)
    return serve_program(channel, job) if job.program else serve_function(channel, job)


def serve_function(channel: Channel, job: Job) -> NoReturn:
    """One child that answers all calls; its death is always reported."""
    pid = os.fork()
    if pid == 0:
        become_candidate(channel)
        go_first()
        answer_calls(channel, job, empty_module)
        flush_streams()
        _exit(0)
    child = os.pidfd_open(pid)
    while (status := dict(reap()).get(pid)) is None:
        if channel.is_closed(TICK_S, child) or time.monotonic() > job.deadline:
            os._exit(0)
    channel.reply({"died": status})
    wait_for_the_end(channel, job)


def answer_in_cell(channel: Channel, after: list[tuple[Callable[[Any], object], Any]]) -> NoReturn:
    """The candidate of a function task in a cell, where this very process answers all calls.

    Args:
        channel: Not used before.
        after: What is to be done after a fork, and the modules with which.
    """
    job = Job(channel)
    write_source(job.code)
    for start, module in after:
        start(module)
    become_candidate(channel)
    answer_calls(channel, job, empty_module)
    flush_streams()
    _exit(0)


def serve_program(channel: Channel, job: Job) -> Callable[[], object]:
    """One child a call; each comes back here as a return, the supervisor never."""
    for index in range(len(job.calls)):
        program = run_program(channel, job, index)
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
    if _call(_prctl, (_PR_SET_DUMPABLE, int(whether), 0, 0, 0)) != 0:
        raise OSError("prctl(PR_SET_DUMPABLE) failed")


def write_all(descriptor: int, data: bytes) -> None:
    written = _write(descriptor, data)
    while written < len(data):
        written += _write(descriptor, memoryview(data)[written:])


def write_source(code: bytes) -> None:
    """The candidate as a real file, read-only once written."""
    descriptor = _open(SOURCE_PATH, _SOURCE_FLAGS, 0o600)
    write_all(descriptor, code)
    _fchmod(descriptor, 0o555)
    _close(descriptor)
    _chmod(SOURCE_DIR, 0o555)


def go_first() -> None:
    """Be the one that is killed when memory runs out: the supervisor stays, with the evidence.

    Raises:
        OSError: The kernel would not have it; a process that is not dumpable may not ask.
    """
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")


def become_candidate(channel: Channel) -> None:
    """Leave the supervisor behind: no request pipe, none of its modules by name."""
    _close(channel.requests)
    set_dumpable(True)  # inherited; a closed process could not open its own files in /proc either
    _set_signal(_SIGINT, _raise_interrupt)
    if channel.stays:
        hide()  # a zygote has done so before


def hide() -> None:
    """No module of ours by name, and the candidate's folder first where modules are looked for."""
    for name in OURS:
        sys.modules.pop(name, None)
    sys.path[0] = SOURCE_DIR
    sys.dont_write_bytecode = True


def flush_streams() -> None:
    """Have what was printed on its way; a candidate may have closed the streams."""
    for flush in _flushes:
        try:
            flush()
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


def wait_for_the_end(channel: Channel, job: Job) -> NoReturn:
    """Stay until the host has read the counters and ends the container; in a cell there is nothing to stay for."""
    while channel.stays and not channel.is_closed(TICK_S) and time.monotonic() < job.deadline:
        for _ in reap():
            pass
    os._exit(0)


def compile_source(code: bytes) -> tuple[types.CodeType | None, str]:
    """The candidate's code object, as an import would make it, or None and what is wrong with the text."""
    try:
        return compile(code, SOURCE_PATH, "exec", dont_inherit=True), ""
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError) as exc:
        return None, describe(exc)


def answer_calls(channel: Channel, job: Job, module: types.ModuleType) -> None:
    """Load the module, then make the calls in order in this one process."""
    sys.argv[:] = [SOURCE_PATH]
    sys.modules["__main__"] = types.ModuleType("__main__")
    code, fault = compile_source(job.code)
    if code is None:
        channel.reply({"load": "syntax_error", "message": fault})
        return
    asked = _getpid()
    try:
        function = find_entry_point(load_module(code, module), job.entry_point)
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
    make_calls(channel, job, function, asked)
    channel.reply({"end": len(job.calls)})


def make_calls(channel: Channel, job: Job, function: Any, asked: int) -> None:
    """Make the calls in order, and reply to each."""
    for index in range(len(job.calls)):
        call = job.call(index)
        args = [values.decode(arg) for arg in call["args"]]
        kwargs = {name: values.decode(value) for name, value in call["kwargs"].items()}
        channel.reply({"i": index, **make_call(function, args, kwargs, job.max_bytes, asked)})


def end_a_copy(asked: int) -> None:
    """End a process that the candidate forked and that has come back here: only the one that was asked answers.

    It ends as a process does that has nothing left to do, with its exit hooks. One that
    comes back by an exception ends by that, as `sys.exit()` in a child is meant.
    """
    if _getpid() != asked:
        raise SystemExit


def new_module() -> types.ModuleType:
    """The module that a candidate's text is run as, still empty: one like any other."""
    loader = importlib.machinery.SourceFileLoader(MODULE_NAME, SOURCE_PATH)
    spec = importlib.machinery.ModuleSpec(MODULE_NAME, loader, origin=SOURCE_PATH)
    spec.has_location = True
    module = types.ModuleType(MODULE_NAME)
    names = vars(module)
    names.update(__spec__=spec, __loader__=loader, __file__=SOURCE_PATH, __cached__=spec.cached, __package__="")
    return module


empty_module = new_module()  # made before the candidate is known, so that it need not wait for it


def load_module(code: types.CodeType, module: types.ModuleType) -> Any:
    """Run the candidate's text as a module that is registered like any other.

    What is found under its name afterwards counts, as it does for `import`.
    """
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


def run_program(channel: Channel, job: Job, index: int) -> Callable[[], object] | None:
    """Run the candidate as a program on one input.

    In the supervisor the reply is sent and None returned; in the child what it has to
    run is returned, so that it runs, ends and is cleaned up as a program of its own.
    """
    stdout, stdout_end = os.pipe()
    fault, fault_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        become_candidate(channel)
        if channel.stays:
            go_first()
        os.close(channel.replies)
        os.close(stdout)
        os.close(fault)
        code, message = compile_source(job.code)
        if code is None:
            write_all(fault_end, message.encode("utf-8", "replace"))
            os._exit(0)
        os.close(fault_end)
        return prepare_program(code, job.call(index)["stdin"], stdout_end)
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


def prepare_program(code: types.CodeType, stdin: str, stdout: int) -> Callable[[], object]:
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
    sys.argv[:] = [SOURCE_PATH]
    module = types.ModuleType("__main__")
    module.__file__ = SOURCE_PATH
    vars(module)["__builtins__"] = __builtins__
    sys.modules["__main__"] = module
    return lambda: exec(code, module.__dict__)


def drain(channel: Channel, job: Job, child: int, stdout: int) -> tuple[bytes, int]:
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
            os.kill(child, _signal.SIGKILL)
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
        os.kill(-1, _signal.SIGKILL)
        while True:
            os.waitpid(-1, 0)
    except (ProcessLookupError, ChildProcessError):
        return
