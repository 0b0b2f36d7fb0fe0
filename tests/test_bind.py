"""A bank bound in the customer's own repository: the lock is written, held before the first draw, and verified."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from echo_sandbox import EchoSandbox, install, task_line, write_bank, write_pool

from gate.backends.banks import open_bank
from gate.backends.jsonl import read_ledger
from gate.backends.rundir import RunDir
from gate.cli import bind, check, dry_run
from gate.cli import replay as replay_verb
from gate.cli import run as run_verb
from gate.cli.app import first_of_ours
from gate.cli.verify import verify
from gate.errors import SpecError
from gate.lock import read_lock
from gate.suite import suite_from_tree

GATE = str(Path(sys.executable).parent / "gate")

POOL = {f"t/{number}": ["wrong", "ok"] for number in range(3)}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a bank of three tasks, its lock and a pool; the sandbox only pretends."""
    install(EchoSandbox(), monkeypatch.setattr)
    write_bank(tmp_path / "bank.jsonl", [task_line(number) for number in range(3)])
    write_pool(tmp_path / "pool.jsonl", POOL)
    checked(tmp_path)
    return tmp_path


def said(verb: Any, *args: Any, **more: Any) -> tuple[int, str]:
    """The exit code of a verb, and what it prints."""
    try:
        with contextlib.redirect_stdout(io.StringIO()) as out:
            code = verb(*args, **more)
    except BaseExceptionGroup as exc:
        raise first_of_ours(exc) or exc from None
    return code, out.getvalue()


def checked(here: Path, *, bank: str = "bank.jsonl", lock: str = "bank.lock", as_json: bool = False) -> tuple[int, str]:
    options = {"isolation": "container", "runtime": None, "jobs": 1, "as_json": as_json}
    return said(check.check, [str(here / bank)], **options, lock=here / lock)


def changed(here: Path) -> None:
    """Another bank in the same place: t/1 has one more test."""
    tests = [*task_line(1)["tests"], {"args": [3], "expected": 3}]
    write_bank(here / "bank.jsonl", [task_line(0), task_line(1, tests=tests), task_line(2)])


def ran(here: Path, out: str | None = "run", *, limit: int | None = None, **more: Any) -> int:
    """A run of the bank as it stands."""
    options = run_verb.RunOptions(
        bank=str(here / "bank.jsonl"),
        source=f"samples:{here / 'pool.jsonl'}",
        bound=run_verb.Bound(limit=limit),
        out=None if out is None else here / out,
        quiet=True,
    )
    return said(run_verb.run, replace(options, **more))[0]


def replayed(here: Path, out: str | None = "replay", **more: Any) -> int:
    """A replay of the pool."""
    bound = replay_verb.ReplayBound(draws=2)
    options = replay_verb.ReplayOptions(
        pools=(here / "pool.jsonl",), bank=str(here / "bank.jsonl"), bound=bound, quiet=True
    )
    options = replace(options, out=None if out is None else here / out)
    return said(replay_verb.replay, replace(options, **more))[0]


def verified(path: Path, **more: Any) -> tuple[int, list[str]]:
    """The exit code of `gate verify`, and the places that it names."""
    code, out = said(verify, path, head=None, as_json=True, **more)
    return code, [each["where"] for each in json.loads(out)["mismatches"]]


# Writing the lock.


def test_a_check_binds_the_bank_that_it_checked(here: Path) -> None:
    """The lock is the same bytes each time, and the check says its digest as sha256sum does."""
    before = (here / "bank.lock").read_bytes()
    code, out = checked(here, as_json=True)
    assert (here / "bank.lock").read_bytes() == before
    assert json.loads(out)["lock"] == {
        "file": str(here / "bank.lock"),
        "digest": hashlib.sha256(before).hexdigest(),
        "suites": 3,
    }
    assert code == 1 and read_lock(before, "").digest == open_bank(str(here / "bank.jsonl"), here).digest()


def test_an_invalid_suite_is_not_bound(here: Path) -> None:
    """Where a suite does not load there is no lock, the one that is there stays, and the check says so."""
    before = (here / "bank.lock").read_bytes()
    with (here / "bank.jsonl").open("a") as file:
        file.write("{}\n")
    code, out = checked(here)
    assert code == 2 and out.splitlines()[-1] == f"{here / 'bank.lock'}: not written: a suite is invalid"
    assert (here / "bank.lock").read_bytes() == before
    code, out = checked(here, as_json=True)
    assert json.loads(out)["lock"] is None


@pytest.mark.parametrize(
    ("lock", "words"), [("bank.jsonl", "is there and is no lock"), ("no/bank.lock", "there is no such folder")]
)
def test_a_lock_is_written_over_nothing_else(here: Path, lock: str, words: str) -> None:
    """A suite that is named where the lock's file belongs stays as it is."""
    before = (here / "bank.jsonl").read_bytes()
    with pytest.raises(SpecError, match=words):
        checked(here, lock=lock)
    assert (here / "bank.jsonl").read_bytes() == before


