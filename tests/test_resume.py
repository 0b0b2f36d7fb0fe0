"""A run that is killed, stopped or starved goes on where it was, and nothing is lost or left running."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from gate.backends.jsonl import JsonlLedger, read_ledger
from gate.backends.rundir import RunDir
from gate.cli import run as verb
from gate.errors import IntegrityError, SpecError
from gate.summary import Containment, Summary

pytestmark = pytest.mark.docker

GATE = str(Path(sys.executable).parent / "gate")
ROOT = Path(__file__).resolve().parent.parent
SOURCE = f"samples:{ROOT / 'suites/humaneval/samples/davinci-002-k5.jsonl.gz'}"
RUNNING_S = 10.0


def start(out: Path, *more: str) -> subprocess.Popen[str]:
    """`gate run` on the way: begun, or resumed where the directory is there."""
    how = ["--resume", str(out)] if out.exists() else ["humaneval", "--source", SOURCE, "--out", str(out), *more]
    return subprocess.Popen(
        [GATE, "run", *how, "-q", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def facts(out: Path) -> dict[str, set[tuple[object, ...]]]:
    """What a run came to: candidates, verdicts with outcome and reason, decisions."""
    found: dict[str, set[tuple[object, ...]]] = {"candidate": set(), "verdict": set(), "decision": set()}
    for record in read_ledger(out / "ledger.jsonl"):
        if record["kind"] == "candidate":
            found["candidate"].add((record["task"], record["index"], record["digest"]))
        elif record["kind"] == "verdict":
            verdict = (record["outcome"], record["reason"], record["test"], record["tests"]["passed"])
            found["verdict"].add((record["task"], record["index"], record["part"], *verdict))
        elif record["kind"] == "decision":
            decision = (record["outcome"], record["delivered"], record["index"], record["reason"], record["draws"])
            found["decision"].add((record["task"], *decision))
    return found


def still_running(engine: docker.APIClient, pid: int) -> list[str]:
    """Containers of a gate with this pid that still run after ten seconds at most."""
    deadline_s = time.monotonic() + RUNNING_S
    while True:
        found = [each["Id"] for each in engine.containers(filters={"label": f"gate.pid={pid}"})]
        if not found or time.monotonic() > deadline_s:
            return found
        time.sleep(0.1)


def run_with_kills(
    engine: docker.APIClient, out: Path, kills: int, longest_s: float, chance: random.Random, *more: str
) -> list[float]:
    """Kill -9 a run at random moments and resume it each time, then let it end; when it was killed, in seconds."""
    moments: list[float] = []
    pids = []
    while len(moments) < kills:
        running = start(out, *more)
        wait_s = chance.uniform(0.2, longest_s)
        try:
            running.communicate(timeout=wait_s)
        except subprocess.TimeoutExpired:
            os.kill(running.pid, signal.SIGKILL)
            running.communicate()
            moments.append(wait_s)
            pids.append(running.pid)
            assert still_running(engine, running.pid) == []
        else:
            return moments
    last = start(out, *more)
    _, err = last.communicate(timeout=600)
    assert last.returncode in (0, 1), err
    left = [each["Id"] for pid in pids for each in engine.containers(all=True, filters={"label": f"gate.pid={pid}"})]
    assert left == [], "the next start has not removed what was left"
    return moments


def check_kills(engine: docker.APIClient, tmp_path: Path, kills: int, tasks: int, longest_s: float) -> None:
    undisturbed, killed = tmp_path / "undisturbed", tmp_path / "killed"
    once = start(undisturbed, "--limit", str(tasks))
    _, err = once.communicate(timeout=600)
    assert once.returncode in (0, 1), err
    moments = run_with_kills(engine, killed, kills, longest_s, random.Random(kills), "--limit", str(tasks))
    print(f"killed {len(moments)} times, after", ", ".join(f"{moment:.2f}" for moment in moments), "s")
    assert len(moments) == kills, "the run was over before it could be killed often enough"
    assert facts(killed) == facts(undisturbed)
    for out in (undisturbed, killed):
        done = subprocess.run([GATE, "verify", str(out)], capture_output=True, text=True, timeout=100)
        assert done.returncode == 0, done.stdout + done.stderr


def test_killed_and_resumed_is_as_undisturbed(engine: docker.APIClient, tmp_path: Path) -> None:
    """Killed at random moments and resumed, a run comes to the same, and leaves no container running."""
    check_kills(engine, tmp_path, kills=3, tasks=20, longest_s=1.5)


@pytest.mark.soak
def test_killed_twenty_times(engine: docker.APIClient, tmp_path: Path) -> None:
    """Twenty kills at random moments change nothing of what a run comes to."""
    check_kills(engine, tmp_path, kills=20, tasks=100, longest_s=4.0)


def stop_at(out: Path, number: signal.Signals, wait_s: float) -> tuple[int, float, int]:
    """Stop a run by a signal after some seconds; its exit code, how long it took to end, and its pid."""
    running = start(out)
    time.sleep(wait_s)
    stopped_s = time.monotonic()
    running.send_signal(number)
    running.communicate(timeout=60)
    return running.returncode, time.monotonic() - stopped_s, running.pid


@pytest.mark.soak
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_twenty_signals_stop_twenty_times(engine: docker.APIClient, tmp_path: Path, number: signal.Signals) -> None:
    """Ctrl-C and SIGTERM at random moments stop in under five seconds with exit 130, each time, and leave nothing."""
    chance = random.Random(number)
    for trial in range(20):
        out = tmp_path / f"run{trial}"
        wait_s = chance.uniform(0.3, 6.0)
        code, took_s, pid = stop_at(out, number, wait_s)
        print(f"{number.name} after {wait_s:.2f} s: exit {code} in {took_s:.2f} s")
        assert (code, took_s < 5) == (130, True)
        assert engine.containers(all=True, filters={"label": f"gate.pid={pid}"}) == []


@pytest.fixture(scope="module")
def finished_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed run of three tasks, which nobody changes."""
    out = tmp_path_factory.mktemp("once") / "finished"
    done = start(out, "--limit", "3")
    done.communicate(timeout=100)
    assert done.returncode in (0, 1)
    return out


