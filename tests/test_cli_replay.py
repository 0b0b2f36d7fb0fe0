"""`gate replay` as a user runs it, on a sandbox that answers by the first word of a program."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from echo_sandbox import BIG, EchoSandbox, install, task_line, write_bank, write_pool

from gate.backends.jsonl import read_ledger, read_lines
from gate.cli import replay as verb
from gate.cli.app import first_of_ours
from gate.cli.verify import verify
from gate.errors import BackendError, SpecError
from gate.model import Json

DRIVER = [sys.executable, str(Path(__file__).parent / "echo_sandbox.py")]

# What each pool is for; the gate's decision and who is right stand beside it.
POOLS: dict[str, list[str]] = {
    "t/0": ["ok", "ok 2", "ok 3", "ok 4", "ok 5"],  # everybody is right
    "t/1": ["wrong", "wrong 2", "ok", "wrong 3", "wrong 4"],  # first pass at the third, majority wrong
    "t/2": ["half", "ok", "ok 2", "wrong", "crash"],  # weak oracle: a wrong one is delivered
    "t/3": ["hard", "wrong", "wrong 2", "crash", "slow"],  # lossy filter: a right one is refused
    "t/4": ["wrong", "odd", "crash", "slow", "wrong 2"],  # refused, and all wrong
}


@pytest.fixture
def sandbox(monkeypatch: pytest.MonkeyPatch) -> EchoSandbox:
    """The sandbox in the engine's place."""
    made = EchoSandbox()
    install(made, monkeypatch.setattr)
    return made


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """A bank of five tasks and their pools."""
    bank = write_bank(tmp_path / "bank.jsonl", [task_line(number) for number in range(5)])
    return bank, write_pool(tmp_path / "pool.jsonl", POOLS)


def replayed(bank: Path, *pools: Path, out: Path | None = None, **more: Any) -> tuple[int, dict[str, Any]]:
    """The exit code and the JSON of a replay."""
    bound = verb.ReplayBound(**more.pop("bound", {}))
    options = verb.ReplayOptions(pools=pools, bank=str(bank), bound=bound, out=out, quiet=True, json=True, **more)
    try:
        with contextlib.redirect_stdout(io.StringIO()) as said:
            code = verb.replay(options)
    except BaseExceptionGroup as exc:
        raise first_of_ours(exc) or exc from None
    return code, json.loads(said.getvalue())


def verified(path: Path, **more: Any) -> tuple[int, list[dict[str, str]]]:
    """The exit code of `gate verify`, and what does not derive."""
    with contextlib.redirect_stdout(io.StringIO()) as said:
        code = verify(path, head=None, as_json=True, **more)
    return code, json.loads(said.getvalue())["mismatches"]


def facts(path: Path) -> set[tuple[Json, ...]]:
    """What a replay came to: every verdict and decision, without when and how often."""
    found: set[tuple[Json, ...]] = set()
    for record in read_ledger(path / "ledger.jsonl"):
        if record["kind"] == "verdict":
            found.add((record["task"], record["index"], record["part"], record["outcome"], record["reason"]))
        elif record["kind"] == "decision":
            found.add((record["task"], record["outcome"], record["index"], record["draws"]))
    return found


# What it says.


