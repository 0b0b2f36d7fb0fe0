"""A recorded run as a user meets it: show, report, verify and dry-run by the installed command."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from golden import make

from gate.backends.rundir import RunDir
from gate.cli.report import report_one as report
from gate.cli.show import show
from gate.cli.verify import verify

GATE = str(Path(sys.executable).parent / "gate")
ROOT = Path(__file__).resolve().parent.parent


def gate(*args: str | Path, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [GATE, *map(str, args)],
        cwd=cwd,
        env={**os.environ, "COLUMNS": "200", **env},
        capture_output=True,
        text=True,
        timeout=100,
        stdin=subprocess.DEVNULL,
    )


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A folder with the golden run as `run`, its bank and its pool."""
    shutil.copytree(make.RUN, tmp_path / "run")
    (tmp_path / "golden.jsonl").write_text("".join(json.dumps(tree) + "\n" for tree in make.SUITES))
    (tmp_path / "pool.json").write_text(json.dumps({**make.POOL, make.SUM: [make.SUMMED]}))
    return tmp_path


def contents(path: Path) -> dict[str, bytes]:
    return {str(each.relative_to(path)): each.read_bytes() for each in sorted(path.rglob("*")) if each.is_file()}


# show


def test_show_tells_each_task_in_a_line(here: Path) -> None:
    """`gate show RUN` has a line for each task with its decision, and counts that add up."""
    said = gate("show", "run", cwd=here)
    assert said.returncode == 0
    assert said.stdout.splitlines() == [
        "words/reverse: delivered after 2 draws",
        "numbers/halves: delivered after 1 draw",
        "words/count: refused after 5 draws (none_passed)",
        "io/sum: delivered after 1 draw",
        "4 tasks = 3 delivered + 1 refused + 0 infra + 0 not run",
    ]
    told = json.loads(gate("show", "run", "--json", cwd=here).stdout)
    assert (told["schema"], told["bank"]) == ("gate.show/1", "golden")
    assert [(each["task"], each["decision"]["outcome"]) for each in told["tasks"]] == [
        (make.REVERSE, "delivered"),
        (make.HALVES, "delivered"),
        (make.COUNT, "refused"),
        (make.SUM, "delivered"),
    ]


def test_show_of_a_run_on_its_way(here: Path) -> None:
    """Tasks that nothing has happened to are shown as not run, also in full."""
    lines = (here / "run/ledger.jsonl").read_bytes().split(b"\n")
    (here / "run/ledger.jsonl").write_bytes(b"\n".join(lines[:9]) + b"\n")
    said = gate("show", "run", cwd=here).stdout
    assert "numbers/halves: not run\n" in said and "1 delivered + 0 refused + 0 infra + 3 not run" in said
    assert gate("show", "run", "io/sum", cwd=here).stdout == "task io/sum\nnothing has happened yet\n"


def test_show_tells_the_story_of_a_task(here: Path) -> None:
    """`gate show RUN TASK` has every draw with its code, its looks, its verdict with got and expected, and usage."""
    said = gate("show", "run", make.COUNT, cwd=here).stdout
    story = [
        "draw 0, ",
        "   2      raise ValueError(",
        "ran the visible tests under hash seed 0: 0.012 s wall, 0.004 s CPU, 9.4 MB",
        "verdict of the visible tests: fail: raised at test 0; 0 of 2 passed",
        "draw 1, ",
        "verdict of the visible tests: fail: wrong_answer at test 0; 0 of 2 passed",
        "| got {'a': 1}, expected {'a': 2}",
        "draw 2, ",
        "draw 3, ",
        "| over 10 s of wall time",
        "under hash seed 0, alone: ",
        "verdict of the visible tests: fail: timeout at test 0; 0 of 2 passed",
        "draw 4, ",
        "(missing: no sample 4 for this task)",
        "verdict of the visible tests: fail: no_program",
        "decision: refused after 5 draws (none_passed)",
    ]
    at = 0
    for part in story:
        assert part in said[at:], part
        at = said.index(part, at) + len(part)
    hidden = gate("show", "run", make.HALVES, cwd=here).stdout
    assert "under hash seed 1" in hidden and "verdict of the visible tests: pass; 2 of 2 passed" in hidden
    assert hidden.index("decision: delivered") < hidden.index("verdict of the hidden tests: fail: wrong_answer")
    told = json.loads(gate("show", "run", make.COUNT, "--json", cwd=here).stdout)
    kinds = [record["kind"] for record in told["records"]]
    assert (told["task"], kinds.count("candidate"), kinds.count("verdict"), kinds[-1]) == (make.COUNT, 5, 5, "decision")


