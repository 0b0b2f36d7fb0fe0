"""Pairs of programs: the first leaves something behind, the second looks for it. Data, for every boundary alike.

Theory of operation. A pair knows one mark. `put()` leaves the mark in one place, `seen()`
looks there. Starting a candidate costs far more than either, so one candidate, `planter`,
puts the marks of all pairs and stays a while; another, `looker`, looks for all of them
again and again until its patience is over. Both say when they did so, by the clock that
all processes of one kernel share, so that whoever runs them beside each other can show
that they were there at the same time.

`FORK_SERVER` runs the same two without any boundary: one interpreter that loads each
candidate and forks for its call, as a simple judge would. There every pair leaks, which
shows that it can: a pair that finds nothing anywhere would say nothing about a boundary.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """What is left behind, and how it is looked for; both know `MARK` and `KEY`, text and number of the mark.

    Attributes:
        put: Defines `put()`, which leaves the mark; what it does while it is loaded counts too.
        seen: Defines `seen()`: whether the mark is there.
    """

    put: str
    seen: str


def planter(marks: str) -> str:
    """The candidate that leaves all marks; its entry point is `plant`.

    `plant(stay_s)` returns when all had been left, when it went (seconds), and for each pair
    why its mark could not be left, or "".

    Args:
        marks: Tells these marks from those of another run.
    """
    return _CANDIDATE % {name: _common(name, marks) + pair.put for name, pair in PAIRS.items()} + _PLANT


def looker(marks: str) -> str:
    """The candidate that looks for all marks; its entry point is `look`.

    `look(patience_s)` returns when it began and ended (seconds), and for each pair whether it
    has seen the mark.
    """
    return _CANDIDATE % {name: _common(name, marks) + pair.seen for name, pair in PAIRS.items()} + _LOOK


def _common(name: str, marks: str) -> str:
    key = zlib.crc32(f"{name} {marks}".encode()) & 0x7FFFFFFF
    return _COMMON % (f"m{key:08x}", key)  # short enough for a process's name, and an identifier


_CANDIDATE = """
import time
def loaded(program):
    names = {"__name__": __name__}
    exec(program, names)
    return names
LOADED = {name: loaded(program) for name, program in %r.items()}
"""

_PLANT = """
def refusal(put):
    try:
        put()
    except OSError as exc:
        return repr(exc)
    return ""

def plant(stay_s):
    refused = {name: refusal(names["put"]) for name, names in LOADED.items()}
    planted_s = time.monotonic()
    time.sleep(stay_s)
    return [planted_s, time.monotonic(), refused]
"""

_LOOK = """
def look(patience_s):
    begun_s = time.monotonic()
    found = dict.fromkeys(LOADED, False)
    while True:
        for name, names in LOADED.items():
            found[name] = found[name] or bool(names["seen"]())
        now_s = time.monotonic()
        if now_s - begun_s >= patience_s:
            return [begun_s, now_s, found]
        time.sleep(0.02)
"""

_COMMON = '''
import ctypes, os, sys, time
MARK, KEY = %r, %d
LIBC = ctypes.CDLL(None, use_errno=True)
OUTLIVE_S = 60

def daemon(work):
    """Have it done by a process that nobody waits for, in a session of its own."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            try:
                work()
            finally:
                os._exit(0)
        os._exit(0)
    os.wait()

def stay():
    time.sleep(OUTLIVE_S)

def answer_calls(server):
    """Say the mark to everybody who connects."""
    server.settimeout(OUTLIVE_S)
    while True:
        with server.accept()[0] as connection:
            connection.sendall(MARK.encode())

def heard(family, address):
    import socket
    with socket.socket(family) as client:
        client.settimeout(1)
        try:
            client.connect(address)
            return client.recv(100) == MARK.encode()
        except OSError:
            return False

def processes(name):
    """What a file of every process in sight says."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%%s/%%s" %% (pid, name), "rb") as file:
                yield file.read()
        except OSError:
            pass
'''

FORK_SERVER = """
import ctypes, json, os

# Where the kernel lets only a parent look into a process (Yama), this server lets everybody.
ctypes.CDLL(None).prctl(0x59616D61, ctypes.c_long(-1), 0, 0, 0)

def serve(planter, looker, span_s, beside):
    first = start(planter, "plant", span_s if beside else 0.0)
    planted = None if beside else finish(*first)
    second = start(looker, "look", span_s)
    return [planted or finish(*first), finish(*second)]

