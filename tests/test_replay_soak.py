"""A replay's driver does not grow with the pool: its peak is the same at a thousand draws and at a hundred thousand."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

import pytest
from echo_sandbox import task_line
from test_cli_replay import DRIVER

MAX_PEAK_MB = 300
GROWTH_MB = 120
DRAWS = 5
WORDS = ("ok", "wrong", "half", "hard", "crash")


def write_files(folder: Path, tasks: int) -> tuple[Path, Path]:
    """A bank of that many tasks and five programs of about a kilobyte for each."""
    bank, pool = folder / "bank.jsonl", folder / "pool.jsonl"
    with bank.open("w", encoding="utf-8") as lines, pool.open("w", encoding="utf-8") as samples:
        for number in range(tasks):
            lines.write(json.dumps(task_line(number)) + "\n")
            for draw in range(DRAWS):
                text = f"{WORDS[(number + draw) % len(WORDS)]} # {number} {draw} " + "x" * 1000
                samples.write(json.dumps({"task_id": f"t/{number}", "solution": text}) + "\n")
    return bank, pool


def replay(bank: Path, pool: Path, out: Path) -> tuple[bytes, float, float]:
    """What a replay printed, its peak in MB, and how long it took, in seconds."""
    command = [*DRIVER, "replay", str(pool), "--bank", str(bank), "--out", str(out), "-q", "--json"]
    begun_s = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        said = running.stdout.read()
        _, status, usage = os.wait4(running.pid, 0)
        running.returncode = os.waitstatus_to_exitcode(status)
    assert running.returncode == 0
    return said, usage.ru_maxrss / 1024, time.monotonic() - begun_s


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_the_driver_stays_small(tmp_path: Path) -> None:
    """From 1,000 to 100,000 draws the peak stays below 300 MB; so it does where all is judged already."""
    peaks = {}
    for draws in (1_000, 100_000):
        folder = tmp_path / str(draws)
        folder.mkdir()
        bank, pool = write_files(folder, draws // DRAWS)
        first, peak_mb, wall_s = replay(bank, pool, folder / "out")
        again, second_mb, second_s = replay(bank, pool, folder / "out")
        assert again == first
        peaks[draws] = max(peak_mb, second_mb)
        print(f"{draws} draws: {peak_mb:.0f} MB in {wall_s:.1f} s, again {second_mb:.0f} MB in {second_s:.1f} s")
    assert peaks[100_000] < MAX_PEAK_MB
    assert peaks[100_000] < peaks[1_000] + GROWTH_MB


@pytest.mark.slow
def test_five_thousand_draws_again_take_no_time_to_speak_of(tmp_path: Path) -> None:
    """A second replay of 5,000 draws reads its ledger and judges nothing; the bytes are the same."""
    bank, pool = write_files(tmp_path, 1_000)
    first, _, _ = replay(bank, pool, tmp_path / "out")
    before = (tmp_path / "out" / "ledger.jsonl").read_bytes()
    again, _, second_s = replay(bank, pool, tmp_path / "out")
    print(f"5,000 draws again: {second_s:.2f} s")
    assert again == first
    assert (tmp_path / "out" / "ledger.jsonl").read_bytes() == before
