"""Progress: nothing, plain lines, or a live view, and always on stderr."""

from __future__ import annotations

import io
import sys
import time
from typing import Any

import pytest

from gate.cli.printing import decision_line
from gate.cli.progress import Watching, progress
from gate.model import Decision

DELIVERED = Decision(task_id="words/a", outcome="delivered", delivered="digest", index=1, draws=2)
REFUSED = Decision(task_id="words/b", outcome="refused", reason="none_passed", draws=5)
CANDIDATE = {"task": "words/c", "index": 1, "code": "x", "origin": {}}
FAULT = {"task": "words/c", "index": 1, "what": "answered 503", "billed": None}


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


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


def test_the_live_view_says_what_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draws, cost and the tasks under way stand below the bar."""
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with progress(4, quiet=False, verbose=False, cost=lambda: "$0.1234") as shown:
        shown.note("candidate", CANDIDATE)
        shown.advance(DELIVERED)
    assert "1 draws, $0.1234, about" in stream.getvalue()
    assert "now: words/c (draw 2)" in stream.getvalue()


def test_a_line_says_draws_and_cost(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Elsewhere than on a terminal the line of counts has the same facts."""
    now_s = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    with progress(4, quiet=False, verbose=False, cost=lambda: "12 tokens") as shown:
        shown.note("candidate", CANDIDATE)
        now_s = 120.0
        shown.advance(DELIVERED)
    line = "1 of 4 tasks: 1 delivered, 0 refused, 0 infra; 1 draws, 12 tokens, about 60 s left\n"
    assert capsys.readouterr() == ("", line)


def test_verbose_says_faults(capsys: pytest.CaptureFixture[str]) -> None:
    """With -v a fault is a line, too; without it is none."""
    for verbose, wanted in ((True, "words/c, draw 1: no draw used up: answered 503\n"), (False, "")):
        with progress(4, quiet=False, verbose=verbose) as shown:
            shown.note("fault", FAULT)
        assert capsys.readouterr().err == wanted


def test_the_log_sees_everything_and_the_view_what_comes_while_it_is_there() -> None:
    """Records go to the log from the beginning, and to the progress once it is named."""
    logged: list[str] = []
    shown: list[str] = []
    watching = Watching(lambda kind, body: logged.append(kind))
    watching.note("asked", {})
    watching.show = lambda kind, body: shown.append(kind)
    watching.note("fault", {})
    assert (logged, shown) == (["asked", "fault"], ["fault"])
