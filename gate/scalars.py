"""Plain YAML scalars by the core schema of YAML 1.2, without surprises.

A scalar that YAML 1.1 reads as something else (`no`, `010`, `1:30`, a date, `1e3`) is
refused: its author may have meant either.
"""

from __future__ import annotations

import math
import re

from gate.model import Json
from gate.places import shown

MAX_INT_DIGITS = 4000
_TOO_LARGE = 10**MAX_INT_DIGITS

_CORE = re.compile(
    r"""
    (?P<null>(?:~|null|Null|NULL)?)
  | (?P<bool>true|True|TRUE|false|False|FALSE)
  | (?P<int10>[-+]?[0-9]+)
  | (?P<int8>0o[0-7]+)
  | (?P<int16>0x[0-9a-fA-F]+)
  | (?P<float>[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?)
  | (?P<special>[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))
    """,
    re.VERBOSE,
)
_YAML_1_1 = re.compile(
    r"""
    (?P<null>(?:~|null|Null|NULL)?)
  | (?P<bool>true|True|TRUE|false|False|FALSE|[yY]|yes|Yes|YES|[nN]|no|No|NO|on|On|ON|off|Off|OFF)
  | (?P<int2>[-+]?0b[01_]+)
  | (?P<int8>[-+]?0[0-7_]+)
  | (?P<int10>[-+]?(?:0|[1-9][0-9_]*))
  | (?P<int16>[-+]?0x[0-9a-fA-F_]+)
  | (?P<int60>[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])++(?:\.[0-9_]*)?)
  | (?P<float>[-+]?(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+][0-9]+)?)
  | (?P<special>[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))
  | (?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2}
      |[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt]|[ \t]+)[0-9]{1,2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]*)?
       (?:[ \t]*(?:Z|[-+][0-9]{1,2}(?::?[0-9]{2})?))?)
  | (?P<merge><<)
  | (?P<default>=)
    """,
    re.VERBOSE,
)
# Only a scalar that starts with one of these can be anything but text, in either version.
_FIRST = frozenset("0123456789+-.~<=nNtTfFyYoO")
_NAMES = {
    None: "text",
    "null": "null",
    "bool": "a truth value",
    "int2": "a binary number",
    "int8": "an octal number",
    "int10": "a decimal number",
    "int16": "a hexadecimal number",
    "int60": "a number to base 60",
    "float": "a float",
    "special": "a float",
    "date": "a date",
    "merge": "a merge key",
    "default": "a default value",
}


class ScalarFault(ValueError):
    """The scalar is refused; the text says why and what to write."""


def plain_value(text: str) -> Json:
    """What a plain scalar says.

    Raises:
        ScalarFault: YAML 1.1 reads it otherwise, or it is no finite number of at most
            `MAX_INT_DIGITS` digits.
    """
    if text and text[0] not in _FIRST:
        return text
    kind, old_kind = _kind(_CORE, text), _kind(_YAML_1_1, text)
    if kind != old_kind:
        hint = ", or write the number as 1.0e-6 is written" if kind == "float" else ""
        raise ScalarFault(f"{shown(text)} is {_NAMES[old_kind]} in YAML 1.1 and {_NAMES[kind]} in 1.2: quote it{hint}")
    if kind is None:
        return text
    if kind == "null":
        return None
    if kind == "bool":
        return text.lower() == "true"
    return _number(kind, text)


def _kind(schema: re.Pattern[str], text: str) -> str | None:
    match = schema.fullmatch(text)
    return match.lastgroup if match else None


def _number(kind: str, text: str) -> int | float:
    if kind == "special":
        raise ScalarFault(f'{text} is no JSON: write {{"$float": "{text.lower().replace(".", "").lstrip("+")}"}}')
    if kind == "float":
        return _finite(text)
    return _integer(text, 16 if kind == "int16" else 10)


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ScalarFault(f'{shown(text)} is beyond the doubles: write {{"$float": "inf"}} if infinity is meant')
    return number


def _integer(text: str, base: int) -> int:
    if len(text) > MAX_INT_DIGITS + 2:
        raise ScalarFault(_too_long(len(text)))
    number = int(text, base)
    if abs(number) >= _TOO_LARGE:
        raise ScalarFault(_too_long(len(text)))
    return number


def _too_long(digits: int) -> str:
    return f'an integer of about {digits} characters, over {MAX_INT_DIGITS} digits: write {{"$int": "0x…"}}'
