"""Documents: the bytes of one YAML or JSON text, parsed strictly into a plain tree.

Theory of operation. The checks stand in the order of what they cost: size, text at all,
the outline (one linear scan that bounds nesting), then the parser. YAML is read as a
stream of events from libyaml, and the tree is built from the events with a stack of our
own: no node graph, no recursion, no tags, no resolver but `gate.scalars`. JSON, which is
what starts with `{`, is read by `gate.values`. A tree knows no lines; when an error
needs one, the text is walked a second time.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import yaml

from gate import values
from gate.errors import SpecError
from gate.model import Json
from gate.outline import outline_fault
from gate.places import Path, shown
from gate.scalars import MAX_INT_DIGITS, ScalarFault, plain_value

MAX_BYTES = 48 << 20
MAX_YAML_BYTES = 12 << 20  # the parser takes several times as much; what is larger is no longer for people
MAX_NESTING = 200
MAX_NODES = 2_000_000
MAX_ALIASES = 100
MAX_REPEATED = 100_000  # values and characters, all that aliases repeat in one document

# One step of a walk over a text: what stands there, its text if it is a scalar, its line.
# "plain" is a scalar outside quotes in JSON: a number or a constant.
Kind = Literal["scalar", "plain", "list", "object", "end"]
Mark = tuple[Kind, str, int]

_BOM = b"\xef\xbb\xbf"
_PARSER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_JSON_BRACKET = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[\]{}]', re.DOTALL)
_JSON_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[\]{}]|[^\s\[\]{}:,"]++', re.DOTALL)
_ERROR_LINE = re.compile(r"line ([0-9]+) column")
_LONG_DIGITS = re.compile(rb"(?<![0-9])[0-9]{%d}" % (MAX_INT_DIGITS + 1))
_LONG_INTEGER = re.compile(rb"-?[0-9]{%d,}" % (MAX_INT_DIGITS + 1))
_JSON_KINDS: dict[bytes, Kind] = {b"[": "list", b"{": "object", b"]": "end", b"}": "end"}


class _Fault(Exception):
    """The text is refused at a line, from 1."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(what)
        self.line = line
        self.what = what


def parse_document(data: bytes, name: str) -> Json:
    """Parse one YAML or JSON document strictly.

    Args:
        data: The file's bytes: UTF-8, with or without a byte order mark.
        name: What error messages call the file.

    Returns:
        A tree of None, bool, int, float, str, list and dict.

    Raises:
        SpecError: The text is too large, no text, no YAML or JSON, nested too deep, or
            uses what a suite may not: tags, directives, merge keys, duplicate keys,
            several documents, many aliases, scalars that YAML 1.1 reads otherwise,
            numbers beyond the doubles or over 4,000 digits.
    """
    try:
        text = _text(data)
        return _json(text) if is_json(text) else _yaml(text)
    except _Fault as fault:
        raise SpecError(f"{name}:{fault.line}: {fault.what}") from None


def parse_line(data: bytes, name: str, number: int) -> Json:
    """Parse one line of a JSONL file strictly.

    Args:
        data: The line's bytes.
        name: What error messages call the file.
        number: The line's number, from 1.

    Raises:
        SpecError: As `parse_document`, or the line is no JSON.
    """
    try:
        return _json(_text(data))
    except _Fault as fault:
        raise SpecError(f"{name}:{number}: {fault.what}") from None


def line_of(data: bytes, path: Path) -> int:
    """Find the line, from 1, of a path in a document that `parse_document` accepts.

    A member of an object is at its key. Where the path leads nowhere, the answer is the
    line of the last step that there is.
    """
    text = data.removeprefix(_BOM)
    found, line = 0, 1
    for here, here_line, _ in _positions(_json_marks(text) if is_json(text) else _yaml_marks(text)):
        if len(here) >= found and tuple(here) == path[: len(here)]:
            found, line = len(here), here_line
            if found == len(path):
                break
    return line


def is_json(text: bytes) -> bool:
    """Whether a document counts as JSON: its first character is `{`."""
    return text.lstrip(b" \t\r\n").startswith(b"{")


def _text(data: bytes) -> bytes:
    """The text of a document without its byte order mark, if it is text."""
    if len(data) > MAX_BYTES:
        raise _Fault(1, f"larger than {MAX_BYTES >> 20} MiB: split it")
    text = data.removeprefix(_BOM)
    nul = text.find(b"\0")
    if nul >= 0:
        raise _Fault(_line_at(text, nul), "a NUL byte: this is no text, write YAML or JSON as UTF-8")
    try:
        if not text.isascii():  # without a second copy of a large text that needs none
            text.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise _Fault(_line_at(text, exc.start), "not UTF-8: write YAML or JSON as UTF-8") from None
    if not text or text.isspace():
        raise _Fault(1, "an empty document: write a suite")
    return text


def _line_at(text: bytes, offset: int) -> int:
    return text.count(b"\n", 0, offset) + 1


# YAML


