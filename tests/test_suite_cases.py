"""Suites that are hostile, faulty, weak, or odd and right, each with the answer that `gate check` must give.

The files stand in suites_cases/, with their answers in its index.json; what would be large there is made here.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gate.backends.banks import open_bank
from gate.cli.check import Finding, finding_of
from gate.errors import SpecError

FOLDER = Path(__file__).resolve().parent / "suites_cases"
INDEX: dict[str, dict[str, str]] = json.loads((FOLDER / "index.json").read_text(encoding="utf-8"))
NOWHERE = Path("/nowhere")

HEAD = "version: 1\ntask: sum/two\nentry_point: plus\n"
TESTS = "tests:\n  - {args: [4, 9], expected: 13}\n  - {args: [-7, 2], expected: -5}\n"


def found(path: Path) -> list[Finding]:
    """The findings of one file, without a sandbox."""
    try:
        return [finding_of(place, read, ()) for place, read in open_bank(str(path), NOWHERE).findings()]
    except SpecError as exc:
        return [finding_of(str(path), exc, ())]


def said(finding: Finding) -> str:
    """All that is wrong with a suite, in words."""
    return "\n".join(f"{problem.where}: {problem.what}" for problem in finding.problems)


@pytest.mark.parametrize("name", INDEX)
def test_each_suite_gets_its_answer(name: str) -> None:
    """Every suite of the folder is sound, weak or invalid as the index says, for the reason that stands there."""
    (finding,) = found(FOLDER / name)
    assert finding.status == INDEX[name]["status"], said(finding)
    assert INDEX[name]["says"] in said(finding)
    if finding.status == "invalid":
        assert said(finding).startswith(str(FOLDER / name))


def test_every_file_is_in_the_index() -> None:
    """A suite that nobody looks at would be worth nothing."""
    assert {path.name for path in FOLDER.iterdir()} == INDEX.keys() | {"index.json", "README.md"}


def laughs() -> str:
    """Ten levels of aliases, ten a level: ten thousand million values."""
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    for level in range(1, 10):
        names = ", ".join([f"*a{level - 1}"] * 10)
        lines.append(f"a{level}: &a{level} [{names}]")
    return HEAD + "tests:\n  - args:\n" + "".join(f"    - {{{line}}}\n" for line in lines) + "    expected: 1\n"


def packed(data: bytes) -> bytes:
    return gzip.compress(data, compresslevel=9)


LINE = {"version": 1, "task": "sum/two", "entry_point": "plus", "tests": [{"args": [4], "expected": 13}]}

BOMBS: dict[str, tuple[str, str, Callable[[], bytes]]] = {
    "aliases": ("a.yaml", "invalid", lambda: laughs().encode()),
    "many small aliases": (
        "a.yaml",
        "invalid",
        lambda: (HEAD + "tests:\n  - {args: [&x 1" + ", *x" * 200_000 + "], expected: 1}\n").encode(),
    ),
    "brackets": ("a.yaml", "invalid", lambda: (HEAD + "tests:\n  - args: " + "[" * 500_000).encode()),
    "brackets in JSON": ("a.json", "invalid", lambda: b'{"version": 1, "tests": ' + b"[" * 500_000),
    "nested maps": ("a.yaml", "invalid", lambda: (HEAD + "tests: " + "{a: " * 100_000).encode()),
    "nested by dashes": ("a.yaml", "invalid", lambda: (HEAD + "tests:\n  " + "- " * 100_000 + "1\n").encode()),
    "question marks": ("a.yaml", "invalid", lambda: (HEAD + "tests:\n  " + "? " * 100_000 + "1\n").encode()),
    "a long integer": ("a.yaml", "invalid", lambda: (HEAD + f"tests: [{{args: [{'9' * 500_000}]}}]").encode()),
    "a long integer in JSON": ("a.json", "invalid", lambda: b'{"version": 1, "tests": [%s]}' % (b"9" * 500_000)),
    "a long tagged integer": (
        "a.json",
        "invalid",
        lambda: json.dumps(LINE | {"tests": [{"args": [{"$int": "0x" + "f" * 3_000_000}], "expected": 1}]}).encode(),
    ),
    "many unknown keys": (
        "a.yaml",
        "invalid",
        lambda: (HEAD + "".join(f"k{number}: 1\n" for number in range(20_000)) + TESTS).encode(),
    ),
    "many unknown tags": ("a.yaml", "invalid", lambda: (HEAD + "tests: [" + "!x 1, " * 50_000 + "]").encode()),
    "numbers with one hash": (
        "a.json",
        "invalid",
        lambda: json.dumps(
            LINE | {"tests": [{"args": [1], "expected": {"$set": [k * (2**61 - 1) for k in range(1, 20_001)]}}]}
        ).encode(),
    ),
    "an open quote": ("a.yaml", "invalid", lambda: (HEAD + 'prompt: "' + "\\\\" * 300_000).encode()),
    "blank lines": ("a.yaml", "invalid", lambda: b"\n" * 500_000),
    "a gzip bomb on one line": ("a.jsonl.gz", "invalid", lambda: packed(b"[" * 30_000_000)),
    "a gzip bomb of blank lines": ("a.jsonl.gz", "invalid", lambda: packed(b"\n" * 20_000_000)),
    "a scalar of many megabytes": ("a.yaml", "invalid", lambda: (HEAD + "prompt: " + "x" * 14_000_000).encode()),
    "gzip that is cut": ("a.jsonl.gz", "invalid", lambda: packed(json.dumps(LINE).encode() * 99)[:-40]),
    "no gzip": ("a.jsonl.gz", "invalid", lambda: json.dumps(LINE).encode()),
    "a long text": (
        "a.yaml",
        "weak",
        lambda: (HEAD + f"tests:\n  - {{args: [4], expected: {'x' * 2_000_000}}}\n").encode(),
    ),
    "a prompt of brackets": ("a.yaml", "sound", lambda: (HEAD + f"prompt: '{'plus([' * 100_000}'\n" + TESTS).encode()),
    "a prompt of blank lines": (
        "a.json",
        "sound",
        lambda: json.dumps(
            LINE | {"prompt": "plus(4)" + " \n" * 150_000, "tests": [*LINE["tests"], {"args": [5], "expected": 1}]}  # type: ignore[misc]
        ).encode(),
    ),
    "constants that nearly pass": (
        "a.json",
        "sound",
        lambda: json.dumps(
            LINE
            | {
                "tests": [
                    {"args": [k], "expected": k / 1000, "tolerance": {"abs": 1000}, "compare": "json"}
                    for k in range(3_000)
                ]
                + [{"args": [-1], "expected": "x"}]
            }
        ).encode(),
    ),
    "collections that are hard to match": (
        "a.json",
        "sound",
        lambda: json.dumps(
            LINE
            | {
                "tests": [
                    {
                        "args": [[[k + 1, -k] for k in range(300)]],
                        "expected": [[k + 0.5, -k] for k in range(300)],
                        "compare": "unordered",
                        "tolerance": {"abs": 50},
                    },
                    {"args": [1], "expected": 3},
                ]
            }
        ).encode(),
    ),
}

MEASURED = """
import resource, sys
from pathlib import Path
sys.argv = ["gate", "check", sys.argv[1]]
from gate.cli.app import app
try:
    app()
