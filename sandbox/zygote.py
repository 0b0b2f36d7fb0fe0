"""Forks candidates, each into namespaces of its own. Standard library and the runner alone.

Theory of operation. The zygote is a warm interpreter in a container that only it and the
broker (cell.py) live in. It starts as a fork of the broker in a user, a pid and a mount
namespace of its own, and makes a root there that holds the read-only image, five harmless devices, and nothing
else: no /proc, no /sys. Then it waits. For each candidate the broker sends it two descriptors
and a few numbers; it forks, waits, and says how that ended. It never reads a byte of any
candidate, so a fork of it has nothing of those before.

For a function task the fork has new user, mount, net, ipc, uts and cgroup namespaces, and a
new pid namespace whose process 1 was made before it and does nothing but sleep. It gives
itself three empty tmpfs, drops every capability, takes on the candidates' own system call
filter, and answers. For a program the fork is process 1 of all of them, does the same, and
forks a process for each input, as in a container (see runner.py). When the fork ends, so does
its process 1, and the kernel kills whatever is left in there.
"""

from __future__ import annotations

import ctypes
import errno
import gc
import importlib
import importlib.util
import os
import resource
import signal
import socket
import struct
import sys

import callfilter
import runner

MYPY = False  # the name that mypy takes for true
if MYPY:
    from collections.abc import Callable
    from typing import NoReturn

# What candidates import most; all of it is loaded once, here.
WARM = ("bisect", "collections", "functools", "heapq", "itertools", "math", "re", "string", "typing")
WARM_WHERE_INSTALLED = ("numpy",)

NAMESPACES = {
    "user": 0x10000000,
    "pid": 0x20000000,
    "mnt": 0x00020000,
    "net": 0x40000000,
    "ipc": 0x08000000,
    "uts": 0x04000000,
    "cgroup": 0x02000000,
}
SYS_CLONE = {"x86_64": 56, "aarch64": 220}
# A request of our own: what it takes to answer one is done once before the first fork.
REHEARSAL = (
    b'{"mode":"function","entry_point":"f","code":"","calls":2,"max_bytes":65536,"wall_s":1}\n'
    b'{"args":[1,"a",[1.5,null]],"kwargs":{}}\n'
    b'{"args":[{"b":true},2],"kwargs":{"c":{"$tuple":[1,2]}}}\n'
)
REHEARSALS = 24  # the interpreter adapts its code to what it sees after eight runs of it

# The same as hardening.py gives a container; `rw` is the default.
TMPFS = {
    "/tmp": "size=64m,mode=1777",
    "/src": "size=4m,mode=0755",
    "/dev/shm": "size=16m,mode=1777",
}
DEVICES = ("null", "zero", "full", "random", "urandom")
HIDDEN = ("dev", "opt", "proc", "src", "sys", "tmp")  # of the container's root; what of it there is instead is ours
# A bound on runaway mappings only: what memory a candidate may use is its control group's business,
# and a limit near it would turn `memory` into an exception.
ADDRESS_SPACE_BYTES = 1 << 36

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 32, 4096, 16384, 1 << 18
MNT_DETACH = 2
PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2
PR_CAPBSET_DROP = 24
PR_SET_NO_NEW_PRIVS = 38
CAPABILITY_VERSION_3 = 0x20080522
CAP_SYS_ADMIN = 21
CLONE_VM = 0x100
STACK_BYTES = 1 << 16

REQUEST = struct.Struct("=?I")  # program, CPU seconds as a backstop
ENDED = struct.Struct("=iQ")  # wait status, the most memory of one process, in bytes
REQUESTS, REPLIES = 3, 4
READY = b"ready"

_exit = os._exit  # a candidate may replace it
_libc = ctypes.CDLL(None, use_errno=True)
_caps_header = ctypes.create_string_buffer(struct.pack("=Ii", CAPABILITY_VERSION_3, 0))
_no_caps = ctypes.create_string_buffer(struct.pack("=6I", *[0] * 6))
# In the zygote's own user namespace, and only there: a pid namespace takes it.
_admin = ctypes.create_string_buffer(struct.pack("=6I", 1 << CAP_SYS_ADMIN, 1 << CAP_SYS_ADMIN, 0, 0, 0, 0))


class _Filter(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_char_p))


def checked(answer: int, doing: str) -> int:
    """The answer of a libc call.

    Raises:
        OSError: It failed; the text says at what.
    """
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, "%s: %s" % (doing, os.strerror(number)))
    return answer


