"""The outline of a YAML text: how deep it nests, by one linear scan before any parser.

Theory of operation. C parsers crash, or take quadratic time, on deep nesting, so the
depth is bounded on the bytes. The scan knows just enough of YAML to tell structure from
text: comments, quoted scalars, block scalars and plain scalars are stepped over, so
brackets in them count for nothing. It keeps two stacks:

- `blocks`, the open block collections. A mapping in column c is 2c, a sequence 2c + 1,
  because a sequence may stand in the column of the mapping that holds it.
- `flow`, the open brackets, and ":" for a pair without braces in a flow sequence.

Every pattern is possessive: a text is walked once and no match is ever undone, whatever
it holds. The parser's events are counted again later, so a text that fools this scan is
still refused there; the scan only has to come first and be cheap.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache

_QUOTED = rb"""
    (?P<double>"[^"\\]*+(?:\\.[^"\\]*+)*+")
  | (?P<single>'[^']*+(?:''[^']*+)*+')
"""
_BLOCK = re.compile(
    rb"""[ \t]*+(?:
    (?P<end>\Z)
  | (?P<line>[\r\n](?:[ \t]*+[\r\n])*+)
  | (?P<comment>\#[^\r\n]*+)
  | (?P<marker>(?<![^\r\n])(?:---|\.\.\.)(?!\S))
  | (?P<directive>(?<![^\r\n])%)
  | (?P<dash>-(?!\S))
  | (?P<query>\?(?!\S))
  | (?P<colon>\w*+:(?!\S))"""
    rb"|"
    + _QUOTED
    + rb"""
  | (?P<scalar>[|>][^\r\n]*+)
  | (?P<property>[&*!]\S*+)
  | (?P<open>[\[{])
  | (?P<plain>[^\ \t\r\n](?:[^\s:\#]++|:(?=\S)|(?<!\s)\#|[ \t]++(?![\s\#]|\Z))*+)
    )""",
    re.VERBOSE | re.DOTALL,
)
# Members without structure, and lists of them, are taken in one step up to the last comma;
# the depth of such a list is left to the events.
_FLOW = re.compile(
    rb"""\s*+(?:
    (?P<end>\Z)
  | (?P<comment>\#[^\r\n]*+)
  | (?P<comma>(?:(?:[\w.+-]++|\[[\w.+\-,\ ]*+\])?+,\s*+)++)
  | (?P<colon>\w*+:(?!\S)|:|\?(?!\S))
  | (?P<open>[\[{])
  | (?P<close>[\]}])"""
    rb"|"
    + _QUOTED
    + rb"""
  | (?P<property>[&*!][^\s,\[\]{}]*+)
  | (?P<plain>\S(?:[^\s:\#,\[\]{}]++|:(?![\s,\[\]{}]|\Z)|(?<!\s)\#|\s++(?![\s\#]|\Z))*+)
    )""",
    re.VERBOSE | re.DOTALL,
)
_NO_NODE = -1


@dataclass(slots=True)
class _Scan:
    """One walk over the bytes: where it is, and what is open there."""

    data: bytes
    limit: int
    at: int = 0
    line_start: int = 0
    node_column: int = _NO_NODE  # where the node began whose key or value this may be
    flow_start: int = 0
    blocks: list[int] = field(default_factory=list)
    flow: list[bytes] = field(default_factory=list)

    def fault(self) -> str | None:
        """Walk on until something is wrong or nothing is left."""
        size = len(self.data)
        while self.at < size:
            if self.flow:
                self._in_flow()
            elif not self._in_block():
                return "a directive (a line that starts with %) is not allowed: remove it"
            if len(self.blocks) + len(self.flow) > self.limit:
                return f"nested deeper than {self.limit} levels: flatten it"
        return None

    def _in_block(self) -> bool:
        """Take one step outside of brackets; False at a directive."""
        match = _BLOCK.match(self.data, self.at)
        assert match is not None and match.lastgroup is not None  # the patterns cover every byte
        kind, column = match.lastgroup, match.start(match.lastgroup) - self.line_start
        self.at = match.end()
        if kind == "line":
            self.line_start, self.node_column = self.at, _NO_NODE
        elif kind in ("dash", "query", "colon"):
            self._indicator(kind, column)
        elif kind == "scalar":
            self._step_over(_block_scalar(max(1, self._indent() + 1)))
        elif kind == "marker":
            self.blocks.clear()
            self.node_column = _NO_NODE
        elif kind not in ("end", "comment", "directive"):
            self._node(match, column)
        return kind != "directive"

    def _indicator(self, kind: str, column: int) -> None:
        """Open the collection that an indicator stands for, unless it is open already."""
        if kind == "colon" and self.node_column != _NO_NODE:
            column = self.node_column
        key = 2 * column + (kind == "dash")
        while self.blocks and self.blocks[-1] > key:
            self.blocks.pop()
        if not self.blocks or self.blocks[-1] < key:
            self.blocks.append(key)
        self.node_column = _NO_NODE

    def _node(self, match: re.Match[bytes], column: int) -> None:
        """Step over a scalar or a property, or enter brackets."""
        if self.node_column == _NO_NODE:
            self.node_column = column
        if match.lastgroup == "open":
            self.flow.append(match["open"])
            self.flow_start = match.start("open")
        elif match.lastgroup == "plain":
            self._step_over(_continuation(self._indent() + 1))
        else:
            self._new_line_since(match.start(match.lastgroup or 0))

    def _in_flow(self) -> None:
        match = _FLOW.match(self.data, self.at)
        assert match is not None  # the patterns cover every byte
        self.at = match.end()
        if match.lastgroup == "open":
            self.flow.append(match["open"])
        elif match.lastgroup == "colon":
            if self.flow[-1] == b"[":
                self.flow.append(b":")
        elif match.lastgroup in ("comma", "close"):
            if self.flow[-1] == b":":
                self.flow.pop()
            if match.lastgroup == "close":
                self.flow.pop()
                if not self.flow:  # only then: over and over it would be quadratic
                    self._new_line_since(self.flow_start)

    def _indent(self) -> int:
        """The column of the innermost block collection, -1 outside of all."""
        return self.blocks[-1] >> 1 if self.blocks else -1

    def _step_over(self, lines: re.Pattern[bytes]) -> None:
        """Step over the further lines of a scalar."""
        start = self.at
        match = lines.match(self.data, start)
        assert match is not None  # it may match nothing at all
        self.at = match.end()
        self._new_line_since(start)

    def _new_line_since(self, start: int) -> None:
        line_break = max(self.data.rfind(b"\n", start, self.at), self.data.rfind(b"\r", start, self.at))
        self.line_start = max(self.line_start, line_break + 1)


@lru_cache(maxsize=256)
def _block_scalar(indent: int) -> re.Pattern[bytes]:
    """The lines below `|` or `>`: blank, or indented by at least so many columns."""
    return re.compile(rb"(?:(?:\r\n|\r|\n)(?:[ \t]*+(?![^\r\n])|[ ]{%d}[^\r\n]*+))*+" % indent)


@lru_cache(maxsize=256)
def _continuation(indent: int) -> re.Pattern[bytes]:
    """The further lines of a plain scalar: blank, or indented by so many columns; no comment, no marker."""
    text = rb"[ ]{%d}(?!(?:---|\.\.\.)(?!\S))[ \t]*+(?!\#)[^\r\n]++" % indent
    return re.compile(rb"[ \t]*+(?:(?:\r\n|\r|\n)(?:[ \t]*+(?![^\r\n])|" + text + rb"))*+")


def outline_fault(data: bytes, limit: int) -> tuple[int, str] | None:
    """Find what a YAML text may not hold even before it is parsed.

    Args:
        data: The text as UTF-8, without a byte order mark.
        limit: How deep collections may nest.

    Returns:
        The line, from 1, and what is wrong there; None where nothing is.
    """
    scan = _Scan(data, limit)
    what = scan.fault()
    return None if what is None else (data.count(b"\n", 0, scan.at) + 1, what)