except SystemExit as exc:
    code = exc.code
used = resource.getrusage(resource.RUSAGE_SELF)
peak = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
print("\\nUSED", code, used.ru_utime + used.ru_stime, peak)
"""


def measured(path: Path) -> tuple[int, float, float]:
    """The exit code of `gate check` in a process of its own, its CPU time in seconds and its peak in MB."""
    ran = subprocess.run([sys.executable, "-c", MEASURED, str(path)], capture_output=True, text=True, timeout=60)
    _, code, cpu_s, peak_kb = ran.stdout.splitlines()[-1].split()
    return int(code), float(cpu_s), int(peak_kb) / 1024


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_answered_at_once(name: str, tmp_path: Path) -> None:
    """However a suite tries to eat time or memory, the answer is there within a second and 100 MB."""
    file, status, content = BOMBS[name]
    path = tmp_path / file
    path.write_bytes(content())
    code, cpu_s, peak_mb = measured(path)
    assert code == {"sound": 0, "weak": 1, "invalid": 2}[status]
    # CPU time, which a busy machine does not stretch by much; a bomb that goes off takes minutes.
    assert cpu_s < 2.5
    assert peak_mb < 100


def huge(tests: int) -> str:
    """A suite of many honest tests."""
    rows = "".join(f"  - {{args: [{k}, {3 * k}], expected: {4 * k}}}\n" for k in range(tests))
    return f"{HEAD}tests:\n{rows}"


def test_twenty_thousand_honest_tests_are_sound(tmp_path: Path) -> None:
    """A large suite is no bomb: it is read and tried in seconds, within 300 MB."""
    path = tmp_path / "huge.yaml"
    path.write_text(huge(20_000))
    code, cpu_s, peak_mb = measured(path)
    assert (code, cpu_s < 8, peak_mb < 300) == (0, True, True)


def test_memory_does_not_grow_with_the_bank(tmp_path: Path) -> None:
    """Ten times the tasks take no more memory: a bank is a stream, and so are its findings."""
    peaks = []
    for tasks in (100, 1_000):
        path = tmp_path / f"bank{tasks}.jsonl"
        with path.open("w", encoding="utf-8") as file:
            for number in range(tasks):
                line: dict[str, Any] = LINE | {"task": f"sum/{number}", "prompt": "x" * 20_000}
                file.write(json.dumps(line) + "\n")
        code, _, peak_mb = measured(path)
        assert code == 1
        peaks.append(peak_mb)
    assert peaks[1] < peaks[0] + 10
