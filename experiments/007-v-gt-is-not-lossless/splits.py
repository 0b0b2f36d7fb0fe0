"""All tests of a task split into V and the held-out rest, many times, from who passes which test.

    python experiments/007-v-gt-is-not-lossless/splits.py

Reads `vectors.jsonl.gz` and writes `summary.json` and `errors.png` beside this file. No
program runs; the same rows give the same figures.
"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SIZES = (1, 2, 3, 5, 8, 13, 21, 34)
SEEDS = 200
FEWEST_TESTS = 2 * max(SIZES)
BINS = ("under 50 %", "50 to 75 %", "75 to 100 %", "all")
COLOURS = {"weak": "#b3432b", "lossy": "#2b6cb3"}
CHECKED_SIZES = (1, 3, 8)
CHECKED_SEEDS = 5


@dataclass(frozen=True, slots=True)
class Rows:
    """One task: for each program and each killable mutant, the tests that it fails, as bits.

    Attributes:
        tests: How many tests there are.
        right: How many programs pass all of them.
        wrong: The others.
        mutants: Mutants that some test kills.
    """

    task: str
    tests: int
    right: int
    wrong: tuple[int, ...]
    mutants: tuple[int, ...]


@dataclass(slots=True)
class Errors:
    """Pairs of a program and a split: right by the rest and refused by V, accepted by V and rejected by the rest."""

    right: int = 0
    lossy: int = 0
    accepted: int = 0
    weak: int = 0

    def add(self, rows: Rows, chosen: int) -> None:
        """One split of one task."""
        lossy = sum(bits & chosen == bits for bits in rows.wrong)  # all that it fails is in V
        weak = sum(bits & chosen == 0 for bits in rows.wrong)  # all that it fails is in the rest
        self.right += rows.right + lossy
        self.lossy += lossy
        self.accepted += rows.right + weak
        self.weak += weak

    @property
    def shares(self) -> tuple[float, float]:
        """Weak of what V accepts, lossy of what is right."""
        return self.weak / (self.accepted or 1), self.lossy / (self.right or 1)

    def as_json(self) -> dict[str, int]:
        """The counts."""
        return {name: getattr(self, name) for name in self.__slots__}


def read_rows(path: Path) -> tuple[list[Rows], dict[str, Any]]:
    """The tasks that are split, and what was left out."""
    kept: list[Rows] = []
    counts: dict[str, Any] = {"tasks": 0, "few_tests": 0, "left_out": 0, "programs": 0, "all_right": 0, "cut": 0}
    counts |= {"mutants": 0, "killable": 0}
    for line in gzip.decompress(path.read_bytes()).decode().splitlines():
        found = json.loads(line)
        if found["left_out"] or found["tests"] < FEWEST_TESTS:
            counts["left_out" if found["left_out"] else "few_tests"] += 1
            continue
        failed, killed = ([_failed(row) for row in found[name]] for name in ("programs", "mutants"))
        rows = Rows(
            found["task"], found["tests"], failed.count(0), tuple(filter(None, failed)), tuple(filter(None, killed))
        )
        kept.append(rows)
        counts["tasks"] += 1
        counts["programs"] += len(failed)
        counts["all_right"] += rows.right
        counts["cut"] += found["cut"]
        counts["mutants"] += len(killed)
        counts["killable"] += len(rows.mutants)
    counts["tests_per_task"] = round(sum(rows.tests for rows in kept) / len(kept))
    return kept, counts


def _failed(row: str) -> int:
    return sum(1 << index for index, mark in enumerate(row) if mark == "0")


def choose(rows: Rows, size: int, seed: int) -> list[int]:
    """The tests that are V in one split; the same for the same seed, whatever the others are."""
    return random.Random(f"{rows.task}/{size}/{seed}").sample(range(rows.tests), size)


def bits_of(chosen: Iterable[int]) -> int:
    """Some tests as bits."""
    return sum(1 << index for index in chosen)


def by_size(tasks: Sequence[Rows], sizes: Callable[[Rows], int]) -> dict[str, Any]:
    """Both errors over all splits with V of one size, and how far the splits are apart."""
    total, shares = Errors(), []
    for seed in range(SEEDS):
        each = Errors()
        for rows in tasks:
            each.add(rows, bits_of(choose(rows, sizes(rows), seed)))
        shares.append(each.shares)
        for name, count in each.as_json().items():
            setattr(total, name, getattr(total, name) + count)
    return {**total.as_json(), **_percents(total), **_spread(shares)}


def _percents(of: Errors) -> dict[str, float]:
    weak, lossy = of.shares
    return {"weak_pct": round(100 * weak, 3), "lossy_pct": round(100 * lossy, 3)}


def _spread(shares: Sequence[tuple[float, float]]) -> dict[str, list[float]]:
    """The 5th and the 95th of a hundred splits, for each error in per cent."""
    found = {}
    for place, name in enumerate(("weak", "lossy")):
        sorted_ = sorted(each[place] for each in shares)
        ends = (sorted_[len(sorted_) * 5 // 100], sorted_[len(sorted_) * 95 // 100 - 1])
        found[f"{name}_5_95_pct"] = [round(100 * end, 3) for end in ends]
    return found


def halves(tasks: Sequence[Rows]) -> dict[str, Any]:
    """V is half of all tests; of an odd number one is in neither part, so that both are alike."""
    total = Errors()
    for rows in tasks:
        half = rows.tests // 2
        for seed in range(SEEDS):
            order = choose(rows, 2 * half, seed)
            both, first = bits_of(order), bits_of(order[:half])
            seen = replace(rows, wrong=tuple(filter(None, (bits & both for bits in rows.wrong))))
            total.add(replace(seen, right=rows.right + len(rows.wrong) - len(seen.wrong)), first)
    return {**total.as_json(), **_percents(total)}


def bin_of(score: float) -> str:
    """Which of BINS a mutation score is in."""
    return BINS[3] if score == 1 else BINS[2] if score >= 0.75 else BINS[1] if score >= 0.5 else BINS[0]


def by_mutants(tasks: Sequence[Rows], size: int) -> dict[str, Any]:
    """Both errors by the mutation score of V, and the same within tasks that have V of two kinds.

    `within` takes tasks some of whose V kill all mutants and some do not: each task weighs
    the same in both, so what tells tasks apart tells nothing here.
    """
    bins = {name: Errors() for name in BINS}
    splits = dict.fromkeys(BINS, 0)
    within: list[tuple[float, float, float, float]] = []
    for rows in (each for each in tasks if each.mutants):
        kinds = {True: Errors(), False: Errors()}
        for seed in range(SEEDS):
            chosen = bits_of(choose(rows, size, seed))
            name = bin_of(sum(bits & chosen != 0 for bits in rows.mutants) / len(rows.mutants))
            splits[name] += 1
            bins[name].add(rows, chosen)
            kinds[name == BINS[3]].add(rows, chosen)
        if all(of.accepted and of.right for of in kinds.values()):
            within.append((*kinds[False].shares, *kinds[True].shares))
    means = [round(100 * sum(column) / len(within), 3) for column in zip(*within, strict=True)] if within else [0.0] * 4
    names = ("weak_not_all", "lossy_not_all", "weak_all", "lossy_all")
    return {
        "bins": {name: {"splits": splits[name], **of.as_json(), **_percents(of)} for name, of in bins.items()},
        "within": {"tasks": len(within), **dict(zip((f"{name}_pct" for name in names), means, strict=True))},
    }


def by_check(tasks: Sequence[Rows], size: int) -> dict[str, Any]:
    """Both errors by what `gate check` tells from V alone: does a program that knows nothing of the task pass it?"""
    from gate.backends.banks import open_bank
    from gate.resources import suites_dir
    from gate.strength import strength

    suites = {task.id: task.suite for task in open_bank("mbpp-plus", suites_dir()).tasks()}
    kinds = {"sound": Errors(), "weak": Errors()}
    splits = dict.fromkeys(kinds, 0)
    for rows in tasks:
        suite = suites[rows.task]
        for seed in range(CHECKED_SEEDS):
            chosen = choose(rows, size, seed)
            found = strength(replace(suite, tests=tuple(suite.hidden[index] for index in chosen)))
            kind = "weak" if found.weak else "sound"
            splits[kind] += 1
            kinds[kind].add(rows, bits_of(chosen))
    return {name: {"splits": splits[name], **of.as_json(), **_percents(of)} for name, of in kinds.items()}


def summarise() -> dict[str, Any]:
    """All figures."""
    tasks, counts = read_rows(HERE / "vectors.jsonl.gz")
    return {
        "schema": "gate.splits/1",
        **counts,
        "seeds": SEEDS,
        "by_size": {str(size): by_size(tasks, lambda rows, size=size: size) for size in SIZES},  # type: ignore[misc]
        "half": halves(tasks),
        "by_mutants": {str(size): by_mutants(tasks, size) for size in SIZES},
        "by_check": {str(size): by_check(tasks, size) for size in CHECKED_SIZES},
    }


def plot(said: dict[str, Any], path: Path) -> None:
    """Both errors against the size of V, and against its mutation score at three sizes."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, middle, right) = pyplot.subplots(1, 3, figsize=(14.5, 4.2), layout="constrained")
    sizes = list(SIZES)
    labels = {"weak": "weak: V accepts, the rest rejects", "lossy": "lossy: right by the rest, V refuses"}
    for name, colour in COLOURS.items():
        found = [said["by_size"][str(size)] for size in sizes]
        low, high = zip(*(each[f"{name}_5_95_pct"] for each in found), strict=True)
        left.plot(sizes, [each[f"{name}_pct"] for each in found], "o-", color=colour, label=labels[name])
        left.fill_between(sizes, low, high, color=colour, alpha=0.2, linewidth=0)
    left.set_xscale("log")
    left.set_xticks(sizes, [str(size) for size in sizes])
    left.minorticks_off()
    left.set_xlabel(f"tests in V, of {said['tests_per_task']} on average (band: 5 to 95 % of splits)")
    left.set_ylabel("per cent")
    left.set_title("Both errors by the size of V")
    left.legend(frameon=False)
    for axis, name, title in ((middle, "weak", "Weak"), (right, "lossy", "Lossy")):
        for size, style in ((1, ":"), (3, "--"), (8, "-")):
            found = said["by_mutants"][str(size)]["bins"]
            places = [place for place, bin_ in enumerate(BINS) if found[bin_]["splits"] >= SEEDS]
            shares = [found[BINS[place]][f"{name}_pct"] for place in places]
            axis.plot(
                places, shares, f"o{style}", color=COLOURS[name], label=f"{size} test{'s' if size > 1 else ''} in V"
            )
        axis.set_xticks(range(len(BINS)), BINS)
        axis.set_xlabel("mutants of the reference that V kills")
        axis.set_title(f"{title} by the strength of V")
        axis.legend(frameon=False)
    for axis in (left, middle, right):
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110, metadata={"Software": None})


def main() -> None:
    """Figures and plot."""
    said = summarise()
    (HERE / "summary.json").write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")
    plot(said, HERE / "errors.png")


if __name__ == "__main__":
    main()
