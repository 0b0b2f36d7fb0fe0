"""The examples that stand in a prompt: calls with their answers, read as text.

A prompt is somebody's text, so nothing of it is evaluated, nor given to a parser that a
deep text can crash: literals are read by a small reader of our own, within bounds on the
text, on nesting and on the work in all. What it cannot read is no example.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from gate import values
from gate.suiteform import builtin_exception

MAX_PROMPT_CHARS = 1 << 20
MAX_LEVELS = 40
MAX_READS = 200_000  # tokens, over all attempts in one prompt

_SPACE = re.compile(r"(?:\s|\\\n)*+")
_STRING = re.compile(
    r'[uU]?+(?P<raw>[rR]?+)(?:"""(?P<long>(?:[^"\\]|\\.|"(?!""))*+)"""'
    r'|"(?P<double>(?:[^"\\\n]|\\.)*+)"|' + r"'(?P<single>(?:[^'\\\n]|\\.)*+)')",
    re.DOTALL,
)
_NUMBER = re.compile(
    r"[+-]?+(?:\d++(?:_\d++)*+(?P<part>\.\d*+)?+|(?P<point>\.\d++))(?P<power>[eE][+-]?+\d++)?+(?![\w])"
)
_NAME = re.compile(r"[^\W\d]\w*+")
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-7]{1,3}|.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "\n": ""}
_CONSTANTS = {"True": True, "False": False, "None": None}
_CLOSING = {"(": ")", "[": "]", "{": "}"}

# What stands between a call and its answer: `==`, `->`, "returns", "should be", the next line, …
_GLUE = re.compile(
    r"(?:[ \t]*+(?:==?|[-=]+>|[:#,`*➞→⇒⟹➔]|(?:is|be|are|to|the|it|will|would|must|should|which|equals?|gives?|yields?"
    r"|returns?|returned|results?|outputs?|prints?|evaluates?|expected|answer|value|in)\b))*+"
    r"[ \t]*+(?:\r?\n[ \t]*+)?+(?:[#*>]++[ \t]++)?+(?:[-=]+>|==?|[➞→⇒⟹➔:`]|(?:returns?|outputs?|output)\b:?+)?+[ \t]*+"
)
_ARROW = re.compile(r"[ \t`'\"]*+(?:==|[-=]+>|[➞→⇒⟹➔]|(?:should )?(?:returns?|gives?|yields?|be)\b)[ \t`]*+")
_TRACEBACK = re.compile(
    r"Traceback \(most recent call last\):[ \t]*+\n(?:[ \t]*+(?:\.\.\.|File[^\n]*+)[ \t]*+\n)*+[ \t]*+"
)
_RAISES = re.compile(r"[ \t]*+(?:(?:should|must|will)\s++)?+rais(?:es?|ing)\s++(?:an?\s++)?+`?+")


class _NoLiteral(Exception):
    """What stands here is nothing that the reader takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A call that stands in a prompt, and what the prompt says of it.

    Attributes:
        value: What it returns; decoded.
        raises: The built-in exception that it raises; None where it returns.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    value: Any = None
    raises: str | None = None


def call_examples(prompt: str, name: str) -> Iterator[Example]:
    """The examples of calls in a prompt: `>>> f(1)` and the next line, `f(1) == 2`, `f(1) -> 2`, `[1] => 1`.

    Args:
        prompt: Any text; only its first `MAX_PROMPT_CHARS` are read.
        name: The function's name.
    """
    reader = _Reader(prompt[:MAX_PROMPT_CHARS])
    for match in re.finditer(r"(?<![\w.])(?:\w+(?:\(\))?\.)?%s[ ]?\(" % re.escape(name), reader.text):
        if reader.left > 0:
            yield from _call(reader, match.end())
    for match in re.finditer(r"^[^\n\S]*+(?:(?:>>>|[-*•]|\d+[.)]|[Ff]or|[Ii]f)[ \t]++)?+", reader.text, re.MULTILINE):
        if reader.left > 0:
            yield from _bare(reader, match.end())


def _call(reader: _Reader, at: int) -> Iterator[Example]:
    """A call whose arguments begin here, and its answer; the opening bracket was seen."""
    try:
        args, kwargs = reader.arguments(at)
    except _NoLiteral:
        return
    for start in {match.end() for match in (_GLUE.match(reader.text, reader.at),) if match}:
        raised = _raised(reader.text, start) or _raised(reader.text, reader.at)
        if raised is not None:
            yield Example(args=args, kwargs=kwargs, raises=raised)
            return
        try:
            yield Example(args=args, kwargs=kwargs, value=reader.answer(start))
        except _NoLiteral:
            return


def _bare(reader: _Reader, at: int) -> Iterator[Example]:
    """Arguments without a name, an arrow, and the answer, on one line."""
    try:
        args = reader.listed(at)
        arrow = _ARROW.match(reader.text, reader.at)
        if arrow is not None:
            yield Example(args=args, value=reader.answer(arrow.end()))
    except _NoLiteral:
        return


def _raised(text: str, at: int) -> str | None:
    """The built-in exception that the text here says is raised."""
    said = _TRACEBACK.match(text, at) or _RAISES.match(text, at)
    name = said and _NAME.match(text, said.end())
    return name[0] if name and builtin_exception(name[0]) is not None else None


class _Reader:
    """Reads literals of one text, from any place, within one budget for all of them."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.left = MAX_READS

    def arguments(self, at: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a call, up to its closing bracket."""
        self.at = at
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        while not self._take(")"):
            name = _NAME.match(self.text, self.at)
            if name and name[0] not in _CONSTANTS and self.text[name.end() :].lstrip(" ")[:1] == "=":
                self.at = self.text.index("=", name.end()) + 1
                kwargs[name[0]] = self._value(0)
            elif kwargs:
                raise _NoLiteral
            else:
                args.append(self._value(0))
            self._separator(")")
        return tuple(args), kwargs

    def listed(self, at: int) -> tuple[Any, ...]:
        """One literal, or several with commas between them."""
        self.at = at
        found = [self._value(0)]
        while self.text.startswith(",", self.at):
            self.at += 1
            found.append(self._value(0))
        return tuple(found)

    def answer(self, at: int) -> Any:
        """One literal that is a whole answer; `1, 2` is a tuple, as a doctest has it no other way."""
        self.at = at
        return self._value(0)

    def _take(self, mark: str) -> bool:
        """Step over white space, and over a mark if it stands here."""
        self.left -= 1
        if self.left < 0:
            raise _NoLiteral
        space = _SPACE.match(self.text, self.at)
        self.at = space.end() if space else self.at
        if not self.text.startswith(mark, self.at):
            return False
        self.at += len(mark)
        return True

    def _separator(self, closing: str) -> None:
        if not self._take(",") and not self.text.startswith(closing, self.at):
            raise _NoLiteral

    def _value(self, level: int) -> Any:
        """The literal that begins here."""
        if level > MAX_LEVELS:
            raise _NoLiteral
        self._take("")
        mark = self.text[self.at : self.at + 1]
        if mark in _CLOSING and mark:
            self.at += 1
            return self._braces(level) if mark == "{" else self._sequence(mark, level)
        match = _STRING.match(self.text, self.at)
        if match is not None:
            self.at = match.end()
            return _unescaped(match)
        match = _NUMBER.match(self.text, self.at)
        if match is not None:
            self.at = match.end()
            return _number(match)
        return self._word(level)

    def _word(self, level: int) -> Any:
        """A name that is a constant, `set()`, or `float("inf")`."""
        match = _NAME.match(self.text, self.at)
        if match is None:
            raise _NoLiteral
        self.at = match.end()
        if match[0] in _CONSTANTS:
            return _CONSTANTS[match[0]]
        if match[0] not in ("set", "frozenset", "float") or not self._take("("):
            raise _NoLiteral
        inner = () if match[0] != "float" and self.text.startswith(")", self.at) else self._value(level + 1)
        if not self._take(")"):
            raise _NoLiteral
        try:
            if match[0] == "float":
                return float(inner)
            members = values.gather(inner)
        except (TypeError, ValueError, OverflowError):
            raise _NoLiteral from None
        return frozenset(members) if match[0] == "frozenset" else members

    def _sequence(self, mark: str, level: int) -> Any:
        """A list or a tuple, or a value in brackets."""
        items: list[Any] = []
        comma = False
        while not self._take(_CLOSING[mark]):
            items.append(self._value(level + 1))
            comma = self._take(",")
            if not comma and not self.text.startswith(_CLOSING[mark], self.at):
                raise _NoLiteral
        if mark == "[":
            return items
        return items[0] if len(items) == 1 and not comma else tuple(items)

    def _braces(self, level: int) -> Any:
        """A dict or a set."""
        keys: list[Any] = []
        items: list[Any] = []
        while not self._take("}"):
            keys.append(self._value(level + 1))
            if self._take(":"):
                items.append(self._value(level + 1))
            self._separator("}")
        if items and len(items) != len(keys):
            raise _NoLiteral
        try:
            members = values.gather(keys)
            return dict(zip(keys, items, strict=True)) if items or not keys else members
        except (TypeError, ValueError):
            raise _NoLiteral from None


def _unescaped(match: re.Match[str]) -> str:
    text = next(match[kind] for kind in ("long", "double", "single") if match[kind] is not None)
    return text if match["raw"] else _ESCAPE.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    what = match[1]
    if what in _ESCAPES:
        return _ESCAPES[what]
    if what[0] in "xuU" and len(what) > 1:
        code = int(what[1:], 16)
    elif what.isdigit() and what.isascii():
        code = int(what, 8) if max(what) < "8" else -1
    else:
        return what if what in "\\'\"" else match[0]
    return chr(code) if 0 <= code <= 0x10FFFF else match[0]


def _number(match: re.Match[str]) -> int | float:
    text = match[0].replace("_", "")
    if len(text) > 4000:
        raise _NoLiteral
    return float(text) if match["part"] or match["point"] or match["power"] else int(text)


_LABEL = re.compile(
    r"\s*+[-#*=`>]*+\s*+(?:(?:sample|example)s?+\s*+(?:test\s*+)?+(?:case\s*+)?+)?+"
    r"(?:input|output|stdin|stdout|sample|example)s?+\s*+[#\d]*+\s*+[-*`=]*+(?::|\Z)[-*`=]*+\s*+",
    re.IGNORECASE,
)
_GAP_LINES = 3


def printed_in(prompt: str, pairs: list[tuple[str, str]]) -> list[bool]:
    """Which runs of a program stand in a prompt: the lines of its input, and soon after them those of its output.

    Args:
        prompt: Any text; only its first `MAX_PROMPT_CHARS` are read.
        pairs: Input and output of each run.
    """
    lines = _told_lines(prompt[:MAX_PROMPT_CHARS])
    places: dict[str, list[int]] = {}
    for number, line in enumerate(lines):
        places.setdefault(line, []).append(number)
    return [_stands(lines, places, _told_lines(given), _told_lines(printed)) for given, printed in pairs]


def _told_lines(text: str) -> list[str]:
    """The lines that say something: without labels such as "Sample Input 1:", fences and rulers."""
    lines = (_LABEL.sub("", line, count=1).strip() for line in text.splitlines())
    return [line for line in lines if line.strip("`-=*#~ ")]


def _stands(lines: list[str], places: dict[str, list[int]], given: list[str], printed: list[str]) -> bool:
    if not given or not printed:
        return False
    for start in places.get(given[0], ())[:100]:
        end = start + len(given)
        if lines[start:end] != given:
            continue
        for after in range(end, end + 1 + _GAP_LINES):
            if lines[after : after + len(printed)] == printed:
                return True
    return False
