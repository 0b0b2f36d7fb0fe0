"""The container boundary, in real containers: what a candidate does is seen for what it is."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

import anyio
import docker
import pytest

from gate import engine as loop
from gate import rules, wire
from gate.backends import hardening
from gate.backends.boxes import Kind, hang_up
from gate.backends.cgroups import Reading
from gate.backends.container import ContainerSandbox
from gate.backends.exchange import Exchange, Remains, how_it_ended
from gate.backends.image import Image
from gate.backends.labels import owner_labels
from gate.backends.scripted import MemoryLedger, ScriptedSource
from gate.errors import SandboxError
from gate.model import Call, Candidate, Decision, Exit, Expect, Limits, Observation, Outcome, SuiteSpec, Task, Test
from gate.preflight import LIMITS as PROBE_LIMITS
from gate.preflight import check_sandbox
from gate.resources import sandbox_dir
from gate.wire import Death, ReplyReader, StreamSplitter, Tail

pytestmark = pytest.mark.docker

ADD = tuple(
    Test(call=Call(args=pair), expect=Expect(kind="value", values=(sum(pair),))) for pair in ((2, 3), (10, -4), (0, 0))
)
DOUBLE = tuple(
    Test(call=Call(stdin=f"{number}\n"), expect=Expect(kind="stdout", stdout=f"{2 * number}\n", compare="lines"))
    for number in (4, -3, 0)
)
RIGHT = "def add(a, b):\n    return a + b\n"


@pytest.fixture
async def sandbox(engine: docker.APIClient, image: Image) -> AsyncIterator[ContainerSandbox]:
    seccomp = (sandbox_dir() / "seccomp.json").read_text()
    async with ContainerSandbox(
        engine, image, seccomp=seccomp, labels=owner_labels(), concurrency=4, pool_size=0
    ) as opened:
        yield opened
    left = engine.containers(all=True, filters={"label": f"gate.pid={owner_labels()['gate.pid']}"})
    assert left == [], "a container of ours is left over"


async def observe(
    sandbox: ContainerSandbox, code: str, *args: tuple[object, ...], seed: int = 0, **limits: float
) -> Observation:
    calls = [Call(args=each) for each in args or ((2, 3),)]
    candidate = Candidate(task_id="t", index=0, code=code)
    return await sandbox.observe(candidate, "add", calls, Limits(**limits), seed=seed)  # type: ignore[arg-type]


async def run_program(sandbox: ContainerSandbox, code: str) -> str | None:
    """The reason that a program on stdin fails with; None for a pass."""
    candidate = Candidate(task_id="t", index=0, code=code)
    seen = await sandbox.observe(candidate, None, [test.call for test in DOUBLE], Limits())
    return rules.grade(DOUBLE, seen).reason


async def decide(sandbox: ContainerSandbox, *programs: str, **limits: float) -> tuple[Decision, str | None]:
    """The loop's decision on some programs, and the last verdict's reason."""
    suite = SuiteSpec(
        task_id="t",
        prompt="",
        entry_point="add",
        limits=Limits(**limits),  # type: ignore[arg-type]
        tests=ADD,
        hidden=ADD,
        reference=None,
        must_fail=(),
        digest="d",
        source=None,
    )
    task = Task(id="t", prompt="", entry_point="add", suite=suite)
    ledger = MemoryLedger()
    source = ScriptedSource({"t": programs})
    decision = await loop.run_task(task, source=source, sandbox=sandbox, ledger=ledger, draws=len(programs))
    reasons = [each["reason"] for each in ledger.records if each["kind"] == "verdict" and each["part"] == "visible"]
    return decision, reasons[-1]


async def test_a_right_program_is_delivered_and_a_wrong_one_is_not(sandbox: ContainerSandbox) -> None:
    """A wrong program is refused, the right one after it delivered."""
    wrong = "def add(a, b):\n    return a - b\n"
    refused, reason = await decide(sandbox, wrong)
    assert (refused.outcome, reason) == ("refused", "wrong_answer")
    delivered, _ = await decide(sandbox, wrong, RIGHT)
    assert (delivered.outcome, delivered.index) == ("delivered", 1)


async def test_an_endless_program_times_out(sandbox: ContainerSandbox) -> None:
    """A loop that ignores every signal is ended by its CPU limit, and that is final."""
    code = (
        "import signal\n"
        "for number in range(1, 65):\n"
        "    try: signal.signal(number, signal.SIG_IGN)\n"
        "    except (OSError, ValueError): pass\n"
        "def add(a, b):\n"
        "    while True: pass\n"
    )
    seen = await observe(sandbox, code, cpu_s=0.5)
    assert (seen.exit, seen.limit) == (Exit.TIME_LIMIT, "cpu")
    assert seen.usage.cpu_s is not None and 0.5 <= seen.usage.cpu_s < 1.5
    assert (await decide(sandbox, code, cpu_s=0.5))[1] == "timeout"


async def test_a_sleeping_program_times_out_by_wall_time(sandbox: ContainerSandbox) -> None:
    """A program that sleeps, or stops itself, is ended by the wall limit."""
    asleep = await observe(sandbox, "import time\ndef add(a, b): time.sleep(60)\n", wall_s=0.5)
    code = "import os, signal\ndef add(a, b): os.kill(os.getpid(), signal.SIGSTOP)\n"
    stopped = await observe(sandbox, code, wall_s=0.5)
    for seen in (asleep, stopped):
        assert (seen.exit, seen.limit) == (Exit.TIME_LIMIT, "wall")
        assert 0.5 <= (seen.usage.wall_s or 0) < 3


async def test_each_call_has_a_limit_of_its_own(sandbox: ContainerSandbox) -> None:
    """Three calls of 0.4 s each pass a wall limit of 0.8 s."""
    seen = await observe(
        sandbox,
        "import time\ndef add(a, b):\n    time.sleep(0.4)\n    return a + b\n",
        (1, 2),
        (3, 4),
        (5, 6),
        wall_s=0.8,
    )
    assert (seen.exit, len(seen.replies)) == (Exit.OK, 3)


async def test_a_memory_hog_is_killed(sandbox: ContainerSandbox) -> None:
    """A program that takes memory without end is `memory`, by the kernel's count."""
    code = "def add(a, b):\n    kept = []\n    while True: kept.append(bytearray(1 << 22))\n"
    seen = await observe(sandbox, code, memory_mb=64)
    assert (seen.exit, seen.limit) == (Exit.MEMORY_LIMIT, "memory")
    assert (await decide(sandbox, code, memory_mb=64))[1] == "memory"


