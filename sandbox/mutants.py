"""Runs in the sandbox like any candidate and makes small changes to a program, one at a time.

`gate check --mutants` sends a suite's reference as an argument: it is parsed here, never
on the host, and nothing of it runs. What comes back is plain data: whole programs, each
with the line and the words of its one change. The same text gives the same mutants.

A change is made in the text, not in the tree, so that a diff shows it and nothing else.
The tree says where: an operator stands between two operands, a constant or a condition is
a span. What does not parse again, or parses as the program itself or as a mutant that is
there already, is dropped.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

ARITHMETIC: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "+"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "/"),
    ast.Mod: ("%", "//"),
    ast.Pow: ("**", "*"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
    ast.BitXor: ("^", "&"),
}
# The boundary first, then the opposite; where there is no boundary, the opposite alone.
COMPARISONS: dict[type[ast.cmpop], tuple[str, tuple[str, ...]]] = {
    ast.Lt: ("<", ("<=", ">=")),
    ast.LtE: ("<=", ("<", ">")),
    ast.Gt: (">", (">=", "<=")),
    ast.GtE: (">=", (">", "<")),
    ast.Eq: ("==", ("!=",)),
    ast.NotEq: ("!=", ("==",)),
    ast.In: ("in", ("not in",)),
    ast.NotIn: ("not in", ("in",)),
    ast.Is: ("is", ("is not",)),
    ast.IsNot: ("is not", ("is",)),
}
CONDITIONAL = (ast.If, ast.While, ast.IfExp)
DROPPED = (ast.AugAssign, ast.Raise, ast.Assert, ast.Break, ast.Continue, ast.Delete)

_COMMENT = re.compile(rb"#[^\r\n]*")


class Edit(NamedTuple):
    """One change: the bytes from `start` to `end` become `new`."""

    start: int
    end: int
    new: bytes
    what: str


def make_mutants(text: str, most: int) -> dict[str, Any]:
    """Mutants of a program, at most so many, spread evenly over it.

    Args:
        text: The program.
        most: How many at most.

    Returns:
        `mutants`: `{line, what, code}` each, in the order of the text; `possible`: how many
        there are, as far as they were tried; `why`: why there are none, where the program cannot be read.
    """
    try:
        source = text.encode("utf-8")
        tree = ast.parse(source)
        edits = sorted(set(Finder(source, tree).edits(tree)))
        found, dropped = _distinct(source, tree, edits, most)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as exc:
        return {"mutants": [], "possible": 0, "why": f"{type(exc).__name__}: {exc}"[:200]}
    mutants = [
        {"line": source.count(b"\n", 0, edit.start) + 1, "what": edit.what, "code": code.decode("utf-8")}
        for edit, code in sorted(found)
    ]
    return {"mutants": mutants, "possible": len(edits) - dropped, "why": None}


def _spread(edits: list[Edit], most: int) -> Iterator[Edit]:
    """So many edits at even distances, then all the others: a long program takes no longer than a short one."""
    first = {place * len(edits) // most for place in range(min(most, len(edits)))} if len(edits) > most else set()
    yield from (edits[place] for place in sorted(first))
    yield from (edit for place, edit in enumerate(edits) if place not in first)


def _distinct(source: bytes, tree: ast.Module, edits: list[Edit], most: int) -> tuple[list[tuple[Edit, bytes]], int]:
    """At most so many changed programs that parse, each but once, without the program itself; how many were dropped."""
    known = {ast.dump(tree)}
    found: list[tuple[Edit, bytes]] = []
    dropped = 0
    for edit in _spread(edits, most):
        if len(found) == most:
            break
        dropped += 1
        code = source[: edit.start] + edit.new + source[edit.end :]
        try:
            shape = ast.dump(ast.parse(code))
        except (SyntaxError, ValueError):
            continue
        if shape not in known:
            known.add(shape)
            found.append((edit, code))
            dropped -= 1
    return found, dropped


class Finder:
    """Finds what can be changed in one program."""

    def __init__(self, source: bytes, tree: ast.Module) -> None:
        self.source = source
        self.lines = [0]
        for line in source.splitlines(keepends=True):
            self.lines.append(self.lines[-1] + len(line))
        self.passed_over = set(_passed_over(tree))

    def edits(self, node: ast.AST) -> Iterator[Edit]:
        """All changes in a node and below it."""
        if id(node) in self.passed_over:
            return
        yield from self.here(node)
        for child in ast.iter_child_nodes(node):
            yield from self.edits(child)

    def here(self, node: ast.AST) -> Iterator[Edit]:
        """The changes of one node."""
        if isinstance(node, ast.BinOp):
            yield from self.arithmetic(node.left, node.op, node.right)
        elif isinstance(node, ast.AugAssign):
            yield from self.arithmetic(node.target, node.op, node.value, "=")
        elif isinstance(node, ast.Compare):
            yield from self.comparisons(node)
        elif isinstance(node, ast.BoolOp):
            yield from self.joints(node)
        elif isinstance(node, ast.UnaryOp):
            yield from self.unary(node)
        elif isinstance(node, ast.Constant):
            yield from self.constant(node)
        elif isinstance(node, ast.Return) and node.value is not None and not _is_none(node.value):
            yield self.replaced(node.value, "None", "what is returned")
        if isinstance(node, CONDITIONAL):
            yield from self.condition(node)
        elif isinstance(node, ast.comprehension):
            for test in node.ifs:
                yield from self.negated(test)
        if isinstance(node, DROPPED) or _has_effect(node):
            assert isinstance(node, ast.stmt)
            yield self.replaced(node, "pass", "the statement")

    def span(self, node: Any) -> tuple[int, int]:
        """Where a node stands, in bytes."""
        return self.lines[node.lineno - 1] + node.col_offset, self.lines[node.end_lineno - 1] + node.end_col_offset

    def replaced(self, node: ast.AST, new: str, name: str) -> Edit:
        """A node's text replaced."""
        start, end = self.span(node)
        return Edit(start, end, new.encode(), f"{name} becomes {new}")

    def between(self, left: ast.AST, sign: str, right: ast.AST, new: str) -> Iterator[Edit]:
        """The operator between two operands replaced; comments and brackets stand there, too."""
        start, end = self.span(left)[1], self.span(right)[0]
        gap = _COMMENT.sub(lambda found: b" " * len(found[0]), self.source[start:end])
        pattern = re.escape(sign.encode()).replace(rb"\ ", rb"\s+")
        found = re.search(pattern, gap)
        if found is not None:
            yield Edit(start + found.start(), start + found.end(), new.encode(), f"{sign} becomes {new}")

    def arithmetic(self, left: ast.expr, operator: ast.operator, right: ast.expr, end: str = "") -> Iterator[Edit]:
        """Another arithmetic operator; text that is formatted by % is left alone."""
        if type(operator) in ARITHMETIC and not (isinstance(operator, ast.Mod) and _is_text(left)):
            sign, new = ARITHMETIC[type(operator)]
            yield from self.between(left, sign + end, right, new + end)

    def comparisons(self, node: ast.Compare) -> Iterator[Edit]:
        """Each comparison of a chain: its boundary, and its opposite."""
        for left, operator, right in zip([node.left, *node.comparators], node.ops, node.comparators, strict=False):
            sign, others = COMPARISONS[type(operator)]
            for new in others:
                yield from self.between(left, sign, right, new)

    def joints(self, node: ast.BoolOp) -> Iterator[Edit]:
        """`and` for `or`, and the other way round."""
        sign, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            yield from self.between(left, sign, right, new)

    def unary(self, node: ast.UnaryOp) -> Iterator[Edit]:
        """A sign or a `not` left out."""
        sign = {ast.USub: "-", ast.Not: "not", ast.Invert: "~"}.get(type(node.op))
        if sign is not None:
            start, end = self.span(node)[0], self.span(node)[0] + len(sign)
            blanks = len(self.source[end:]) - len(self.source[end:].lstrip(b" "))
            yield Edit(start, end + blanks, b"", f"{sign} is left out")

    def constant(self, node: ast.Constant) -> Iterator[Edit]:
        """A number by one more and one less, the other truth value, an empty text."""
        value = node.value
        if isinstance(value, bool):
            yield self.replaced(node, str(not value), str(value))
        elif isinstance(value, int) and abs(value) < 1 << 64:
            yield self.replaced(node, str(value + 1), str(value))
            yield self.replaced(node, str(value - 1), str(value))
        elif isinstance(value, float) and value == value and abs(value) < 1e15:
            yield self.replaced(node, repr(value + 1.0), repr(value))
        elif isinstance(value, str):
            yield self.replaced(node, "''" if value else "'?'", "a text")

    def condition(self, node: ast.If | ast.While | ast.IfExp) -> Iterator[Edit]:
        """The opposite condition, and each branch dropped."""
        if isinstance(node.test, ast.Constant):
            return
        yield from self.negated(node.test)
        yield self.replaced(node.test, "False", "the condition")
        if isinstance(node, ast.IfExp) or (isinstance(node, ast.If) and node.orelse):
            yield self.replaced(node.test, "True", "the condition")

    def negated(self, test: ast.expr) -> Iterator[Edit]:
        """A condition negated, where no opposite comparison and no `not` left out says the same."""
        alike = isinstance(test, ast.Compare) and len(test.ops) == 1
        if alike or (isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)):
            return
        start, end = self.span(test)
        yield Edit(start, end, b"not (" + self.source[start:end] + b")", "the condition is negated")


def _passed_over(tree: ast.Module) -> Iterator[int]:
    """What is no behaviour, or has no span of its own: annotations, texts that stand alone, the parts of f-strings."""
    for node in ast.walk(tree):
        for name in ("annotation", "returns"):
            if getattr(node, name, None) is not None:
                yield id(getattr(node, name))
        if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            yield id(node)
        if isinstance(node, ast.Raise):  # no test asks what an exception says
            yield from (id(part) for part in ast.walk(node) if isinstance(part, ast.Constant) and _is_text(part))


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _has_effect(node: ast.AST) -> bool:
    """A call that stands alone, or an assignment to a part of something."""
    if isinstance(node, ast.Assign):
        return all(isinstance(target, ast.Subscript | ast.Attribute) for target in node.targets)
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Call | ast.Await | ast.Yield | ast.YieldFrom)