def test_what_is_no_file_is_no_lock(here: Path) -> None:
    """A pipe and a folder are refused, and nobody waits for a writer."""
    os.mkfifo(here / "pipe")
    for name in ("pipe", "."):
        with pytest.raises(SpecError, match="is there and is no lock"):
            checked(here, lock=name)
    with pytest.raises(SpecError, match="cannot be read"):
        bind.read_bound(here)


def test_a_lock_binds_one_bank(here: Path) -> None:
    """Two banks have no common lock."""
    with pytest.raises(SpecError, match="binds one bank"):
        check.check(["a", "b"], isolation="container", runtime=None, jobs=1, as_json=False, lock=here / "x.lock")


# Held before the first draw.


def test_a_bound_run_records_its_lock_and_verifies(here: Path) -> None:
    """`run.json` and the report have the lock's digest, every verdict its suite's, and the run verifies by the lock."""
    assert ran(here, bind=here / "bank.lock") == 0
    digest = hashlib.sha256((here / "bank.lock").read_bytes()).hexdigest()
    config = RunDir(here / "run").read_config()
    assert config["bind"] == {"digest": digest, "bank": config["bank"]["digest"]}
    assert f"bound by the customer's lock: digest `{digest}`" in (here / "run/REPORT.md").read_text()
    suites = {task.id: task.suite.digest for task in RunDir(here / "run").tasks()}
    verdicts = [each for each in read_ledger(here / "run/ledger.jsonl") if each["kind"] == "verdict"]
    assert len(verdicts) == 9 and all(each["suite"] == suites[each["task"]] for each in verdicts)
    assert verified(here / "run", lock=here / "bank.lock") == (0, [])
    assert said(verify, here / "run", head=None, as_json=False, lock=here / "bank.lock")[1].endswith(
        "bank.lock binds\n"
    )


@pytest.mark.parametrize("verb", [ran, replayed], ids=["run", "replay"])
def test_another_bank_draws_nothing(here: Path, verb: Callable[..., int]) -> None:
    """A bank that is not the bound one is exit 2 with the task that differs, and leaves no directory."""
    changed(here)
    with pytest.raises(SpecError, match=r"1 suite is changed: t/1.*nothing was drawn") as caught:
        verb(here, "out", bind=here / "bank.lock")
    assert caught.value.exit_code == 2 and not (here / "out").exists()


def test_the_whole_bank_is_bound_though_a_part_is_run(here: Path) -> None:
    """--limit does not narrow what is held against the lock, and a part of the bound bank verifies."""
    assert ran(here, "part", limit=1, bind=here / "bank.lock") == 0
    assert verified(here / "part", lock=here / "bank.lock") == (0, [])
    changed(here)
    with pytest.raises(SpecError, match="t/1"):
        ran(here, "other", limit=1, bind=here / "bank.lock")