def mount(source: str | None, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    """See mount(2)."""
    words = [None if word is None else word.encode() for word in (source, target, kind, options)]
    done = _libc.mount(words[0], words[1], words[2], ctypes.c_ulong(flags), words[3])
    checked(done, "mounting %s" % target)


class Zygote:
    """What is made once; each candidate is a fork of it.

    Args:
        control: The broker's end of all talk; a message is a request with two descriptors.
    """

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._uid, self._gid = os.getuid(), os.getgid()
        self._flags = sum(NAMESPACES.values()) | signal.SIGCHLD
        room = ctypes.create_string_buffer(STACK_BYTES)
        self._room, self._stack = room, ctypes.c_void_p((ctypes.addressof(room) + STACK_BYTES) & ~15)  # it grows down
        self._clone = SYS_CLONE[os.uname().machine]
        steps = callfilter.program()
        self._filter = _Filter(len(steps) // 8, steps)
        self._tmpfs = [
            (target.encode(), ("%s,uid=%d,gid=%d" % (options, self._uid, self._gid)).encode())
            for target, options in TMPFS.items()
        ]
        self._ids = (("uid_map", b"%d %d 1" % (self._uid, self._uid)), ("gid_map", b"%d %d 1" % (self._gid, self._gid)))
        with open("/proc/sys/kernel/cap_last_cap") as file:
            self._capabilities = range(int(file.read()) + 1)

    def prepare(self) -> None:
        """Everything that candidates share: a root, limits, a warm interpreter.

        Raises:
            OSError: This engine, or its kernel, does not permit it; the text says what.
        """
        warm()
        rehearse()
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(2, 1)  # the container's own stdout is the broker's
        os.close(null)
        # Its own memory is small: when memory runs out, a candidate is the better victim.
        runner.go_first()
        self._proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)
        self._own_pids = os.open("/proc/self/ns/pid", os.O_RDONLY)
        self._faults, self._fault = os.pipe()
        os.set_blocking(self._faults, False)
        self._write_proc("setgroups", b"deny")
        self._map_ids()
        make_root()
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE_BYTES, ADDRESS_SPACE_BYTES))
        checked(_libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "giving up new privileges")
        drop_capabilities(self._capabilities, _admin)
        # No handler is left: a signal that a candidate sends to its process 1, which shares this memory, is ignored.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        gc.collect()
        gc.freeze()

    def _write_proc(self, name: str, text: bytes) -> None:
        descriptor = os.open("self/" + name, os.O_WRONLY, dir_fd=self._proc)
        os.write(descriptor, text)
        os.close(descriptor)

    def _map_ids(self) -> None:
        """Be who one was; nobody else exists in there."""
        for name, text in self._ids:
            self._write_proc(name, text)

    def serve(self) -> Callable[[], object]:
        """Fork candidate after candidate; returns only in a program's process, with what it has to run."""
        while True:
            message, descriptors, _, _ = socket.recv_fds(self._control, REQUEST.size, 2)
            if not message:
                os._exit(0)
            is_program, cpu_s = REQUEST.unpack(message)
            init = 0 if is_program else self._make_init()
            pid = self._fork_all() if is_program else os.fork()
            if pid == 0:
                try:
                    if not is_program:
                        shared = NAMESPACES["pid"] | signal.SIGCHLD
                        checked(_libc.unshare(self._flags & ~shared), "making namespaces")
                    self._enter(descriptors[0], descriptors[1], cpu_s)
                except BaseException as exc:
                    os.write(self._fault, ("making a candidate's world: %s" % exc).encode())
                    os._exit(1)
                return run_program() if is_program else answer_calls()
            for descriptor in descriptors:
                os.close(descriptor)
            _, status, usage = os.wait4(pid, 0)
            if init:
                self._end_init(init)
            self._complain()
            self._control.send(ENDED.pack(status, usage.ru_maxrss * 1024))

    def _fork_all(self) -> int:
        """A fork that is process 1 of new namespaces of every kind; 0 in the fork."""
        return checked(_libc.syscall(self._clone, self._flags, 0, 0, 0, 0), "forking a program's process 1")

    def _make_init(self) -> int:
        """Process 1 of a new pid namespace, in which the next fork will be process 2.

        It runs one function of libc, which sleeps, so it needs no memory of its own and takes
        this process's; that makes it cheap. What it could be told by signal from inside is
        ignored, as it is for every process 1 without handlers: see `prepare`. It does not
        bury its children, so their ends are ignored, too.
        """
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # inherited
        flags = CLONE_VM | signal.SIGCHLD | (self._flags & NAMESPACES["pid"])
        pid = checked(_libc.clone(_libc.pause, self._stack, flags, None), "making a pid namespace")
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        descriptor = os.pidfd_open(pid)
        checked(_libc.setns(descriptor, NAMESPACES["pid"]), "entering a pid namespace")
        os.close(descriptor)
        return pid

    def _end_init(self, pid: int) -> None:
        """End a pid namespace: the kernel kills all that is in it, and it is over when process 1 is."""
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        checked(_libc.setns(self._own_pids, NAMESPACES["pid"]), "leaving a pid namespace")

    def _complain(self) -> None:
        """End with what went wrong in a candidate's set-up, if anything did: it is not the candidate's."""
        try:
            said = os.read(self._faults, 4096)
        except BlockingIOError:
            return
        os.write(2, said + b"\n")
        os._exit(1)

    def _enter(self, requests: int, printed: int, cpu_s: int) -> None:
        """Make the new namespaces a candidate's own world, and shut oneself in."""
        os.setsid()
        self._map_ids()
        mount_tmpfs(self._tmpfs)
        os.chdir("/tmp")
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))
        drop_capabilities(self._capabilities, _no_caps)
        take_on(self._filter)
        settle_descriptors(requests, printed)