def _yaml(text: bytes) -> Json:
    if len(text) > MAX_YAML_BYTES:
        raise _Fault(1, f"YAML of more than {MAX_YAML_BYTES >> 20} MiB: split it, or write it as JSON")
    fault = outline_fault(text, MAX_NESTING)
    if fault is not None:
        raise _Fault(*fault)
    tree = _Tree()
    for event in _events(text):
        tree.take(event)
    return tree.root


def _events(text: bytes) -> Iterator[Any]:
    """The events inside the one document of a text."""
    try:
        parser = _PARSER(text)
        parser.get_event()
        if type(parser.get_event()) is yaml.StreamEndEvent:
            raise _Fault(1, "an empty document: write a suite")
        while type(event := parser.get_event()) is not yaml.DocumentEndEvent:
            yield event
        further = parser.get_event()
        if type(further) is not yaml.StreamEndEvent:
            raise _Fault(_line(further), "a second document: write one document in one file")
    except yaml.reader.ReaderError as exc:
        raise _Fault(_line_at(text, exc.position), f"no YAML: {exc.reason}") from None
    except yaml.MarkedYAMLError as exc:
        line = exc.problem_mark.line + 1 if exc.problem_mark else 1
        raise _Fault(line, "no YAML: " + ", ".join(filter(None, (exc.context, exc.problem)))) from None


def _line(event: Any) -> int:
    line: int = event.start_mark.line
    return line + 1


@dataclass(slots=True)
class _Open:
    """A collection that is not complete yet."""

    value: Any
    anchor: str | None
    key: str | None = None  # of the member whose value comes next


@dataclass(slots=True)
class _Tree:
    """A tree that grows by one event at a time."""

    root: Json = None
    nodes: int = 0
    aliases: int = 0
    repeated: int = 0
    stack: list[_Open] = field(default_factory=list)
    anchors: dict[str, Json] = field(default_factory=dict)

    def take(self, event: Any) -> None:
        """Add what one event says."""
        kind = type(event)
        if kind is yaml.ScalarEvent:
            self._scalar(event)
        elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
            self._begin(event, {} if kind is yaml.MappingStartEvent else [])
        elif kind is yaml.AliasEvent:
            self._place(event, self._repeat(event))
        else:
            done = self.stack.pop()
            if done.anchor is not None:
                self.anchors[done.anchor] = done.value

    def _scalar(self, event: Any) -> None:
        _refuse_tag(event)
        try:
            value = event.value if event.style else plain_value(event.value)
        except ScalarFault as exc:
            raise _Fault(_line(event), str(exc)) from None
        if not self.stack and value is None:
            raise _Fault(_line(event), "an empty document: write a suite")
        if event.anchor is not None:
            self.anchors[event.anchor] = value
        self._place(event, value)

    def _begin(self, event: Any, value: Json) -> None:
        _refuse_tag(event)
        self._place(event, value)
        self.stack.append(_Open(value, event.anchor))
        if len(self.stack) > MAX_NESTING:
            raise _Fault(_line(event), f"nested deeper than {MAX_NESTING} levels: flatten it")

    def _place(self, event: Any, value: Json) -> None:
        """Put a value where it belongs: at the root, in a list, as a key or under one."""
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise _Fault(_line(event), f"more than {MAX_NODES} values: split it")
        if not self.stack:
            self.root = value
            return
        top = self.stack[-1]
        if type(top.value) is list:
            top.value.append(value)
        elif top.key is None:
            top.key = _key(event, value, top.value)
        else:
            top.value[top.key] = value
            top.key = None

    def _repeat(self, event: Any) -> Json:
        """The value that an alias stands for, within a small budget."""
        name = event.anchor
        if any(name == part.anchor for part in self.stack):
            raise _Fault(_line(event), f"the alias *{name} is inside what it stands for: write the value out")
        if name not in self.anchors:
            raise _Fault(_line(event), f"the alias *{name} stands for nothing: define &{name} above it")
        self.aliases += 1
        allowance = MAX_REPEATED - self.repeated
        self.repeated += _weight(self.anchors[name], allowance, MAX_NESTING - len(self.stack))
        if self.aliases > MAX_ALIASES or self.repeated > MAX_REPEATED:
            raise _Fault(_line(event), f"the alias *{name} goes beyond what aliases may repeat: write the values out")
        return self.anchors[name]


def _refuse_tag(event: Any) -> None:
    if event.tag is not None:
        tag = event.tag.replace("tag:yaml.org,2002:", "!!", 1)
        raise _Fault(_line(event), f"the tag {shown(tag)} is not allowed, a suite is plain data: remove it")


def _key(event: Any, value: Json, known: dict[str, Json]) -> str:
    """The text of a mapping's key, if it is one and new."""
    if type(event) is not yaml.ScalarEvent:
        raise _Fault(_line(event), 'a key that is no text: write {"$dict": [[key, value], …]}')
    if type(value) is not str:
        raise _Fault(_line(event), f"the key {shown(event.value)} is no text: quote it")
    if value in known:
        raise _Fault(_line(event), f"duplicate key {shown(value)}: remove one")
    return value


