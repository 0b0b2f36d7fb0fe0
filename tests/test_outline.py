"""The outline: nesting is found by one scan, and text is not taken for structure."""

from __future__ import annotations

import time

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gate.outline import outline_fault

LIMIT = 200
DEEP = "nested deeper than 200 levels: flatten it"

leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.text(alphabet="ab [{]}'\"#:,-?&*!|>%\\\n\té", max_size=12),
)
trees = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab[ '#:", max_size=4), inner, max_size=3),
    max_leaves=12,
)


def depth_of(text: str) -> int:
    """How deep the parser finds a text to nest."""
    deepest = depth = 0
    for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            deepest = max(deepest, depth)
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
    return deepest


@given(trees, st.sampled_from([None, False, True]), st.sampled_from([None, "'", '"', "|", ">"]), st.integers(2, 6))
def test_the_scan_finds_the_depth_that_the_parser_finds(
    tree: object, flow: bool | None, style: str | None, indent: int
) -> None:
    """Whatever way a tree is written, its depth is seen; a flat list in brackets may be left to the events."""
    text = yaml.dump(tree, default_flow_style=flow, default_style=style, indent=indent, allow_unicode=True, width=30)
    depth = depth_of(text)
    assert outline_fault(text.encode(), depth) is None
    if depth > 1:
        assert outline_fault(text.encode(), depth - 2) is not None


TOKENS = ["a", "b: ", "- ", "? ", ": ", "[", "]", "{", "}", ",", " ", "\n", "\n  ", "\n    ", '"', "'", '"x]"', "'[y'"]
TOKENS += ["#", " # [", "|\n   [[\n", "&a ", ">", "\t", "-", "--- ", "\n- ", "c:", "x y", "it's", "é"]


@given(st.lists(st.sampled_from(TOKENS), max_size=9).map("".join))
def test_the_scan_agrees_with_the_parser_on_odd_texts(text: str) -> None:
    """Quotes, comments and markers in odd places mean to the scan what they mean to the parser."""
    try:
        depth = depth_of(text)
    except yaml.YAMLError:
        return
    assert outline_fault(text.encode(), depth) is None
    if depth > 1:
        assert outline_fault(text.encode(), depth - 2) is not None


@pytest.mark.parametrize(
    "level",
    [b"[", b"{a: ", b"[a: ", b"[? ", b"- ", b"? ", b": ", b"- ? ", b'["a": ', b"&a [", b"[[1, 2], ", b"'a': ["],
)
def test_nesting_on_one_line_is_refused(level: bytes) -> None:
    """A bomb of any opening token is refused at once, whatever comes after it."""
    begin = time.process_time()
    assert outline_fault(level * 100_000, LIMIT) == (1, DEEP)
    assert time.process_time() - begin < 1


@pytest.mark.parametrize("line", [b"a:\n", b"-\n", b"- a:\n", b"?\n", b'"a b":\n', b"&x a:\n"])
def test_nesting_by_indentation_is_refused(line: bytes) -> None:
    """Ever deeper lines are levels as brackets are."""
    text = b"".join(b" " * (4 * level) + line for level in range(300))
    fault = outline_fault(text, LIMIT)
    assert fault is not None
    assert fault[1] == DEEP


@pytest.mark.parametrize(
    "text",
    [
        b"a: " + b"[" * 100 + b"]" * 100 + b"\nb: " + b"[" * 199,
        b"a: &x " + b"[" * 199,
        b"- " * 100 + b"[" * 100,
    ],
)
def test_exactly_the_limit_is_let_through(text: bytes) -> None:
    """Two hundred levels are no fault: siblings do not add up."""
    assert outline_fault(text, LIMIT) is None
    assert outline_fault(text + b"[[", LIMIT) == (text.count(b"\n") + 1, DEEP)


@pytest.mark.parametrize(
    "text",
    [
        b'a: "%s"' % (b"[" * 300),
        b"a: '%s'" % (b"{" * 300),
        b"a: it's %s" % (b"[" * 300),
        b"a: b%s" % (b"[" * 300),
        b"# %s" % (b"[" * 300),
        b"a: 1 # %s" % (b"[" * 300),
        b"a: |\n  %s\nb: 1" % (b"[" * 300),
        b"a: >-\n  x\n\n   %s\nb: 1" % (b"[" * 300),
        b"- |\n %s\n- 1" % (b"[" * 300),
        b"a: word\n  %s\nb: 1" % (b"[" * 300),
        b"a: ['%s', \"%s\"]" % (b"[" * 300, b"{" * 300),
        b'a: "line\n  %s"\nb: 1' % (b"[" * 300),
        b'a: "\\"%s"' % (b"[" * 300),
        b"a: '''%s'" % (b"[" * 300),
        b"a: [it's, # %s\n 1]" % (b"[" * 300),
        b"a:\r\n  - |\r\n    %s\r\n  - 1\r\n" % (b"[" * 300),
    ],
)
def test_brackets_in_text_are_no_structure(text: bytes) -> None:
    """Quoted, folded, commented and plain brackets open nothing."""
    assert outline_fault(text, 5) is None


@pytest.mark.parametrize(
    ("text", "line"),
    [(b"%YAML 1.2\n---\na: 1\n", 1), (b"a: 1\n...\n%TAG ! x\n---\na: 2\n", 3), (b"# c\n\n%TAG !a! b\n", 3)],
)
def test_a_directive_is_refused(text: bytes, line: int) -> None:
    """A directive changes how a text is read, so no text may have one."""
    assert outline_fault(text, LIMIT) == (line, "a directive (a line that starts with %) is not allowed: remove it")


def test_a_percent_sign_inside_text_is_no_directive() -> None:
    """Only a line that starts with % at a token's place is a directive."""
    assert outline_fault(b"a: |\n  %d\nb: '\n%s'\nc: 5%\n", LIMIT) is None


def test_document_markers_close_everything() -> None:
    """What one document has open does not count in the next."""
    text = b"- - - a\n---\n- - - b\n...\n- - - c\n"
    assert outline_fault(text, 3) is None
    assert outline_fault(text, 2) is not None


@given(st.binary(max_size=200), st.integers(1, 5))
def test_any_bytes_can_be_scanned(data: bytes, limit: int) -> None:
    """The patterns cover every byte: the scan always comes to an end."""
    fault = outline_fault(data, limit)
    assert fault is None or fault[0] >= 1


@pytest.mark.parametrize("part", [b"[],", b"[[]],", b"{a: 1}, ", b"a: 1, ", b" ", b"'x''", b"\n", b'"', b"x\n "])
def test_the_scan_is_linear(part: bytes) -> None:
    """A wide text costs time in proportion to its size and no more."""
    begin = time.process_time()
    assert outline_fault(b"a: [" + part * 100_000, LIMIT) is None
    assert time.process_time() - begin < 2
