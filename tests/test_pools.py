"""Rules over a pool: what each delivers, and what holds for every pool."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gate.model import Outcome, Verdict
from gate.outcomes import Cell, Row
from gate.pools import RULES, SEES, Choice, succeeds

VERDICTS = {
    "+": Verdict(outcome=Outcome.PASS),
    "-": Verdict(outcome=Outcome.FAIL, reason="wrong_answer"),
    "!": Verdict(outcome=Outcome.ERROR, reason="infra"),
    " ": None,
}


def cell(visible: str, hidden: str, behaviour: str | None = "b", text: str = "t") -> Cell:
    return Cell(visible=VERDICTS[visible], hidden=VERDICTS[hidden], behaviour=behaviour, text=text)


def row(*cells: Cell) -> Row:
    return Row(task_id="t", cells=cells)


def voters(*behaviours: str | None) -> Row:
    return row(*(cell("-", "-", each, each or "") for each in behaviours))


cells = st.builds(
    cell,
    st.sampled_from("+-!"),
    st.sampled_from("+-! "),
    st.sampled_from([None, "a", "b", "c"]),
    st.sampled_from("xyz"),
)
untested = st.builds(cell, st.just(" "), st.sampled_from("+-! "), st.none(), st.sampled_from("xyz"))
rows = st.one_of(st.lists(cells, max_size=7), st.lists(untested, max_size=7)).map(lambda each: row(*each))
draws = st.integers(1, 7)
rules = st.sampled_from(sorted(RULES))

FIRST = [
    ("+----", 0, 1),
    ("--+-+", 2, 3),
    ("-----", None, 5),
    ("-!+++", None, 2),
    ("+!", 0, 1),
    ("     ", None, 0),
    ("", None, 0),
]


@pytest.mark.parametrize(("visible", "index", "calls"), FIRST)
def test_the_gate_takes_the_first_pass_and_stops(visible: str, index: int | None, calls: int) -> None:
    """First pass delivers the first draw that passes and spends no call more; without visible tests it spends none."""
    pool = row(*(cell(each, "+") for each in visible))
    assert RULES["first_pass"](pool, 5) == Choice(index=index, calls=calls)


def test_the_gate_does_not_look_beyond_its_draws() -> None:
    """A pass in the third draw is none with two draws."""
    assert RULES["first_pass"](row(cell("-", "+"), cell("-", "+"), cell("+", "+")), 2) == Choice(index=None, calls=2)


ELECTIONS = [
    (("a", "b", "b"), 1, "the largest cluster"),
    (("a", "b", "b", "a", "c"), 0, "a tie goes to the cluster with the earliest draw"),
    (("c", "b", "a", "a", "b"), 1, "which need not be draw 0"),
    ((None, None, "a"), 2, "who does not vote is not elected"),
    ((None, None, None), 0, "nobody votes: draw 0"),
    ((None, "a", "b", "b"), 2, "the earliest member is delivered"),
]


@pytest.mark.parametrize(("behaviours", "index", "why"), ELECTIONS, ids=[why for _, _, why in ELECTIONS])
def test_the_majority_elects(behaviours: tuple[str | None, ...], index: int, why: str) -> None:
    """Votes, ties and silence as the definition says, for behaviour and for text; all draws are used up."""
    pool = voters(*behaviours)
    for rule in ("majority", "majority_text"):
        assert RULES[rule](pool, 5) == Choice(index=index, calls=len(behaviours)), why


def test_equal_text_votes_by_text() -> None:
    """By text the clusters are those of the text, whatever the behaviour."""
    pool = row(cell("-", "-", "a", "x"), cell("-", "-", "b", "y"), cell("-", "-", "c", "y"))
    assert RULES["majority"](pool, 5).index == 0
    assert RULES["majority_text"](pool, 5).index == 1


def test_ship_always_ships() -> None:
    """Where the gate refuses, draw 0 goes out, at the calls that were spent; untested tasks cost one."""
    assert RULES["ship_always"](row(*[cell("-", "-")] * 5), 5) == Choice(index=0, calls=5)
    assert RULES["ship_always"](row(cell("-", "-"), cell("+", "-")), 5) == Choice(index=1, calls=2)
    assert RULES["ship_always"](row(cell(" ", "-"), cell(" ", "-")), 5) == Choice(index=0, calls=1)


@given(rows, draws, rules)
def test_no_rule_exceeds_the_ceiling(pool: Row, k: int, name: str) -> None:
    """Where a rule is right, so is the oracle."""
    if succeeds(pool, RULES[name](pool, k)):
        assert succeeds(pool, RULES["oracle"](pool, k))


@given(rows, draws)
def test_a_refusal_is_never_a_success(pool: Row, k: int) -> None:
    """What delivers nothing is right about nothing, even where every draw is right."""
    assert not succeeds(pool, Choice(index=None, calls=k))


@given(rows)
def test_first_pass_is_monotone_in_draws(pool: Row) -> None:
    """One more draw keeps what was delivered, and never turns a success."""
    chosen = [RULES["first_pass"](pool, k) for k in range(1, 8)]
    for fewer, more in pairwise(chosen):
        assert fewer.index is None or more == fewer
        assert succeeds(pool, more) or not succeeds(pool, fewer)
        assert more.calls >= fewer.calls


@given(rows, draws, rules)
def test_a_choice_is_among_the_draws_that_were_used(pool: Row, k: int, name: str) -> None:
    """No rule delivers what it did not draw, nor draws more than it may."""
    choice = RULES[name](pool, k)
    assert 0 <= choice.calls <= min(k, len(pool.cells))
    assert choice.index is None or choice.index < choice.calls


@given(rows, rows, rules)
def test_a_rule_sees_what_it_is_said_to_see(one: Row, other: Row, name: str) -> None:
    """Two pools that look alike to a rule get the same choice, for every number of draws."""
    if SEES[name](one) == SEES[name](other):
        assert [RULES[name](one, k) for k in range(1, 8)] == [RULES[name](other, k) for k in range(1, 8)]


@given(rows, rules, st.permutations("abc"))
def test_names_of_clusters_do_not_matter(pool: Row, name: str, letters: list[str]) -> None:
    """A digest is a name: other names for the same clusters change neither the look nor the choice."""
    named = dict(zip("abc", letters, strict=True))
    other = row(
        *(
            Cell(visible=c.visible, hidden=c.hidden, behaviour=c.behaviour and named[c.behaviour], text=c.text + "'")
            for c in pool.cells
        )
    )
    assert SEES[name](pool) == SEES[name](other)
    assert RULES[name](pool, 5) == RULES[name](other, 5)


def test_every_rule_says_what_it_sees() -> None:
    """The two tables name the same rules."""
    assert RULES.keys() == SEES.keys()
