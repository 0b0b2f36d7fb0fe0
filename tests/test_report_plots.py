"""Figures: every mark is there, none by colour alone, and the same bytes each time."""

from __future__ import annotations

import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from golden import make
from pools_made import rows_of

from gate.cli.recorded import read_recorded
from gate.model import Usage
from gate.report import plots
from gate.report.plots import KINDS, kind_of
from gate.report.story import Draw, Part
from gate.summary import Containment
from gate.tables import Table, Tally, table

KINDS_OF_POOLS = {"all right": 12, "gate and single": 5, "single": 3, "in the pool": 4, "refused": 7, "wrong at 2": 2}


@pytest.fixture(scope="module")
def of() -> Table:
    """A replay of 33 tasks."""
    tally = Tally(5)
    for row in rows_of(KINDS_OF_POOLS):
        tally.add(row)
    return table(tally, bank="words", containment=Containment(tasks=33, contained=0))


def texts(svg: str) -> str:
    """All words of a figure."""
    return " ".join(" ".join(ElementTree.fromstring(svg.replace("xlink:href", "href")).itertext()).split())


def test_a_replay_has_all_its_figures(of: Table) -> None:
    """The forest, success by draws, difficulty; and of what has stories, the grid."""
    stories = read_recorded(make.RUN).stories
    names = [figure.name for figure in plots.figures([of], stories)]
    assert names == ["forest", "draws-words", "difficulty-words", "grid"]
    assert [figure.name for figure in plots.figures([], stories)] == ["grid"]
    assert plots.figures([], []) == ()


def test_each_figure_says_what_it_shows(of: Table) -> None:
    """Titles have n; axes have units; every series has a name beside its mark."""
    forest, draws, difficulty = plots.figures([of], [])
    assert all("n = 33 tasks" in figure.title for figure in (forest, draws, difficulty))
    assert "percentage points" in texts(plots.svg(forest)) and "majority, by text" in texts(plots.svg(forest))
    words = texts(plots.svg(draws))
    for name in ("first pass (the gate)", "one single draw", "ceiling", "bound by false accepts", "calls a task"):
        assert name in words
    assert "n = 12" in texts(plots.svg(difficulty)) and "no draw" in texts(plots.svg(difficulty))


def test_a_figure_takes_its_colours_from_the_page(of: Table) -> None:
    """In a page no ink is fixed, so light and dark both work; a slide has its own."""
    for figure in plots.figures([of], read_recorded(make.RUN).stories):
        themed = plots.svg(figure)
        assert set(re.findall(r"#[0-9a-f]{6}\b", themed)) <= {"#ffffff", "#000000"}
        assert "var(--ink)" in themed and "metadata" not in themed
        assert plots.svg(figure) == themed
    assert plots.INK in plots.svg_of(plots.figures([of], []))
    assert plots.png_of(plots.figures([of], [])).startswith(b"\x89PNG")


@pytest.mark.parametrize("name", ["a$b", "$\\frac{$", "\ud800\x1b[2J", "名前\U0001f600", "<b>&", "long " * 40])
def test_a_bank_may_be_called_anything(of: Table, name: str) -> None:
    """No name is read as a formula, stops a figure, or pushes it aside."""
    named = replace(of, bank=name)
    figures = plots.figures([named, of, replace(of, bank="all banks")], [])
    for figure in figures:
        assert len(figure.title) < 100
        assert ElementTree.fromstring(plots.svg(figure).replace("xlink:href", "href")) is not None
    assert plots.svg_of(figures[:2]).encode() and plots.png_of(figures[:2])


def part(outcome: str) -> Part:
    return Part(outcome=outcome, reason="", detail="", passed=0, total=1, usage=Usage(), failure=None)


@pytest.mark.parametrize(
    ("visible", "hidden", "kind"),
    [
        ("pass", "pass", "right"),
        ("pass", "fail", "wrong"),
        ("fail", "pass", "lost"),
        ("fail", "fail", "neither"),
        ("pass", None, "passed"),
        ("fail", None, "failed"),
        (None, "pass", "lost"),
        ("error", None, "error"),
        ("pass", "error", "error"),
    ],
)
def test_every_draw_is_of_one_kind(visible: str | None, hidden: str | None, kind: str) -> None:
    """What V and GT say of a draw is one mark, and all marks differ in shape."""
    draw = Draw(
        index=0, code="", digest="", same_as=None, missing="", model="", tokens=None,
        visible=part(visible) if visible else None, hidden=part(hidden) if hidden else None,
    )  # fmt: skip
    assert kind_of(draw) == kind
    assert len({marker for *_, marker in KINDS}) == len(KINDS)
