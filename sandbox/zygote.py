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

What a candidate costs is mostly the pages that it, or the zygote beside it, is the first to
write to after the fork: each is copied, for more than a microsecond, and Python writes to
whatever it touches. So all that does not depend on the candidate is made before the fork,
system calls are made with arguments that lie ready, and nothing is imported, looked up or
wrapped on the way that need not be.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` without its enumerations
import _socket
import binascii
import ctypes
import errno
import gc
import importlib
import os
import resource
import struct
import sys

import callfilter
import runner

MYPY = False  # the name that mypy takes for true
if MYPY:
    from collections.abc import Callable, Iterable
    from typing import Any, NoReturn

# What candidates import most; all of it is loaded once, here.
WARM = ("bisect", "collections", "functools", "heapq", "itertools", "math", "re", "string", "typing")
WARM_WHERE_INSTALLED = ("numpy",)
# What Python would have these do after a fork, and what they do not do: those that were loaded here.
AFTER_FORK = (
    ("random", lambda module: module.seed()),
    ("threading", lambda module: module._after_fork()),
    ("numpy", lambda module: module.random.seed()),
)

NAMESPACES = {
    "user": 0x10000000,
    "pid": 0x20000000,
    "mnt": 0x00020000,
    "net": 0x40000000,
    "ipc": 0x08000000,
    "uts": 0x04000000,
    "cgroup": 0x02000000,
}
CLONE_NEWPID = NAMESPACES["pid"]
SYS_CLONE = {"x86_64": 56, "aarch64": 220}
SIGCHLD, SIGKILL, SIG_DFL, SIG_IGN = _signal.SIGCHLD, _signal.SIGKILL, _signal.SIG_DFL, _signal.SIG_IGN
CHILD_TID_LAST = {"x86_64": False, "aarch64": True}  # of clone's arguments: before the thread's own area, or after
# A request of our own: what it takes to answer one is done once before the first fork.
REHEARSAL = (
    b'{"mode":"function","entry_point":"f","code":"%s","calls":2,"max_bytes":65536,"wall_s":1}\n'
    b'{"args":[1,"a",[1.5,null]],"kwargs":{}}\n'
    b'{"args":[{"b":true},2],"kwargs":{"c":{"$tuple":[1,2]}}}\n'
) % binascii.b2a_base64(b"def f(*args, **kwargs):\n    return [args, kwargs]\n", newline=False)
REHEARSALS = 24  # the interpreter adapts its code to what it sees after eight runs of it

# The same as hardening.py gives a container; `rw` is the default.
TMPFS = {
    "/tmp": "size=64m,mode=1777",
    "/src": "size=4m,mode=0755",
    "/dev/shm": "size=16m,mode=1777",
}
MAX_OPEN_FILES = 256
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
PR_GET_TID_ADDRESS = 40
CAPABILITY_VERSION_3 = 0x20080522
CAP_SYS_ADMIN = 21
CLONE_VM = 0x100
CLONE_CHILD_CLEARTID, CLONE_CHILD_SETTID = 0x200000, 0x1000000
STACK_BYTES = 1 << 16
STEP_BYTES = 8  # of struct sock_filter
RUSAGE_BYTES, MAX_RSS_AT = 144, 32  # of struct rusage on 64-bit machines: two times, then the most memory in KiB

REQUEST = struct.Struct("=?I")  # program, CPU seconds as a backstop
DESCRIPTORS = struct.Struct("=2i")  # where requests are read and replies written, where is printed
DESCRIPTORS_BYTES = _socket.CMSG_LEN(DESCRIPTORS.size)
MAX_RSS = struct.Struct("=q")
ENDED = struct.Struct("=iQ")  # wait status, the most memory of one process, in bytes
_unpack_request, _unpack_descriptors, _pack_ended = REQUEST.unpack, DESCRIPTORS.unpack, ENDED.pack
REQUEST_BYTES = REQUEST.size
O_WRONLY, RLIMIT_CPU = os.O_WRONLY, resource.RLIMIT_CPU
REQUESTS, REPLIES = 3, 4
READY = b"ready"

_libc = ctypes.PyDLL(None, use_errno=True)  # nobody else waits for the interpreter, so it need not be let go
# By names of its own: a look into another module writes to several pages more, and a candidate may replace `os._exit`.
_clone, _mount, _prctl, _capset = _libc.syscall, _libc.mount, _libc.prctl, _libc.capset
_libc_clone, _setns, _wait4, _get_errno = _libc.clone, _libc.setns, _libc.wait4, ctypes.get_errno
_open, _write, _close, _dup2, _closerange = os.open, os.write, os.close, os.dup2, os.closerange
_setsid, _chdir, _kill, _waitpid, _exit = os.setsid, os.chdir, os.kill, os.waitpid, os._exit
_answer_in_cell = runner.answer_in_cell
_pidfd_open, _setrlimit, _signal_to = os.pidfd_open, resource.setrlimit, _signal.signal
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
        number = _get_errno()
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

    def __init__(self, control: _socket.socket) -> None:
        self._control = control
        self._uid, self._gid = os.getuid(), os.getgid()
        self._flags = sum(NAMESPACES.values()) | SIGCHLD
        self._machine = os.uname().machine
        self._own_filter, self._filter = [
            ctypes.byref(_Filter(len(steps) // STEP_BYTES, steps)) for steps in callfilter.programs()
        ]
        self._tmpfs = tmpfs_mounts(self._uid, self._gid)
        self._ids = (
            ("self/uid_map", b"%d %d 1" % (self._uid, self._uid)),
            ("self/gid_map", b"%d %d 1" % (self._gid, self._gid)),
        )
        with open("/proc/sys/kernel/cap_last_cap") as file:
            self._capabilities = [(PR_CAPBSET_DROP, number, 0, 0, 0) for number in range(int(file.read()) + 1)]
        self._status, self._usage = ctypes.c_int(), ctypes.create_string_buffer(RUSAGE_BYTES)
        self._wait = (ctypes.byref(self._status), 0, ctypes.byref(self._usage))

    def prepare(self) -> None:
        """Everything that candidates share: a root, limits, a warm interpreter.

        Raises:
            OSError: This engine, or its kernel, does not permit it; the text says what.
        """
        warm()
        rehearse()
        os.setsid()  # libc looks for a function when it is first called: that is done here, too
        os.closerange(MAX_OPEN_FILES - 1, MAX_OPEN_FILES)
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
        write_files((("self/setgroups", b"deny"), *self._ids), self._proc)
        make_root()
        _setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE_BYTES, ADDRESS_SPACE_BYTES))
        checked(_libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "giving up new privileges")
        drop_capabilities(self._capabilities, _admin)
        # No handler is left: a signal that a candidate sends to its process 1, which shares this memory, is ignored.
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
        self._forks = {is_program: self._fork_arguments(is_program) for is_program in (False, True)}
        self._stack = ctypes.create_string_buffer(STACK_BYTES)
        top = ctypes.c_void_p((ctypes.addressof(self._stack) + STACK_BYTES) & ~15)  # it grows down
        self._sleeper = (_libc.pause, top, CLONE_VM | SIGCHLD | (self._flags & CLONE_NEWPID), None)
        self._channel = runner.Channel(REQUESTS, REPLIES, stays=False)
        self._after = [(after, sys.modules[name]) for name, after in AFTER_FORK if name in sys.modules]
        runner.hide()
        take_on(self._own_filter)
        gc.collect()
        gc.freeze()

    def serve(self) -> Callable[[], object]:
        """Fork candidate after candidate; returns only in a program's process, with what it has to run."""
        receive, send = self._control.recvmsg, self._control.send
        make_init, end_init = self._make_init, self._end_init
        status, wait, max_rss = self._status, self._wait, MAX_RSS.unpack_from
        world = (self._ids, self._proc, self._tmpfs, self._capabilities, self._filter)
        while True:
            message, more, _, _ = receive(REQUEST_BYTES, DESCRIPTORS_BYTES)
            if not message:
                _exit(0)
            is_program, cpu_s = _unpack_request(message)
            requests, printed = _unpack_descriptors(more[0][2])
            init = 0 if is_program else make_init()
            pid = _clone(*self._forks[is_program])
            if pid == 0:
                try:
                    enter(world, requests, printed, cpu_s)
                except BaseException as exc:
                    os.write(self._fault, ("making a candidate's world: %s" % exc).encode())
                    _exit(1)
                return run_program(self._channel) if is_program else _answer_in_cell(self._channel, self._after)
            if pid < 0:
                self._give_up("making a candidate's world: making namespaces: %s" % os.strerror(_get_errno()))
            _close(requests)
            _close(printed)
            checked(_wait4(pid, *wait), "waiting for a candidate")
            if init:
                end_init(init)
            if status.value:
                self._complain()
            send(_pack_ended(status.value, max_rss(self._usage, MAX_RSS_AT)[0] * 1024))

    def _fork_arguments(self, is_program: bool) -> tuple[object, ...]:
        """Those of the system call that forks a candidate into its namespaces.

        It is libc's fork without what libc and Python do around it, which is for processes with
        several threads; the one thing that libc has to know afterwards is the thread's new number.
        A program's process is process 1 of its pid namespace, another's is not.
        """
        flags = self._flags if is_program else self._flags & ~NAMESPACES["pid"]
        address = ctypes.c_void_p()
        checked(_prctl(PR_GET_TID_ADDRESS, ctypes.byref(address), 0, 0, 0), "asking for the thread's number")
        flags |= CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID
        last = (0, address) if CHILD_TID_LAST[self._machine] else (address, 0)
        return (SYS_CLONE[self._machine], flags, 0, 0, *last)

    def _make_init(self) -> int:
        """Process 1 of a new pid namespace, in which the next fork will be process 2.

        It runs one function of libc, which sleeps, so it needs no memory of its own and takes
        this process's; that makes it cheap. What it could be told by signal from inside is
        ignored, as it is for every process 1 without handlers: see `prepare`. It does not
        bury its children, so their ends are ignored, too.
        """
        _signal_to(SIGCHLD, SIG_IGN)  # inherited
        pid = checked(_libc_clone(*self._sleeper), "making a pid namespace")
        _signal_to(SIGCHLD, SIG_DFL)
        descriptor = _pidfd_open(pid)
        checked(_setns(descriptor, CLONE_NEWPID), "entering a pid namespace")
        _close(descriptor)
        return pid

    def _end_init(self, pid: int) -> None:
        """End a pid namespace: the kernel kills all that is in it, and it is over when process 1 is."""
        _kill(pid, SIGKILL)
        _waitpid(pid, 0)
        checked(_setns(self._own_pids, CLONE_NEWPID), "leaving a pid namespace")

    def _complain(self) -> None:
        """End with what went wrong in a candidate's set-up, if anything did: it is not the candidate's."""
        try:
            said = os.read(self._faults, 4096)
        except BlockingIOError:
            return
        self._give_up(said.decode("utf-8", "replace"))

    def _give_up(self, why: str) -> NoReturn:
        os.write(2, why.encode() + b"\n")
        os._exit(1)


def enter(world: tuple[Any, ...], requests: int, printed: int, cpu_s: int) -> None:
    """Make the new namespaces a candidate's own world, and shut oneself in."""
    ids, proc, tmpfs, capabilities, rules = world
    _setsid()
    write_files(ids, proc)  # be who one was; nobody else exists in there
    mount_tmpfs(tmpfs)
    _chdir("/tmp")
    _setrlimit(RLIMIT_CPU, (cpu_s, cpu_s))
    drop_capabilities(capabilities, _no_caps)
    take_on(rules)
    settle_descriptors(requests, printed)


def write_files(texts: Iterable[tuple[str, bytes]], folder: int) -> None:
    """Write small files that are there, in one call each, by their names in a folder that is open."""
    for name, text in texts:
        descriptor = _open(name, O_WRONLY, dir_fd=folder)
        _write(descriptor, text)
        _close(descriptor)


def warm() -> None:
    """Import what candidates import."""
    for name in WARM:
        importlib.import_module(name)
    for name in WARM_WHERE_INSTALLED:
        try:
            importlib.import_module(name)
        except ModuleNotFoundError:
            continue


def rehearse() -> None:
    """Go through what each candidate's process does, to have the interpreter's own work on it done."""
    main, argv = sys.modules["__main__"], sys.argv[:]
    with open(os.devnull, "wb") as nobody:
        for _ in range(REHEARSALS):
            channel = runner.Channel(-1, nobody.fileno(), stays=False, received=REHEARSAL)
            runner.answer_calls(channel, runner.Job(channel), runner.new_module())
    del sys.modules[runner.MODULE_NAME]
    sys.modules["__main__"], sys.argv[:] = main, argv


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


def tmpfs_mounts(uid: int, gid: int) -> list[tuple[object, ...]]:
    """The arguments of mount(2) for the places that can be written."""
    flags = ctypes.c_ulong(MS_NOSUID | MS_NODEV | MS_NOEXEC)
    return [
        (b"tmpfs", target.encode(), b"tmpfs", flags, b"%s,uid=%d,gid=%d" % (options.encode(), uid, gid))
        for target, options in TMPFS.items()
    ]


def mount_tmpfs(mounts: list[tuple[object, ...]]) -> None:
    """The places that can be written, each empty."""
    for arguments in mounts:
        checked(_mount(*arguments), "mounting a tmpfs")


def settle_descriptors(requests: int, printed: int) -> None:
    """0 is empty, 1 and 2 are what is printed, 3 and 4 the private channel; nothing else is open."""
    requests, printed = _dup2(requests, 60), _dup2(printed, 61)
    _dup2(printed, 1)
    _dup2(printed, 2)
    _dup2(requests, REQUESTS)
    _dup2(requests, REPLIES)
    _closerange(REPLIES + 1, MAX_OPEN_FILES)


def drop_capabilities(every: Iterable[tuple[int, ...]], left: ctypes.Array[ctypes.c_char]) -> None:
    """Only those of a set are left, and no others can come back."""
    for arguments in every:
        _prctl(*arguments)
    checked(_capset(_caps_header, left), "dropping capabilities")


def take_on(rules: object) -> None:
    """A system call filter, from here on for good; others that are there hold, too."""
    checked(_prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, rules, 0, 0), "taking on the filter")


def run_program(channel: runner.Channel) -> Callable[[], object]:
    """A process for each input, as in a container; each comes back here as a return."""
    job = runner.Job(channel)
    runner.write_source(job.code)
    return runner.serve_program(channel, job)


def fork() -> int:
    """A fork in namespaces of its own, which the zygote needs to make those of candidates; 0 in the fork.

    Raises:
        OSError: They are not permitted.
    """
    flags = NAMESPACES["user"] | NAMESPACES["pid"] | NAMESPACES["mnt"] | _signal.SIGCHLD
    return checked(_libc.syscall(SYS_CLONE[os.uname().machine], flags, 0, 0, 0, 0), "making a user namespace")


def begin(control: _socket.socket) -> Zygote:
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
