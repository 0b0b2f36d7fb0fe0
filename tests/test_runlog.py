"""The log of a run: a line each, printable, and never a reason for a run to end otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from gate.cli.runlog import RunLog


def test_lines_have_their_time(tmp_path: Path) -> None:
    """Each line has the time; a later session goes on in the same file."""
    for text in ("first", "second\n\x1b[31m  word"):
        with RunLog(tmp_path / "run.log") as log:
            log.say(text)
    first, second = (tmp_path / "run.log").read_text().splitlines()
    assert first.endswith("Z first") and second.endswith("Z second \\x1b[31m word")


def test_records_that_are_worth_a_line(tmp_path: Path) -> None:
    """Faults and decisions are logged, requests are not."""
    with RunLog(tmp_path / "run.log") as log:
        log.note("asked", {"task": "a", "index": 0})
        log.note("fault", {"task": "a", "index": 0, "what": "answered 503"})
    (line,) = (tmp_path / "run.log").read_text().splitlines()
    assert line.endswith("a, draw 0: no draw used up: answered 503")


@pytest.mark.parametrize("path", ["folder", "/dev/full"])
def test_a_log_that_cannot_be_written_is_given_up_once(
    tmp_path: Path, path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run goes on without its log, and says so once."""
    (tmp_path / "folder").mkdir()
    with RunLog(tmp_path / path) as log:
        for _ in range(3):
            log.say("x")
    assert capsys.readouterr().err.count("the run goes on without its log") == 1