async def test_a_child_killed_for_memory_counts_whatever_was_replied(sandbox: ContainerSandbox) -> None:
    """A right answer does not hide that a process of the candidate was killed for memory."""
    code = (
        "import os\n"
        "def add(a, b):\n"
        "    pid = os.fork()\n"
        "    if pid == 0:\n"
        "        kept = []\n"
        "        while True: kept.append(bytearray(1 << 22))\n"
        "    os.waitpid(pid, 0)\n"
        "    return a + b\n"
    )
    seen = await observe(sandbox, code, memory_mb=64)
    assert seen.exit is Exit.MEMORY_LIMIT


FORGERIES = {
    "guessed records": '{"index": 0, "ok": true, "value": 5, "verdict": "pass"}',
    "our records": '{"loaded": 1}\\n{"i": 0, "value": 5}\\n{"end": 1}',
    "a passing end": '{"end": 1}',
    "a result line": "PASSED\\n1 passed in 0.01s",
}


@pytest.mark.parametrize("record", FORGERIES.values(), ids=FORGERIES.keys())
async def test_a_forged_reply_gains_nothing(sandbox: ContainerSandbox, record: str) -> None:
    """A candidate that writes records to every descriptor fails, twice the same."""
    code = (
        "import os\n"
        "def add(a, b):\n"
        "    for descriptor in range(1, 40):\n"
        f"        try: os.write(descriptor, b'{record}\\n')\n"
        "        except OSError: pass\n"
        "    return 0\n"
    )
    seen = [await observe(sandbox, code) for _ in range(2)]
    assert [each.exit for each in seen] == [Exit.PROTOCOL] * 2
    assert (await decide(sandbox, code))[0].outcome == "refused"


