"""What is printed: results on stdout, progress on stderr, and no text that a terminal would obey."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gate.cli.printing import counts_line, decision_line, duration_words, escape, print_json, record_line, say
from gate.model import Decision

DELIVERED = Decision(task_id="words/a", outcome="delivered", delivered="digest", index=1, draws=2)
REFUSED = Decision(task_id="words/b", outcome="refused", reason="none_passed", draws=5)
HOSTILE = "x)\nwords/c: delivered, draw 0 of 1\r\x1b[2K\x1b]0;title\x07\x9b31m\u202e\ud800\u2028"


@given(st.text(st.characters()))
def test_escaped_text_is_safe_for_a_terminal(text: str) -> None:
    """Whatever the text, what is left are line feeds and characters that print, and it can be encoded."""
    shown = escape(text)
    assert all(char.isprintable() or char == "\n" for char in shown)
    assert shown.encode("utf-8").decode("utf-8") == shown
    assert shown.count("\n") == text.count("\n")


@given(st.text(st.characters()).filter(str.isprintable))
def test_text_that_prints_is_left_as_it_is(text: str) -> None:
    """Accents, other scripts and emoji are not spelled out."""
    assert escape(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31m", "\\x1b[31m"),
        ("\x9b31m", "\\x9b31m"),
        ("a\rb\tc\0", "a\\rb\\tc\\x00"),
        ("\x7f\x08", "\\x7f\\x08"),
        ("\u202e", "\\u202e"),
        ("\ud800", "\\ud800"),
        ("\u2028", "\\u2028"),
    ],
)
def test_what_a_terminal_would_obey_is_spelled_out(text: str, shown: str) -> None:
    """Escape sequences, carriage returns, direction marks and lone surrogates lose their effect."""
    assert escape(text) == shown


def test_json_goes_to_stdout_as_one_ascii_line(capsys: pytest.CaptureFixture[str]) -> None:
    """A program reads one line, in ASCII, whatever a candidate wrote into it."""
    value = {"detail": HOSTILE, "n": 1.5}
    print_json(value)
    out, err = capsys.readouterr()
    assert (out.count("\n"), out.isascii(), err) == (1, True, "")
    assert json.loads(out) == value


def test_json_that_others_cannot_read_is_not_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """NaN is no JSON: it is our own error, not a surprise for the reader."""
    with pytest.raises(ValueError, match="JSON"):
        print_json({"n": float("nan")})
    assert capsys.readouterr().out == ""


def test_progress_goes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    """Stdout stays the result's alone."""
    say("one line")
    assert capsys.readouterr() == ("", "one line\n")


@pytest.mark.parametrize(
    ("decision", "line"),
    [
        (DELIVERED, "words/a: delivered after 2 draws"),
        (REFUSED, "words/b: refused after 5 draws (none_passed)"),
        (Decision(task_id="c", outcome="infra", reason="gone", draws=1), "c: infra after 1 draw (gone)"),
        (Decision(task_id="d", outcome="refused", draws=0), "d: refused after 0 draws ()"),
    ],
)
def test_a_decision_is_a_line_in_words(decision: Decision, line: str) -> None:
    """Task, outcome, draws and reason."""
    assert decision_line(decision) == line


@given(st.text(st.characters()) | st.just(HOSTILE))
def test_a_hostile_reason_stays_in_its_line(reason: str) -> None:
    """A reason cannot write a line of its own, such as another task's delivery."""
    line = decision_line(Decision(task_id="a", outcome="infra", reason=reason, draws=1))
    assert line.isprintable()
    assert line.startswith("a: infra after 1 draw (")


def test_counts_are_named_also_where_they_are_zero() -> None:
    """A line of progress always has the same three counts, and how many there are in all."""
    assert counts_line(Counter(delivered=30, refused=10), 157) == "40 of 157 tasks: 30 delivered, 10 refused, 0 infra"
    assert counts_line(Counter(), 3) == "0 of 3 tasks: 0 delivered, 0 refused, 0 infra"


@pytest.mark.parametrize(
    ("kind", "body", "line"),
    [
        ("asked", {"task": "a", "index": 0}, ""),
        ("fault", {"task": "a", "index": 1, "what": "answered 503"}, "a, draw 1: no draw used up: answered 503"),
        ("candidate", {"task": "a", "index": 0, "code": "xyz", "origin": {}}, "a, draw 0: 3 characters"),
        (
            "candidate",
            {"task": "a", "index": 0, "code": "xyz", "origin": {"cache": "hit"}},
            "a, draw 0: 3 characters, from the cache",
        ),
        (
            "candidate",
            {"task": "a", "index": 2, "code": "", "origin": {"missing": "truncated"}},
            "a, draw 2: no program (truncated)",
        ),
        (
            "verdict",
            {"task": "a", "index": 0, "part": "visible", "outcome": "fail", "reason": "timeout"},
            "a, draw 0, visible: fail (timeout)",
        ),
        (
            "verdict",
            {"task": "a", "index": 0, "part": "hidden", "outcome": "pass", "reason": None},
            "a, draw 0, hidden: pass",
        ),
        (
            "decision",
            {"task": "a", "outcome": "delivered", "delivered": "d", "index": 0, "reason": None, "draws": 1},
            "a: delivered after 1 draw",
        ),
    ],
)
def test_a_record_is_a_line_in_words(kind: str, body: dict[str, Any], line: str) -> None:
    """What a record says in one line, for the log; what is not worth one gives none."""
    assert record_line(kind, body) == line


@given(st.text(st.characters()) | st.just(HOSTILE))
def test_a_hostile_fault_cannot_drive_a_terminal(what: str) -> None:
    """A server's words in a line of ours are characters that print."""
    assert escape(record_line("fault", {"task": what, "index": 0, "what": what})).isprintable() or "\n" in what


@pytest.mark.parametrize(("duration_s", "words"), [(40.4, "40 s"), (720, "12 min"), (12600, "3.5 h")])
def test_a_duration_in_words(duration_s: float, words: str) -> None:
    """A duration has the unit that a person would use."""
    assert duration_words(duration_s) == words
