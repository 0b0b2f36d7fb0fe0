"""The ways of judging a candidate that the benchmark compares, each as a block of candidates."""

from __future__ import annotations

import json
import os
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
import docker.errors
from anyio import to_thread
from engine import BenchEngine
from floor import PROGRAM as FLOOR
from peers import MODULES
from workloads import ENTRY_POINT, LIMIT_S, LOOP, WORKLOADS, Workload

from gate import rules, wire
from gate.backends import hardening
from gate.backends.boxes import Box, Boxes, Kind, hang_up
from gate.backends.cell import CellSandbox
from gate.backends.container import ContainerSandbox
from gate.backends.image import Image
from gate.backends.labels import owner_labels
from gate.model import Call, Candidate, Expect, Limits, Outcome, Test
from gate.resources import sandbox_dir

HERE = Path(__file__).resolve().parent
LIMITS = Limits(wall_s=LIMIT_S, cpu_s=LIMIT_S)
SETTLE_S = 1.0
COMMANDS = 12  # in a block of a way that takes a container for each; twice as many where several run at a time
SECCOMP, CELL_SECCOMP = [(sandbox_dir() / f"{name}.json").read_text() for name in ("seccomp", "seccomp-cell")]

Block = dict[str, Any]
Way = Callable[[], Awaitable[Block]]
Judge = Callable[[int], Awaitable[None]]


def tests_of(work: Workload) -> tuple[Test, ...]:
    """A workload as a suite has it."""
    return tuple(
        Test(call=Call(args=inputs), expect=Expect(kind="value", values=(output,)))
        for inputs, output in zip(work.inputs, work.outputs, strict=True)
    )


async def measure(
    engine: BenchEngine, number: int, concurrency: int, judge: Judge, *, settle_s: float = 0.0, work: Workload
) -> Block:
    """A block: throughput, the time of each candidate that is no loop, and CPU by part for each candidate.

    Args:
        settle_s: How long to wait before and after: what goes on in the background is paid for, too.
    """
    walls: list[float] = []
    left = iter(range(number))

    async def take() -> None:
        for index in left:
            begun_s = time.monotonic()
            await judge(index)
            if work.program(index) != LOOP:
                walls.append(time.monotonic() - begun_s)

    await anyio.sleep(settle_s)
    cpu_before_s, begun_s = engine.cpu_s(), time.monotonic()
    async with anyio.create_task_group() as group:
        for _ in range(concurrency):
            group.start_soon(take)
    took_s = time.monotonic() - begun_s
    await anyio.sleep(settle_s)
    return block(number, took_s, walls, cpu_before_s, engine.cpu_s())


def block(
    number: int, took_s: float, walls: list[float], before_s: dict[str, float], after_s: dict[str, float]
) -> Block:
    """What is kept of a block."""
    cpu_s = {part: (after_s[part] - before_s[part]) / number for part in before_s}
    return {"per_s": number / took_s, "walls_s": walls, "cpu_s": cpu_s}


async def all_ways(
    stack: AsyncExitStack, engine: BenchEngine, client: Any, image: Image, peers: Path
) -> dict[str, Way]:
    """Every way with every workload that it is measured on, by name; each has been warm once."""
    profile = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "seccomp.json"
    profile.write_text(SECCOMP)
    return {
        **floor_ways(stack, engine, client, image),
        **docker_ways(engine, image, profile),
        **await container_ways(stack, engine, client, image),
        **await cell_ways(stack, engine, client, image),
        **peer_ways(engine, peers),
    }


def judge_by(sandbox: CellSandbox | ContainerSandbox, isolation: str, work: Workload) -> Judge:
    """Observe and grade, as the gate does; a verdict that is wrong ends the benchmark."""
    tests = tests_of(work)
    calls = [test.call for test in tests]

    async def judge(index: int) -> None:
        candidate = Candidate(task_id="bench", index=0, code=work.program(index))
        seen = await sandbox.observe(candidate, ENTRY_POINT, calls, LIMITS)
        passed = rules.grade(tests, seen).outcome is Outcome.PASS
        assert work.is_right(index, passed) and seen.where["isolation"] == isolation, seen

    return judge


async def cell_ways(stack: AsyncExitStack, engine: BenchEngine, client: Any, image: Image) -> dict[str, Way]:
    """Cells, as many as candidates at a time; they have been used before."""
    ways: dict[str, Way] = {}
    for concurrency in sorted({each for work in WORKLOADS.values() for each in work.concurrencies}):
        sandbox = await stack.enter_async_context(
            CellSandbox(
                client,
                image,
                seccomp=SECCOMP,
                cell_seccomp=CELL_SECCOMP,
                labels=owner_labels(),
                concurrency=concurrency,
            )
        )
        judge = judge_by(sandbox, "cell", WORKLOADS["trivial"])
        await measure(engine, 4 * concurrency, concurrency, judge, work=WORKLOADS["trivial"])
        for name, work in WORKLOADS.items():
            if concurrency in work.concurrencies:

                async def way(
                    sandbox: CellSandbox = sandbox, work: Workload = work, concurrency: int = concurrency
                ) -> Block:
                    judge = judge_by(sandbox, "cell", work)
                    return await measure(engine, work.number, concurrency, judge, work=work)

                ways[f"cell, {name}, -j {concurrency}"] = way
    return ways