async def test_a_forged_record_at_exit_comes_too_late(sandbox: ContainerSandbox) -> None:
    """An exit hook that would forge never runs: the child ends without it."""
    code = (
        "import atexit, os\n"
        "def late():\n"
        "    for descriptor in range(1, 40):\n"
        "        try: os.write(descriptor, b'forged\\n')\n"
        "        except OSError: pass\n"
        "atexit.register(late)\n"
        "def add(a, b): return 0\n"
    )
    assert (await decide(sandbox, code))[1] == "wrong_answer"


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
async def test_a_flood_is_cut_at_the_limit(sandbox: ContainerSandbox, stream: str) -> None:
    """Endless output is `output_limit`, soon, and no fault of ours."""
    code = f"import sys\ndef add(a, b):\n    while True: sys.{stream}.write('x' * 65536)\n"
    seen = await observe(sandbox, code, output_kb=512)
    assert (seen.exit, seen.limit) == (Exit.OUTPUT_LIMIT, "output")
    assert len(seen.output_tail) <= 4096


async def test_chatter_below_the_limit_is_no_answer_and_no_fault(sandbox: ContainerSandbox) -> None:
    """300 KB on stdout change nothing; the end of it is kept."""
    # Replies come on another stream, which may be ahead of the last words; so these have a moment's start.
    prints = "    print('noise ' * 50000, 'last', flush=True)\n    time.sleep(0.5)\n"
    code = f"import time\ndef add(a, b):\n{prints}    return a + b\n"
    seen = await observe(sandbox, code)
    assert seen.exit is Exit.OK
    assert seen.output_tail.endswith("last\n") and len(seen.output_tail) == 4096


ENDS = {
    "exit status 0": ("import os\ndef add(a, b): os._exit(0)\n", "crash"),
    "exit status 125": ("import os\ndef add(a, b): os._exit(125)\n", "crash"),
    "sys.exit in the call": ("import sys\ndef add(a, b): sys.exit(0)\n", "raised"),
    "sys.exit at import": ("import sys\nsys.exit(0)\n", "raised"),
    "segmentation fault": ("import ctypes\ndef add(a, b): ctypes.string_at(0)\n", "crash"),
    "kills all it can": ("import os\ndef add(a, b): os.kill(1, 9); os.kill(os.getpid(), 9)\n", "crash"),
    "every descriptor closed": ("import os\ndef add(a, b): os.closerange(0, 256); return a + b\n", "crash"),
    "reads input": ("input()\ndef add(a, b): return a + b\n", "raised"),
    "syntax": ("def add(a, b) return a + b\n", "syntax_error"),
    "nesting bomb": ("add = " + "(" * 20000 + ")" * 20000, "syntax_error"),
    "null byte": ("def add(a, b):\n    return '\0'\n", "syntax_error"),
    "lone surrogate": ("def add(a, b): return '\ud800'\n", "syntax_error"),
    "other name": ("def plus(a, b): return a + b\n", "missing_entry_point"),
    "no function": ("add = 5\n", "missing_entry_point"),
    "generator": ("def add(a, b): yield a + b\n", "unserialisable"),
    "coroutine": ("async def add(a, b): return a + b\n", "unserialisable"),
    "cycle": ("def add(a, b):\n    x = []\n    x.append(x)\n    return x\n", "unserialisable"),
    "huge integer": ("def add(a, b): return 1 << 80_000_000\n", "output_limit"),
    "huge text": ("def add(a, b): return 'x' * 30_000_000\n", "output_limit"),
    "runaway recursion": ("def add(a, b): return add(a, b)\n", "raised"),
}


@pytest.mark.parametrize(("code", "reason"), ENDS.values(), ids=ENDS.keys())
async def test_each_bad_end_is_the_candidates_own(sandbox: ContainerSandbox, code: str, reason: str) -> None:
    """Whatever a candidate does to end badly is FAIL with its reason, never ERROR."""
    verdict = rules.grade(ADD[:1], await observe(sandbox, code))
    assert (verdict.outcome, verdict.reason) == (Outcome.FAIL, reason)


