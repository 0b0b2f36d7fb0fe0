"""The examples that stand in a prompt: calls with their answers, read as text.

A prompt is somebody's text, so nothing of it is evaluated, nor given to a parser that a
deep text can crash: literals are read by a small reader of our own, within bounds on the
text, on nesting and on the work in all. What it cannot read is no example.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from gate import values
from gate.compare import builtin_exception

MAX_PROMPT_CHARS = 1 << 18
MAX_LEVELS = 40
MAX_READS = 20_000  # tokens, over all attempts in one prompt

_SPACE = re.compile(r"(?:\s|\\\n){0,200}+")
_STRING = re.compile(
    r'[uU]?+(?P<raw>[rR]?+)(?:"""(?P<long>(?:[^"\\]|\\.|"(?!""))*+)"""'
    r'|"(?P<double>(?:[^"\\\n]|\\.)*+)"|' + r"'(?P<single>(?:[^'\\\n]|\\.)*+)')",
    re.DOTALL,
)
_NUMBER = re.compile(r"[+-]?+(?:\d++(?:_\d++)*+(?P<part>\.\d*+)?+|(?P<point>\.\d++))(?P<power>[eE][+-]?+\d++)?+(?!\w)")
_NAME = re.compile(r"[^\W\d]\w*+")
_KEYWORD = re.compile(r"([^\W\d]\w*+)[ ]*+=(?!=)")
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-7]{1,3}|.)", re.DOTALL)
_HALVES = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "\n": ""}
_CONSTANTS = {"True": True, "False": False, "None": None, "true": True, "false": False, "null": None}
_COMMA = re.compile(r"[ \t]*+(?:,(?:[ \t]*+and\b)?+|and\b)[ \t]*+")
_CLOSING = {"(": ")", "[": "]", "{": "}"}

# What stands between a call and its answer: `==`, `->`, "returns", "should be", the next line, …
_WORDS = (
    r"(?:is|be|are|to|the|it|will|would|must|should|which|equals?|gives?|yields?|returns?|returned|results?|outputs?"
    r"|prints?|evaluates?|expected|answer|value|in)\b"
)
_GLUE = re.compile(
    rf"(?:[ \t]*+(?:[-=]+>|==?|[:#,`*➞→⇒⟹➔]|{_WORDS}))*+"
    rf"[ \t]*+(?:\r?\n[ \t]*+)?+(?:[#*]++[ \t]++)?+(?:(?:[-=]+>|==?|[➞→⇒⟹➔:`]|{_WORDS})[ \t]*+)*+",
    re.IGNORECASE,
)
_CALL = re.compile(r"(?<![\w.])(?:\w++(?:\(\))?+\.)*+\w++[ ]?+\(")
_PROMPTED = re.compile(r">>>[ \t]*+\Z")
_PRINTS_NOTHING = re.compile(r"[ \t]*+\r?\n[ \t]*+(?:>>>|\r?\n|\"\"\"|'''|\Z)")
_LINE = re.compile(
    r"^[^\n\S]*+(?:(?:>>>|[-*•]|\d+[.)]|for|if|when|given|with|input\s*+:)[ \t]++)*+", re.MULTILINE | re.IGNORECASE
)
_ASSIGNED = re.compile(r"[^\W\d]\w*+[ \t]*+(?:=|is\b|:)[ \t]*+(?!=)")
_TRACEBACK = re.compile(
    r"Traceback \(most recent call last\):[ \t]*+\n(?:[ \t]*+(?:\.\.\.|File[^\n]*+)[ \t]*+\n)*+[ \t]*+"
)
_RAISES = re.compile(r"[ \t]*+(?:(?:should|must|will)\s++)?+rais(?:es?|ing)\s++(?:an?\s++)?+`?+")


_Arguments: TypeAlias = tuple[tuple[Any, ...], dict[str, Any]]


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


def call_examples(prompt: str) -> Iterator[Example]:
    """The examples of calls in a prompt: `>>> f(1)` and the next line, `f(1) == 2`, `f(1) -> 2`, `[1] => 1`.

    The function's name does not matter: in real prompts the examples often have another.

    Args:
        prompt: Any text; only its first `MAX_PROMPT_CHARS` are read.
    """
    reader = _Reader(prompt[:MAX_PROMPT_CHARS])
    for match in _CALL.finditer(reader.text):
        if reader.left < 0:
            return
        yield from _found(reader, reader.arguments, match.end(), _is_prompted(reader.text, match.start()))
    for match in _LINE.finditer(reader.text):
        if reader.left < 0:
            return
        if not reader.text[match.end() : match.end() + 1].isspace():
            yield from _found(reader, reader.listed, match.end(), prompted=False)


def _is_prompted(text: str, at: int) -> bool:
    """Whether a doctest's `>>>` stands before a place."""
    return _PROMPTED.search(text[max(0, at - 20) : at]) is not None


def _found(reader: _Reader, read: Callable[[int], _Arguments], at: int, prompted: bool) -> Iterator[Example]:
    """A call whose arguments begin here, with its answer; nothing where either cannot be read."""
    try:
        args, kwargs = read(at)
        after = reader.at
        if prompted and _PRINTS_NOTHING.match(reader.text, after):
            yield Example(args=args, kwargs=kwargs)
            return
        glue = _GLUE.match(reader.text, after)
        start = glue.end() if glue else after
        raises = _raised(reader.text, start) or _raised(reader.text, after)
        if raises is not None:
            yield Example(args=args, kwargs=kwargs, raises=raises)
        elif reader.text[after:start].strip() or (prompted and start > after):
            yield Example(args=args, kwargs=kwargs, value=reader.answer(start))
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

    def arguments(self, at: int) -> _Arguments:
        """The arguments of a call, up to its closing bracket."""
        self.at = at
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        while not self._take(")"):
            name = _KEYWORD.match(self.text, self.at)
            if name is not None:
                self.at = name.end()
                kwargs[name[1]] = self._value(0)
            elif kwargs:
                raise _NoLiteral
            else:
                args.append(self._value(0))
            self._separator(")")
        return tuple(args), kwargs

    def listed(self, at: int) -> _Arguments:
        """Arguments without a call: one literal or several with commas between them, each perhaps after `name =`."""
        self.at = at
        args: list[Any] = []
        comma: re.Match[str] | None = None
        while comma is not None or not args:
            name = _ASSIGNED.match(self.text, self.at)
            self.at = name.end() if name else self.at
            try:
                args.append(self._value(0))
            except _NoLiteral:
                if comma is None:
                    raise
                self.at = comma.end()  # a comma before "the result should be"
                break
            comma = _COMMA.match(self.text, self.at)
            self.at = comma.end() if comma else self.at
        return tuple(args), {}

    def answer(self, at: int) -> Any:
        """The literal that an answer is."""
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
        inner: Any = () if match[0] != "float" and self.text.startswith(")", self.at) else self._value(level + 1)
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
    return text if match["raw"] else _HALVES.sub(_joined, _ESCAPE.sub(_escape, text))


def _joined(match: re.Match[str]) -> str:
    """The character that two escapes of its halves mean, as JSON writes it."""
    return match[0].encode("utf-16", "surrogatepass").decode("utf-16")


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
    lines = (_unlabelled(line.strip()) for line in text.splitlines())
    return [line for line in lines if line.strip("`-=*#~ ")]


def _unlabelled(line: str) -> str:
    label = _LABEL.match(line)
    return line[label.end() :].strip() if label else line


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