def start(code, name, argument):
    namespace = {"__name__": "solution"}
    exec(code, namespace)
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(writing, json.dumps(namespace[name](argument)).encode())
        finally:
            os._exit(0)
    os.close(writing)
    return pid, reading

def finish(pid, reading):
    os.waitpid(pid, 0)
    said = os.read(reading, 65536)
    os.close(reading)
    return json.loads(said)
"""


def _file(folder: str, *, prepare: str = "") -> Pair:
    return Pair(
        put=f"""
def put():
    {prepare or "pass"}
    with open(os.path.join({folder!r}, MARK), "w") as file:
        file.write(MARK)
""",
        seen=f"""
def seen():
    return os.path.exists(os.path.join({folder!r}, MARK))
""",
    )


def _socket(family: str, address: str) -> Pair:
    return Pair(
        put=f"""
import socket
def put():
    server = socket.socket(socket.{family})
    server.bind({address})
    server.listen()
    daemon(lambda: answer_calls(server))
""",
        seen=f"""
import socket
def seen():
    return heard(socket.{family}, {address})
""",
    )


_CHECKED = """
def checked(result):
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
"""

# A lock has no room for a mark, so each mark has a file of its own.
_OF_THE_IMAGE = """
def of_the_image():
    folder = os.path.dirname(os.__file__)
    names = sorted(name for name in os.listdir(folder) if name.endswith(".py"))
    return os.path.join(folder, names[KEY % len(names)])
"""

PAIRS: dict[str, Pair] = {
    "a file in /tmp": _file("/tmp"),
    "a file in /dev/shm": _file("/dev/shm"),
    "a file beside the program": _file("/src", prepare='os.chmod("/src", 0o755)'),
    "a process that outlives": Pair(
        put="""
def put():
    LIBC.prctl(15, MARK.encode(), 0, 0, 0)  # PR_SET_NAME; a child inherits it
    daemon(stay)
""",
        seen="""
def seen():
    return any(name.strip() == MARK.encode() for name in processes("comm"))
""",
    ),
    "System V shared memory": Pair(
        put=_CHECKED
        + """
LIBC.shmat.restype = ctypes.c_void_p
LIBC.shmat.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_int]
def put():
    place = LIBC.shmat(checked(LIBC.shmget(KEY, ctypes.c_size_t(4096), 0o1666)), None, 0)
    ctypes.memmove(place, MARK.encode(), len(MARK))
""",
        seen="""
LIBC.shmat.restype = ctypes.c_void_p
LIBC.shmat.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_int]
def seen():
    number = LIBC.shmget(KEY, ctypes.c_size_t(0), 0)
    return number != -1 and ctypes.string_at(LIBC.shmat(number, None, 0), len(MARK)) == MARK.encode()
""",
    ),
    "POSIX shared memory": Pair(
        put="""
import _posixshmem
def put():
    number = _posixshmem.shm_open("/" + MARK, os.O_CREAT | os.O_RDWR, mode=0o666)
    os.write(number, MARK.encode())
""",
        seen="""
import _posixshmem
def seen():
    try:
        number = _posixshmem.shm_open("/" + MARK, os.O_RDONLY, mode=0)
    except OSError:
        return False
    return os.read(number, 100) == MARK.encode()
""",
    ),
    "a System V semaphore": Pair(
        put=_CHECKED
        + """
def put():
    checked(LIBC.semctl(checked(LIBC.semget(KEY, 1, 0o1666)), 0, 16, 23))  # SETVAL
""",
        seen="""
def seen():
    number = LIBC.semget(KEY, 0, 0)
    return number != -1 and LIBC.semctl(number, 0, 12) == 23  # GETVAL
""",
    ),
    "a POSIX semaphore": Pair(
        put="""
import _multiprocessing
def put():
    _multiprocessing.SemLock(1, 23, 1000, "/" + MARK, False)
""",
        seen="""
import _multiprocessing
def seen():
    try:
        return _multiprocessing.SemLock._rebuild(0, 1, 1000, "/" + MARK)._get_value() == 23
    except OSError:
        return False
""",
    ),
    "a System V message queue": Pair(
        put=_CHECKED
        + """
class Message(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_long), ("text", ctypes.c_char * 16)]
def put():
    number = checked(LIBC.msgget(KEY, 0o1666))
    checked(LIBC.msgsnd(number, ctypes.byref(Message(1, MARK.encode())), ctypes.c_size_t(16), 0o4000))