ODD_BUT_RIGHT = {
    "byte order mark": "\ufeff" + RIGHT,
    "another encoding": "# -*- coding: latin-1 -*-\nname = '\udce9'\n"
    + RIGHT.replace("b\n", "b if name == chr(233) else 0\n"),
    "future import": '"""Doc."""\nfrom __future__ import annotations\n' + RIGHT,
    "dataclass": "import dataclasses\n@dataclasses.dataclass\nclass Pair:\n    a: int\n    b: int\n" + RIGHT,
    "cached": "import functools\n@functools.lru_cache\n" + RIGHT,
    "callable instance": "class Add:\n    def __call__(self, a, b): return a + b\nadd = Add()\n",
    "shadowed builtins": "list = dict = print = len = None\n" + RIGHT,
    "names of the runner": "import sys\nrunner = values = serve = reply = job = None\n" + RIGHT,
    "stdout replaced": "import io, sys\nsys.stdout = io.StringIO()\n" + RIGHT,
    "own alarm": (
        "import signal\ndef add(a, b):\n    signal.signal(signal.SIGALRM, lambda *_: None)\n"
        "    signal.alarm(5)\n    return a + b\n"
    ),
    "lingering child": (
        "import os, time\ndef add(a, b):\n    if os.fork() == 0:\n        time.sleep(60)\n"
        "        os._exit(0)\n    return a + b\n"
    ),
    "process pool": (
        "import multiprocessing\ndef one(x): return x\ndef add(a, b):\n"
        "    with multiprocessing.get_context('fork').Pool(2) as pool: return sum(pool.map(one, [a, b]))\n"
    ),
    "threads": (
        "from concurrent.futures import ThreadPoolExecutor\ndef add(a, b):\n"
        "    with ThreadPoolExecutor(40) as pool: return sum(pool.map(int, [a, b]))\n"
    ),
    "event loop": "import asyncio\nasync def later(x): return x\ndef add(a, b): return asyncio.run(later(a + b))\n",
    "clean argv": "import sys\nassert len(sys.argv) == 1 and sys.argv[0].endswith('.py')\n" + RIGHT,
    "deep recursion": (
        "import sys\nsys.setrecursionlimit(20000)\ndef down(n): return 0 if n == 0 else 1 + down(n - 1)\n"
        "def add(a, b): return a + b if down(5000) == 5000 else None\n"
    ),
    "inspects its own source": (
        "import inspect\ndef add(a, b): return a + b if 'return' in inspect.getsource(add) else 0\n"
    ),
    "pickles its own class": (
        "import pickle\nclass Box:\n    def __init__(self, n): self.n = n\n"
        "def add(a, b): return pickle.loads(pickle.dumps(Box(a + b))).n\n"
    ),
    "writes a file": (
        "import tempfile\ndef add(a, b):\n    with tempfile.TemporaryFile('w+') as file:\n"
        "        file.write(str(a + b)); file.seek(0); return int(file.read())\n"
    ),
}


@pytest.mark.parametrize("code", ODD_BUT_RIGHT.values(), ids=ODD_BUT_RIGHT.keys())
async def test_odd_but_right_passes(sandbox: ContainerSandbox, code: str) -> None:
    """A right program passes however odd it is."""
    verdict = rules.grade(ADD[:1], await observe(sandbox, code))
    assert verdict.outcome is Outcome.PASS, f"{verdict.reason}: {verdict.detail}"


async def test_arguments_are_fresh_for_each_call(sandbox: ContainerSandbox) -> None:
    """A candidate that spoils its arguments gets good ones again, in the one process."""
    calls = [Call(args=([3, 1, 2],))] * 2
    candidate = Candidate(task_id="t", index=0, code="def f(xs):\n    xs.sort()\n    return xs.pop(0)\n")
    seen = await sandbox.observe(candidate, "f", calls, Limits())
    assert [reply.value for reply in seen.replies] == [1, 1]