def test_every_rule_is_counted(sandbox: EchoSandbox, files: tuple[Path, Path], tmp_path: Path) -> None:
    """Ceiling, gate, single draw, majority and ship-always are what these pools make them by hand."""
    code, said = replayed(*files, out=tmp_path / "out")
    assert code == 1
    success = {name: counts["success"] for name, counts in said["rules"].items()}
    assert success == {
        "oracle": 4,
        "first_pass": 2,
        "single": 2,
        "majority": 2,
        "majority_text": 2,
        "ship_always": 3,
    }
    assert said["rules"]["first_pass"] == {
        "success": 2,
        "delivered": 3,
        "refused": 2,
        "calls": 1 + 3 + 1 + 5 + 5,
        "calls_per_task": 3.0,
    }
    assert said["refused_audit"] == {"refused": 2, "all_wrong": 1}
    assert said["weak_oracle"] == {"accepted": 9, "wrong": 1}
    assert said["lossy_filter"] == {"correct": 9, "refused": 1}
    assert said["visible_subset_of_hidden"] is False
    decisions = {each[0]: each[1:] for each in facts(tmp_path / "out") if len(each) == 4}
    assert decisions == {
        "t/0": ("delivered", 0, 1),
        "t/1": ("delivered", 2, 3),
        "t/2": ("delivered", 0, 1),
        "t/3": ("refused", None, 5),
        "t/4": ("refused", None, 5),
    }
    assert verified(tmp_path / "out") == (0, [])


def test_v_and_gt_are_two_observations_and_only_a_pass_on_v_is_repeated(
    sandbox: EchoSandbox, files: tuple[Path, Path], tmp_path: Path
) -> None:
    """A pass runs on V under two seeds and once on GT; a failure once on each; equal programs once."""
    bank = write_bank(tmp_path / "one.jsonl", [task_line(0)])
    pool = write_pool(tmp_path / "p.jsonl", {"t/0": ["ok", "wrong", "ok"]})
    replayed(bank, pool, out=tmp_path / "out", bound={"draws": 3})
    assert sorted(sandbox.seen) == sorted(
        [("ok", 2, 0, False), ("ok", 2, 1, False), ("ok", 2, 0, False), ("wrong", 2, 0, False), ("wrong", 2, 0, False)]
    )


def test_hidden_tests_measure_after_the_decision(
    sandbox: EchoSandbox, files: tuple[Path, Path], tmp_path: Path
) -> None:
    """In the ledger of a task nothing of GT stands before the gate's decision, so it cannot have decided it."""
    replayed(*files, out=tmp_path / "out")
    decided: set[str] = set()
    for record in read_ledger(tmp_path / "out" / "ledger.jsonl"):
        if record["kind"] == "decision":
            decided.add(record["task"])
        elif record.get("part") == "hidden":
            assert record["task"] in decided


def test_what_is_missing_is_counted(sandbox: EchoSandbox, tmp_path: Path) -> None:
    """Missing tasks, short pools, tasks without tests, unknown tasks and unused draws all have a number."""
    bank = write_bank(
        tmp_path / "bank.jsonl",
        [task_line(0), task_line(1), task_line(2, tests=[]), task_line(3, hidden=[]), task_line(4)],
    )
    pool = write_pool(
        tmp_path / "pool.jsonl",
        {
            "t/0": ["ok"] * 7,
            "t/1": ["wrong", "ok"],
            "t/2": ["ok"] * 5,
            "t/3": ["ok"] * 5,
            "else/1": ["ok", "ok"],
        },
    )
    code, said = replayed(bank, pool, out=tmp_path / "out")
    assert (code, said["tasks"]) == (1, 5)
    assert said["pool"] == {
        "samples": 21,
        "unknown_tasks": 1,
        "unknown_samples": 2,
        "unused_samples": 2,
        "missing_tasks": 1,
        "short_tasks": 1,
        "no_visible_tests": 1,
        "no_hidden_tests": 1,
        "error_draws": 0,
        "unconverted_tests": 0,
        "left_out_tasks": 0,
    }
    assert said["rules"]["first_pass"]["success"] == 2
    assert said["rules"]["oracle"]["success"] == 3
    report = (tmp_path / "out" / "REPORT.md").read_text(encoding="utf-8")
    assert "tasks without any draw in the pool: 1 (" in report
    assert verified(tmp_path / "out") == (0, [])


