"""The candidates of the benchmark, and what is right of them; standard library only, for `peers.py` imports it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

ENTRY_POINT = "solve"
LIMIT_S = 1.0  # of CPU and of wall time, for each way that has limits
LOOP_EACH = 10

ADD = "def solve(a, b):\n    return a + b\n"
BUSY = "def solve(a, b):\n    n = 0\n    for i in range(900000 if a == 0 else 0):\n        n += i\n    return a + b\n"
LOOP = "def solve(a, b):\n    while True:\n        pass\n"
ECHO = "def solve(text):\n    return text\n"

PAIRS = [(number, number + 1) for number in range(10)]
SUMS = [a + b for a, b in PAIRS]


def is_loop(index: int) -> bool:
    """Which candidates of a workload with loops are one."""
    return index % LOOP_EACH == LOOP_EACH - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Candidates of one kind.

    Attributes:
        program: The text of candidate number `index`.
        inputs: The arguments of each call.
        outputs: What is right.
        number: How many there are in a block; fewer for ways that take long.
        concurrencies: How many at a time.
    """

    program: Callable[[int], str]
    inputs: list[tuple[Any, ...]]
    outputs: list[Any]
    number: int
    concurrencies: tuple[int, ...]

    def is_right(self, index: int, passed: bool) -> bool:
        """Whether a judge said of candidate number `index` what is so."""
        return passed == (self.program(index) != LOOP)


def echo(size: int, number: int) -> Workload:
    """A text in, the same text out."""
    text = "x" * size
    return Workload(program=lambda index: ECHO, inputs=[(text,)], outputs=[text], number=number, concurrencies=(4,))


WORKLOADS = {
    "trivial": Workload(program=lambda index: ADD, inputs=PAIRS, outputs=SUMS, number=600, concurrencies=(1, 4, 8)),
    "50 ms": Workload(program=lambda index: BUSY, inputs=PAIRS, outputs=SUMS, number=60, concurrencies=(1, 4, 8)),
    "10 % loops": Workload(
        program=lambda index: LOOP if is_loop(index) else ADD,
        inputs=PAIRS,
        outputs=SUMS,
        number=100,
        concurrencies=(4, 16),
    ),
    "1 KB": echo(1 << 10, 300),
    "1 MB": echo(1 << 20, 30),
}