async def test_state_between_calls_shows(sandbox: ContainerSandbox) -> None:
    """All calls run in one process, so state that leaks from one to the next is seen."""
    candidate = Candidate(task_id="t", index=0, code="def f(x, kept=[]):\n    kept.append(x)\n    return kept\n")
    seen = await sandbox.observe(candidate, "f", [Call(args=(1,)), Call(args=(2,))], Limits())
    assert [reply.value for reply in seen.replies] == [[1], [1, 2]]


async def test_a_method_is_called_on_one_instance(sandbox: ContainerSandbox) -> None:
    """`Class.method` is called on one instance of the class; keyword arguments arrive."""
    code = "class Sum:\n    def __init__(self): self.n = 0\n    def add(self, *, by): self.n += by; return self.n\n"
    calls = [Call(kwargs={"by": 2}), Call(kwargs={"by": 3})]
    seen = await sandbox.observe(Candidate(task_id="t", index=0, code=code), "Sum.add", calls, Limits())
    assert [reply.value for reply in seen.replies] == [2, 5]


PROGRAMS = {
    "input()": ("print(2 * int(input()))\n", None),
    "main guard": (
        "import sys\nif __name__ == '__main__':\n    print(2 * int(sys.stdin.readline()))\n    sys.exit()\n",
        None,
    ),
    "fstat": ("import os\nprint(2 * int(os.read(0, os.fstat(0).st_size)))\n", None),
    "seek": ("import sys\nsys.stdin.read(); sys.stdin.seek(0)\nprint(2 * int(sys.stdin.read()))\n", None),
    "open(0)": ("print(2 * int(open(0).read()))\n", None),
    "no newline, trailing blanks": ("print(2 * int(input()), end='  ')\n", None),
    "lingering child": (
        "import os, time\nprint(2 * int(input()), flush=True)\nif os.fork() == 0:\n    time.sleep(60)\n",
        None,
    ),
    "exit hook prints": ("import atexit\nn = int(input())\natexit.register(lambda: print(2 * n))\n", None),
    "thread prints": (
        "import threading\nn = int(input())\nthreading.Thread(target=lambda: print(2 * n)).start()\n",
        None,
    ),
    "wrong": ("print(3 * int(input()))\n", "wrong_answer"),
    "right, then status 1": ("print(2 * int(input()))\nraise SystemExit(1)\n", "crash"),
    "right, then killed": ("import os\nprint(2 * int(input()), flush=True)\nos.kill(os.getpid(), 9)\n", "crash"),
    "raises": ("print(2 * int(input()))\n1 / 0\n", "crash"),
    "syntax": ("print(2 * int(input())\n", "syntax_error"),
    "not UTF-8": ("import os\ninput()\nos.write(1, b'8\\xff\\n')\n", "wrong_answer"),
    "flood": ("while True: print('x' * 65536)\n", "output_limit"),
}


@pytest.mark.parametrize(("code", "reason"), PROGRAMS.values(), ids=PROGRAMS.keys())
async def test_programs_on_stdin_and_stdout(sandbox: ContainerSandbox, code: str, reason: str | None) -> None:
    """A program gets a regular file on stdin, runs as `__main__`, and must end with status 0."""
    assert await run_program(sandbox, code) == reason


async def test_the_hash_seed_is_the_one_asked_for(sandbox: ContainerSandbox) -> None:
    """hash('a') repeats under one seed and differs under another."""
    code = "def add(a, b): return hash('a')\n"
    values = [(await observe(sandbox, code, seed=seed)).replies[0].value for seed in (0, 0, 1)]
    assert values[0] == values[1] != values[2]


async def test_nothing_inside_names_the_gate(sandbox: ContainerSandbox) -> None:
    """Names that a defeat device could look for are nowhere a candidate looks first."""
    code = (
        "import os, sys\n"
        "WORDS = ('gate', 'judge', 'grade', 'harness', 'accept', 'sandbox', 'verdict', 'evaluat')\n"
        "def add(a, b):\n"
        "    names = [*os.environ, *os.environ.values(), *sys.argv, __file__, __name__, os.getcwd()]\n"
        "    names += [os.uname().nodename]\n"
        "    names += [name for name in sys.modules if not name.startswith('_')]\n"
        "    frame = sys._getframe()\n"
        "    while frame: names.append(frame.f_code.co_filename); frame = frame.f_back\n"
        "    names.append(open('/proc/1/cmdline').read())\n"
        "    return sorted({n for n in names for w in WORDS if w in n.lower()})\n"
    )
    assert (await observe(sandbox, code)).replies[0].value == []


