"""The report of a replay: exact keys for programs, and what a reader must not miss."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from pools_made import filled, made, rows_of

from gate.outcomes import Row
from gate.report.premise import PREMISE
from gate.report.replay import RESEARCH, p_read, p_text, pct, pp, reading, render_replay, replay_json, split_json
from gate.strength import Weakness
from gate.summary import Containment
from gate.tables import Table, Tally, split, table

KINDS = filled(
    {"gate and single": 13, "gate and majority": 14, "majority": 5, "in the pool": 3}, n=179, calls=240, right=113
)


def tabled(rows: list[Row], *, draws: int = 5, bank: str = "b", contained: int | None = None, **rules: Any) -> Table:
    tally = Tally(draws, rules)
    for row in rows:
        tally.add(row)
    within = len(rows) if contained is None else contained
    return table(tally, bank=bank, containment=Containment(tasks=len(rows), contained=within))


@pytest.fixture(scope="module")
def of() -> Table:
    return tabled(list(rows_of(KINDS)))


def test_the_result_has_exactly_its_keys(of: Table) -> None:
    """`gate.replay/1` has the documented keys, counts as whole numbers, and is JSON."""
    result = json.loads(json.dumps(replay_json(of, isolation="cell"), allow_nan=False))
    assert list(result) == [
        *("schema", "tasks", "draws", "isolation", "visible_subset_of_hidden", "rules", "pairs"),
        *("refused_audit", "weak_oracle", "lossy_filter"),
    ]
    assert (result["schema"], result["tasks"], result["draws"], result["isolation"]) == (
        "gate.replay/1",
        179,
        5,
        "cell",
    )
    assert result["visible_subset_of_hidden"] is True
    assert list(result["rules"]) == ["first_pass", "single", "majority", "majority_text", "ship_always", "oracle"]
    assert result["rules"]["first_pass"] == {
        "success": 140, "delivered": 168, "refused": 11, "calls": 240, "calls_per_task": 1.3408,
    }  # fmt: skip
    assert list(result["pairs"][0]) == [
        *("first", "second", "n", "b", "c", "delta_pp", "ci95_pp", "ci_method", "p_exact", "p_mid", "p_holm"),
    ]
    assert [(pair["first"], pair["second"]) for pair in result["pairs"]] == [
        *(("first_pass", "single"), ("first_pass", "majority"), ("first_pass", "majority_text")),
    ]
    assert result["refused_audit"] == {"refused": 11, "all_wrong": 11}
    assert result["weak_oracle"].keys() == {"accepted", "wrong"}
    assert result["lossy_filter"] == {"correct": 13 + 14 * 4 + 5 * 4 + 3 + 113 * 5, "refused": 0}


def test_more_draws_than_the_gate_takes_are_labelled() -> None:
    """With six draws result and report say: research, not the gate's rule; with five neither does."""
    row = made("-----+", "-----+")
    five, six = tabled([row], draws=5), tabled([row], draws=6)
    assert replay_json(six, isolation="container")["label"] == RESEARCH == "research, not the gate's rule"
    assert f"6 draws: {RESEARCH}" in render_replay([six], isolation="container")
    assert "label" not in replay_json(five, isolation="container")
    assert RESEARCH not in render_replay([five], isolation="container")


def test_our_own_failures_are_counted() -> None:
    """A task with a draw on which our world failed is counted, in the result and beside the headline."""
    failed = tabled([made("!----", "-----"), *[made("+----", "+----")] * 9])
    assert replay_json(failed, isolation="container")["infra"] == 1
    text = render_replay([failed], isolation="container")
    assert "**The gate is right on 9 of 10 (90.0 %)" in text
    assert "tasks with a draw on which our own world failed: 1; " in text


def test_the_premise_stands_with_a_line_for_each_bank(of: Table) -> None:
    """The premise stands word for word, and each bank says whether V ⊆ GT."""
    other = tabled([made("+----", "+----")] * 3, bank="lossy", contained=1)
    text = render_replay([of, other], isolation="container")
    assert PREMISE in text
    assert "- `b`: V ⊆ GT: yes, the hidden tests contain the visible ones in 179 of 179 tasks." in text
    assert "- `lossy`: V ⊆ GT: no, the hidden tests contain the visible ones in 1 of 3 tasks." in text
    assert "all banks" in text
    assert "all banks" not in render_replay([of], isolation="container")


def test_what_is_not_resolved_says_so(of: Table) -> None:
    """A p from .05 up reads `unresolved` with what n could have shown, and nowhere as no difference."""
    text = render_replay([of], isolation="container")
    (line,) = [line for line in text.splitlines() if "majority, by behaviour" in line and "unresolved" in line]
    assert "| 0.0963 | 0.0636 |" in line
    assert "unresolved (n = 179: could have shown 6.8 pp)" in line
    assert "no difference" not in text
    for line in text.splitlines():
        assert "1.0000" not in line or "unresolved" in line


