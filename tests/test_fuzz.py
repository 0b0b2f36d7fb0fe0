"""What reads hostile bytes on the host: no crash but the documented errors, no hang, bounded memory.

`fuzzing.TARGETS` has the readers and how their inputs are made. The long runs are a million
inputs each, in a process of its own under a limit on memory, and coverage-guided ones.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest
from fuzzing import MARKS, TARGETS, fuzz
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

HERE = Path(__file__).parent
LONG_INPUTS = 1_000_000
GUIDED_INPUTS = 200_000
GROWTH_KB = 64 << 10
# What one input may take: its 64 KB, several times over, as objects.
PEAK_BYTES = 32 << 20

blocks = st.one_of(st.binary(max_size=40), st.sampled_from(MARKS), st.text(max_size=20).map(str.encode))


@pytest.mark.parametrize("name", TARGETS)
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(chance=st.randoms(use_true_random=False), tail=st.lists(blocks, max_size=6))
def test_changed_streams_are_read_or_refused(name: str, chance: random.Random, tail: list[bytes]) -> None:
    """A valid stream with a few changes, and more behind it, is read or refused with a documented error."""
    target = TARGETS[name]
    target.run(target.mutate(target.valid(chance), chance) + b"".join(tail))


@pytest.mark.parametrize("name", TARGETS)
@given(data=st.lists(blocks, max_size=12).map(b"".join))
def test_any_bytes_are_read_or_refused(name: str, data: bytes) -> None:
    """Bytes and pieces of streams in any order are read or refused with a documented error."""
    TARGETS[name].run(data)


@pytest.mark.parametrize("name", TARGETS)
def test_what_is_valid_is_read(name: str) -> None:
    """The streams that the mutators start from are right: a fault later in them is reached."""
    for number in range(50):
        TARGETS[name].run(TARGETS[name].valid(random.Random(number)))


@pytest.mark.parametrize("name", TARGETS)
def test_a_short_run_keeps_to_its_memory(name: str) -> None:
    """Five hundred inputs raise nothing, and never need more than a bounded multiple of their size."""
    fuzz(name, 10)
    tracemalloc.start()
    try:
        fuzz(name, 500)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak_bytes < PEAK_BYTES


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", TARGETS)
def test_a_million_inputs(name: str) -> None:
    """A million inputs: no fault, none over ten seconds, and memory that does not grow with their number."""
    command = [sys.executable, str(HERE / "fuzzing.py"), name, str(LONG_INPUTS), "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=7000)
    assert done.returncode == 0, done.stderr[-4000:]
    said = json.loads(done.stdout)
    print(said)
    assert said["inputs"] == LONG_INPUTS and said["grown_kb"] < GROWTH_KB


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", TARGETS)
def test_guided_by_coverage(tmp_path: Path, name: str) -> None:
    """Inputs that reach new code are changed further: no fault, none over ten seconds, none over a gigabyte."""
    command = [sys.executable, str(HERE / "fuzz_guided.py"), name, str(GUIDED_INPUTS)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=3500)
    assert done.returncode == 0, done.stderr[-4000:]
    stats = [row for row in done.stderr.splitlines() if row.startswith(("stat::", "Done"))]
    print(name, *stats, sep="\n")
    assert any(f"number_of_executed_units: {GUIDED_INPUTS}" in row for row in stats), stats