async def test_expected_values_are_not_inside(sandbox: ContainerSandbox) -> None:
    """A scan of all of its own memory finds the arguments, and nothing of the answer."""
    code = (
        "import re\n"
        "def add(a, b):\n"
        "    found = [False, False]\n"
        "    needles = [re.compile(b'[7]1234987'), re.compile(b'[8]1234987')]\n"
        "    for line in open('/proc/self/maps'):\n"
        "        span, rights = line.split()[:2]\n"
        "        if 'r' not in rights or '[v' in line: continue\n"
        "        start, end = (int(x, 16) for x in span.split('-'))\n"
        "        with open('/proc/self/mem', 'rb', 0) as memory:\n"
        "            memory.seek(start)\n"
        "            try: data = memory.read(end - start)\n"
        "            except OSError: continue\n"
        "        found = [f or bool(n.search(data)) for f, n in zip(found, needles)]\n"
        "    return found\n"
    )
    test = Test(call=Call(args=("71234987", 0)), expect=Expect(kind="value", values=("81234987",)))
    candidate = Candidate(task_id="t", index=0, code=code)
    seen = await sandbox.observe(candidate, "add", [test.call], Limits())
    assert seen.replies[0].value == [True, False]


async def test_the_probe_and_the_canaries_go_right(sandbox: ContainerSandbox) -> None:
    """The hardening holds as seen from inside, and right and wrong programs are told apart."""
    await check_sandbox(sandbox, (sandbox_dir() / "probe.py").read_text())


WEAKENED = {
    "ReadonlyRootfs": (False, "root file system"),
    "CapDrop": ([], "CapBnd"),
    "SecurityOpt": (["seccomp=unconfined"], "no system call filter"),
    "PidsLimit": (-1, "process limit"),
    "Memory": (0, "memory limit"),
    "Ulimits": ([], "core dumps"),
    "Tmpfs": ({"/tmp": "exec,mode=1777", "/src": "size=4m,uid=65534"}, "/tmp is no bounded tmpfs"),
}


@pytest.mark.parametrize(("field", "value", "finding"), [(name, *rest) for name, rest in WEAKENED.items()])
async def test_the_probe_notices_what_is_missing(
    sandbox: ContainerSandbox, monkeypatch: pytest.MonkeyPatch, field: str, value: object, finding: str
) -> None:
    """A hardening field that the engine does not honour turns the probe red."""
    honest = hardening.host_config

    def weakened(*, seccomp: str, memory_mb: int, runtime: str | None) -> dict[str, object]:
        config = honest(seccomp=seccomp, memory_mb=memory_mb, runtime=runtime)
        config[field] = value
        if field == "Memory":
            config["MemorySwap"] = 0
        return config

    monkeypatch.setattr(hardening, "host_config", weakened)
    with pytest.raises(SandboxError, match=finding):
        await check_sandbox(sandbox, (sandbox_dir() / "probe.py").read_text())


