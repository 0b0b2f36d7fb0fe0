"""Plain scalars: the core schema of YAML 1.2, and a refusal where 1.1 differs."""

from __future__ import annotations

import time
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gate.scalars import ScalarFault, plain_value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("~", None),
        ("null", None),
        ("Null", None),
        ("true", True),
        ("FALSE", False),
        ("0", 0),
        ("-0", 0),
        ("+12", 12),
        ("-7", -7),
        ("0x1F", 31),
        ("1.5", 1.5),
        (".5", 0.5),
        ("5.", 5.0),
        ("-1.0e-6", -1e-6),
        ("1.0e+3", 1000.0),
        ("nUll", "nUll"),
        ("tRUE", "tRUE"),
        ("hello", "hello"),
        ("not", "not"),
        ("1.2.3", "1.2.3"),
        ("-", "-"),
        ("+", "+"),
        (".", "."),
        ("e5", "e5"),
        ("--1", "--1"),
        ("0x", "0x"),
        ("0xZ", "0xZ"),
        (".info", ".info"),
        ("<=", "<="),
        ("==", "=="),
        ("1:3x", "1:3x"),
        ("2024-1", "2024-1"),
        ("٣", "٣"),
    ],
)
def test_a_plain_scalar_follows_the_core_schema(text: str, value: object) -> None:
    """What both versions of YAML read alike is read so."""
    found = plain_value(text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "reading"),
    [
        *((word, "a truth value") for word in ("no", "No", "yes", "YES", "on", "off", "Off", "y", "N")),
        *((word, "an octal number") for word in ("010", "00", "-07", "0_7")),
        *((word, "a binary number") for word in ("0b1", "-0b1_0")),
        *((word, "a decimal number") for word in ("1_000", "+1_0")),
        *((word, "a hexadecimal number") for word in ("-0x1f", "0x1_0")),
        *((word, "a number to base 60") for word in ("1:30", "-190:20:30", "1:2.5")),
        *((word, "a float") for word in ("1_0.5", "1_000.0e+3")),
        *((word, "a date") for word in ("2024-02-30", "2001-12-14t21:59:43.10-05:00", "2001-1-2 3:04:05 Z")),
        *((word, "text") for word in ("08", "0o17", "1e3", "1.5e3", "1e400")),
        ("<<", "a merge key"),
        ("=", "a default value"),
    ],
)
def test_a_scalar_that_yaml_1_1_reads_otherwise_is_refused(text: str, reading: str) -> None:
    """The author may have meant either, so the message says what it could be and to quote it."""
    with pytest.raises(ScalarFault, match="quote it") as caught:
        plain_value(text)
    assert f"is {reading} in YAML 1.1" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "wanted"), [(".inf", "inf"), ("-.Inf", "-inf"), ("+.INF", "inf"), (".nan", "nan"), (".NaN", "nan")]
)
def test_a_special_float_is_refused_with_its_tagged_form(text: str, wanted: str) -> None:
    """Infinity and NaN are written as tagged JSON."""
    with pytest.raises(ScalarFault) as caught:
        plain_value(text)
    assert str(caught.value) == f'{text} is no JSON: write {{"$float": "{wanted}"}}'


@pytest.mark.parametrize("text", ["1.0e+400", "-1.0e+999", "9.0e+308"])
def test_a_float_beyond_the_doubles_is_refused(text: str) -> None:
    """A number that would silently become infinity is an error."""
    with pytest.raises(ScalarFault, match="beyond the doubles"):
        plain_value(text)


def test_an_integer_of_4000_digits_is_read() -> None:
    """The bound itself is let through."""
    assert plain_value("-" + "9" * 4000) == 1 - 10**4000


@pytest.mark.parametrize(
    ("start", "digit", "count"),
    [("", "9", 4001), ("-", "9", 4001), ("1", "0", 4000), ("", "9", 100_000), ("0x", "f", 4000)],
)
def test_an_integer_over_4000_digits_is_refused(start: str, digit: str, count: int) -> None:
    """A long integer is written as $int."""
    text = start + digit * count
    with pytest.raises(ScalarFault, match=r"over 4000 digits: write \{\"\$int\": \"0x…\"\}"):
        plain_value(text)


@given(st.text("0123456789abefinotxyNOYTrue.+-_:~<= \t", max_size=12))
def test_what_is_read_is_what_yaml_1_1_reads(text: str) -> None:
    """A value that comes through is the same for a parser of YAML 1.1, the JSON types aside."""
    try:
        value = plain_value(text)
    except ScalarFault:
        return
    loader: Any = yaml.SafeLoader("")
    tag = loader.resolve(yaml.ScalarNode, text, (True, False))
    other = loader.construct_object(yaml.ScalarNode(tag, text))
    if text.startswith(("-.", "+.")) and isinstance(value, float):
        other = float(other)  # this resolver takes no sign before a bare point, the specification does
    assert (value, type(value)) == (other, type(other))


@pytest.mark.parametrize(("start", "part", "end"), [("1", ":1", ""), ("1", ":1", "x"), ("0", "_", "x")])
def test_a_long_scalar_costs_linear_time(start: str, part: str, end: str) -> None:
    """No pattern tries the same characters over and over."""
    text = start + part * 500_000 + end
    begin = time.process_time()
    try:
        assert plain_value(text) == text
    except ScalarFault as exc:
        assert len(str(exc)) < 300
    assert time.process_time() - begin < 1