@pytest.fixture
def finished(finished_once: Path, tmp_path: Path) -> Path:
    """A closed run of three tasks, a test's own."""
    return Path(shutil.copytree(finished_once, tmp_path / "finished"))


def gate(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([GATE, *args], capture_output=True, text=True, timeout=100)


def test_resuming_a_closed_run_changes_nothing(finished: Path) -> None:
    """A closed run without infra has nothing left to do: the same ledger, the same result."""
    claims = [path for path in finished.rglob("*") if path.is_file() and path.name != "run.log"]
    before = {path: path.read_bytes() for path in claims}
    assert gate("run", "--resume", str(finished)).returncode in (0, 1)
    assert {path: path.read_bytes() for path in claims} == before


def without_end(out: Path, records: int, torn: bytes = b"") -> None:
    """Cut the ledger to its first so many records, with the beginning of another."""
    lines = (out / "ledger.jsonl").read_bytes().split(b"\n")[:records]
    (out / "ledger.jsonl").write_bytes(b"".join(line + b"\n" for line in lines) + torn)


def test_a_torn_end_is_cut_and_redone(finished: Path) -> None:
    """Half a record at the end is cut, said, and made again; whole records are kept as they are."""
    wanted, whole = facts(finished), (finished / "ledger.jsonl").read_bytes()
    without_end(finished, 5, b'{"kind":"candi')
    done = gate("run", "--resume", str(finished))
    assert done.returncode in (0, 1) and "cut a torn last record of 14 bytes" in done.stderr
    assert facts(finished) == wanted
    kept = b"".join(line + b"\n" for line in whole.split(b"\n")[:5])
    assert (finished / "ledger.jsonl").read_bytes().startswith(kept)
    assert gate("verify", str(finished)).returncode == 0


@pytest.mark.parametrize("step", [10, pytest.param(1, marks=pytest.mark.soak)])
def test_a_run_goes_on_after_any_record(finished: Path, tmp_path: Path, step: int) -> None:
    """Stopped after any one of its records, a run comes to the same."""
    wanted = facts(finished)
    for number in range(0, len((finished / "ledger.jsonl").read_bytes().splitlines()), step):
        out = tmp_path / f"after{number}"
        shutil.copytree(finished, out)
        without_end(out, number)
        assert gate("run", "--resume", str(out), "-q").returncode in (0, 1)
        assert facts(out) == wanted


OTHERS = {
    "draws": (["--draws", "3"], ["--draws 3", "begun with 5"]),
    "limit": (["--limit", "2"], ["--limit 2", "begun with 3"]),
    "task": (["--task", "HumanEval/1"], ["--task ('HumanEval/1',)", "begun with []"]),
    "full pool": (["--full-pool"], ["--full-pool True", "begun with False"]),
    "budget": (["--infra-budget", "5%"], ["--infra-budget 0.05", "begun with 0.01"]),
    "runtime": (["--runtime", "runc"], ["--runtime runc", "begun with None"]),
}


@pytest.mark.parametrize(("more", "words"), OTHERS.values(), ids=OTHERS.keys())
def test_another_option_is_refused_with_both_values(finished: Path, more: list[str], words: list[str]) -> None:
    """A resumed run is the same run: an option that differs is exit 2, and both values are named."""
    before = (finished / "ledger.jsonl").read_bytes()
    done = gate("run", "--resume", str(finished), *more)
    assert done.returncode == 2
    assert all(word in done.stderr for word in words), done.stderr
    assert (finished / "ledger.jsonl").read_bytes() == before


def test_another_bank_or_other_samples_are_refused(finished: Path, tmp_path: Path) -> None:
    """Another bank, or samples that hold something else, are exit 2 with both digests named."""
    (tmp_path / "other.yaml").write_text(
        'version: 1\ntask: t\nentry_point: f\ntests: [{args: [1], expected: 2}, {args: ["a"], expected: "b"}]\n'
    )
    (tmp_path / "other.jsonl").write_text(json.dumps({"task_id": "HumanEval/0", "solution": "x = 1"}) + "\n")
    config = RunDir(finished).read_config()
    bank = gate("run", str(tmp_path / "other.yaml"), "--resume", str(finished))
    samples = gate("run", "--resume", str(finished), "--source", f"samples:{tmp_path / 'other.jsonl'}")
    assert (bank.returncode, samples.returncode) == (2, 2)
    assert config["bank"]["digest"][:12] in bank.stderr
    assert config["source"]["digest"][:12] in samples.stderr


def test_samples_that_moved_are_taken_from_where_they_are(finished: Path, tmp_path: Path) -> None:
    """The same samples under another path are the same samples."""
    moved = tmp_path / "moved.jsonl.gz"
    shutil.copy(SOURCE.partition(":")[2], moved)
    assert gate("run", "--resume", str(finished), "--source", f"samples:{moved}").returncode in (0, 1)


def test_another_runs_ledger_is_refused(finished: Path, tmp_path: Path) -> None:
    """A ledger that is bound to another run.json is exit 4."""
    other = tmp_path / "other"
    start(other, "--limit", "1").communicate(timeout=100)
    shutil.copy(other / "ledger.jsonl", finished / "ledger.jsonl")
    assert gate("run", "--resume", str(finished)).returncode == 4


def test_two_writers_on_one_run_are_one_too_many(finished: Path) -> None:
    """While one process writes a run, another that would resume it is refused with exit 2."""
    with JsonlLedger(finished / "ledger.jsonl"):
        done = gate("run", "--resume", str(finished))
    assert done.returncode == 2 and "another gate writes this run" in done.stderr


def test_no_run_to_resume_is_a_usage_error(tmp_path: Path) -> None:
    """A directory that is no run, or none at all, is exit 2."""
    for place in (tmp_path, tmp_path / "nope"):
        done = gate("run", "--resume", str(place))
        assert done.returncode == 2 and "holds no run" in done.stderr
    assert gate("run").returncode == 2


def test_an_option_of_a_new_run_has_no_place_in_an_old_one(finished: Path, tmp_path: Path) -> None:
    """--out with --resume is exit 2."""
    assert gate("run", "--resume", str(finished), "--out", str(tmp_path / "x")).returncode == 2


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KB; needs root, as an engine's owner has."""
    where = tmp_path / "small"
    where.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(where)], check=True)
    yield where
    subprocess.run(["umount", str(where)], check=True)