def test_show_of_an_unknown_task_is_a_usage_error(here: Path) -> None:
    """A task that the run does not have is exit 2, with the command that lists them."""
    said = gate("show", "run", "nope", cwd=here)
    assert said.returncode == 2 and "the run has no task 'nope': `gate show run` lists them" in said.stderr
    assert gate("show", ".", cwd=here).returncode == 2


# What a terminal would obey, each in the program's text, in what it raised and in what it printed.
HOSTILE = {
    "clear the screen (CSI)": "\x1b[2J\x1b[H",
    "set the title (OSC)": "\x1b]0;delivered\x07",
    "a link (OSC 8)": "\x1b]8;;file:///etc/passwd\x1b\\",
    "CSI as one C1 control": "\x9b31m",
    "OSC as one C1 control": "\x9d0;delivered\x9c",
    "back to the line's start": "\rdecision: delivered after 1 draw",
    "backspaces and delete": "\x08\x08\x7f",
    "bell, shift out, null": "\x07\x0e\x00",
    "right to left (U+202E)": "\u202edereviled\u202c",
    "isolates": "\u2066a\u2069",
    "separators of lines": "\u2028decision: delivered\u2029",
    "next line (C1)": "\x85decision: delivered",
    "lone surrogates": "\udfff\ud800 \udc80",
    "nothing to see": "\u200b\u2060\ufeff",
}
OURS = ("task ", "draw ", "  ran ", "  verdict ", "decision: ", "    | ", "    it printed")


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_show_spells_out_what_a_terminal_would_obey(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    """Whatever a candidate writes, raises or prints reaches the terminal as letters, and cannot look like our lines."""
    shown = f"{text}\ndecision: delivered after 1 draw"
    look = replace(make.look(*[make.raised("ValueError", shown)] * 2), output_tail=shown, detail=shown)
    code = f"# {text}\ndecision: delivered after 1 draw\n"
    pool, answers = {make.SUM: [code] * 5}, {code: [look]}
    make.make(tmp_path / "run", tasks=make.TASKS[3:], pool=pool, answers=answers, rounds=1)
    codes = [show(tmp_path / "run", None, as_json=False), report(tmp_path / "run", as_json=False)]
    assert [*codes, verify(tmp_path / "run", head=None, as_json=False)] == [0, 0, 0]
    told = gate("show", "run", make.SUM, cwd=tmp_path, PYTHONUTF8="1").stdout
    assert all(char.isprintable() or char == "\n" for char in told + capsys.readouterr().out)
    story = told.splitlines()
    decisions = [line for line in story if line.startswith("decision: ")]
    assert decisions == ["decision: refused after 5 draws (none_passed)"]
    assert all(line.startswith(OURS) or line[:4].strip().isdigit() for line in story if line)
    spelled = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    for mark in ("   1  # ", "    | "):
        assert mark + spelled in "\n".join(story)


def test_show_of_a_damaged_run_is_exit_4(here: Path) -> None:
    """A story is told of sound records only: a damaged line is named, without a traceback."""
    for line in (b'{"kind":"candidate"}\n', b"\xff\n", b"{"):
        (here / "run/ledger.jsonl").write_bytes(line)
        said = gate("show", "run", make.COUNT, cwd=here)
        assert said.returncode == 4 and "ledger.jsonl:1: " in said.stderr and "Traceback" not in said.stderr


def test_a_record_that_is_none_of_ours_is_exit_4_everywhere(here: Path) -> None:
    """A ledger whose chain holds and whose records do not is refused with its line by each verb that reads it."""
    where = RunDir(here / "run")
    changed = make.noted(where)
    del changed[3][1]["outcome"]
    make.rechain(where, changed)
    for args in (["show", "run"], ["show", "run", make.REVERSE], ["report", "run"], ["verify", "run"]):
        said = gate(*args, cwd=here)
        assert said.returncode == 4, args
        assert "ledger.jsonl:4: a verdict record without a proper 'outcome'" in said.stderr + said.stdout
        assert "Traceback" not in said.stderr


# report and verify


def test_report_brings_everything_back(here: Path) -> None:
    """With what derives deleted, `gate report RUN` writes the same bytes again and prints the report."""
    before = contents(here / "run")
    for name in before:
        if name not in ("run.json", "suites.jsonl.gz", "ledger.jsonl"):
            (here / "run" / name).unlink()
    said = gate("report", "run", cwd=here)
    assert said.returncode == 0 and said.stdout == before["REPORT.md"].decode() + "\n"
    assert contents(here / "run") == before
    told = json.loads(gate("report", "run", "--json", cwd=here).stdout)
    assert told == {**json.loads(before["summary.json"]), "run_dir": "run"}


def test_report_of_a_configuration_that_says_nothing_is_exit_4(here: Path) -> None:
    """A run.json without what the report says is one sentence."""
    (here / "run/run.json").write_text("{}")
    said = gate("report", "run", cwd=here)
    assert said.returncode == 4 and "run.json: does not say what a report needs" in said.stderr
    assert "Traceback" not in said.stderr
    assert gate("report", ".", cwd=here).returncode == 2


def test_verify_says_what_it_found_by_its_exit_code(here: Path) -> None:
    """`gate verify` is 0 where all derives, 1 where the run is not closed, 2 where there is none, 4 for a forgery."""
    head = json.loads((here / "run/summary.json").read_text())["head"]
    assert gate("verify", "run", cwd=here).returncode == 0
    assert gate("verify", "run", "--head", head, cwd=here).returncode == 0
    other = gate("verify", "run", "--head", "0" * 64, cwd=here)
    assert other.returncode == 4 and other.stdout.startswith("ledger.jsonl: head\n") and head in other.stdout
    assert gate("verify", ".", cwd=here).returncode == 2
    (here / "run/delivered/words/reverse.py").write_text("import os\n")
    said = gate("verify", "run", "--json", cwd=here)
    assert said.returncode == 4
    told = json.loads(said.stdout)
    assert (told["schema"], told["ok"], told["closed"]) == ("gate.verify/1", False, True)
    assert [each["where"] for each in told["mismatches"]] == ["delivered/words/reverse.py:1"]
    (here / "run/run.json").write_text("{")
    said = gate("verify", "run", cwd=here)
    assert said.returncode == 4 and "run.json" in said.stdout and "Traceback" not in said.stderr


def test_verify_names_the_command_that_goes_on(here: Path) -> None:
    """A run that was killed is exit 1, with the exact command to resume it, quoted for the shell."""
    shutil.move(here / "run", here / "my run")
    lines = (here / "my run/ledger.jsonl").read_bytes().split(b"\n")
    (here / "my run/ledger.jsonl").write_bytes(b"\n".join(lines[:12]) + b"\n")
    (here / "my run/summary.json").unlink()
    said = gate("verify", "my run", cwd=here)
    assert said.returncode == 1 and said.stdout.endswith("resume it: gate run --resume 'my run'\n")


# run --dry-run

NOWHERE = {"DOCKER_HOST": "unix:///nonexistent/docker.sock"}


def test_a_dry_run_asks_no_engine_and_leaves_nothing(here: Path) -> None:
    """`gate run --dry-run` counts tasks, tests and draws at most, without an engine and without a directory."""
    before = contents(here)
    args = ("run", "golden.jsonl", "--source", "scripted:pool.json", "--dry-run")
    said = gate(*args, cwd=here, **NOWHERE)
    assert said.returncode == 0, said.stderr
    assert said.stdout == (
        "4 of 4 tasks of golden would run, 8 visible tests\nat most 20 draws, from scripted:pool.json\n"
    )
    more = ("--draws", "2", "--task", make.SUM, "--task", make.COUNT, "--json")
    told = json.loads(gate(*args, *more, cwd=here, **NOWHERE).stdout)
    assert told == {
        "schema": "gate.dry-run/1",
        "bank": "golden",
        "tasks": 2,
        "left": 2,
        "visible": 4,
        "calls_at_most": 4,
        "source": "scripted:pool.json",
        "without_candidates": 0,
    }
    assert contents(here) == before


def test_a_dry_run_names_tasks_that_have_no_candidates(here: Path) -> None:
    """Tasks that the source knows nothing of would be refused, and are counted beforehand."""
    (here / "pool.json").write_text(json.dumps({make.SUM: [make.SUMMED]}))
    said = gate("run", "golden.jsonl", "--source", "scripted:pool.json", "--dry-run", cwd=here, **NOWHERE)
    assert "3 of these tasks have no candidates there and would be refused" in said.stdout


@pytest.mark.parametrize(
    ("kept", "left", "at_most"), [(1, 4, 20), (5, 4, 18), (9, 4, 15), (11, 3, 15), (16, 3, 10), (36, 1, 4), (41, 0, 0)]
)
def test_a_dry_run_of_a_resumed_run_counts_what_is_left(here: Path, kept: int, left: int, at_most: int) -> None:
    """What was drawn, decided and measured is not counted again; a delivery that is not measured needs no draw."""
    ledger = here / "run/ledger.jsonl"
    lines = ledger.read_bytes().split(b"\n")
    ledger.write_bytes(b"\n".join(lines[:kept]) + b"\n")
    before = contents(here)
    said = gate("run", "--resume", "run", "--dry-run", "--json", cwd=here, **NOWHERE)
    assert said.returncode == 0, said.stderr
    told = json.loads(said.stdout)
    assert (told["tasks"], told["left"], told["calls_at_most"]) == (4, left, at_most)
    assert contents(here) == before


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["run", "--dry-run"], "a new run needs BANK and --source"),
        (["run", "nope", "--source", "scripted:pool.json", "--dry-run"], "nope: no such bank"),
        (["run", "golden.jsonl", "--source", "scripted:nope.json", "--dry-run"], "nope.json: cannot be read"),
        (["run", "golden.jsonl", "--source", "scripted:pool.json", "--task", "x", "--dry-run"], "has no task 'x'"),
        (["run", "--resume", "nope", "--dry-run"], "nope: holds no run"),
    ],
)
def test_a_dry_run_that_could_not_run_is_exit_2(here: Path, args: list[str], words: str) -> None:
    """What a run would refuse, a dry run refuses with the same words."""
    said = gate(*args, cwd=here, **NOWHERE)
    assert said.returncode == 2 and words in said.stderr and "Traceback" not in said.stderr


