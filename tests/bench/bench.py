"""What one candidate costs, ways side by side in one run: `make bench`.

Ways: the hardened `docker run` command, the Docker SDK, ours without and with containers
made ahead. Same image, runner, flags and work: one candidate, ten calls. The ways take
turns in random order, so that a loaded moment hits all of them. All of it runs on an
engine of the benchmark's own (engine.py), whose CPU is counted apart: client, engine
with its runtimes, containers. CPU ratios are so hardly moved by other work; wall times
are, so run it on a quiet machine. Ratios within one run are what counts.

Writes tests/bench/results.json: raw samples, versions, ratios.
"""

from __future__ import annotations

import json
import os
import platform
import random
import statistics
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
from engine import PARTS, BenchEngine

from gate import wire
from gate.backends import hardening
from gate.backends.boxes import hang_up
from gate.backends.container import ContainerSandbox
from gate.backends.docker_client import Client, connect
from gate.backends.image import find_image
from gate.backends.labels import owner_labels
from gate.model import Call, Candidate, Exit, Limits
from gate.resources import sandbox_dir

HERE = Path(__file__).resolve().parent
CODE = "def add(a, b):\n    return a + b\n"
CALLS = [Call(args=(number, number + 1)) for number in range(10)]
LIMITS = Limits()
REQUEST = wire.encode_request(CODE.encode(), "add", CALLS, LIMITS, wall_s=60)
ROUNDS = int(os.environ.get("ROUNDS", "5"))
SETTLE_S = 2.0
SAMPLES = int(os.environ.get("SAMPLES", "20"))

Way = Callable[[], Awaitable[None]]


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


def check(lines: list[bytes]) -> None:
    """The ten answers are right; a way that answers nothing costs nothing."""
    answers = [json.loads(line).get("value") for line in lines if b'"value"' in line]
    assert answers == [2 * number + 1 for number in range(10)], lines


def run_command(words: list[str]) -> None:
    """One candidate by the `docker run` command."""
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as running:
        assert running.stdin is not None and running.stdout is not None
        running.stdin.write(REQUEST)
        running.stdin.flush()
        lines = []
        for line in running.stdout:
            lines.append(line)
            if b'"died"' in line:
                break
        running.stdin.close()
        running.wait()
    check(lines)


def run_sdk(client: Any, image: str, seccomp: str, runtime: str) -> None:
    """One candidate by the SDK as its documentation has it: create, attach, start, read, remove."""
    host = hardening.host_config(seccomp=seccomp, memory_mb=LIMITS.memory_mb, runtime=runtime)
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
        attached.sendall(REQUEST)
        splitter, data = wire.StreamSplitter(), b""
        while b'"died"' not in data:
            data += b"".join(payload for _, payload in splitter.feed(attached.recv(1 << 16)))
        hang_up(stream, attached)
        client.wait(made["Id"])
    finally:
        client.remove_container(made["Id"], force=True)
    check(data.split(b"\n"))


async def run_ours(sandbox: ContainerSandbox) -> None:
    """One candidate through the boundary that `gate run` uses."""
    candidate = Candidate(task_id="bench", index=0, code=CODE)
    seen = await sandbox.observe(candidate, "add", CALLS, LIMITS)
    assert seen.exit is Exit.OK and [reply.value for reply in seen.replies] == [2 * n + 1 for n in range(10)]


async def measure(engine: BenchEngine, way: Way, concurrency: int) -> dict[str, Any]:
    """One block: so many candidates, so many at a time."""
    walls: list[float] = []
    number = SAMPLES * (1 if concurrency == 1 else 2)
    left = iter(range(number))

    async def work() -> None:
        for _ in left:
            begun_s = time.monotonic()
            await way()
            walls.append(time.monotonic() - begun_s)

    await anyio.sleep(SETTLE_S)  # pools fill up, and what other ways left to do is done
    cpu_before_s, before_s = engine.cpu_s(), time.monotonic()
    async with anyio.create_task_group() as group:
        for _ in range(concurrency):
            group.start_soon(work)
    took_s = time.monotonic() - before_s
    await anyio.sleep(SETTLE_S)  # what was removed in the background is paid for too
    cpu_s = {part: (spent_s - cpu_before_s[part]) / number for part, spent_s in engine.cpu_s().items()}
    return {"walls_s": walls, "per_s": number / took_s, "cpu_s": cpu_s}


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


async def main() -> None:
    """All ways, in turns, on an engine of their own; then the table and the file."""
    at_hand = connect()
    image = find_image(at_hand)
    assert image is not None, "build the image first: make image"
    saved = b"".join(at_hand.get_image(image.id))
    at_hand.close()
    with BenchEngine() as engine:
        engine.load(saved)
        client = Client(base_url=engine.address, version="auto")
        image = find_image(client)
        assert image is not None
        blocks = await run_all(engine, client, image)
        write(blocks, client.info(), client.version(), image.content)
        client.close()


