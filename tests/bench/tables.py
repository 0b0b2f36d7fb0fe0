"""What rules and statistics over a million outcomes cost: `python tests/bench/tables.py`.

200,000 tasks of five draws, twice: as pools look (draws of one task are alike, texts
differ) and at random, where hardly two pools are alike. Rows are made before the clock
starts; the clock runs over every rule with 1 to 5 draws, every table and the JSON.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from gate.model import Outcome, Verdict
from gate.outcomes import Cell, Row
from gate.report.replay import replay_json
from gate.summary import Containment
from gate.tables import Tally, table

TASKS, DRAWS = 200_000, 5
PASS, FAIL = Verdict(outcome=Outcome.PASS), Verdict(outcome=Outcome.FAIL, reason="wrong_answer")


def alike(chance: random.Random, index: int) -> Row:
    """A pool whose draws agree as far as its task is easy."""
    skill = chance.betavariate(0.5, 0.3)
    cells = []
    for _ in range(DRAWS):
        right = chance.random() < skill
        visible = right or chance.random() < 0.2
        behaviour = "right" if right else f"wrong {chance.randrange(6)}"
        text = f"{behaviour} {chance.randrange(50)}"
        cells.append(cell(visible, right, behaviour, text))
    return Row(task_id=str(index), cells=tuple(cells))


def unlike(chance: random.Random, index: int) -> Row:
    """A pool in which everything is left to chance."""
    return Row(
        task_id=str(index),
        cells=tuple(
            cell(chance.random() < 0.5, chance.random() < 0.5, str(chance.randrange(5)), str(chance.randrange(5)))
            for _ in range(DRAWS)
        ),
    )


def cell(visible: bool, hidden: bool, behaviour: str, text: str) -> Cell:
    """One draw."""
    return Cell(visible=PASS if visible else FAIL, hidden=PASS if hidden else FAIL, behaviour=behaviour, text=text)


def measure(make: Callable[[random.Random, int], Row]) -> tuple[float, float]:
    """Seconds from rows to the JSON result, by the wall clock and of this process's CPU."""
    chance = random.Random(5)
    rows = [make(chance, index) for index in range(TASKS)]
    start, cpu = time.perf_counter(), time.process_time()
    tally = Tally(DRAWS)
    for row in rows:
        tally.add(row)
    counts = table(tally, bank="bench", containment=Containment(tasks=TASKS, contained=0))
    replay_json(counts, isolation="cell")
    return time.perf_counter() - start, time.process_time() - cpu


if __name__ == "__main__":
    for way in (alike, unlike):
        wall_s, cpu_s = measure(way)
        print(f"{way.__name__}: {TASKS * DRAWS:,} outcomes in {wall_s:.2f} s, {cpu_s:.2f} s of CPU")
