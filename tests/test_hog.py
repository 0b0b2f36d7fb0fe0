"""On a machine that has too much to do, a right candidate is slow and not wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from gate.backends.jsonl import read_ledger
from gate.model import Json

pytestmark = [pytest.mark.docker, pytest.mark.soak, pytest.mark.timeout(7200)]

GATE = str(Path(sys.executable).parent / "gate")
CPU_S = 1.0
SHARE = 0.7
TRIVIAL = "def double(x):\n    return 2 * x\n"
BUSY = f"""\
import time
def double(x):
    end_s = time.process_time() + {SHARE * CPU_S}
    while time.process_time() < end_s:
        pass
    return 2 * x
"""
# The alarm ends it also where nobody is left to.
HOG = "import os, signal\nos.sched_setaffinity(0, {%d})\nsignal.alarm(7200)\nwhile True: pass\n"


@dataclass(slots=True)
class Load:
    """What the busy processes have burnt, in CPU seconds, once they have ended."""

    cpu_s: float = 0.0


@contextmanager
def every_core_busy() -> Iterator[Load]:
    """One process of ordinary priority on each core, and none when this ends."""
    load = Load()
    hogs: list[int] = []
    try:
        for core in os.sched_getaffinity(0):
            hogs.append(os.posix_spawn(sys.executable, [sys.executable, "-c", HOG % core], {}))
        yield load
    finally:
        for hog in hogs:
            os.kill(hog, signal.SIGKILL)
            used = os.wait4(hog, 0)[2]
            load.cpu_s += used.ru_utime + used.ru_stime


def write_pool(folder: Path, tasks: int, is_busy: Callable[[int], bool]) -> None:
    """A bank, and one right program for each of its tasks: trivial, or using the share."""
    with (folder / "bank.jsonl").open("w") as bank, (folder / "pool.jsonl").open("w") as pool:
        for number in range(tasks):
            task_id = f"busy/{number}" if is_busy(number) else f"trivial/{number}"
            suite: dict[str, Json] = {
                "version": 1,
                "task": task_id,
                "prompt": "Write double(x).",
                "entry_point": "double",
                "limits": {"cpu_s": CPU_S},
                "tests": [{"args": [number], "expected": 2 * number}],
            }
            code = BUSY if is_busy(number) else TRIVIAL
            bank.write(json.dumps(suite) + "\n")
            pool.write(json.dumps({"task_id": task_id, "solution": code}) + "\n")


def run_under_load(folder: Path, isolation: str) -> list[dict[str, Json]]:
    """The ledger of a run of the pool while every core is busy."""
    command = [GATE, "run", "bank.jsonl", "--source", "samples:pool.jsonl", "--out", "run", "--draws", "1", "-q"]
    command += ["--isolation", isolation]
    started_s = time.monotonic()
    with every_core_busy() as load:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=7000)
    took_s = time.monotonic() - started_s
    assert done.returncode in (0, 1), done.stderr
    cores = len(os.sched_getaffinity(0))
    print(f"{took_s:.0f} s; the load had {100 * load.cpu_s / took_s / cores:.0f} % of the cores")
    assert os.getloadavg()[1] >= cores, "there was no load"
    return list(read_ledger(folder / "run" / "ledger.jsonl"))


# How many right programs, and which of them use the share: 200 each time.
POOLS: dict[str, tuple[int, Callable[[int], bool]]] = {
    "container": (500, lambda number: number % 5 >= 3),
    "cell": (2000, lambda number: number % 10 == 9),
}


@pytest.mark.parametrize("isolation", POOLS)
def test_no_false_timeout_under_load(tmp_path: Path, isolation: str) -> None:
    """Right programs, 200 of them with 70 % of their CPU time used, all pass while every core is busy."""
    tasks, is_busy = POOLS[isolation]
    write_pool(tmp_path, tasks, is_busy)
    records = run_under_load(tmp_path, isolation)
    observations = [record for record in records if record["kind"] == "observation"]
    looks = Counter((record["exit"], record["limit"], record["where"]["alone"]) for record in observations)
    verdicts = Counter((record["outcome"], record["reason"]) for record in records if record["kind"] == "verdict")
    used = sorted(record["usage"]["cpu_s"] for record in observations if record["task"].startswith("busy/"))
    print(f"looks {dict(looks)}; verdicts {dict(verdicts)}; CPU of the busy {used[0]:.3f} to {used[-1]:.3f} s")
    assert verdicts == {("pass", None): tasks}
    assert {record["where"]["isolation"] for record in observations} == {isolation}
