"""Documents: strict, bounded, and with a line for every complaint."""

from __future__ import annotations

import json
import math
import pickle
import subprocess
import sys
import time
from collections.abc import Callable

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from gate import document
from gate.document import MAX_BYTES, line_of, parse_document, parse_line
from gate.errors import SpecError

text_values = st.text(st.characters(codec="utf-8", max_codepoint=0xFFFF, exclude_characters="\x7f"), max_size=8)
numbers = st.integers() | st.integers(-(10**9), 10**9).map(lambda n: n / 1000)
trees = st.recursive(
    st.none() | st.booleans() | numbers | text_values,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text_values, inner, max_size=4),
    max_leaves=20,
)


def refusal(data: bytes) -> str:
    """What is said about a document that is refused."""
    with pytest.raises(SpecError) as caught:
        parse_document(data, "a.yaml")
    text = str(caught.value)
    assert text.isprintable()
    return text


@given(st.dictionaries(text_values, trees, max_size=4))
def test_a_json_text_says_what_json_says(tree: object) -> None:
    """A document that starts with a brace is JSON."""
    assert parse_document(json.dumps(tree).encode(), "a.json") == tree


@given(trees)
def test_a_quoted_yaml_text_says_what_was_written(tree: object) -> None:
    """A tree that is written as YAML with quoted texts comes back as it was, types and all."""
    written = json.dumps([tree], indent=1)
    assert repr(parse_document(b"# YAML\n" + written.encode(), "a.yaml")) == repr([tree])


def test_the_styles_of_yaml_are_read() -> None:
    """Blocks, flows, quotes, folds, anchors and comments make one plain tree."""
    data = b"""\
--- # a comment
plain: a b
single: 'it''s'
double: "a\\tb"
literal: |
  one
   two
folded: >-
  one
  two
list: [1, -2.5, {x: null}, [], {}]
block:
- &n {a: 1}
- *n
empty:
? explicit
: value
...
"""
    assert parse_document(data, "a.yaml") == {
        "plain": "a b",
        "single": "it's",
        "double": "a\tb",
        "literal": "one\n two\n",
        "folded": "one two",
        "list": [1, -2.5, {"x": None}, [], {}],
        "block": [{"a": 1}, {"a": 1}],
        "empty": None,
        "explicit": "value",
    }


def test_byte_order_mark_and_crlf_change_nothing() -> None:
    """A file from another editor is the same document."""
    plain = b"a: 1\nb:\n  - x\n"
    assert parse_document(b"\xef\xbb\xbf" + plain.replace(b"\n", b"\r\n"), "a") == parse_document(plain, "a")
    assert parse_document(b'\xef\xbb\xbf \r\n{"a":\r\n1}', "a") == {"a": 1}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "1: an empty document: write a suite"),
        (b" \n\t\n", "1: an empty document: write a suite"),
        (b"# only this\n", "1: an empty document: write a suite"),
        (b"---\n...\n", "2: an empty document: write a suite"),
        (b"a: 1\nb: \x00\n", "2: a NUL byte: this is no text, write YAML or JSON as UTF-8"),
        (b"a: 1\nb: \xff\n", "2: not UTF-8: write YAML or JSON as UTF-8"),
        ("a: 1".encode("utf-16"), "1: a NUL byte: this is no text, write YAML or JSON as UTF-8"),
        (b"a: 1\nb: \x07\n", "2: no YAML: control characters are not allowed"),
        (b"a: 1\n---\nb: 2\n", "2: a second document: write one document in one file"),
        (b"a: 1\n...\n---\nb: 2\n", "3: a second document: write one document in one file"),
        (b"a: 1\na: 2\n", "2: duplicate key 'a': remove one"),
        (b"a: {b: 1,\n 'b': 2}\n", "2: duplicate key 'b': remove one"),
        (b"a:\n  b: {c: 1}\n  b: 2\n", "3: duplicate key 'b': remove one"),
        (b"a: 1\n1: 2\n", "2: the key '1' is no text: quote it"),
        (b"null: 2\n", "1: the key 'null' is no text: quote it"),
        (b"? [a]\n: 2\n", '1: a key that is no text: write {"$dict": [[key, value], …]}'),
        (b"a: &x b\n*x : 2\n", '2: a key that is no text: write {"$dict": [[key, value], …]}'),
        (b"a: 1\n<<: {b: 2}\n", "2: '<<' is a merge key in YAML 1.1 and text in 1.2: quote it"),
        (b"a: 1\nb: no\n", "2: 'no' is a truth value in YAML 1.1 and text in 1.2: quote it"),
        (b"x: 1\ny: 2\n", "2: 'y' is a truth value in YAML 1.1 and text in 1.2: quote it"),
        (b"a: .inf\n", '1: .inf is no JSON: write {"$float": "inf"}'),
        (b"a: *b\n", "1: the alias *b stands for nothing: define &b above it"),
        (b"a: 1\nb: &x [1, *x]\n", "2: the alias *x is inside what it stands for: write the value out"),
        (b"a: 'b\n", "2: no YAML: while scanning a quoted scalar, found unexpected end of stream"),
        (b"%YAML 1.1\n---\na: 1\n", "1: a directive (a line that starts with %) is not allowed: remove it"),
    ],
)
def test_a_document_that_is_not_plain_is_refused(data: bytes, message: str) -> None:
    """Each refusal names the line, what is wrong and what to do."""
    assert refusal(data) == f"a.yaml:{message}"