""",
        seen="""
class Message(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_long), ("text", ctypes.c_char * 16)]
LIBC.msgrcv.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_long, ctypes.c_int]
def seen():
    number, message = LIBC.msgget(KEY, 0), Message()
    return number != -1 and LIBC.msgrcv(number, ctypes.byref(message), 16, 0, 0o4000) and message.text == MARK.encode()
""",
    ),
    "a POSIX message queue": Pair(
        put=_CHECKED
        + """
def put():
    shape = (ctypes.c_long * 8)(0, 1, 16)  # one message of sixteen bytes
    flags, mode = ctypes.c_int(os.O_CREAT | os.O_RDWR), ctypes.c_uint(0o666)
    number = checked(LIBC.mq_open(b"/" + MARK.encode(), flags, mode, shape))
    checked(LIBC.mq_send(number, MARK.encode(), ctypes.c_size_t(len(MARK)), 0))
""",
        seen="""
def seen():
    return LIBC.mq_open(b"/" + MARK.encode(), os.O_RDONLY) != -1
""",
    ),
    "a socket with a path": _socket("AF_UNIX", '"/tmp/" + MARK + ".sock"'),
    "an abstract socket": _socket("AF_UNIX", '"\\0" + MARK'),
    "a port of the loopback": _socket("AF_INET", '("127.0.0.1", 20000 + KEY % 10000)'),
    "a lock on a file of the image": Pair(
        put=_OF_THE_IMAGE
        + """
import fcntl
def put():
    file = open(of_the_image())
    fcntl.flock(file, fcntl.LOCK_EX)
    daemon(stay)
""",
        seen=_OF_THE_IMAGE
        + """
import fcntl
def seen():
    try:
        with open(of_the_image()) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False
""",
    ),
    "the environment": Pair(
        put="""
os.environ[MARK] = MARK
def put():
    pass
""",
        seen="""
def seen():
    return MARK in os.environ
""",
    ),
    "the environment of a process": Pair(
        put="""
import subprocess
def put():
    command = [sys.executable, "-c", "import time; time.sleep(%d)" % OUTLIVE_S]
    child = subprocess.Popen(command, env={MARK: MARK}, start_new_session=True)
    child.returncode = 0  # nobody waits for it
""",
        seen="""
def seen():
    return any(MARK.encode() in text for text in processes("environ"))
""",
    ),
    "a module": Pair(
        put="""
import types
sys.modules[MARK] = types.ModuleType(MARK)
def put():
    pass
""",
        seen="""
def seen():
    return MARK in sys.modules
""",
    ),
    "a changed library": Pair(
        put="""
import base64
base64.b64encode.__doc__ = MARK
def put():
    pass
""",
        seen="""
import base64
def seen():
    return base64.b64encode.__doc__ == MARK
""",
    ),
    "a built-in name": Pair(
        put="""
import builtins
setattr(builtins, MARK, MARK)
def put():
    pass
""",
        seen="""
import builtins
def seen():
    return hasattr(builtins, MARK)
""",
    ),
    "a hook of the collector": Pair(
        put="""
import gc
def hook(phase, info):
    pass
hook.__name__ = MARK
gc.callbacks.append(hook)
def put():
    pass
""",
        seen="""
import gc
def seen():
    kept = [*gc.callbacks, *gc.garbage, *gc.get_objects()]
    return any(getattr(each, "__name__", "") == MARK for each in kept if type(each) is type(seen))
""",
    ),
    "the memory of the parent": Pair(
        put="""
import builtins
def put():
    # A fork has everything where its parent has it; ASCII text ends with its characters and a zero.
    text = builtins.__doc__
    with open("/proc/%d/mem" % os.getppid(), "r+b", 0) as memory:
        memory.seek(id(text) + sys.getsizeof(text) - len(text) - 1)
        memory.write(MARK.encode())
""",
        seen="""
import builtins
def seen():
    text = builtins.__doc__
    if text.startswith(MARK):
        return True
    try:
        with open("/proc/%d/mem" % os.getppid(), "rb", 0) as memory:
            memory.seek(id(text) + sys.getsizeof(text) - len(text) - 1)
            return memory.read(len(MARK)) == MARK.encode()
    except OSError:
        return False
""",
    ),
}
