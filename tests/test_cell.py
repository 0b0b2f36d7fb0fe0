"""The cell boundary, in real cells: the verdicts of a container, and nothing shared that was not said to be."""

from __future__ import annotations

import json
import os
import resource
import signal
import struct
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import ModuleType

import anyio
import corpus
import docker
import pytest
from corpus import answers, gate_judge, wrong
from test_container import ADD, DOUBLE, ENDS, FORGERIES, ODD_BUT_RIGHT, PROGRAMS, RIGHT

from gate import rules, wire
from gate.backends import cell as boundary
from gate.backends import hardening
from gate.backends.cell import CellSandbox, Surprise, weaknesses
from gate.backends.cgroups import NO_COUNTERS
from gate.backends.image import Image
from gate.backends.labels import owner_labels
from gate.errors import SandboxError
from gate.model import Call, Candidate, Exit, Json, Limits, Observation, Outcome
from gate.preflight import check_sandbox, find_weaknesses
from gate.resources import sandbox_dir

pytestmark = [pytest.mark.docker, pytest.mark.timeout(300)]

AT_ONCE = 4
PROBE = (sandbox_dir() / "cell_probe.py").read_text(encoding="utf-8")
HOG = "def add(a, b):\n    kept = []\n    while True: kept.append(bytearray(1 << 22))\n"
LOOP = "def add(a, b):\n    while True: pass\n"
# What differs from a container: these read /proc or /sys, or follow a link there. `cell_probe.py` asks by system call.
READ_PROC = {
    *("filesystem-read-only", "identity-and-caps", "limits-in-force", "no-network", "no-secrets-no-host-paths"),
    *("own-process-is-open", "reads-dev-stdin", "reopens-stdout"),
}


def open_cells(engine: docker.APIClient, image: Image, *, concurrency: int = AT_ONCE) -> CellSandbox:
    return CellSandbox(
        engine,
        image,
        seccomp=(sandbox_dir() / "seccomp.json").read_text(encoding="utf-8"),
        cell_seccomp=(sandbox_dir() / "seccomp-cell.json").read_text(encoding="utf-8"),
        labels=owner_labels(),
        concurrency=concurrency,
    )


@pytest.fixture(scope="module")
async def cells(engine: docker.APIClient, image: Image) -> AsyncIterator[CellSandbox]:
    """Cells that all tests here share; what one candidate does is no concern of the next."""
    async with open_cells(engine, image) as opened:
        yield opened


@pytest.fixture
async def fresh(engine: docker.APIClient, image: Image) -> AsyncIterator[CellSandbox]:
    """Cells for a test that breaks them; one slot, so that it is known which cell is used."""
    async with open_cells(engine, image, concurrency=1) as opened:
        yield opened
        names = opened.boxes.left | opened.container.boxes.left
    left = {name for found in engine.containers(all=True) for name in found["Names"]}
    assert not {f"/{name}" for name in names} & left, "a container of ours is left over"


async def observe(
    sandbox: CellSandbox, code: str, *args: tuple[object, ...], seed: int = 0, **limits: float
) -> Observation:
    calls = [Call(args=each) for each in args or ((2, 3),)]
    candidate = Candidate(task_id="t", index=0, code=code)
    return await sandbox.observe(candidate, "add", calls, Limits(**limits), seed=seed)  # type: ignore[arg-type]


def was_in_cell(seen: Observation) -> bool:
    return seen.where["isolation"] == "cell"


async def test_everything_holds_seen_from_inside_and_from_outside(cells: CellSandbox) -> None:
    """The probe finds nothing, nor does the look from outside; right and wrong programs are told apart."""
    assert await cells.find_weaknesses() == []
    await check_sandbox(cells.strict, PROBE)


async def test_right_and_wrong_are_told_apart_in_a_cell(cells: CellSandbox) -> None:
    """A verdict comes from the cell itself, and says so."""
    right, wrong_one = [await observe(cells, code, *((2, 3), (4, 5))) for code in (RIGHT, RIGHT.replace("+", "-"))]
    assert was_in_cell(right) and [reply.value for reply in right.replies] == [5, 9]
    assert was_in_cell(wrong_one) and [reply.value for reply in wrong_one.replies] == [-1, -1]


