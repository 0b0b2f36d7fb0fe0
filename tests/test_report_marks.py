"""Other people's text in Markdown: read by a real parser, it is text and nothing else."""

from __future__ import annotations

import html
import re
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from gate.report import marks

PARSER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
HOSTILE = [
    "a | b",
    "a \\| b",
    "a \\\\| b",
    "ends with \\",
    "a\n| x | 1 |\n\n# Heading\n\n- item",
    "a\r\n\r\n**No headline**",
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "&lt;b&gt; &amp;",
    "![x](http://example.org/x.png) [y](javascript:z)",
    "[ref]: http://example.org",
    "*a* **b** `c` ~~d~~ $e$",
    "```\ncode",
    "> quoted",
    "_a_ __b__ none_passed",
    "<http://example.org>",
]
texts = st.text(st.characters(), max_size=60) | st.lists(st.sampled_from("\\|`*[]()<>!#~&$\n ab"), max_size=30).map(
    "".join
)
visible = texts.filter(marks.line)


def hostile_examples(test: Callable[..., None]) -> Callable[..., None]:
    """Each of the texts above is tried by name, beside those that are made up."""
    for text in HOSTILE:
        test = example(text)(test)
    return test


def cells(markdown: str) -> list[list[str]]:
    """The text of each cell of the one table in a page, which must be all that there is."""
    rendered = PARSER.render(markdown)
    assert rendered.startswith("<table>") and rendered.count("<table>") == 1
    assert rendered.rstrip().endswith("</table>")
    rows = re.findall(r"<tr>(.*?)</tr>", rendered, re.DOTALL)
    found = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in rows]
    assert not [text for row in found for text in row if "<" in text], "markup inside of a cell"
    return [[html.unescape(text) for text in row] for row in found]


@hostile_examples
@given(visible)
def test_a_cell_is_a_cell_and_reads_as_its_text(text: str) -> None:
    """Whatever a reason holds, its row has two cells, and the reader sees the reason itself."""
    table = f"| reason | tasks |\n|---|---:|\n| {marks.cell(text)} | 7 |\n"
    assert cells(table) == [["reason", "tasks"], [marks.line(text), "7"]]


@hostile_examples
@given(visible)
def test_plain_text_is_one_paragraph_of_text(text: str) -> None:
    """In running text nothing starts markup: the reader sees the text itself."""
    assert html.unescape(PARSER.render(f"Name: {marks.plain(text)}.")) == f"<p>Name: {marks.line(text)}.</p>\n"


@hostile_examples
@given(visible)
def test_a_code_span_ends_where_it_should(text: str) -> None:
    """In a code span only a backtick could end it, so there is none."""
    shown = marks.line(text).replace("`", "'")
    assert html.unescape(PARSER.render(f"x {marks.code(text)} y")) == f"<p>x <code>{shown}</code> y</p>\n"


@hostile_examples
@given(texts)
def test_a_line_is_one_line_that_a_terminal_may_show(text: str) -> None:
    """No line end, no control character, no direction mark, no lone surrogate, and a bounded length."""
    line = marks.line(text)
    assert line.isprintable()
    assert len(line) <= 10 * marks.MAX_CHARS
    assert line.encode("utf-8").decode("utf-8") == line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a\x1b[31mred", "a\\x1b[31mred"),
        ("a\u202eb", "a\\u202eb"),
        ("\ud800", "\\ud800"),
        ("  a \t\n b  ", "a b"),
        ("x" * 300, "x" * marks.MAX_CHARS),
    ],
)
def test_what_cannot_be_shown_is_spelled_out(text: str, line: str) -> None:
    """Control characters are spelled, white space is one blank, and the end is cut."""
    assert marks.line(text) == line


@pytest.mark.parametrize("text", ["", " \n "])
def test_an_empty_text_is_still_there(text: str) -> None:
    """A cell without a reason says so, and an empty code span is no pair of stray backticks."""
    assert marks.cell(text) == "(none)"
    assert marks.code(text) == "` `"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("/home/me/a b", "a b"),
        ("/home/me/samples.jsonl:3: changed since it was opened", "samples.jsonl:3: changed since it was opened"),
        ("see '/var/lib/x/y' (/etc/z)", "see 'y' (z)"),
        ("no space on /tmp", "no space on tmp"),
        ("at unix:///var/run/docker.sock", "at unix://docker.sock"),
        ("words/reverse failed, 3 / 4", "words/reverse failed, 3 / 4"),
        ("from http://localhost:8080/v1", "from http://localhost:8080/v1"),
        ("runs/a/ledger.jsonl: full", "runs/a/ledger.jsonl: full"),
    ],
)
def test_a_path_is_cut_to_its_last_part(text: str, left: str) -> None:
    """The folders of this machine are cut off; addresses, task ids and relative paths stay."""
    assert marks.without_folders(text) == left


@given(texts)
def test_cutting_paths_leaves_no_absolute_one(text: str) -> None:
    """After the cut no word begins with a slash that names something."""
    assert not re.search(r"(?:^|\s)/[^\s/]", marks.without_folders(text))
