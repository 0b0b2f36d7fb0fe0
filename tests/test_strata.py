"""Judged pools by how strong the suites are: which stratum a task is in, and what each adds up to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gate.model import Outcome, Verdict
from gate.outcomes import Cell, Row
from gate.strata import EXAMPLES, NONE, SOUND, STRATA, WEAK, ByStrength, StrengthTally, added, stratum_of
from gate.strength import LOOK_UP, UNTRIED, Strength

SAID = {"+": Outcome.PASS, "-": Outcome.FAIL, "!": Outcome.ERROR}


def verdict(mark: str) -> Verdict | None:
    return Verdict(outcome=SAID[mark]) if mark in SAID else None


def row(*cells: str) -> Row:
    """A pool: for each draw what V says and what GT says, as "+-"; a blank for no verdict."""
    return Row(
        task_id="t",
        cells=tuple(
            Cell(visible=verdict(visible), hidden=verdict(hidden), behaviour=None, text="") for visible, hidden in cells
        ),
    )


def found(*programs: str, tests: int = 2) -> Strength:
    return Strength(programs=programs, overlap=0, tests=tests)


@pytest.mark.parametrize(
    ("strength", "name"),
    [
        (found(), SOUND),
        (found(LOOK_UP), EXAMPLES),
        (found("returns one constant: 5"), WEAK),
        (found("returns one constant: 5", LOOK_UP), WEAK),
        (found(UNTRIED), WEAK),
        (found(tests=0), NONE),
    ],
)
def test_a_task_is_in_the_stratum_of_its_suite(strength: Strength, name: str) -> None:
    """Sound, weak by the prompt's examples alone, weak in another way, or without visible tests."""
    assert stratum_of(strength) == name


def counted(*rows: Row, draws: int = 5) -> ByStrength:
    tally = StrengthTally(draws)
    for each in rows:
        tally.add(found(), each)
    (stratum,) = tally.strata()
    return stratum


def test_each_count_is_what_it_says() -> None:
    """Right, wrong and undecided deliveries, the single draw, the weak oracle and the lossy filter, by hand."""
    of = counted(
        row("++", "+-"),  # right at once; a wrong draw would be let through
        row("--", "+-"),  # a wrong one is delivered
        row("-+", "--"),  # a right one is refused, and so is the task
        row("--", "+!"),  # what is delivered could not be measured
        row("+ ", "! "),  # no GT
        row("!+", "++"),  # our own world failed on V: no delivery
    )
    assert of == ByStrength(
        name=SOUND,
        tasks=6,
        delivered=4,
        success=1,
        wrong=1,
        single=3,
        accepted=4,
        wrong_accepted=2,
        correct=3,
        refused_correct=1,
    )


def test_draws_beyond_the_rules_do_not_count() -> None:
    """With two draws the third is nobody's."""
    of = counted(row("--", "-+", "+-"), draws=2)
    assert (of.delivered, of.accepted, of.correct, of.refused_correct) == (0, 0, 1, 1)


def test_strata_stand_from_the_strongest_and_empty_ones_do_not() -> None:
    """The order is one of strength, whatever comes first."""
    tally = StrengthTally(5)
    for strength in (found(tests=0), found("returns one constant: 5"), found()):
        tally.add(strength, row("++"))
    assert [each.name for each in tally.strata()] == [SOUND, WEAK, NONE]
    assert [each.name for each in tally.strata()] == [name for name in STRATA if name != EXAMPLES]


marks = st.lists(st.tuples(st.sampled_from("+-! "), st.sampled_from("+-! ")).map("".join), max_size=4)
strengths = st.sampled_from([found(), found(LOOK_UP), found("returns one constant: 5"), found(tests=0)])


@given(st.lists(st.tuples(strengths, marks), max_size=8), st.integers(0, 8))
def test_banks_side_by_side_are_as_one(tasks: list[tuple[Strength, list[str]]], cut: int) -> None:
    """Two banks added are the bank that holds the tasks of both, and what is wrong is a part of what it is out of."""
    whole, first, second = (StrengthTally(3) for _ in range(3))
    for index, (strength, cells) in enumerate(tasks):
        for tally in (whole, first if index < cut else second):
            tally.add(strength, row(*cells))
    assert added([*first.strata(), *second.strata()]) == whole.strata()
    assert sum(each.tasks for each in whole.strata()) == len(tasks)
    for each in whole.strata():
        assert each.success + each.wrong <= each.delivered <= each.tasks
        assert each.wrong_accepted <= each.accepted and each.refused_correct <= each.correct