@pytest.mark.parametrize(("code", "reason"), ENDS.values(), ids=ENDS.keys())
async def test_each_bad_end_is_the_candidates_own(cells: CellSandbox, code: str, reason: str) -> None:
    """Whatever a candidate does to end badly is FAIL with the reason that it has in a container."""
    seen = await observe(cells, code)
    verdict = rules.grade(ADD[:1], seen)
    assert (verdict.outcome, verdict.reason) == (Outcome.FAIL, reason)
    assert was_in_cell(seen)


@pytest.mark.parametrize("code", ODD_BUT_RIGHT.values(), ids=ODD_BUT_RIGHT.keys())
async def test_odd_but_right_passes(cells: CellSandbox, code: str) -> None:
    """A right program passes however odd it is: threads, event loops and pools of processes among them."""
    seen = await observe(cells, code)
    verdict = rules.grade(ADD[:1], seen)
    assert verdict.outcome is Outcome.PASS, f"{verdict.reason}: {verdict.detail}"
    assert was_in_cell(seen)


@pytest.mark.parametrize(("code", "reason"), PROGRAMS.values(), ids=PROGRAMS.keys())
async def test_programs_on_stdin(cells: CellSandbox, code: str, reason: str | None) -> None:
    """A program on stdin and stdout has the verdict that it has in a container."""
    candidate = Candidate(task_id="t", index=0, code=code)
    seen = await cells.observe(candidate, None, [test.call for test in DOUBLE], Limits())
    assert rules.grade(DOUBLE, seen).reason == reason
    assert was_in_cell(seen)


@pytest.mark.parametrize("record", FORGERIES.values(), ids=FORGERIES.keys())
async def test_a_forged_reply_gains_nothing(cells: CellSandbox, record: str) -> None:
    """Records to every descriptor are `protocol`; frames of the broker's own format are, too."""
    frame = struct.pack(">BxxxI", 0, 2) + b"{}"
    for data in (record.encode().decode("unicode_escape").encode() + b"\n", frame):
        code = (
            "import os\ndef add(a, b):\n    for descriptor in range(1, 64):\n"
            f"        try: os.write(descriptor, {data!r})\n        except OSError: pass\n    return 0\n"
        )
        seen = await observe(cells, code)
        assert seen.exit is Exit.PROTOCOL and was_in_cell(seen)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("first,step", [pytest.param(0, 1, marks=pytest.mark.soak), (1, 2)], ids=["all", "others"])
async def test_every_case_of_the_corpus_gets_a_right_answer(cells: CellSandbox, first: int, step: int) -> None:
    """The corpus, or what tests/test_cases.py leaves out, gets the verdicts of containers, but for what reads /proc."""
    cases = corpus.read_cases()[first::step]
    exceptions = READ_PROC & {case.id for case in cases}
    assert set(wrong(cases, await answers(cases, gate_judge(cells), at_once=AT_ONCE))) == exceptions


async def test_limits_hold_and_the_cell_stays(fresh: CellSandbox) -> None:
    """Loops, sleepers and floods are ended by their limits, and the same cell takes the next candidate."""
    asleep = "import time\ndef add(a, b): time.sleep(60)\n"
    flood = "def add(a, b):\n    while True: print('x' * 65536)\n"
    found = []
    for code, limits in ((LOOP, {"cpu_s": 0.3, "wall_s": 60}), (asleep, {"wall_s": 0.5}), (flood, {"output_kb": 512})):
        seen = await observe(fresh, code, **limits)
        found.append((seen.exit, seen.limit, was_in_cell(seen)))
    assert found == [
        (Exit.TIME_LIMIT, "cpu", True),
        (Exit.TIME_LIMIT, "wall", True),
        (Exit.OUTPUT_LIMIT, "output", True),
    ]
    assert (await observe(fresh, RIGHT)).exit is Exit.OK
    assert [cell.used for cell in fresh.idle] == [4]


async def test_a_memory_hog_is_judged_in_a_container(fresh: CellSandbox) -> None:
    """A kill for memory throws the cell away; the verdict is the container's, and the record says why."""
    await observe(fresh, RIGHT, memory_mb=64)
    (before,) = fresh.idle
    seen = await observe(fresh, HOG, memory_mb=64)
    assert (seen.exit, seen.limit) == (Exit.MEMORY_LIMIT, "memory")
    assert seen.where["isolation"] == "container" and "memory" in seen.where["instead_of_cell"]
    assert was_in_cell(await observe(fresh, RIGHT, memory_mb=64))
    assert before not in fresh.idle