@pytest.mark.parametrize(
    "tag",
    [
        "!!python/object/apply:os.system",
        "!!python/name:eval",
        "!function",
        "!!str",
        "!!int",
        "!!set",
        "!!binary",
        "!",
        "!<x>",
    ],
)
@pytest.mark.parametrize("value", ["x", "[x]", "{x: 1}", "'x'"])
def test_every_tag_is_refused(tag: str, value: str) -> None:
    """A suite is plain data: no tag at all, not even one that changes nothing."""
    text = refusal(f"a: 1\nb: {tag} {value}\n".encode())
    assert text.startswith(f"a.yaml:2: the tag '{tag.replace('!<', '').replace('>', '')}")
    assert text.endswith("is not allowed, a suite is plain data: remove it")


@pytest.mark.parametrize(
    ("data", "line", "what"),
    [
        (b'{"a": 1,\n "a": 2}', 2, "duplicate key 'a'"),
        (b'{"a": [{"b": 1},\n {"b": 1,\n "\\u0062": 2}]}', 3, "duplicate key 'b'"),
        (b'{"a": true,\n "b": NaN}', 2, "NaN is no JSON"),
        (b'{"a": "NaN",\n "b": [-Infinity]}', 2, "-Infinity is no JSON"),
        (b'{"a": [1,\n\n 1e400]}', 3, "1e400 is beyond the doubles"),
        (b'{"a": 1,\n}', 2, "property name"),
        (b"{a: 1}", 1, "property name"),
        (b'{"a": 1} {"b": 2}', 1, "Extra data"),
        (b'{"a": "\t"}', 1, "control character"),
        (b'{"a": "x\\q",\n "a": 1}', 1, "escape"),
        (b'{"a":\n "' + b"x" * 10, 2, "Unterminated"),
        (b'{"a":\n ' + b"9" * 4001 + b"}", 2, "an integer of over 4000 digits"),
        (b'{"a":\n -' + b"9" * 5000 + b"}", 2, "an integer of over 4000 digits"),
        (b'{"a":\n' + b"[" * 200 + b"]" * 200 + b"}", 2, "nested deeper than 200 levels"),
    ],
    ids=range(14),
)
def test_json_is_read_strictly(data: bytes, line: int, what: str) -> None:
    """What strict JSON does not have is refused at its line."""
    text = refusal(data)
    assert text.startswith(f"a.yaml:{line}: ")
    assert what in text


def test_long_digits_are_let_through_where_they_are_no_integer() -> None:
    """A text of digits, a long fraction and 4,000 digits exactly are no long integer."""
    digits = "9" * 5000
    tree = parse_document(f'{{"a": "{digits}", "b": 0.{digits}, "c": {digits[:4000]}}}'.encode(), "a")
    assert tree == {"a": digits, "b": 1.0, "c": 10**4000 - 1}


def test_json_nests_to_the_limit() -> None:
    """Two hundred levels are let through, and brackets in texts are no levels."""
    data = b'{"a":' + b"[" * 198 + b'"' + b"[" * 300 + b'\\""' + b"]" * 198 + b', "b": [[]]}'
    assert parse_document(data, "a")["b"] == [[]]


def test_yaml_nests_to_the_limit() -> None:
    """Two hundred levels are let through."""
    value = parse_document(b"a: " + b"[" * 199 + b"]" * 199, "a")
    assert isinstance(value, dict)