async def run_all(engine: BenchEngine, client: Any, image: Any) -> dict[str, list[dict[str, Any]]]:
    """So many rounds of all ways, each round in an order of its own."""
    seccomp = (sandbox_dir() / "seccomp.json").read_text()
    plain = engine.client()
    known = client.info()["Runtimes"]
    runtimes = [name for name in ("runc", "crun") if name in known and starts(client, image.id, name)]
    blocks: dict[str, list[dict[str, Any]]] = {}
    async with AsyncExitStack() as stack:
        profile = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "seccomp.json"
        profile.write_text(seccomp)
        ways: dict[str, tuple[Way, int]] = {}
        for runtime in runtimes:
            words = command(engine.address, image.id, str(profile), runtime)
            for concurrency in (1, 4):

                async def by_command(words: list[str] = words) -> None:
                    await to_thread.run_sync(run_command, words)

                async def by_sdk(runtime: str = runtime) -> None:
                    await to_thread.run_sync(run_sdk, plain, image.id, seccomp, runtime)

                ways[f"docker run, {runtime}, -j {concurrency}"] = (by_command, concurrency)
                ways[f"docker SDK, {runtime}, -j {concurrency}"] = (by_sdk, concurrency)
                for name, size in (("ours", 0), ("ours with a pool", None)):
                    sandbox = await stack.enter_async_context(
                        ContainerSandbox(
                            client,
                            image,
                            seccomp=seccomp,
                            labels=owner_labels(),
                            runtime=runtime,
                            concurrency=concurrency,
                            pool_size=size,
                        )
                    )

                    async def by_ours(sandbox: ContainerSandbox = sandbox) -> None:
                        await run_ours(sandbox)

                    ways[f"{name}, {runtime}, -j {concurrency}"] = (by_ours, concurrency)
        for way, _ in ways.values():
            await way()  # warm
        for _ in range(ROUNDS):
            for name, (way, concurrency) in random.sample(list(ways.items()), len(ways)):
                blocks.setdefault(name, []).append(await measure(engine, way, concurrency))
    return blocks


def write(blocks: dict[str, list[dict[str, Any]]], info: Any, version: Any, image: str) -> None:
    """Print the table and the ratios, and keep everything."""
    rows = {}
    for name, found in sorted(blocks.items()):
        walls = [wall for block in found for wall in block["walls_s"]]
        rows[name] = {
            "wall_median_ms": 1000 * statistics.median(walls),
            "wall_quartiles_ms": [1000 * cut for cut in statistics.quantiles(walls, n=4)],
            "per_s": statistics.median(block["per_s"] for block in found),
            "cpu_ms": 1000 * statistics.median(sum(block["cpu_s"].values()) for block in found),
            "cpu_parts_ms": {part: 1000 * statistics.median(block["cpu_s"][part] for block in found) for part in PARTS},
        }
        row = rows[name]
        parts = ", ".join(f"{part} {spent_ms:.0f}" for part, spent_ms in row["cpu_parts_ms"].items())
        print(f"{name:30} {row['wall_median_ms']:7.1f} ms {row['per_s']:6.1f} /s {row['cpu_ms']:6.1f} ms CPU ({parts})")
    ratios = {}
    for runtime in {name.split(", ")[1] for name in rows}:
        pool, ours = rows[f"ours with a pool, {runtime}, -j 1"], rows[f"ours, {runtime}, -j 1"]
        ratios[f"wall, pool to poolless, {runtime}, -j 1"] = pool["wall_median_ms"] / ours["wall_median_ms"]
        best = max(row["per_s"] for name, row in rows.items() if f"{runtime}, -j 4" in name)
        ratios[f"throughput, pool to best, {runtime}, -j 4"] = (
            rows[f"ours with a pool, {runtime}, -j 4"]["per_s"] / best
        )
        for concurrency in (1, 4):
            baseline = rows[f"docker run, runc, -j {concurrency}"]["cpu_ms"]
            mine = rows[f"ours with a pool, {runtime}, -j {concurrency}"]["cpu_ms"]
            ratios[f"CPU, docker run (runc) to pool, {runtime}, -j {concurrency}"] = baseline / mine
    for name, ratio in sorted(ratios.items()):
        print(f"{name:52} {ratio:.2f}")
    versions = {
        "engine": version.get("Version"),
        "kernel": info.get("KernelVersion"),
        "cgroup": info.get("CgroupVersion", "1"),
        "python": platform.python_version(),
        "image": image,
        "cores": os.cpu_count(),
        "load": os.getloadavg(),
    }
    result = {"versions": versions, "rounds": ROUNDS, "samples": SAMPLES, "rows": rows, "ratios": ratios, "raw": blocks}
    (HERE / "results.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(anyio.run(main))