def _weight(value: Json, allowance: int, levels: int) -> int:
    """How many values and characters there are in a value; more than `allowance` is all the same."""
    weight, rest = 0, [(value, levels)]
    while rest and weight <= allowance:
        part, left = rest.pop()
        weight += 1 + (len(part) if isinstance(part, str) else 0)
        if isinstance(part, list | dict):
            if left < 1 or len(part) > allowance:
                return allowance + 1
            weight += sum(map(len, part)) if isinstance(part, dict) else 0
            rest.extend((item, left - 1) for item in (part.values() if isinstance(part, dict) else part))
    return weight


# JSON


def _json(text: bytes) -> Json:
    _bound_shape(text)
    _bound_digits(text)
    try:
        return values.loads(text, max_depth=len(text))  # bounded above, where the line is known
    except values.CodecError as exc:
        message = str(exc)
    at = _ERROR_LINE.search(message)
    line = int(at[1]) if at else next(_odd_lines(text), 1)
    raise _Fault(line, f"no strict JSON, which a text that starts with {{ must be: {message}")


def _bound_shape(text: bytes) -> None:
    """Refuse a text that nests too deep or holds too many values; keys count as values do."""
    brackets = text.count(b"[") + text.count(b"{")
    many = brackets + text.count(b",") > MAX_NODES
    if brackets <= MAX_NESTING and not many:
        return
    depth = 0
    for number, token in enumerate((_JSON_TOKEN if many else _JSON_BRACKET).finditer(text)):
        first = text[token.start()]
        if first in b"[{":
            depth += 1
            if depth > MAX_NESTING:
                raise _Fault(_line_at(text, token.start()), f"nested deeper than {MAX_NESTING} levels: flatten it")
        elif first in b"]}":
            depth -= 1
        if number > 2 * MAX_NODES:
            raise _Fault(_line_at(text, token.start()), f"more than {MAX_NODES} values: split it")


def _bound_digits(text: bytes) -> None:
    if not _LONG_DIGITS.search(text):
        return
    for token in _JSON_TOKEN.finditer(text):
        if _LONG_INTEGER.fullmatch(text, token.start(), token.end()):
            what = f'an integer of over {MAX_INT_DIGITS} digits: write {{"$int": "0x…"}}'
            raise _Fault(_line_at(text, token.start()), what)


def _odd_lines(text: bytes) -> Iterator[int]:
    """The lines of repeated keys, and of constants and numbers that strict JSON does not take."""
    known: set[Path] = set()
    for here, line, plain in _positions(_json_marks(text)):
        place = tuple(here)
        if place in known or _is_odd(plain):
            yield line
        known.add(place)


def _is_odd(plain: str) -> bool:
    """Whether a scalar outside quotes is no JSON or no finite number."""
    try:
        return not math.isfinite(float(plain or 0))
    except ValueError:
        return False


# Places


def _yaml_marks(text: bytes) -> Iterator[Mark]:
    for event in _events(text):
        kind = type(event)
        if kind is yaml.ScalarEvent:
            yield "scalar", event.value, _line(event)
        elif kind is yaml.AliasEvent:
            yield "scalar", "", _line(event)
        elif kind is yaml.MappingStartEvent:
            yield "object", "", _line(event)
        elif kind is yaml.SequenceStartEvent:
            yield "list", "", _line(event)
        else:
            yield "end", "", 0


def _json_marks(text: bytes) -> Iterator[Mark]:
    line, last = 1, 0
    for token in _JSON_TOKEN.finditer(text):
        line += text.count(b"\n", last, token.start())
        last = token.start()
        kind = _JSON_KINDS.get(token[0], "plain")
        if kind == "plain" and token[0].startswith(b'"'):
            yield "scalar", json.loads(token[0]), line
        else:
            yield kind, token[0].decode(), line


def _positions(marks: Iterator[Mark]) -> Iterator[tuple[list[str | int], int, str]]:
    """The path of each value (one list that changes), its line, its text outside quotes."""
    here: list[str | int] = []
    members: list[_Members] = []
    for kind, text, line in marks:
        if kind == "end":
            members.pop()
            del here[max(0, len(members) - 1) :]
            continue
        if members:
            if members[-1].takes_key(text, line):
                continue
            here.append(members[-1].step())
            line = members[-1].line or line
        yield here, line, text if kind == "plain" else ""
        if kind in ("list", "object"):
            members.append(_Members(kind == "object"))
        elif members:
            here.pop()


@dataclass(slots=True)
class _Members:
    """Where a walk is inside one collection."""

    is_object: bool
    count: int = 0
    key: str | None = None
    line: int = 0  # of the key; 0 in a list

    def takes_key(self, text: str, line: int) -> bool:
        """Whether the scalar is a key and not a value."""
        if not self.is_object or self.key is not None:
            return False
        self.key, self.line = text, line
        return True

    def step(self) -> str | int:
        """The step that leads to the value that comes now."""
        self.count += 1
        key, self.key = self.key, None
        return self.count - 1 if key is None else key