async def test_the_probe_notices_a_network(sandbox: ContainerSandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """A container with an interface beside `lo` turns the probe red."""
    honest = hardening.container_config

    def weakened(**more: object) -> dict[str, object]:
        config = honest(**more)  # type: ignore[arg-type]
        config["NetworkDisabled"] = False
        config["HostConfig"]["NetworkMode"] = "host"
        return config

    monkeypatch.setattr(hardening, "container_config", weakened)
    with pytest.raises(SandboxError, match="network interface"):
        await check_sandbox(sandbox, (sandbox_dir() / "probe.py").read_text())


async def test_a_cancelled_candidate_leaves_nothing(sandbox: ContainerSandbox, engine: docker.APIClient) -> None:
    """Cancelling a run ends its container soon; nothing waits for the candidate."""
    started_s = time.monotonic()
    with anyio.move_on_after(0.6):
        await observe(sandbox, "import time\ndef add(a, b): time.sleep(60)\n", wall_s=50)
    await sandbox.close()
    assert time.monotonic() - started_s < 5
    assert engine.containers(all=True, filters={"label": f"gate.pid={owner_labels()['gate.pid']}"}) == []


async def test_a_container_whose_driver_hangs_up_ends_by_itself(
    engine: docker.APIClient, image: Image, sandbox: ContainerSandbox
) -> None:
    """When the driver's end of the stream closes, the container stops: kill -9 leaves nothing running."""
    box = await anyio.to_thread.run_sync(sandbox.boxes.open, Kind(memory_mb=64, seed=0))
    header = wire.encode_header(b"import time\ndef add(): time.sleep(60)\n", "add", 1, Limits(), wall_s=60)
    box.socket.sendall(header + wire.encode_calls([Call()]))
    time.sleep(0.3)
    assert engine.inspect_container(box.id)["State"]["Running"]
    hang_up(box.stream, box.socket)
    deadline_s = time.monotonic() + 5
    while engine.inspect_container(box.id)["State"]["Running"]:
        assert time.monotonic() < deadline_s, "still running"
        time.sleep(0.05)


async def test_an_engine_that_cannot_start_is_ours(engine: docker.APIClient, image: Image) -> None:
    """A runtime that does not exist is a SandboxError before any candidate is blamed, and leaves nothing."""
    seccomp = (sandbox_dir() / "seccomp.json").read_text()
    async with ContainerSandbox(
        engine, image, seccomp=seccomp, labels=owner_labels(), runtime="no-such-runtime"
    ) as broken:
        with pytest.raises(SandboxError, match="could not start"):
            await observe(broken, RIGHT)


async def test_a_container_removed_in_mid_run_is_ours(engine: docker.APIClient, sandbox: ContainerSandbox) -> None:
    """A container that the engine no longer knows is a FAULT: the candidate is not blamed."""
    seen: list[Observation] = []

    async def run() -> None:
        seen.append(await observe(sandbox, "import time\ndef add(a, b): time.sleep(60)\n", wall_s=30))

    def remove() -> None:
        time.sleep(1)
        for found in engine.containers(filters={"label": f"gate.pid={owner_labels()['gate.pid']}"}):
            engine.remove_container(found["Id"], force=True)

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await anyio.to_thread.run_sync(remove)
    assert seen[0].exit is Exit.FAULT
    assert rules.grade(ADD[:1], seen[0]).outcome is Outcome.ERROR


def ended(**more: object) -> Exchange:
    reader = ReplyReader(1, program=False, max_bytes=1000)
    exchange = Exchange(reader=reader, tail=Tail(1000), splitter=StreamSplitter())
    for name, value in more.items():
        setattr(exchange, name, value)
    return exchange


def test_the_kernels_count_outweighs_the_engines_flag() -> None:
    """Where the kernel counted no kill, the engine's flag says nothing; without a count it does."""
    counted = Reading(oom_kills=0)
    flagged = Remains(reading=counted, oom_killed=True)
    assert how_it_ended(ended(), flagged)[0] is Exit.CRASHED
    assert how_it_ended(ended(), Remains(oom_killed=True))[0] is Exit.MEMORY_LIMIT


def test_the_engines_failure_outweighs_all() -> None:
    """A fault of the engine stands above a limit, a violation and a kill."""
    remains = Remains(reading=Reading(oom_kills=3), fault="gone")
    assert how_it_ended(ended(exit=Exit.PROTOCOL), remains)[0] is Exit.FAULT


@pytest.mark.parametrize(
    ("status", "words"), [(3, "ended with status 3"), (-11, "was ended by SIGSEGV"), (-77, "was ended by signal 77")]
)
def test_a_death_is_told_in_words(status: int, words: str) -> None:
    """An exit status or a signal is named."""
    exchange = ended()
    exchange.reader.death = Death(status=status)
    assert words in how_it_ended(exchange, Remains())[2]


def test_the_probes_limits_are_those_it_is_told() -> None:
    """The probe compares with the memory limit that it was given."""
    assert PROBE_LIMITS.memory_mb == 256