def test_what_the_scan_leaves_to_the_events_is_refused_there() -> None:
    """A list of plain values counts for nothing in the scan, and is counted by its events."""
    text = refusal(b"a: " + b"[" * 199 + b"[1, 2], 3" + b"]" * 199)
    assert text == "a.yaml:1: nested deeper than 200 levels: flatten it"


def test_a_line_of_jsonl_must_be_json() -> None:
    """A bank is read line by line, and each complaint names the line."""
    assert parse_line(b' {"a": 1}\r\n', "b.jsonl", 3) == {"a": 1}
    with pytest.raises(SpecError, match=r"^b\.jsonl:3: no strict JSON"):
        parse_line(b"a: 1\n", "b.jsonl", 3)


def test_aliases_have_a_budget() -> None:
    """A few short repetitions are let through, many or long ones are not."""
    assert parse_document(b"a: &x [1]\nb: [" + b"*x," * 100 + b"]", "a")["b"] == [[1]] * 100
    assert "goes beyond" in refusal(b"a: &x [1]\nb: [" + b"*x," * 101 + b"]")
    assert "goes beyond" in refusal(b"a: &x '" + b"y" * 60_000 + b"'\nb: [*x, *x]")
    assert "goes beyond" in refusal(
        b"a: &x {" + b"y" * 900 + b": 1}\nb: [" + b"*x," * 100 + b"]\nc: &y [*x" + b",*x" * 20 + b"]"
    )
    assert "goes beyond" in refusal(b"a: &x " + b"[" * 150 + b"]" * 150 + b"\nb: " + b"[" * 60 + b"*x" + b"]" * 60)


def laughs() -> bytes:
    """Nine of nine of nine …"""
    lines = [b"a: &a [x,x,x,x,x,x,x,x,x]"]
    lines += [b"%c: &%c [%s]" % (98 + n, 98 + n, b",".join([b"*%c" % (97 + n)] * 9)) for n in range(20)]
    return b"\n".join(lines)


