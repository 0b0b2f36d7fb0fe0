"""What pools add up to, against counting row by row and by hand."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pools_made import made

from gate.errors import SpecError
from gate.model import Outcome
from gate.outcomes import Row
from gate.pools import RULES, Choice, succeeds
from gate.summary import Containment
from gate.tables import BANDS, Table, Tally, across, comparison, split, table, together

letters = st.integers(0, 6).flatmap(
    lambda size: st.tuples(
        st.one_of(st.text("+-!", min_size=size, max_size=size), st.just(" " * size)),
        st.text("+-! ", min_size=size, max_size=size),
        st.text("ab.", min_size=size, max_size=size),
    )
)
rows = st.lists(letters.map(lambda each: made(*each)), max_size=30)


def last_accepted(row: Row, draws: int) -> Choice:
    """A rule from outside: the last draw that passes."""
    passes = [
        index
        for index, cell in enumerate(row.cells[:draws])
        if cell.visible is not None and cell.visible.outcome is Outcome.PASS
    ]
    return Choice(index=passes[-1] if passes else None, calls=min(draws, len(row.cells)))


def tabled(pools: list[Row], draws: int = 5, bank: str = "b") -> Table:
    tally = Tally(draws, {"last_accepted": last_accepted})
    for row in pools:
        tally.add(row)
    return table(tally, bank=bank, containment=Containment(tasks=len(pools), contained=0))


@given(rows)
def test_every_rule_is_counted_as_if_alone(pools: list[Row]) -> None:
    """For each rule and number of draws the counts are those of asking the rule about every row."""
    of = tabled(pools)
    for name, rule in {**RULES, "last_accepted": last_accepted}.items():
        for draws, counts in enumerate(of.rules[name], start=1):
            chosen = [(row, rule(row, draws)) for row in pools]
            assert counts.success == sum(succeeds(row, choice) for row, choice in chosen)
            assert counts.delivered == sum(choice.index is not None for _, choice in chosen)
            assert counts.calls == sum(choice.calls for _, choice in chosen)
            assert counts.delivered + counts.refused == counts.tasks == len(pools)


@given(rows)
def test_the_ceiling_bounds_every_rule(pools: list[Row]) -> None:
    """No rule succeeds more often than the oracle; more draws never cost first pass a success."""
    of = tabled(pools)
    for counts in of.rules.values():
        assert all(each.success <= top.success for each, top in zip(counts, of.rules["oracle"], strict=True))
    for fewer, more in pairwise(of.rules["first_pass"]):
        assert fewer.success <= more.success and fewer.delivered <= more.delivered and fewer.calls <= more.calls
    assert of.ceiling + of.all_wrong == of.tasks


@given(rows.filter(bool))
def test_pairs_are_those_of_the_rows(pools: list[Row]) -> None:
    """b and c count the tasks on which the two rules differ; Δ is the difference of the successes."""
    of = tabled(pools)
    gate = [succeeds(row, RULES["first_pass"](row, 5)) for row in pools]
    for pair in of.pairs:
        rule = RULES.get(pair.second, last_accepted)
        other = [succeeds(row, rule(row, 5)) for row in pools]
        assert pair.paired.b == sum(one and not two for one, two in zip(gate, other, strict=True))
        assert pair.paired.c == sum(two and not one for one, two in zip(gate, other, strict=True))
        won = of.rules["first_pass"][-1].success - of.rules[pair.second][-1].success
        assert pair.paired.delta_pp == pytest.approx(100 * won / len(pools))
        assert pair.p_holm >= pair.paired.p_exact
    assert [pair.second for pair in of.pairs] == ["single", "majority", "majority_text", "last_accepted"]


@given(rows, st.integers(0, 30))
def test_banks_together_are_their_rows_together(pools: list[Row], cut: int) -> None:
    """Two banks as one say what all their rows in one bank say, order aside."""
    whole, parts = tabled(pools, bank="x"), (tabled(pools[:cut]), tabled(pools[cut:]))
    both = together(parts, name="x")
    for name in Table.__dataclass_fields__.keys() - {"weak_oracle", "pass_at"}:
        assert getattr(both, name) == getattr(whole, name), name
    assert both.pass_at == pytest.approx(whole.pass_at)
    for one, two in zip(both.weak_oracle, whole.weak_oracle, strict=True):
        assert (one.accepted, one.wrong, one.delivered) == (two.accepted, two.wrong, two.delivered)
        assert (one.limit, one.limit_at_most) == pytest.approx((two.limit, two.limit_at_most))


@given(rows.filter(bool))
def test_pass_at_k_goes_from_the_mean_to_the_ceiling(pools: list[Row]) -> None:
    """pass@1 is the share of right draws, pass@K the ceiling, and each k is at least the one before."""
    of = tabled(pools)
    right = sum(cell.is_correct for row in pools for cell in row.cells[:5])
    assert of.pass_at[0] == pytest.approx(right / (5 * len(pools)))
    assert of.pass_at[-1] == pytest.approx(of.ceiling / len(pools))
    assert all(more >= fewer - 1e-12 for fewer, more in pairwise(of.pass_at))


@given(rows)
def test_the_split_by_difficulty_loses_nobody(pools: list[Row]) -> None:
    """Every task is in one band; the successes of the bands add up."""
    of = tabled(pools)
    assert sum(each.tasks for each in of.difficulty) == of.tasks
    for name, counts in of.rules.items():
        assert sum(each.success[name] for each in of.difficulty) == counts[-1].success


@given(rows)
def test_the_limit_bounds_what_the_gate_gets_right(pools: list[Row]) -> None:
    """The limit is a share, and never above the one that gives silent tasks the benefit of the doubt."""
    for weak in tabled(pools).weak_oracle:
        assert 0 <= weak.limit <= weak.limit_at_most <= 1
        assert weak.wrong <= weak.accepted and weak.wrong_delivered <= weak.delivered


def test_weak_oracle_by_hand() -> None:
    """Three tasks: half of the accepted draws right, all of them, none accepted: a limit of 1.5 or 2.5 of 3."""
    of = tabled([made("++---", "+----"), made("-+-+-", "-+-+-"), made("-----", "---++")])
    last = of.weak_oracle[-1]
    assert (last.accepted, last.wrong, last.delivered, last.wrong_delivered) == (4, 1, 2, 0)
    assert (last.limit, last.limit_at_most) == pytest.approx((1.5 / 3, 2.5 / 3))
    first = of.weak_oracle[0]
    assert (first.accepted, first.wrong, first.limit, first.limit_at_most) == (1, 0, pytest.approx(1 / 3), 1)


def test_lossy_filter_and_audit_by_hand() -> None:
    """Right draws that V refuses are counted as draws; refused tasks as tasks, all wrong or not."""
    of = tabled([made("-----", "---++"), made("-----", "-----"), made("+-+--", "+++--")])
    assert (of.lossy_filter.correct, of.lossy_filter.refused) == (5, 3)
    assert (of.audit.refused, of.audit.all_wrong) == (2, 1)
    assert (of.all_wrong, of.ceiling) == (1, 2)


def test_bands_by_hand() -> None:
    """None, two, three, all of five draws right: four bands."""
    of = tabled([made("-----", hidden) for hidden in ("-----", "++---", "+++--", "+++++")])
    assert [(each.name, each.tasks) for each in of.difficulty] == [(name, 1) for name in BANDS]


def test_doubt_is_a_failure_and_is_counted() -> None:
    """An error of ours, an unmeasured draw, a missing draw and a missing task: failures, each with its count."""
    of = tabled(
        [
            made("!++++", "+++++"),
            made("+----", " ----"),
            made("+----", "!----"),
            made("-----", "-----", missing=3),
            made("", ""),
        ]
    )
    assert (of.infra, of.unmeasured, of.missing, of.candidates) == (2, 1, 3, 17)
    gate = of.rules["first_pass"][-1]
    assert (gate.success, gate.delivered, gate.refused) == (0, 2, 3)
    assert of.weak_oracle[-1].accepted == 4  # of the first task; what nobody measured is left out


def test_draws_beyond_the_budget_do_not_count() -> None:
    """With two draws a pool of five is a pool of two."""
    of = tabled([made("--+++", "--+++")], draws=2)
    assert (of.candidates, of.ceiling, of.rules["first_pass"][-1].calls, len(of.weak_oracle)) == (2, 0, 2, 2)


def test_no_task_is_no_comparison() -> None:
    """An empty bank has counts of zero and no pair; beside another bank it changes nothing."""
    empty, one = tabled([], bank="none"), tabled([made("+----", "+----")], bank="one")
    assert (empty.tasks, empty.pairs, empty.rules["single"][-1].calls_per_task) == (0, (), 0)
    assert together([empty, one]).pairs == one.pairs
    assert together([empty]).pairs == ()


@pytest.mark.parametrize(
    "choice",
    [
        Choice(index=5, calls=5),
        Choice(index=-1, calls=1),
        Choice(index=2, calls=2),
        Choice(index=0, calls=6),
        Choice(index=None, calls=-1),
        Choice(index=True, calls=2),
        3,
        None,
    ],
)
def test_a_rule_that_chooses_nonsense_is_named(choice: object) -> None:
    """A rule from outside that delivers what it has not drawn stops the replay with its name and the task's."""
    tally = Tally(5, {"odd": lambda row, draws: choice})  # type: ignore[arg-type,return-value]
    with pytest.raises(SpecError, match="rule odd: task t with"):
        tally.add(made("+++++", "+++++"))


