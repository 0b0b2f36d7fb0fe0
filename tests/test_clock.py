"""The time of day jumps in mid-run, years ahead and back into the past: no verdict, limit or record depends on it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gate.backends.jsonl import read_ledger

pytestmark = [pytest.mark.docker, pytest.mark.slow]

ROOT = Path(__file__).resolve().parent.parent
JUMPING = ROOT / "tests" / "jumping_clock.py"
SOURCE = f"samples:{ROOT / 'suites/humaneval/samples/davinci-002-k5.jsonl.gz'}"
TASKS = 6
JUMPS_S = (10 * 365 * 86400, -20 * 365 * 86400, 3600, -7200)


def run(offset: Path, out: Path, *, jump: bool) -> list[dict[str, object]]:
    """One run to its end, under a clock that jumps after every other record; what it recorded."""
    offset.write_text("0")
    words = ["run", "humaneval", "--source", SOURCE, "--limit", str(TASKS), "--out", str(out), "-q", "-j", "2"]
    running = subprocess.Popen([sys.executable, str(JUMPING), str(offset), *words], stdout=subprocess.DEVNULL)
    jumps, seen = 0, 0
    while running.poll() is None:
        ledger = out / "ledger.jsonl"
        lines = ledger.read_bytes().count(b"\n") if ledger.exists() else 0
        if jump and lines >= seen + 2:
            seen = lines
            replacement = offset.with_suffix(".new")
            replacement.write_text(str(JUMPS_S[jumps % len(JUMPS_S)]))
            os.replace(replacement, offset)
            jumps += 1
        time.sleep(0.01)
    assert running.returncode in (0, 1)
    assert not jump or jumps >= len(JUMPS_S), "the clock did not jump often enough to show anything"
    return list(read_ledger(out / "ledger.jsonl"))


def verdicts(records: list[dict[str, object]]) -> dict[tuple[object, ...], tuple[object, ...]]:
    names = ("outcome", "reason", "test", "tests")
    return {
        (each["task"], each["index"], each["part"]): tuple(each[name] for name in names)
        for each in records
        if each["kind"] == "verdict"
    }


def test_a_clock_that_jumps_changes_no_verdict_and_blames_nobody(tmp_path: Path) -> None:
    """Whatever the time of day does in mid-run, the verdicts are those of a steady clock, and the run verifies."""
    steady = run(tmp_path / "offset", tmp_path / "steady", jump=False)
    jumped = run(tmp_path / "offset", tmp_path / "jumped", jump=True)
    times = [str(each["time"]) for each in jumped]
    assert times != sorted(times), "the recorded times did not go back, so nothing was shown"
    assert verdicts(jumped) == verdicts(steady)
    assert all(each["outcome"] != "infra" for each in jumped if each["kind"] == "decision")
    said = subprocess.run(
        [sys.executable, "-m", "gate", "verify", str(tmp_path / "jumped"), "--json"], capture_output=True, text=True
    )
    assert said.returncode == 0 and json.loads(said.stdout)["ok"], said.stdout + said.stderr