def test_resolved_alone_is_not_resolved_in_its_family() -> None:
    """A p below .05 that Holm raises above it is said to be unresolved after Holm."""
    six = tabled([*rows_of({"gate and majority": 6, "all right": 20})])
    assert "| 0.0312 | 0.0156 | 0.0938 | unresolved after Holm |" in render_replay([six], isolation="container")
    seven = tabled([*rows_of({"gate and majority": 7, "all right": 20})])
    assert "| 0.0156 | 0.0078 | 0.0469 | resolved |" in render_replay([seven], isolation="container")


def test_loss_is_no_evidence_where_v_is_in_gt() -> None:
    """Where V ⊆ GT a loss of none is true by construction; where not, it is a measurement."""
    right, lost = made("+----", "+----"), made("-+---", "++---")
    inside, outside = tabled([right]), tabled([right, lost], contained=0)
    assert "0.00 % (V ⊆ GT: true by construction, no evidence)" in render_replay([inside], isolation="container")
    assert "| 3 | 1 | 33.33 % |" in render_replay([outside], isolation="container")
    odd = render_replay([tabled([lost])], isolation="container")
    assert "50.00 % (V ⊆ GT: a pass on V that did not repeat)" in odd


def test_a_bank_s_name_cannot_end_its_cell() -> None:
    """A hostile name stays one cell and one line."""
    text = render_replay([tabled([made("+", "+")], draws=1, bank="a|b\n# c")], isolation="cell")
    assert "a\\|b \\# c" in text
    assert "\n# c" not in text


def test_two_pools_of_one_bank_stay_two() -> None:
    """Banks of one name keep their own figures, in the table of banks too."""
    strong, weak = (tabled([*rows_of({"gate and majority": wins, "all right": 9})]) for wins in (8, 6))
    text = render_replay([strong, weak], isolation="container")
    assert "b=8 c=0, p = 0.0078 | 0.0156 |" in text
    assert "b=6 c=0, p = 0.0312 | 0.0312 |" in text


def test_nothing_to_count_still_renders() -> None:
    """No task, and tasks without hidden tests: a report without a headline."""
    empty = render_replay([tabled([])], isolation="container")
    assert "No headline: no task was judged" in empty
    assert "side by side" not in render_replay([tabled([])] * 2, isolation="container")
    tally = Tally(2)
    tally.add(made("+-", "  "))
    blind = table(tally, bank="b", containment=Containment(tasks=0, contained=0))
    text = render_replay([blind], isolation="container")
    assert "No headline: no task has hidden tests" in text
    assert "V ⊆ GT: not applicable" in text
    assert " nan " not in (empty + text).lower()


def test_every_table_is_whole(of: Table) -> None:
    """Each row of each table has as many cells as its header."""
    text = render_replay([of, tabled([], bank="none")], isolation="container", conditions=[("bank", "digest `x`")])
    for block in text.split("\n\n"):
        lines = [line.replace("\\|", "") for line in block.splitlines() if line.startswith("|")]
        assert len({line.count("|") for line in lines}) <= 1, block
    assert "- bank: digest `x`" in text


def test_strength_stands_beside_the_premise(of: Table) -> None:
    """A replay of a bank that was looked at says how many of its suites are weak, where the premise stands."""
    weakness = Weakness(suites=33, weak=4, commonest="returns one constant", passed=3)
    text = render_replay([replace(of, weakness=weakness)], isolation="container")
    premise = text.split("## ")[1]
    assert f"- `{of.bank}`: strength: 4 of 33 suites are weak" in premise
    assert "strength:" not in render_replay([of], isolation="container").split("## ")[1]


def test_the_split_of_two_runs() -> None:
    """The result of a comparison is one pair with the tasks that tell the two apart."""
    found = split("old", "new", [("a", True, False), ("b", True, True), ("c", False, True), ("d", True, False)])
    result = split_json(found)
    assert (result["schema"], result["first"], result["b"], result["c"]) == ("gate.compare/1", "old", 2, 1)
    assert (result["only_first"], result["only_second"]) == (["a", "d"], ["c"])
    assert result["p_holm"] == result["p_exact"]
    assert reading(found.comparison) == "unresolved (n = 4: too few to resolve any)"


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (pct(148, 179), "82.68 %"),
        (pct(0, 0), "–"),
        (pp(4.4693), "+4.47"),
        (pp(-75.2022), "-75.20"),
        (pp(-0.0), "+0.00"),
        (p_text(0.0963), "0.0963"),
        (p_text(0.000122), "0.0001"),
        (p_text(1e-89), "< 0.0001"),
        (p_read(0.05), "0.0500 unresolved"),
        (p_read(0.0499), "0.0499"),
    ],
)
def test_figures_in_print(shown: str, text: str) -> None:
    """Shares to two digits, differences with a sign, p to four and never as zero."""
    assert shown == text