def zygote_of(engine: docker.APIClient, cell: boundary.Cell) -> int:
    """Its pid on the host: the one child of the container's process 1."""
    broker = engine.inspect_container(cell.box.id)["State"]["Pid"]
    found = engine.top(cell.box.id, "-eo pid,ppid")["Processes"]
    (zygote,) = [int(pid) for pid, parent in found if int(parent) == broker]
    return zygote


DEATHS: dict[str, Callable[[docker.APIClient, boundary.Cell], object]] = {
    "the zygote is killed": lambda engine, cell: os.kill(zygote_of(engine, cell), signal.SIGKILL),
    "the container is killed": lambda engine, cell: engine.kill(cell.box.id),
    "the container is removed": lambda engine, cell: engine.remove_container(cell.box.id, force=True),
}


@pytest.mark.parametrize("death", DEATHS.values(), ids=DEATHS.keys())
async def test_a_cell_that_dies_blames_nobody(
    engine: docker.APIClient, fresh: CellSandbox, death: Callable[[docker.APIClient, boundary.Cell], object]
) -> None:
    """A cell that dies under a candidate, or before one, changes no verdict."""
    await observe(fresh, RIGHT)
    (cell,) = fresh.idle
    seen: list[Observation] = []

    async def run() -> None:
        seen.append(await observe(fresh, "import time\ndef add(a, b):\n    time.sleep(2)\n    return a + b\n"))

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await anyio.sleep(0.7)
        await anyio.to_thread.run_sync(death, engine, cell)
    assert rules.grade(ADD[:1], seen[0]).outcome is Outcome.PASS
    assert seen[0].where["isolation"] == "container"
    assert was_in_cell(await observe(fresh, RIGHT))
    await anyio.to_thread.run_sync(death, engine, fresh.idle[0])
    await anyio.sleep(0.5)
    assert rules.grade(ADD[:1], await observe(fresh, RIGHT)).outcome is Outcome.PASS