def test_a_person_reads_all_of_it(
    sandbox: EchoSandbox, files: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every rule, both errors and the audit stand in the text; without hidden tests nothing is called right."""
    options = verb.ReplayOptions(pools=files[1:], bank=str(files[0]), out=tmp_path / "out", quiet=True)
    verb.replay(options)
    text = capsys.readouterr().out
    assert "first pass (the gate)     2 (40.00 %)          3.00          3        2" in text
    assert "refused audit: all draws wrong on 1 of 2 refused tasks" in text
    assert "weak oracle:   1 of 9 (11.1 %)" in text and "lossy filter:  1 of 9 (11.1 %)" in text
    bank = write_bank(tmp_path / "blind.jsonl", [task_line(number, hidden=[]) for number in range(5)])
    verb.replay(verb.ReplayOptions(pools=files[1:], bank=str(bank), out=tmp_path / "blind", quiet=True))
    text = capsys.readouterr().out
    assert "no task has hidden tests, so nothing says what is right" in text
    assert "%" not in text


def test_success_and_wrong_deliveries_stand_by_strength(
    sandbox: EchoSandbox, files: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Tasks are split by what the recorded suites alone say; report, summary and terminal have it, and it verifies."""
    bank = write_bank(tmp_path / "b.jsonl", [*(task_line(number) for number in range(4)), task_line(4, tests=[])])
    _, said = replayed(bank, files[1], out=tmp_path / "out")
    weak, none = said["by_strength"]
    assert (weak["name"], none["name"]) == ("weak: a program that knows nothing of the task passes", "no visible tests")
    assert [weak[name] for name in ("tasks", "delivered", "success", "wrong", "single")] == [4, 3, 2, 1, 2]
    assert [weak[name] for name in ("accepted", "wrong_accepted", "correct", "refused_correct")] == [9, 1, 9, 1]
    assert [none[name] for name in ("tasks", "delivered", "success", "wrong", "single")] == [1, 0, 0, 0, 0]
    assert verified(tmp_path / "out") == (0, [])
    report = (tmp_path / "out/REPORT.md").read_text()
    assert "## By strength of the visible tests" in report
    assert f"| {weak['name']} | 4 | 50.00 % [15.00, 85.00] | 1 / 3 | 33.33 % | 50.00 % | 11.11 % | 11.11 % |" in report
    verb.replay(verb.ReplayOptions(pools=files[1:], bank=str(bank), out=tmp_path / "out", quiet=True))
    assert f"{weak['name']}: 2 of 4 (50.0 %) tasks right, 1 of 3 (33.3 %) deliveries wrong" in capsys.readouterr().out
    summary = tmp_path / "out/summary.json"
    summary.write_text(summary.read_text().replace('"wrong": 1', '"wrong": 0'))
    assert verified(tmp_path / "out")[0] == 4


def test_the_provenance_counts_are_shown(sandbox: EchoSandbox, files: tuple[Path, Path], tmp_path: Path) -> None:
    """Tests that have no form as data and tasks that were left out come from the bank's provenance."""
    said = {"bank": "bank", "unconverted": [{"task": "a"}, {"task": "b"}], "not_data": [{"task": "c"}]}
    (tmp_path / "provenance.json").write_text(json.dumps(said), encoding="utf-8")
    _, result = replayed(*files, out=tmp_path / "out")
    assert (result["pool"]["unconverted_tests"], result["pool"]["left_out_tasks"]) == (2, 1)
    assert "tests of the benchmark that have no form as data: 2 (" in (tmp_path / "out" / "REPORT.md").read_text(
        encoding="utf-8"
    )


def test_more_than_five_draws_are_labelled(sandbox: EchoSandbox, files: tuple[Path, Path], tmp_path: Path) -> None:
    """Seven draws are research, and every output says so."""
    pool = write_pool(tmp_path / "seven.jsonl", {task: [*texts, "ok a", "ok b"] for task, texts in POOLS.items()})
    _, said = replayed(files[0], pool, out=tmp_path / "out", bound={"draws": 7})
    assert said["label"] == "research, not the gate's rule"
    assert said["rules"]["first_pass"]["success"] == 4
    assert "research, not the gate's rule" in (tmp_path / "out" / "REPORT.md").read_text(encoding="utf-8")
    assert verified(tmp_path / "out") == (0, [])


def test_several_pools_are_one(sandbox: EchoSandbox, files: tuple[Path, Path], tmp_path: Path) -> None:
    """The draws of the second file follow those of the first."""
    parts = [
        write_pool(tmp_path / f"part{number}.jsonl", {task: texts[number::5] for task, texts in POOLS.items()})
        for number in range(5)
    ]
    _, whole = replayed(*files, out=tmp_path / "whole")
    _, joined = replayed(files[0], *parts, out=tmp_path / "joined")
    assert joined == whole


def test_our_own_failure_is_an_error_and_no_verdict(sandbox: EchoSandbox, tmp_path: Path) -> None:
    """A draw on which our world failed leaves its task undecided; no headline is printed, and it is judged again."""
    bank = write_bank(tmp_path / "bank.jsonl", [task_line(0), task_line(1)])
    pool = write_pool(tmp_path / "pool.jsonl", {"t/0": ["fault", "ok"], "t/1": ["ok", "fault"]})
    code, said = replayed(bank, pool, out=tmp_path / "out", bound={"draws": 2})
    assert (code, said["infra"], said["rules"], said["pool"]["error_draws"]) == (3, 2, {}, 2)
    assert verified(tmp_path / "out") == (0, [])
    sandbox.seen.clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("echo_sandbox.EXITS", {})
        code, said = replayed(bank, pool, out=tmp_path / "out", bound={"draws": 2})
    assert (code, said["infra"], said["rules"]["first_pass"]["success"]) == (0, 0, 2)
    assert {text for text, *_ in sandbox.seen} == {"fault"}
    assert verified(tmp_path / "out") == (0, [])


# A second time.


def test_a_second_replay_judges_nothing_and_says_the_same(
    sandbox: EchoSandbox, files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the same --out, with another, and with none at all: nothing runs, and the bytes are the same."""
    monkeypatch.chdir(tmp_path)
    first = replayed(*files, out=tmp_path / "runs" / "a")
    ran = len(sandbox.seen)
    ledger = (tmp_path / "runs" / "a" / "ledger.jsonl").read_bytes()
    assert replayed(*files, out=tmp_path / "runs" / "a") == first
    assert (tmp_path / "runs" / "a" / "ledger.jsonl").read_bytes() == ledger
    assert replayed(*files, out=tmp_path / "runs" / "b") == first
    assert replayed(*files) == first
    assert replayed(*files) == first
    assert len(sandbox.seen) == ran
    assert len(list((tmp_path / "runs").glob("replay-bank-*"))) == 1
    assert verified(tmp_path / "runs" / "b") == (0, [])


def test_timeouts_are_kept_once_they_are_confirmed(sandbox: EchoSandbox, tmp_path: Path) -> None:
    """A slow draw is looked at again alone, and both looks are kept together; a fault of ours never is."""
    bank = write_bank(tmp_path / "bank.jsonl", [task_line(0)])
    pool = write_pool(tmp_path / "pool.jsonl", {"t/0": ["slow", "flaky", "fault"]})
    for name in ("a", "b"):
        replayed(bank, pool, out=tmp_path / name, bound={"draws": 3})
    looks = [(text, alone) for text, _, _, alone in sandbox.seen]
    assert looks.count(("slow", False)) == looks.count(("slow", True)) == 2  # V and GT, in the first replay alone
    assert looks.count(("fault", False)) == 4
    assert facts(tmp_path / "a") == facts(tmp_path / "b")


def test_a_damaged_cache_is_one_sentence(sandbox: EchoSandbox, files: tuple[Path, Path], tmp_path: Path) -> None:
    """Garbage, a cut file and a changed row all end the replay with a sentence, and never with another verdict."""
    replayed(*files, out=tmp_path / "a")
    cache = tmp_path / "observations.sqlite"
    whole = cache.read_bytes()
    for damaged in (b"garbage" * 1000, whole[: len(whole) // 2], whole[:4096] + b"\xff" * (len(whole) - 4096)):
        cache.write_bytes(damaged)
        with pytest.raises(BackendError, match=r"observations\.sqlite: .*delete it"):
            replayed(*files, out=tmp_path / "b")
    cache.write_bytes(whole)
    with contextlib.closing(sqlite3.connect(cache)) as base:
        base.execute("UPDATE observations SET content = (SELECT content FROM observations LIMIT 1)")
        base.commit()
    with pytest.raises(BackendError, match="does not match its check sum"):
        replayed(*files, out=tmp_path / "c")


def test_another_pool_bank_or_option_is_refused(sandbox: EchoSandbox, files: tuple[Path, Path], tmp_path: Path) -> None:
    """A directory goes on only as what it was begun as; what differs is named."""
    bank, pool = files
    replayed(bank, pool, out=tmp_path / "out")
    other_pool = write_pool(tmp_path / "other.jsonl", {"t/0": ["ok"]})
    with pytest.raises(SpecError, match="another pool"):
        replayed(bank, other_pool, out=tmp_path / "out")
    with pytest.raises(SpecError, match=r"--draws 3: .* begun with 5"):
        replayed(bank, pool, out=tmp_path / "out", bound={"draws": 3})
    other_bank = write_bank(tmp_path / "two.jsonl", [task_line(number) for number in range(4)])
    with pytest.raises(SpecError, match="another bank"):
        replayed(other_bank, pool, out=tmp_path / "out")


# Killed and stopped.


def driven(files: tuple[Path, Path], out: Path, delay_s: float) -> subprocess.Popen[str]:
    """A replay as a process of its own."""
    return subprocess.Popen(
        [*DRIVER, "replay", str(files[1]), "--bank", str(files[0]), "--out", str(out), "-j", "2", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "ECHO_DELAY_S": str(delay_s)},
    )


def wait_for_lines(out: Path, number: int) -> None:
    """Until the ledger has that many lines."""
    deadline_s = time.monotonic() + 60
    ledger = out / "ledger.jsonl"
    while not ledger.is_file() or ledger.read_bytes().count(b"\n") < number:
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


def test_killed_and_torn_it_goes_on(sandbox: EchoSandbox, files: tuple[Path, Path], tmp_path: Path) -> None:
    """After kill -9 and a torn last line the same command ends with the same verdicts; nothing is judged twice."""
    _, whole = replayed(*files, out=tmp_path / "elsewhere" / "whole")
    out = tmp_path / "out"
    for lines in (5, 30, 60):
        running = driven(files, out, 0.02)
        wait_for_lines(out, lines)
        os.kill(running.pid, signal.SIGKILL)
        running.communicate()
        with (out / "ledger.jsonl").open("ab") as ledger:
            ledger.write(b'{"kind":"verdict","torn')
    last = driven(files, out, 0.0)
    said, told = last.communicate(timeout=60)
    assert last.returncode == 1, told
    assert "cut a torn last record" in told
    assert json.loads(said) == whole
    assert facts(out) == facts(tmp_path / "elsewhere" / "whole")
    assert verified(out) == (0, [])


def test_ctrl_c_is_130_and_goes_on(files: tuple[Path, Path], tmp_path: Path) -> None:
    """Stopped by Ctrl-C it prints no figure, exits with 130, and the same command brings it to its end."""
    out = tmp_path / "out"
    running = driven(files, out, 0.2)
    wait_for_lines(out, 10)
    running.send_signal(signal.SIGINT)
    said, told = running.communicate(timeout=60)
    assert running.returncode == 130, told
    assert json.loads(said)["rules"] == {} and json.loads(said)["not_run"] > 0
    assert "go on with the same command" in told
    assert verified(out)[0] == 1
    last = driven(files, out, 0.0)
    assert last.communicate(timeout=60) and last.returncode == 1
    assert verified(out) == (0, [])


def test_two_processes_share_the_cache(files: tuple[Path, Path], tmp_path: Path) -> None:
    """Two replays at once, beside each other, both end well; two on one directory: the second is refused."""
    both = [driven(files, tmp_path / name, 0.01) for name in ("a", "b")]
    said = [each.communicate(timeout=100) for each in both]
    assert [each.returncode for each in both] == [1, 1], said
    assert said[0][0] == said[1][0]
    assert facts(tmp_path / "a") == facts(tmp_path / "b")
    first = driven(files, tmp_path / "c", 0.3)
    pool = write_pool(tmp_path / "pool2.jsonl", POOLS)
    wait_for_lines(tmp_path / "c", 1)
    second = driven((files[0], pool), tmp_path / "c", 0.0)
    _, told = second.communicate(timeout=60)
    assert second.returncode == 2 and "another gate writes this run" in told
    first.send_signal(signal.SIGTERM)
    first.communicate(timeout=60)


# Long replies.


def test_a_long_reply_stands_in_the_store(sandbox: EchoSandbox, tmp_path: Path) -> None:
    """A reply over 64 KB is in the content store once, its line is short, and what is read is what was said."""
    bank = write_bank(tmp_path / "bank.jsonl", [task_line(0)])
    pool = write_pool(tmp_path / "pool.jsonl", {"t/0": ["big", "ok"]})
    replayed(bank, pool, out=tmp_path / "out", bound={"draws": 2})
    out = tmp_path / "out"
    (stored,) = (out / "content").iterdir()
    assert max(len(line) for line in (out / "ledger.jsonl").read_bytes().split(b"\n")) < 5000
    seen = [line.record for line in read_lines(out / "ledger.jsonl") if line.stored]
    assert {reply["value"] for record in seen for reply in record["replies"]} == {BIG}
    assert verified(out) == (0, [])
    (out / "content" / "more.json.gz").write_bytes(b"")
    assert verified(out)[1][0]["where"] == "content/more.json.gz"
    (out / "content" / "more.json.gz").unlink()
    (out / "content" / "left.json.gz.new").write_bytes(b"")
    lines = (out / "ledger.jsonl").read_bytes().splitlines(keepends=True)
    (out / "ledger.jsonl").write_bytes(b"".join(lines[:-1]))  # as if killed before it was closed
    replayed(bank, pool, out=tmp_path / "out", bound={"draws": 2})
    assert verified(out) == (0, [])
    stored.write_bytes(stored.read_bytes()[:-20])
    assert verified(out)[0] == 4
    stored.unlink()
    assert verified(out)[0] == 4


@pytest.mark.docker
def test_real_programs_in_real_containers(tmp_path: Path) -> None:
    """Through the whole path: right, wrong and lossy programs are told apart, verified, and executed anew."""
    bank = write_bank(tmp_path / "bank.jsonl", [task_line(0)])
    texts = ["def f(x): return -1", "def f(x): return x", "def f(x): return x if x < 10 else 0"]
    pool = write_pool(tmp_path / "pool.jsonl", {"t/0": texts})
    code, said = replayed(bank, pool, out=tmp_path / "out", bound={"draws": 3, "isolation": "container"})
    assert (code, said["isolation"]) == (0, "container")
    assert {name: counts["success"] for name, counts in said["rules"].items()} == {
        "oracle": 1,
        "first_pass": 1,
        "single": 0,
        "majority": 1,
        "majority_text": 0,
        "ship_always": 1,
    }
    assert said["weak_oracle"] == {"accepted": 2, "wrong": 1}
    assert verified(tmp_path / "out", rejudge=2) == (0, [])
