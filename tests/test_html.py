"""The page's own parts: text made visible, programs cut to a budget, the list of runs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gate.model import Usage
from gate.report.html import Entry, fitted, list_page, longest, size, usage_text
from gate.report.marks import visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\n\ttext é", "plain\n\ttext é"),
        ("\x1b[31m\x00\r\x7f", "␛[31m␀␍␡"),
        ("a\u202eb\u2066\ufeff", "a\\u202eb\\u2066\\ufeff"),
        ("\ud800\U000e0041", "\\ud800\\U000e0041"),
        ("\x85\xa0", "\\x85\\xa0"),
    ],
)
def test_everything_shows(text: str, shown: str) -> None:
    """What would not show, or would move other text, is spelled out."""
    assert visible(text) == shown


@given(st.text(alphabet=st.characters(codec=None)))
def test_what_is_visible_can_be_written(text: str) -> None:
    """Whatever the text, what is shown is UTF-8 and printable but for line ends and tabs."""
    shown = visible(text)
    assert shown.encode() and all(char.isprintable() or char in "\n\t" for char in shown) if text else shown == ""


@given(st.lists(st.integers(0, 1000)), st.integers(0, 5000))
def test_programs_are_cut_to_fit(lengths: list[int], budget: int) -> None:
    """All together fit, and nothing is cut where nothing must be."""
    most = longest(lengths, budget)
    assert sum(min(length, most) for length in lengths) <= budget
    if sum(lengths) <= budget:
        assert most >= max(lengths, default=0)


@given(st.text(alphabet=st.sampled_from("a<\x00é\U0001f600 ")), st.integers(1, 200))
def test_a_text_takes_the_bytes_that_it_is_given(text: str, most: int) -> None:
    """What fits is whole; what does not is cut where it would not, give or take one long character and the dots."""
    shown = fitted(text, most)
    assert shown == visible(text) if size(text) <= most else shown.endswith("…")
    assert visible(text).startswith(shown.removesuffix("…"))


def test_usage_in_words() -> None:
    """What nobody could measure is not made up."""
    assert usage_text(Usage(wall_s=1.5, memory_bytes=2_000_000)) == "1.50 s wall, 2.0 MB"
    assert usage_text(Usage()) == ""


def test_the_list_escapes_what_it_lists() -> None:
    """Names of banks and models are text."""
    entry = Entry(href="/run/a/", began="", kind="run", bank="<b>", what="\x1b", says="<i>", state="closed")
    page = list_page([entry], folder="<u>")
    assert "&lt;b&gt;" in page and "␛" in page and "&lt;i&gt;" in page and "&lt;u&gt;" in page
    assert "<b>&lt;" in page and "<i>" not in page and "<u>" not in page
    assert "No run here yet" in list_page([], folder="runs")
