"""Verdicts executed anew: which ones is a matter of lot, and whatever differs is said."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import pytest
from echo_sandbox import EchoSandbox, install, task_line, write_bank, write_pool
from test_cli_replay import POOLS, replayed

from gate.backends.rundir import RunDir
from gate.cli.rejudge import choose
from gate.cli.verify import verify
from gate.errors import SandboxError


@pytest.fixture
def sandbox(monkeypatch: pytest.MonkeyPatch) -> EchoSandbox:
    made = EchoSandbox()
    install(made, monkeypatch.setattr)
    return made


@pytest.fixture
def out(sandbox: EchoSandbox, tmp_path: Path) -> Path:
    """A replay at its end."""
    bank = write_bank(tmp_path / "bank.jsonl", [task_line(number) for number in range(5)])
    replayed(bank, write_pool(tmp_path / "pool.jsonl", POOLS), out=tmp_path / "out")
    return tmp_path / "out"


def verified(path: Path, number: int) -> tuple[int, dict[str, Any]]:
    with contextlib.redirect_stdout(io.StringIO()) as said:
        code = verify(path, head=None, as_json=True, rejudge=number)
    return code, json.loads(said.getvalue())


def test_an_honest_record_is_the_same_anew(out: Path, sandbox: EchoSandbox) -> None:
    """All verdicts that rest on an execution are executed again, without the cache, and agree."""
    sandbox.seen.clear()
    code, said = verified(out, 1000)
    assert (code, said["ok"], said["level"]) == (0, True, "rejudged")
    assert said["rejudged"] == said["verdicts"] == 50
    assert len(sandbox.seen) > 50


def test_what_differs_is_named(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that now behaves otherwise is named with both answers, and the exit code is that of integrity."""
    monkeypatch.setitem(__import__("echo_sandbox").RETURNS, "half", lambda x: x)
    code, said = verified(out, 1000)
    assert (code, said["ok"]) == (4, False)
    assert [each["where"] for each in said["mismatches"]] == ["t/2: draw 0, hidden, executed anew"]
    assert said["mismatches"][0]["claimed"].startswith("fail, wrong_answer")
    assert said["mismatches"][0]["derived"].startswith("pass")


def test_a_failure_of_our_own_says_nothing(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where our world fails meanwhile no verdict is doubted: it is an error of ours."""
    monkeypatch.setitem(__import__("echo_sandbox").EXITS, "half", __import__("gate.model").model.Exit.FAULT)
    with pytest.raises((SandboxError, BaseExceptionGroup)):
        verified(out, 1000)


def test_the_lot_is_the_same_for_everybody(out: Path) -> None:
    """The same head gives the same sample, another head another one; every verdict can be in it."""
    where = RunDir(out)

    def sample(head: str, number: int) -> set[tuple[str, int, str]]:
        chosen, _ = choose(where, head, number)
        return {(each["task"], each["index"], each["part"]) for found in chosen.values() for each in found}

    assert sample("a", 5) == sample("a", 5)
    assert len(sample("a", 5)) == 5
    assert len(set().union(*(sample(str(head), 5) for head in range(100)))) == 50