async def container_ways(stack: AsyncExitStack, engine: BenchEngine, client: Any, image: Image) -> dict[str, Way]:
    """Containers of one's own, made ahead of need; and, one and four at a time, without a pool."""
    known = client.info()["Runtimes"]
    work = WORKLOADS["trivial"]
    ways: dict[str, Way] = {}
    for runtime in (name for name in ("runc", "crun") if name in known and starts(client, image.id, name)):
        for concurrency, pool_size in [*((each, None) for each in work.concurrencies), (1, 0), (4, 0)]:
            sandbox = await stack.enter_async_context(
                ContainerSandbox(
                    client,
                    image,
                    seccomp=SECCOMP,
                    labels=owner_labels(),
                    runtime=runtime,
                    concurrency=concurrency,
                    pool_size=pool_size,
                )
            )

            async def way(sandbox: ContainerSandbox = sandbox, concurrency: int = concurrency) -> Block:
                number = COMMANDS * (1 if concurrency == 1 else 2)
                judge = judge_by(sandbox, "container", work)
                return await measure(engine, number, concurrency, judge, settle_s=SETTLE_S, work=work)

            poolless = ", no pool" if pool_size == 0 else ""
            ways[f"container, {runtime}, trivial{poolless}, -j {concurrency}"] = way
    return ways


def starts(client: Any, image: str, runtime: str) -> bool:
    """Whether a runtime that the engine knows works on this host."""
    host = client.create_host_config(network_mode="none", runtime=runtime)
    made = client.create_container(image, use_config_proxy=False, host_config=host)
    try:
        client.start(made["Id"])
    except docker.errors.APIError as exc:
        print(f"{runtime} does not work here: {exc.explanation}")
        return False
    finally:
        client.remove_container(made["Id"], force=True)
    return True


def docker_ways(engine: BenchEngine, image: Image, profile: Path) -> dict[str, Way]:
    """The `docker run` command and the SDK, with the hardening of `container` and the engine's default runtime."""
    work = WORKLOADS["trivial"]
    words = command(engine.address, image.id, str(profile), "runc")
    plain = engine.client()
    ways: dict[str, Way] = {}
    for concurrency in work.concurrencies:
        for name, run in (
            ("docker run", lambda: run_command(words)),
            ("docker SDK", lambda: run_sdk(plain, image.id)),
        ):

            async def way(run: Callable[[], None] = run, concurrency: int = concurrency) -> Block:
                async def judge(index: int) -> None:
                    await to_thread.run_sync(run)

                number = COMMANDS * (1 if concurrency == 1 else 2)
                return await measure(engine, number, concurrency, judge, settle_s=SETTLE_S, work=work)

            ways[f"{name}, trivial, -j {concurrency}"] = way
    return ways


def request_of(work: Workload) -> bytes:
    """What a runner is asked, for ways that are not ours."""
    calls = [test.call for test in tests_of(work)]
    header = wire.encode_header(work.program(0).encode(), ENTRY_POINT, len(calls), LIMITS, wall_s=60)
    return header + wire.encode_calls(calls)


def check(lines: list[bytes]) -> None:
    """The answers are right; a way that answers nothing costs nothing."""
    answers = [json.loads(line).get("value") for line in lines if b'"value"' in line]
    assert answers == WORKLOADS["trivial"].outputs, lines


def command(address: str, image: str, seccomp: str, runtime: str) -> list[str]:
    """The `docker run` that says what our create request says."""
    host = hardening.host_config(seccomp=seccomp, memory_mb=LIMITS.memory_mb, runtime=runtime)
    flags = ["docker", "-H", address, "run", "--rm", "-i", "--pull", "never", "--runtime", runtime, "--network", "none"]
    flags += ["--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges:true"]
    flags += ["--security-opt", f"seccomp={seccomp}", "--pids-limit", str(host["PidsLimit"])]
    flags += ["--memory", str(host["Memory"]), "--memory-swap", str(host["MemorySwap"]), "--cpus", "1"]
    flags += ["--ipc", "private", "--cgroupns", "private", "--shm-size", str(host["ShmSize"]), "--log-driver", "none"]
    flags += ["--no-healthcheck", "--hostname", "box", "--workdir", "/tmp", "--user", hardening.USER]
    flags += [word for point, options in host["Tmpfs"].items() for word in ("--tmpfs", f"{point}:{options}")]
    flags += [
        word for each in host["Ulimits"] for word in ("--ulimit", f"{each['Name']}={each['Soft']}:{each['Hard']}")
    ]
    flags += [word for variable in hardening.environment(0) for word in ("--env", variable)]
    return [*flags, image]