def test_a_full_disk_is_exit_3_and_nothing_is_lost(small_disk: Path) -> None:
    """A run on a full disk stops with a clear sentence, keeps what is whole, and goes on when there is room."""
    out, ballast = small_disk / "run", small_disk / "ballast"
    running = start(out, "--limit", "30")
    while not (out / "ledger.jsonl").exists():
        assert running.poll() is None
        time.sleep(0.02)
    with pytest.raises(OSError, match="No space left"), ballast.open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)
    _, err = running.communicate(timeout=100)
    assert running.returncode == 3, err
    assert "No space left" in err or "is it full" in err
    assert "Traceback" not in err
    whole = [line for line in (out / "ledger.jsonl").read_bytes().split(b"\n")[:-1] if json.loads(line)]
    ballast.unlink()
    subprocess.run(["mount", "-o", "remount,size=16m", str(small_disk)], check=True)
    _, err = (resumed := start(out)).communicate(timeout=200)
    assert resumed.returncode in (0, 1), err
    assert (out / "ledger.jsonl").read_bytes().split(b"\n")[: len(whole)] == whole
    assert gate("verify", str(out)).returncode == 0


def test_taking_up_a_ledger_of_another_run_is_an_integrity_error(tmp_path: Path) -> None:
    """An empty ledger is bound to run.json, and one that is bound to something else is refused."""
    where = RunDir(tmp_path / "run")
    with where.beginning() as begun:
        begun.write_config({"a": 1})
    with JsonlLedger(where.ledger) as ledger:
        verb.take_up(where, ledger)
    where.write_config({"a": 2})
    with JsonlLedger(where.ledger) as ledger, pytest.raises(IntegrityError, match=r"ledger\.jsonl:1"):
        verb.take_up(where, ledger)


def test_a_world_that_failed_says_why() -> None:
    """The result of a run with infra names the commonest reason, in one line that a terminal may show."""
    summary = Summary(
        tasks=3,
        delivered=0,
        refused=0,
        infra=3,
        not_run=0,
        draws=0,
        reasons={},
        refusals={},
        infra_reasons={"no\nroute \x1b[2J": 2, "gone": 1},
        hidden=None,
        containment=Containment(tasks=0, contained=0),
    )
    last = verb.result_lines({"options": {"infra_budget": 0.01}}, summary).splitlines()[-1]
    assert last == "infra, 2 of 3: no route \\x1b[2J"


def test_a_share_is_a_percentage_or_a_fraction() -> None:
    """1% and 0.01 are the same; what is no share is a usage error."""
    assert verb.parse_share("1%") == verb.parse_share("0.01") == 0.01
    for text in ("", "x", "-1", "1.5", "150%", "nan"):
        with pytest.raises(SpecError):
            verb.parse_share(text)