def warm() -> None:
    """Import what candidates import."""
    for name in WARM:
        importlib.import_module(name)
    for name in WARM_WHERE_INSTALLED:
        if importlib.util.find_spec(name) is not None:
            importlib.import_module(name)


def rehearse() -> None:
    """Go through what each candidate's process does, to have the interpreter's own work on it done."""
    with open(os.devnull, "wb") as nobody:
        for _ in range(REHEARSALS):
            channel = runner.Channel(-1, nobody.fileno(), stays=False, received=REHEARSAL)
            job = runner.Job(channel)
            code, _ = runner.compile_source(b"def f(*args, **kwargs):\n    return [args, kwargs]\n", "/src/solution.py")
            names: dict[str, object] = {}
            if code is not None:
                exec(code, names)
            runner.make_calls(channel, job, names["f"], os.getpid())


def make_root() -> None:
    """A root that has the image read-only, five devices, and empty folders; made in /tmp, then moved into."""
    mount(None, "/", None, MS_REC | MS_PRIVATE)
    mount("tmpfs", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "size=1m,mode=0755")
    for name in sorted(set(os.listdir("/")) - set(HIDDEN)):
        copy_entry("/" + name, "/tmp/" + name)
    for name in (*HIDDEN, "dev/shm", "old"):
        os.mkdir("/tmp/" + name)
    for name in DEVICES:
        os.close(os.open("/tmp/dev/" + name, os.O_CREAT, 0o666))
        mount("/dev/" + name, "/tmp/dev/" + name, None, MS_BIND)
    checked(_libc.pivot_root(b"/tmp", b"/tmp/old"), "changing the root")
    os.chdir("/")
    checked(_libc.umount2(b"/old", MNT_DETACH), "leaving the old root")
    os.rmdir("/old")
    mount(None, "/", None, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV)


def copy_entry(source: str, target: str) -> None:
    """One entry of the root: a link as a link, a folder as a mount with all that is mounted in it."""
    if os.path.islink(source):
        os.symlink(os.readlink(source), target)
    elif os.path.isdir(source):
        os.mkdir(target)
        mount(source, target, None, MS_BIND | MS_REC)


def mount_tmpfs(points: list[tuple[bytes, bytes]]) -> None:
    """The places that can be written, each empty."""
    flags = ctypes.c_ulong(MS_NOSUID | MS_NODEV | MS_NOEXEC)
    for target, options in points:
        checked(_libc.mount(b"tmpfs", target, b"tmpfs", flags, options), "mounting a tmpfs")


def settle_descriptors(requests: int, printed: int) -> None:
    """0 is empty, 1 and 2 are what is printed, 3 and 4 the private channel; nothing else is open."""
    requests, printed = os.dup2(requests, 60), os.dup2(printed, 61)
    os.dup2(printed, 1)
    os.dup2(printed, 2)
    os.dup2(requests, REQUESTS)
    os.dup2(requests, REPLIES)
    os.closerange(REPLIES + 1, 256)


def drop_capabilities(every: range, left: ctypes.Array[ctypes.c_char]) -> None:
    """Only those of a set are left, and no others can come back."""
    prctl = _libc.prctl
    for capability in every:
        prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    checked(_libc.capset(_caps_header, left), "dropping capabilities")


def take_on(rules: _Filter) -> None:
    """The candidates' own system call filter, from here on for good."""
    checked(_libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(rules), 0, 0), "taking on the filter")


def answer_calls() -> NoReturn:
    """The candidate of a function task, in the one process that answers all calls."""
    channel = runner.Channel(REQUESTS, REPLIES, stays=False)
    job = runner.Job(channel)
    path = runner.write_source(job.code)
    start_afresh()
    runner.become_candidate(channel)
    runner.answer_calls(channel, job, path)
    runner.flush_streams()
    _exit(0)


def run_program() -> Callable[[], object]:
    """A process for each input, as in a container; each comes back here as a return."""
    channel = runner.Channel(REQUESTS, REPLIES, stays=False)
    job = runner.Job(channel)
    start_afresh()
    return runner.serve_program(channel, job, runner.write_source(job.code))


def start_afresh() -> None:
    """What a new interpreter would have of its own; the standard library's generator sees to itself."""
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed()


def fork() -> int:
    """A fork in namespaces of its own, which the zygote needs to make those of candidates; 0 in the fork.

    Raises:
        OSError: They are not permitted.
    """
    flags = NAMESPACES["user"] | NAMESPACES["pid"] | NAMESPACES["mnt"] | signal.SIGCHLD
    return checked(_libc.syscall(SYS_CLONE[os.uname().machine], flags, 0, 0, 0, 0), "making a user namespace")


def begin(control: socket.socket) -> Zygote:
    """A zygote that is ready, or the end of this process; the broker reads which, and why."""
    try:
        zygote = Zygote(control)
        zygote.prepare()
    except Exception as exc:
        number = exc.errno if isinstance(exc, OSError) else None
        control.send(("%s (%s)" % (exc, errno.errorcode.get(number or 0, "no errno"))).encode()[:1000])
        os._exit(1)
    control.send(READY)
    return zygote
