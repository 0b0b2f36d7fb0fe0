"""Highlighting: the runs add up to the text, whatever the text is."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gate.report.highlight import MAX_CHARS, runs


def spans(code: str) -> list[tuple[str, str]]:
    """The pieces of a text with their kinds, as a page's script makes them."""
    data = code.encode("utf-16-le", "surrogatepass")
    found, at = [], 0
    for length, kind in re.findall(r"(\d+)([a-z ])", runs(code)):
        end = at + 2 * int(length)
        found.append((data[at:end].decode("utf-16-le", "surrogatepass"), kind))
        at = end
    return [*found, (data[at:].decode("utf-16-le", "surrogatepass"), " ")]


def test_words_have_their_kinds() -> None:
    """Keywords, names, numbers, texts and comments are told apart."""
    code = 'def f(x):\n    return x + 12 and "a"  # why\n'
    kinds = dict(spans(code))
    assert (kinds["def"], kinds["f"], kinds["return"], kinds["12"], kinds["and"]) == ("k", "f", "k", "n", "k")
    assert kinds['"a"'] == "s" and kinds["# why"] == "c"


@given(st.text(alphabet=st.characters(codec=None)))
def test_nothing_is_lost(code: str) -> None:
    """The pieces are the text, valid Python or not."""
    assert "".join(text for text, _ in spans(code)) == code


@pytest.mark.parametrize("code", ["(" * 50_000, '"' * 50_000, "0" * 50_000, "\\\n" * 30_000, "f'{" * 10_000])
def test_a_long_program_is_cut(code: str) -> None:
    """What is hard to read is read only to a length."""
    assert sum(map(int, re.findall(r"\d+", runs(code)))) <= MAX_CHARS