async def test_cells_are_recycled(fresh: CellSandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a fixed number of candidates a cell is given up for a new one."""
    monkeypatch.setattr(boundary, "RECYCLE_AFTER", 2)
    ids = []
    for _ in range(3):
        await observe(fresh, RIGHT)
        ids.append(fresh.idle[0].box.id)
    assert ids[0] == ids[1] != ids[2]


async def test_each_hash_seed_has_its_zygote(fresh: CellSandbox) -> None:
    """A text's hash follows from the seed, and only from it."""
    code = "def add(a, b): return hash('a')\n"
    values = [(await observe(fresh, code, seed=seed)).replies[0].value for seed in (0, 1, 0, 1)]
    assert values[0] == values[2] != values[1] == values[3]


async def test_a_full_tmpfs_is_nobody_elses(fresh: CellSandbox) -> None:
    """What one candidate fills up is empty for the next."""
    fill = (
        "def add(a, b):\n    n = 0\n    try:\n        for i in range(9):\n"
        "            with open(f'/tmp/{i}', 'wb') as file:\n"
        "                for _ in range(16): n += file.write(bytes(1 << 20))\n"
        "    except OSError as exc: return [n >> 20, exc.errno]\n    return n\n"
    )
    for _ in range(2):
        seen = await observe(fresh, fill, memory_mb=256)
        assert was_in_cell(seen) and seen.replies[0].value == [64, 28]


async def test_where_no_counters_can_be_read_there_is_no_cell(
    fresh: CellSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without counters nothing would hold the CPU limit: the cell is refused with that reason."""
    monkeypatch.setattr(boundary.Boxes, "open", with_no_counters(boundary.Boxes.open))
    with pytest.raises(SandboxError, match="the counters of its control group cannot be read"):
        await observe(fresh, RIGHT)


def with_no_counters(honest: Callable[..., boundary.Box]) -> Callable[..., boundary.Box]:
    from dataclasses import replace

    return lambda self, kind: replace(honest(self, kind), counters=NO_COUNTERS)


def without_namespace(name: str) -> str:
    """A statement that leaves one namespace out of a candidate's."""
    return (
        "honest = zygote.Zygote.__init__; zygote.Zygote.__init__ = lambda self, control: (honest(self, control), "
        f"setattr(self, '_flags', self._flags & ~zygote.NAMESPACES['{name}']))[0]"
    )


def without_limit(name: str) -> str:
    """A statement that leaves one limit out."""
    return (
        "honest = zygote._setrlimit; zygote._setrlimit = lambda limit, bounds: "
        f"None if limit == zygote.resource.{name} else honest(limit, bounds)"
    )


# What is left out, as a statement about the module `zygote`, and words of the finding.
LEFT_OUT = {
    "the user namespace": (without_namespace("user"), "making a candidate's world"),
    "the pid namespace": (without_namespace("pid"), "its pid namespace is shared"),
    "the mount namespace": (without_namespace("mnt"), "making a candidate's world"),
    "the net namespace": (without_namespace("net"), "its net namespace is shared"),
    "the ipc namespace": (without_namespace("ipc"), "its ipc namespace is shared"),
    "the uts namespace": (without_namespace("uts"), "its uts namespace is shared"),
    "the cgroup namespace": (without_namespace("cgroup"), "its cgroup namespace is shared"),
    "the tmpfs on /tmp": ("del zygote.TMPFS['/tmp']", "/tmp is no bounded tmpfs of its own: it cannot be written"),
    "the tmpfs on /dev/shm": ("del zygote.TMPFS['/dev/shm']", "/dev/shm is no bounded tmpfs of its own"),
    "the empty /proc": ("zygote.HIDDEN = tuple(n for n in zygote.HIDDEN if n != 'proc')", "/proc is not empty"),
    "the empty /sys": ("zygote.HIDDEN = tuple(n for n in zygote.HIDDEN if n != 'sys')", "/sys is not empty"),
    "the read-only root": ("zygote.MS_RDONLY = 0", "/ can be written"),
    "dropping capabilities": ("zygote.drop_capabilities = lambda every, left: None", "CapEff is"),
    "both filters": ("zygote.take_on = lambda rules: None", "the system call filter permits"),
    "the candidate's filter": (
        "honest = zygote.take_on; zygote.take_on = lambda rules, n=[]: n or (n.append(1), honest(rules))",
        "the system call filter permits setns, mount, new user namespaces",
    ),
    "the zygote's filter": (
        "honest = zygote.take_on; zygote.take_on = lambda rules, n=[]: honest(rules) if n else n.append(1)",
        "the system call filter permits",
    ),
    "the CPU limit": (without_limit("RLIMIT_CPU"), "the limit on CPU time is none"),
    "the address space limit": (
        without_limit("RLIMIT_AS"),
        "the limit on address space is none",
    ),
    "being the first to go": ("zygote.runner.go_first = lambda: None", "oom_score_adj is"),
}


@pytest.mark.slow
@pytest.mark.parametrize(("statement", "finding"), LEFT_OUT.values(), ids=LEFT_OUT.keys())
async def test_each_step_left_out_is_noticed(
    fresh: CellSandbox, monkeypatch: pytest.MonkeyPatch, statement: str, finding: str
) -> None:
    """A step of a candidate's set-up that is left out turns the probe red."""
    start = f"import sys; sys.path.insert(0, '/opt/run'); import cell, zygote; {statement}; cell.main()"
    monkeypatch.setattr(hardening, "CELL_COMMAND", [*hardening.CELL_COMMAND[:3], "-c", start])
    assert finding in "; ".join(await findings(fresh))


async def findings(sandbox: CellSandbox) -> list[str]:
    """What the two looks find, from outside and from inside."""
    try:
        return [*await sandbox.find_weaknesses(), *await find_weaknesses(sandbox.strict, PROBE)]
    except SandboxError as exc:
        return [str(exc)]


@pytest.mark.slow
async def test_new_privileges_are_noticed(fresh: CellSandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """no-new-privileges stands twice: neither the container's nor the zygote's own, and there is no cell."""
    honest = hardening.host_config

    def weakened(**asked: Json) -> dict[str, Json]:
        config = honest(**asked)
        config["SecurityOpt"] = [each for each in config["SecurityOpt"] if not each.startswith("no-new")]
        return config

    monkeypatch.setattr(hardening, "host_config", weakened)
    start = (
        "import sys; sys.path.insert(0, '/opt/run'); import cell, zygote; zygote.PR_SET_NO_NEW_PRIVS = 3; cell.main()"
    )
    monkeypatch.setattr(hardening, "CELL_COMMAND", [*hardening.CELL_COMMAND[:3], "-c", start])
    assert "taking on the filter" in "; ".join(await findings(fresh)) or "vanished" in "; ".join(await findings(fresh))


@pytest.mark.slow
async def test_an_engine_that_permits_no_namespaces_is_refused_with_the_reason(
    engine: docker.APIClient, image: Image
) -> None:
    """Under a container's own filter there is no cell, and the error says what was not permitted."""
    async with open_cells(engine, image, concurrency=1) as sandbox:
        sandbox.boxes._seccomp = (sandbox_dir() / "seccomp.json").read_text(encoding="utf-8")
        with pytest.raises(SandboxError, match=r"making a user namespace.*not permitted"):
            await sandbox.find_weaknesses()


def test_what_is_seen_from_outside_is_held_against_all_of_it() -> None:
    """Each thing that a process is not held to is named."""
    good = {
        "is_init": False,
        "apart": list(boundary.NAMESPACES),
        "status": dict(boundary.HELD),
        "oom_score_adj": boundary.FIRST_TO_GO,
    }
    init = {**good, "is_init": True, "apart": ["pid"]}
    assert weaknesses([init, good]) == weaknesses([good]) == []
    assert weaknesses([init]) == ["a candidate's process is not where it was looked for"]
    shared = {**good, "apart": ["user"], "status": {**boundary.HELD, "CapEff": "ff"}, "oom_score_adj": 0}
    assert len(weaknesses([init, shared])) == len(boundary.NAMESPACES) - 1 + 2


@pytest.fixture(scope="module")
def broker() -> ModuleType:
    """The module as it is in the image, where gate/values.py lies beside it."""
    folders = [str(sandbox_dir()), str(Path(wire.__file__).parent)]
    sys.path[:0] = folders
    try:
        import cell as module
    finally:
        del sys.path[: len(folders)]
    return module


def test_both_sides_spell_a_frame_alike(broker: ModuleType) -> None:
    """The driver's header is the broker's, and the broker's frames are the engine's."""
    request = wire.encode_cell_run(b"abc", program=True, inspect=True, cpu_s=1.2, wall_s=3)
    assert broker.HEADER.unpack(request[: broker.HEADER.size]) == (
        broker.RUN,
        broker.PROGRAM | broker.INSPECT,
        2,
        3,
        3,
    )
    assert broker.HEADER.unpack(wire.CELL_KILL)[0] == broker.KILL
    frame = broker.FRAME.pack(broker.PRINTED, 3) + b"abc"
    assert wire.StreamSplitter().feed(frame) == [(2, b"abc")]
    assert set(broker.NAMESPACES) == set(boundary.NAMESPACES)


def test_the_probe_asks_for_what_the_zygote_gives() -> None:
    """The probe's bounds are those of the set-up, and the set-up's are a container's."""
    probe: dict[str, object] = {}
    exec(compile(PROBE, "cell_probe.py", "exec"), probe)
    sizes = {"/tmp": hardening.TMP_MB << 20, "/src": hardening.SOURCE_MB << 20, "/dev/shm": hardening.SHM_BYTES}
    assert probe["TMPFS_BYTES"] == sizes
    assert probe["MAX_OPEN_FILES"] == hardening.MAX_OPEN_FILES
    assert probe["MAX_FILE_BYTES"] == hardening.MAX_FILE_BYTES
    text = (sandbox_dir() / "zygote.py").read_text(encoding="utf-8")
    for size in ("size=64m,mode=1777", "size=4m,mode=0755", "size=16m,mode=1777"):
        assert size in text


@pytest.mark.slow
def test_a_killed_gate_leaves_nothing_running(engine: docker.APIClient, tmp_path: Path) -> None:
    """kill -9 of a gate with cells: they end by themselves, without a next start."""
    suite = {"version": 1, "task": "t", "entry_point": "add", "tests": [{"args": [1, 2], "expected": 3}]}
    (tmp_path / "bank.jsonl").write_text(json.dumps({**suite, "limits": {"wall_s": 60}}) + "\n")
    code = "import time\ndef add(a, b): time.sleep(50)\n"
    (tmp_path / "s.jsonl").write_text(json.dumps({"task_id": "t", "solution": code}) + "\n")
    command = [str(Path(sys.executable).parent / "gate"), "run", "bank.jsonl", "--source", "samples:s.jsonl"]
    command += ["--isolation", "cell", "--out", "run", "-q"]
    running = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    ledger = tmp_path / "run" / "ledger.jsonl"
    deadline_s = time.monotonic() + 120
    while not (ledger.exists() and "candidate" in ledger.read_text()):
        assert running.poll() is None and time.monotonic() < deadline_s
        time.sleep(0.1)
    time.sleep(1)
    running.kill()
    running.wait()
    mine = {"label": f"gate.pid={running.pid}"}
    while engine.containers(filters=mine):
        assert time.monotonic() < deadline_s, "still running"
        time.sleep(0.2)
    for found in engine.containers(all=True, filters=mine):
        engine.remove_container(found["Id"], force=True)


async def test_a_surprise_is_never_a_verdict(fresh: CellSandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes that are no frames make a surprise: the candidate is judged in a container, the cell is gone."""
    start = (
        "import sys; sys.path.insert(0, '/opt/run'); import cell; honest = cell.drain; "
        "cell.drain = lambda channel, whole: b'garbage!' * 4 if whole else honest(channel, whole=whole); cell.main()"
    )
    monkeypatch.setattr(hardening, "CELL_COMMAND", [*hardening.CELL_COMMAND[:3], "-c", start])
    with pytest.raises(Surprise):
        await fresh._observe(
            Candidate(task_id="t", index=0, code=RIGHT), "add", [Call(args=(2, 3))], Limits(), seed=0, alone=False
        )
    seen = await observe(fresh, RIGHT)
    assert rules.grade(ADD[:1], seen).outcome is Outcome.PASS
    assert seen.where["isolation"] == "container"
    assert fresh.idle == ()


@pytest.mark.soak
async def test_loops_among_others_change_no_verdict(engine: docker.APIClient, image: Image) -> None:
    """One in ten is an endless loop, sixteen at a time: each loop is a timeout by CPU time, all others pass."""
    async with open_cells(engine, image, concurrency=16) as sandbox:
        left = iter(range(320))
        found: dict[int, tuple[str | None, bool]] = {}

        async def work() -> None:
            for index in left:
                seen = await observe(sandbox, LOOP if index % 10 == 9 else RIGHT, cpu_s=1, wall_s=30)
                found[index] = (rules.grade(ADD[:1], seen).reason, was_in_cell(seen))

        async with anyio.create_task_group() as group:
            for _ in range(16):
                group.start_soon(work)
    assert found == {index: ("timeout" if index % 10 == 9 else None, True) for index in range(320)}


@pytest.mark.soak
@pytest.mark.timeout(3600)
async def test_memory_does_not_grow_with_the_candidates(cells: CellSandbox) -> None:
    """From candidate 1,000 to candidate 100,000 the driver grows by less than 20 MB."""
    left = iter(range(100_000))
    rss_bytes: dict[int, int] = {}

    async def work() -> None:
        for index in left:
            assert (await observe(cells, RIGHT)).exit is Exit.OK
            if index in (1_000, 99_999):
                rss_bytes[index] = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    async with anyio.create_task_group() as group:
        for _ in range(AT_ONCE):
            group.start_soon(work)
    assert rss_bytes[99_999] - rss_bytes[1_000] < 20 << 20


@pytest.mark.soak
async def test_a_driver_short_of_descriptors_blames_nobody(engine: docker.APIClient, image: Image) -> None:
    """Where no more descriptors are to be had a right program passes, or it is our failure, which goes by."""
    async with open_cells(engine, image, concurrency=1) as sandbox:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        lowest_free = os.open(os.devnull, os.O_RDONLY)
        os.close(lowest_free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, hard))
        try:
            assert (await observe(sandbox, RIGHT)).exit is Exit.OK  # by connections that are open already
        except SandboxError:
            assert sandbox.idle == ()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert was_in_cell(await observe(sandbox, RIGHT))