def test_a_rule_from_outside_may_look_at_everything() -> None:
    """Such a rule is asked about every row, also about two that look alike to all others."""
    asked: list[str] = []

    def by_task(row: Row, draws: int) -> Choice:
        asked.append(row.task_id)
        return Choice(index=None, calls=0)

    tally = Tally(1, {"by_task": by_task})
    for name in ("a", "b", "c"):
        tally.add(made("+", "+", task_id=name))
    assert asked == ["a", "b", "c"]


def test_banks_of_other_shape_are_not_added() -> None:
    """Other draws or other rules make no common table."""
    with pytest.raises(ValueError, match="same draws"):
        together([tabled([], draws=5), tabled([], draws=3)])
    with pytest.raises(ValueError, match="same draws"):
        together([])


def test_side_by_side_is_one_family() -> None:
    """Over two banks each p is adjusted for two."""
    strong = tabled([made("-++++", "-++++")] * 8, bank="x")
    weak = tabled([made("-++++", "-++++")] * 3, bank="y")
    assert [pair.p_holm for pair in across([strong, weak], "single")] == pytest.approx([2 * 2 / 2**8, 2 / 2**3])
    assert comparison(strong, "majority").paired.b == 0


def test_two_runs_are_split_by_their_tasks() -> None:
    """The tasks that only one of two gets right are named, in order."""
    found = split("old", "new", [("a", True, False), ("b", True, True), ("c", False, True), ("d", True, False)])
    assert (found.only_first, found.only_second) == (("a", "d"), ("c",))
    assert (found.comparison.paired.b, found.comparison.paired.c, found.comparison.paired.n) == (2, 1, 4)
    with pytest.raises(ValueError, match="no paired counts"):
        split("old", "new", [])
