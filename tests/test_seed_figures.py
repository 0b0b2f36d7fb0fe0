"""The published figures of the acceptance rule come out of our tables, to the printed digit.

Each row of tests/golden/seed_figures.json becomes a set of pools with its counts, and the
report of those pools must print it. What a row does not determine is not tested.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pools_made import filled, rows_of

from gate.report.replay import pct, pp, render_replay
from gate.summary import Containment
from gate.tables import Table, Tally, table

FIGURES: dict[str, Any] = json.loads((Path(__file__).parent / "golden" / "seed_figures.json").read_text("utf-8"))


def tabled(kinds: dict[str, int], bank: str) -> Table:
    tally = Tally(5)
    for row in rows_of(kinds):
        tally.add(row)
    return table(tally, bank=bank, containment=Containment(tasks=tally.tasks, contained=tally.tasks))


def lines_of(*tables: Table) -> list[list[str]]:
    """The rows of every Markdown table of the report, cell by cell."""
    text = render_replay(tables, isolation="container").replace("\\", "")
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]


@pytest.mark.parametrize("figures", FIGURES["ceilings"], ids=lambda each: each["set"])
def test_a_ceiling_and_what_stands_below_it(figures: dict[str, Any]) -> None:
    """Ceiling, all five wrong, first pass, majority and single, with Δ, p and calls."""
    right, against = figures["right"], figures["against_majority"]
    kinds = {
        "gate and single": against["b"],
        "gate and majority": figures["against_single"]["b"],
        "majority": against["c"],
        "in the pool": right["oracle"] - right["first_pass"] - against["c"],
    }
    both = right["single"] - against["b"]
    of = tabled(filled(kinds, n=figures["n"], calls=figures["calls"], right=both), figures["set"])
    assert {name: of.rules[name][-1].success for name in right} == right
    printed, lines = figures["printed"], lines_of(of)
    ceiling = [figures["set"], str(figures["candidates"]), printed["ceiling"], printed["all_wrong"]]
    assert ceiling in lines
    for name, words in (("first_pass", "first pass (the gate)"), ("majority", "majority, by behaviour")):
        (line,) = [line for line in lines if line[1:2] == [words] and len(line) == 7]
        assert line[3].startswith(printed[name] + " ")
        assert line[6] == printed[f"{name}_calls"]
    for name, words in (("against_majority", "majority, by behaviour"), ("against_single", "one single draw")):
        (line,) = [line for line in lines if line[1:2] == [words] and len(line) == 10]
        assert [line[2], line[6]] == printed[name]
        assert [line[4], line[5]] == [str(figures[name]["b"]), str(figures[name]["c"])]


def test_the_banks_side_by_side() -> None:
    """n, difference, b and c, p and calls per task of each bank; together they are one more row."""
    tables = [
        tabled(
            filled({"gate and majority": each["b"], "single": each["c"]}, n=each["n"], calls=each["calls"]),
            each["bank"],
        )
        for each in FIGURES["banks"]
    ]
    lines = {line[0]: line for line in lines_of(*tables) if len(line) == 7 and line[4].startswith("b=")}
    for figures in FIGURES["banks"]:
        line, printed = lines[figures["bank"]], figures["printed"]
        assert [line[1], line[2], line[6]] == [str(figures["n"]), printed["delta"], printed["calls"]]
        if printed["p"] is not None:
            assert line[4] == f"b={figures['b']} c={figures['c']}, p = {printed['p']}"
    assert lines["all banks"][1] == "680"
    assert lines["all banks"][4].startswith("b=76 c=21, p = ")


@pytest.mark.parametrize("figures", FIGURES["refused"], ids=lambda each: each["batch"])
def test_what_was_refused_was_all_wrong(figures: dict[str, Any]) -> None:
    """The audit counts the refused tasks, and those with five wrong draws among them."""
    of = tabled({"all right": 60, "refused": figures["refused"]}, figures["batch"])
    line = [figures["batch"], str(figures["refused"]), f"{figures['all_wrong']} / {figures['refused']}"]
    assert line in lines_of(of)


@pytest.mark.parametrize("figures", FIGURES["same_budget"], ids=lambda each: each["stage"])
def test_the_same_five_candidates(figures: dict[str, Any]) -> None:
    """Gate and majority over the same five draws, at a budget of five each."""
    kinds = {
        "gate and single": figures["b"],
        "majority": figures["c"],
        "all right": figures["gate"] - figures["b"],
        "refused": figures["n"] - figures["gate"] - figures["c"],
    }
    n, printed = figures["n"], figures["printed"]
    line = [
        *(figures["stage"], f"{figures['gate']} / {n}", f"{figures['majority']} / {n}", "5"),
        *(printed["delta"], printed["p"], printed["reading"]),
    ]
    assert line in lines_of(tabled(kinds, figures["stage"]))


@pytest.mark.parametrize("figures", FIGURES["attack"], ids=lambda each: each["stage"])
def test_the_attack_counts_agree_with_their_shares(figures: dict[str, Any]) -> None:
    """A whole number of tasks gives each printed difference."""
    assert pp(100 * figures["tasks"] / figures["of"]) == figures["printed"]
    assert pct(abs(figures["tasks"]), figures["of"]) == figures["printed"].lstrip("+-") + " %"
