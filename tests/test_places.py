"""Places and values in messages: short, on one line, printable."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gate.places import path_text, shown


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ((), ""),
        (("tests", 3, "compare"), "tests[3].compare"),
        (("tests", 0, "args", 1, "$tuple", 2), "tests[0].args[1].$tuple[2]"),
        (("tests", 0, "kwargs", "a b"), "tests[0].kwargs['a b']"),
        (("a\nb",), "['a\\nb']"),
        (("x" * 100,), f"['{'x' * 60}'…]"),
    ],
)
def test_a_path_reads_as_people_write_it(path: tuple[str | int, ...], text: str) -> None:
    """Steps are joined by points, indexes and odd keys stand in brackets."""
    assert path_text(path) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (-1, "-1"),
        (1.5, "1.5"),
        (1 << 64, "an integer of 65 bits"),
        ([1], "a list"),
        ({}, "an object"),
        ("fuzzy", "'fuzzy'"),
        ("\ud800\x1b[2J", "'\\ud800\\x1b[2J'"),
        ("x" * 61, f"'{'x' * 60}'…"),
    ],
)
def test_a_value_is_shown_in_a_few_words(value: object, text: str) -> None:
    """Long and odd values are cut and escaped."""
    assert shown(value) == text


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists))
def test_whatever_is_shown_can_be_printed(value: object) -> None:
    """No value breaks a line, a terminal or an encoding."""
    text = shown(value)
    assert text.isprintable()
    assert len(text) < 700
    json.dumps(text).encode("ascii")