# With an engine.


@pytest.mark.docker
def test_a_real_run_verifies_and_comes_back(here: Path) -> None:
    """What `gate run` records of real candidates verifies, by its head too, and its files come back byte for byte."""
    quick = {**make.POOL, make.SUM: [make.SUMMED], make.COUNT: make.POOL[make.COUNT][:3]}  # without the one that sleeps
    (here / "pool.json").write_text(json.dumps(quick))
    said = gate("run", "golden.jsonl", "--source", "scripted:pool.json", "--out", "real", "-q", "--json", cwd=here)
    assert said.returncode == 1, said.stderr
    told = json.loads(said.stdout)
    assert (told["delivered"], told["refused"], told["draws"]) == (3, 1, 9)
    assert gate("verify", "real", "--head", told["head"], cwd=here).returncode == 0
    before = contents(here / "real")
    shutil.rmtree(here / "real/delivered")
    (here / "real/REPORT.md").unlink()
    assert gate("report", "real", cwd=here).returncode == 0
    assert contents(here / "real") == before
    shown = gate("show", "real", make.REVERSE, cwd=here).stdout
    assert "\x1b" not in shown and "decision: delivered after 2 draws" in shown


@pytest.mark.docker
def test_clean_says_what_it_did(tmp_path: Path) -> None:
    """`gate clean --dry-run` is exit 0 with what would be removed; without an engine it is exit 3."""
    said = gate("clean", "--dry-run", "--json", cwd=tmp_path)
    told = json.loads(said.stdout)
    assert said.returncode == 0 and (told["schema"], told["dry_run"]) == ("gate.clean/1", True)
    lost = gate("clean", cwd=tmp_path, **NOWHERE)
    assert lost.returncode == 3 and "No Docker engine answers" in lost.stderr