def test_a_suite_that_is_swapped_while_it_is_read_draws_nothing(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept is held against the lock as well, so a file that changes between two readings is found."""
    compared = bind.refuse_unbound

    def swap(*args: Any) -> None:
        compared(*args)
        changed(here)

    monkeypatch.setattr(bind, "refuse_unbound", swap)
    with pytest.raises(SpecError, match="t/1 changed while it was read"):
        ran(here, bind=here / "bank.lock")
    assert not (here / "run").exists()


def test_a_run_that_goes_on_is_bound_as_it_was_begun(here: Path) -> None:
    """Resuming needs no lock; another one, or one where there was none, is exit 2."""
    ran(here, bind=here / "bank.lock")
    ran(here, "free")
    again: dict[str, Any] = {"out": None, "bank": None, "source": None, "bound": run_verb.Bound()}
    assert ran(here, resume=here / "run", **again) == 0
    assert ran(here, resume=here / "run", bind=here / "bank.lock", **again) == 0
    changed(here)
    checked(here, lock="new.lock")
    with pytest.raises(SpecError, match="is another lock"):
        ran(here, resume=here / "run", bind=here / "new.lock", **again)
    with pytest.raises(SpecError, match="was begun without a lock"):
        ran(here, resume=here / "free", bind=here / "bank.lock", **again)


def test_a_replay_that_goes_on_is_bound_as_it_was_begun(here: Path) -> None:
    """The same replay again may name its lock or leave it out; it says the lock in its report and verifies by it."""
    assert replayed(here, bind=here / "bank.lock") == 0
    assert replayed(here) == replayed(here, bind=here / "bank.lock") == 0
    assert "bound by the customer's lock" in (here / "replay/REPORT.md").read_text()
    assert verified(here / "replay", lock=here / "bank.lock") == (0, [])
    (here / "other.lock").write_bytes((here / "bank.lock").read_bytes() + b"\n")
    with pytest.raises(SpecError, match="is another lock"):
        replayed(here, bind=here / "other.lock")


def test_a_replay_with_a_lock_has_a_directory_of_its_own(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without --out, the bound replay does not fall into the directory of the one that was not bound."""
    monkeypatch.chdir(here)
    replayed(here, out=None)
    replayed(here, out=None, bind=here / "bank.lock")
    assert len(list((here / "runs").glob("replay-bank-*"))) == 2


def test_a_dry_run_holds_the_lock(here: Path) -> None:
    """What would be refused is refused before it is tried."""
    changed(here)
    options = run_verb.RunOptions(
        bank=str(here / "bank.jsonl"), source=f"samples:{here / 'pool.jsonl'}", bind=here / "bank.lock"
    )
    with pytest.raises(SpecError, match="t/1"):
        dry_run.dry_run(options)


def test_a_lock_that_is_not_there_is_one_sentence(here: Path) -> None:
    """A wrong name says which command makes one."""
    with pytest.raises(SpecError, match="name what gate check BANK --lock wrote"):
        ran(here, bind=here / "no.lock")


# Found out afterwards.


def test_verify_finds_a_suite_that_changed(here: Path) -> None:
    """A run on other suites is exit 4 by the customer's lock, with the task, what the run has and what is bound."""
    changed(here)
    ran(here)
    assert verified(here / "run") == (0, [])
    assert verified(here / "run", lock=here / "bank.lock") == (4, ["suites.jsonl.gz: t/1"])
    write_bank(here / "bank.jsonl", [task_line(0), task_line(7)])
    ran(here, "less")
    found = verified(here / "less", lock=here / "bank.lock")
    assert found == (4, [f"suites.jsonl.gz: t/{number}" for number in (7, 1, 2)])


def test_verify_finds_a_run_that_was_bound_by_another_lock(here: Path) -> None:
    """A run that names another lock is not the one that was bound here."""
    ran(here, bind=here / "bank.lock")
    (here / "other.lock").write_bytes((here / "bank.lock").read_bytes() + b"\n")
    assert verified(here / "run", lock=here / "other.lock") == (4, ["run.json: bind"])


def test_a_lock_is_for_a_run_and_not_for_its_report(here: Path) -> None:
    """What a lock says of a report alone would be nothing, so it is refused."""
    (here / "x.html").write_text("")
    with pytest.raises(SpecError, match="name the run"):
        verify(here / "x.html", head=None, as_json=True, lock=here / "bank.lock")


def test_verify_holds_a_bank_against_its_lock(here: Path) -> None:
    """`gate verify bank.lock --bank BANK` is 0 for the bound bank, and 4 with each suite that changed, came or went."""
    lock, bank = here / "bank.lock", str(here / "bank.jsonl")
    assert verified(lock, bank=bank) == (0, [])
    assert said(verify, lock, head=None, as_json=False, bank=bank)[1] == f"all 3 suites are those that {lock} binds\n"
    changed(here)
    assert verified(lock, bank=bank) == (4, ["bank.lock: t/1"])
    write_bank(here / "bank.jsonl", [task_line(0), task_line(2), task_line(3)])
    assert verified(lock, bank=bank) == (4, ["bank.lock: t/3", "bank.lock: t/1"])
    write_bank(here / "bank.jsonl", [task_line(0), task_line(2), task_line(1)])
    assert verified(lock, bank=bank) == (4, ["bank.lock: place 1"])
    assert said(verify, lock, head=None, as_json=False, bank=bank)[1].endswith("1 claim does not derive\n")
    with pytest.raises(SpecError, match="say by --bank"):
        verify(lock, head=None, as_json=True)


def test_a_bare_lock_option_has_the_usual_name(here: Path) -> None:
    """`gate check BANK --lock` writes bank.lock here; `--lock FILE` and `--lock=FILE` write FILE."""
    (here / "bank.lock").unlink()
    words = [["--lock"], ["--lock", "--json"], ["--lock", "b.lock"], ["--lock=c.lock"]]
    for more in words:
        assert (
            subprocess.run([GATE, "check", "bank.jsonl", *more], cwd=here, capture_output=True).returncode == 1
        )  # weak
    assert len({(here / name).read_bytes() for name in ("bank.lock", "b.lock", "c.lock")}) == 1
    lost = subprocess.run([GATE, "check", "--lock", "bank.jsonl"], cwd=here, capture_output=True, text=True)
    assert lost.returncode == 2 and "Missing argument" in lost.stderr


async def test_a_reference_without_visible_tests_is_held_against_the_hidden_ones() -> None:
    """A suite that only measures passes nobody; its reference is checked all the same, and by GT."""
    suite = suite_from_tree(task_line(0, tests=[], reference="half", must_fail=["ok"]))
    (problem,) = await check.program_problems("bank:1", suite, EchoSandbox())
    assert (problem.where, problem.what[:24]) == ("bank:1: reference", "does not pass hidden[0]:")
    right = suite_from_tree(task_line(0, tests=[], reference="ok"))
    assert await check.program_problems("bank:1", right, EchoSandbox()) == []