BOMBS: dict[str, Callable[[], bytes]] = {
    "laughs": laughs,
    "aliases": lambda: b"a: &a 1\nb: [" + b"*a," * 100_000 + b"]",
    "long alias": lambda: b"a: &a '" + b"x" * 1_000_000 + b"'\nb: [" + b"*a," * 50 + b"]",
    "deep aliases": lambda: b"".join(
        b"a%d: &a%d %s*a%d%s\n" % (n + 1, n + 1, b"[" * 150, n, b"]" * 150) for n in range(90)
    ),
    "brackets": lambda: b"a: " + b"[" * 5_000_000,
    "braces": lambda: b"{" * 5_000_000,
    "json": lambda: b'{"a":' * 1_000_000,
    "dashes": lambda: b"- " * 5_000_000,
    "queries": lambda: b"? " * 5_000_000,
    "pairs": lambda: b"- [" + b"a: [" * 1_000_000,
    "indentation": lambda: b"".join(b" " * level + b"a:\n" for level in range(3000)),
    "tags": lambda: b"".join(b"%%TAG !%d! x\n" % number for number in range(200_000)),
    "later tags": lambda: b"a: 1\n...\n" + b"".join(b"%%TAG !%d! x\n" % number for number in range(200_000)),
    "integer": lambda: b"a: " + b"9" * 10_000_000,
    "json integer": lambda: b'{"a": ' + b"9" * 10_000_000 + b"}",
    "size": lambda: b"a" * (MAX_BYTES + 1),
    "pickle": lambda: pickle.dumps([1, 2], protocol=4),
    "base 60": lambda: b"a: 1" + b":1" * 2_000_000,
    "quotes": lambda: b'a: "' + b"\\" * 5_000_000,
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused_quickly(name: str) -> None:
    """Every bomb costs under a second."""
    data = BOMBS[name]()
    begin = time.process_time()  # this test's own time, however busy the machine
    refusal(data)
    assert time.process_time() - begin < 1


def test_bombs_are_refused_in_little_memory() -> None:
    """All bombs together cost under 100 MB beside their own bytes."""
    program = """
import resource, sys
sys.path[:0] = [{tests!r}, {root!r}]
from test_document import BOMBS, SpecError, parse_document
data = [make() for make in BOMBS.values()]
peak = lambda: int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])
before = peak()
for bomb in data:
    try:
        parse_document(bomb, "a")
    except SpecError:
        continue
    raise SystemExit("let through")
print(peak() - before)
"""
    here = __file__.rpartition("/")[0]
    done = subprocess.run(
        [sys.executable, "-c", program.format(tests=here, root=here + "/..")],
        capture_output=True,
        text=True,
        check=True,
    )
    unit = 1024 if sys.platform == "linux" else 1
    assert int(done.stdout) * unit < 100 << 20


@pytest.mark.parametrize("shape", [b"[%s]", b'{"a": [%s]}'])
def test_too_many_values_are_refused(shape: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A document of more values than the bound is refused before it fills the memory."""
    monkeypatch.setattr(document, "MAX_NODES", 100)
    assert parse_document(shape % (b"1,\n" * 60 + b"1"), "a")
    text = refusal(shape % (b"1,\n" * 300 + b"1"))
    assert text.endswith("more than 100 values: split it")
    assert int(text.split(":")[1]) > 90


def test_the_parser_without_c_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where libyaml is not there, the slower parser reads and refuses alike."""
    monkeypatch.setattr(document, "_PARSER", yaml.SafeLoader)
    assert parse_document(b"a: [1, 'x', {b: null}]\n", "a") == {"a": [1, "x", {"b": None}]}
    assert refusal(b"a: 1\nb: !!str x\n").startswith("a.yaml:2: the tag '!!str' is not allowed")
    assert refusal(b"a: 1\n---\nb: 1\n").startswith("a.yaml:2: a second document")
    assert refusal(b"a: 1\nb: [\n").startswith("a.yaml:3: no YAML: ")
    assert refusal(b"a: 1\nb: \x07\n").startswith("a.yaml:2: no YAML: ")


PLACES = [
    ((), 1),
    (("version",), 1),
    (("tests",), 3),
    (("tests", 0), 4),
    (("tests", 0, "args"), 4),
    (("tests", 0, "args", 1, "x"), 5),
    (("tests", 1), 6),
    (("tests", 1, "args"), 6),
    (("tests", 1, "expected"), 8),
    (("tests", 1, "raises"), 6),
    (("tests", 7), 3),
    (("hidden",), 1),
    (("tests", 0, "args", 1, "x", "y", 3), 5),
]
YAML_PLACES = b"""version: 1
prompt: "tests:"
tests:
  - args: [1,
      {x: 2}]
  - args:
      - 1
    expected: 2
"""
JSON_PLACES = b"""{"version": 1,
"prompt": "tests:\\"[{",
"tests": [
  {"args": [1,
      {"x": 2}]},
  {"args":
      [1],
    "expected": 2}]
}
"""


@pytest.mark.parametrize(("path", "line"), PLACES)
@pytest.mark.parametrize("data", [YAML_PLACES, JSON_PLACES, b"\xef\xbb\xbf" + YAML_PLACES])
def test_a_path_is_found_at_its_line(data: bytes, path: tuple[str | int, ...], line: int) -> None:
    """A member stands at its key; what is missing, at the object that lacks it."""
    assert line_of(data, path) == line


def test_a_document_without_members_is_found_where_it_starts() -> None:
    """Even a lone word has a line, and strict JSON has no odd one."""
    assert line_of(b"\n\nword\n", ("tests", 0)) == 3
    assert list(document._odd_lines(b'{"a": [true, 1.5, "NaN", {"a": null}]}')) == []


def test_a_path_through_an_alias_is_found_at_the_alias() -> None:
    """What an alias repeats stands where the alias does."""
    assert line_of(b"a: &x\n  - b: 1\nc:\n  - 1\n  - *x\n", ("c", 1, 0, "b")) == 5


@settings(max_examples=300)
@given(st.binary(max_size=60) | st.text(max_size=40).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_random_bytes_never_crash(data: bytes) -> None:
    """Bytes give a tree or a SpecError, and nothing else."""
    try:
        tree = parse_document(data, "a")
    except SpecError:
        return
    assert tree is not None
    assert not isinstance(tree, float) or math.isfinite(tree)


@pytest.mark.parametrize("data", [YAML_PLACES, JSON_PLACES, laughs()])
def test_a_cut_document_never_crashes(data: bytes) -> None:
    """A valid document cut anywhere gives a tree or a SpecError."""
    for end in range(0, len(data), 1 if len(data) < 300 else 7):
        try:
            parse_document(data[:end], "a")
        except SpecError as exc:
            assert str(exc).startswith("a:")
