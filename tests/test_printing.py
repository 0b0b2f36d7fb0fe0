"""What is printed: results on stdout, progress on stderr, and no text that a terminal would obey."""

from __future__ import annotations

import io
import json
import sys
import time
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gate.cli.printing import counts_line, decision_line, escape, print_json, progress, say
from gate.model import Decision

DELIVERED = Decision(task_id="words/a", outcome="delivered", delivered="digest", index=1, draws=2)
REFUSED = Decision(task_id="words/b", outcome="refused", reason="none_passed", draws=5)
HOSTILE = "x)\nwords/c: delivered, draw 0 of 1\r\x1b[2K\x1b]0;title\x07\x9b31m\u202e\ud800\u2028"


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


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


def test_quiet_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """With -q neither stream has a byte."""
    with progress(2, quiet=True, verbose=True) as shown:
        shown.advance(DELIVERED)
    assert capsys.readouterr() == ("", "")


def test_verbose_says_every_decision(capsys: pytest.CaptureFixture[str]) -> None:
    """With -v each decision is a line on stderr as it falls."""
    with progress(2, quiet=False, verbose=True) as shown:
        shown.advance(DELIVERED)
        shown.advance(REFUSED)
    assert capsys.readouterr() == ("", f"{decision_line(DELIVERED)}\n{decision_line(REFUSED)}\n")


def test_elsewhere_than_on_a_terminal_a_line_comes_now_and_then(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log gets a line of counts every ten seconds, not one a task."""
    now_s = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    with progress(9, quiet=False, verbose=False) as shown:
        shown.advance(DELIVERED)
        now_s = 109.9
        shown.advance(REFUSED)
        assert capsys.readouterr().err == ""
        now_s = 110.0
        shown.advance(DELIVERED)
        shown.advance(DELIVERED)
    assert capsys.readouterr() == ("", "3 of 9 tasks: 2 delivered, 1 refused, 0 infra\n")


def terminal_output(monkeypatch: pytest.MonkeyPatch, *decisions: Decision, **options: Any) -> str:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    with progress(4, quiet=False, **options) as shown:
        for decision in decisions:
            shown.advance(decision)
    return stream.getvalue()


def test_on_a_terminal_there_is_a_bar(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The bar counts tasks and outcomes, on stderr alone, and goes when the run ends."""
    written = terminal_output(monkeypatch, DELIVERED, REFUSED, verbose=False)
    assert "2/4" in written
    assert "1 delivered, 1 refused, 0 infra" in written
    assert capsys.readouterr().out == ""


def test_verbose_on_a_terminal_is_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """With -v there is no bar to break the lines."""
    assert terminal_output(monkeypatch, DELIVERED, verbose=True) == f"{decision_line(DELIVERED)}\n"