def run_command(words: list[str]) -> None:
    """One candidate by the `docker run` command."""
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as running:
        assert running.stdin is not None and running.stdout is not None
        running.stdin.write(request_of(WORKLOADS["trivial"]))
        running.stdin.flush()
        lines = []
        for line in running.stdout:
            lines.append(line)
            if b'"died"' in line:
                break
        running.stdin.close()
        running.wait()
    check(lines)


def run_sdk(client: Any, image: str) -> None:
    """One candidate by the SDK as its documentation has it: create, attach, start, read, remove."""
    host = hardening.host_config(seccomp=SECCOMP, memory_mb=LIMITS.memory_mb, runtime="runc")
    made = client.create_container(
        image,
        environment=hardening.environment(0),
        stdin_open=True,
        user=hardening.USER,
        hostname="box",
        working_dir="/tmp",
        use_config_proxy=False,
        host_config=host,
    )
    try:
        stream = client.attach_socket(made["Id"], params={"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1})
        client.start(made["Id"])
        attached = stream._sock
        attached.settimeout(60)
        attached.sendall(request_of(WORKLOADS["trivial"]))
        splitter, data = wire.StreamSplitter(), b""
        while b'"died"' not in data:
            data += b"".join(payload for _, payload in splitter.feed(attached.recv(1 << 16)))
        hang_up(stream, attached)
        client.wait(made["Id"])
    finally:
        client.remove_container(made["Id"], force=True)
    check(data.split(b"\n"))


def floor_ways(stack: AsyncExitStack, engine: BenchEngine, client: Any, image: Image) -> dict[str, Way]:
    """A bare fork, one candidate after the other."""
    boxes = Boxes(client, image.id, seccomp=SECCOMP, labels=owner_labels(), runtime=None, removers=1, make=floor_config)
    stack.callback(boxes.close)
    box = boxes.open(Kind(memory_mb=LIMITS.memory_mb, seed=0))
    box.socket.setblocking(True)
    work = WORKLOADS["trivial"]
    request = request_of(work)

    async def way() -> Block:
        def run() -> float:
            begun_s = time.monotonic()
            for _ in range(work.number):
                ask_floor(box, request)
            return time.monotonic() - begun_s

        before_s = engine.cpu_s()
        took_s = await to_thread.run_sync(run)
        return block(work.number, took_s, [took_s / work.number], before_s, engine.cpu_s())

    return {"floor, trivial, -j 1": way}


def floor_config(**asked: Any) -> dict[str, Any]:
    """A container as any other, with the bare zygote in it."""
    config = hardening.container_config(**asked)
    return {**config, "Entrypoint": [*hardening.COMMAND[:3], "-c", FLOOR]}


def ask_floor(box: Box, request: bytes) -> None:
    """One candidate, all of whose answers are right."""
    work = WORKLOADS["trivial"]
    box.socket.sendall(struct.pack(">I", len(request)) + request)
    reader = wire.ReplyReader(len(work.inputs), program=False, max_bytes=1 << 20, python="floor")
    while reader.phase is not wire.Phase.ENDED:
        for _, payload in box.splitter.feed(box.socket.recv(1 << 16)):
            reader.feed(payload)
    assert [reply.value for reply in reader.replies] == work.outputs


def peer_ways(engine: BenchEngine, folder: Path) -> dict[str, Way]:
    """The check functions of others, with as many workers as candidates at a time."""
    ways: dict[str, Way] = {}
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    for peer in MODULES:
        for name, work in WORKLOADS.items():
            for concurrency in work.concurrencies:
                number = work.number if peer == "evalplus" or name != "trivial" else work.number // 3
                words = [sys.executable, str(HERE / "peers.py"), peer, str(concurrency), name, str(number)]

                async def way(words: list[str] = words, work: Workload = work, number: int = number) -> Block:
                    return await run_peer(engine, words, environment, work, number)

                ways[f"{peer}, {name}, -j {concurrency}"] = way
    return ways


async def run_peer(
    engine: BenchEngine, words: list[str], environment: dict[str, str], work: Workload, number: int
) -> Block:
    """A block in a program of its own, which counts as the client."""
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as running:
        assert running.stdin is not None and running.stdout is not None
        assert running.stdout.readline() == "ready\n", "a peer does not start: see above"
        before_s = engine.cpu_s()
        running.stdin.write("go\n")
        running.stdin.flush()
        answer = json.loads(await to_thread.run_sync(running.stdout.readline))
        after_s = engine.cpu_s()
        assert answer["right"] == number, f"{words}: {answer['right']} of {number} are right"
        walls = [wall_s for index, wall_s in enumerate(answer["walls_s"]) if work.program(index) != LOOP]
        running.stdin.write("end\n")
    return block(number, answer["took_s"], walls, before_s, after_s)
