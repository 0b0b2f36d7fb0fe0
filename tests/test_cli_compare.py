"""`gate compare`: the four cells, who is right where, and what cannot be paired is refused."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import pytest
from echo_sandbox import EchoSandbox, install, task_line, write_bank, write_pool
from test_cli_replay import POOLS, replayed

from gate.cli import compare as verb
from gate.cli import run as run_verb
from gate.errors import SpecError


@pytest.fixture
def sandbox(monkeypatch: pytest.MonkeyPatch) -> EchoSandbox:
    made = EchoSandbox()
    install(made, monkeypatch.setattr)
    return made


@pytest.fixture
def out(sandbox: EchoSandbox, tmp_path: Path) -> Path:
    """A replay of five tasks."""
    return a_replay(tmp_path, "out", range(5))


def a_replay(folder: Path, name: str, numbers: range, **more: Any) -> Path:
    bank = write_bank(folder / f"bank-{name}.jsonl", [task_line(number, **more) for number in numbers])
    replayed(bank, write_pool(folder / f"pool-{name}.jsonl", POOLS), out=folder / name)
    return folder / name


def compared(first: object, second: object) -> dict[str, Any]:
    with contextlib.redirect_stdout(io.StringIO()) as said:
        assert verb.compare(str(first), str(second), as_json=True) == 0
    found: dict[str, Any] = json.loads(said.getvalue())
    return found


def test_two_rules_of_one_replay(out: Path) -> None:
    """First pass is right where single is wrong on one task, and the other way round on one; both are named."""
    found = compared(out, f"{out}:single")
    assert (found["n"], found["b"], found["c"]) == (5, 1, 1)
    assert (found["only_first"], found["only_second"]) == (["t/1"], ["t/3"])
    assert (found["p_exact"], found["delta_pp"]) == (1.0, 0.0)
    assert set(found) == {
        *("schema", "first", "second", "n", "b", "c", "delta_pp", "ci95_pp", "ci_method", "p_exact", "p_mid", "p_holm"),
        *("only_first", "only_second"),
    }


def test_the_other_way_round_is_mirrored(out: Path) -> None:
    """Exchanging the two exchanges b and c and nothing else."""
    one, other = compared(out, f"{out}:ship_always"), compared(f"{out}:ship_always", out)
    assert (one["b"], one["c"], one["only_second"]) == (other["c"], other["b"], other["only_first"])
    assert one["p_exact"] == other["p_exact"]


def test_a_person_reads_the_four_cells(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Both, first alone, second alone, neither; the smallest difference; the tasks by name."""
    verb.compare(str(out), f"{out}:single", as_json=False)
    text = capsys.readouterr().out
    numbers = [line.split()[-1] for line in text.splitlines() if line.startswith("  ")]
    assert numbers == ["1", "1", "1", "2"]
    assert "could not have shown any difference at 80 % power" in text
    assert "first alone right:  t/1" in text and "second alone right: t/3" in text


def test_a_run_and_a_replay_of_the_same_pool_agree(out: Path, tmp_path: Path) -> None:
    """The gate over a pool is the gate: no task tells a run from the replay's first pass."""
    bound = run_verb.Bound()
    options = run_verb.RunOptions(
        bank=str(tmp_path / "bank-out.jsonl"), source=f"samples:{tmp_path / 'pool-out.jsonl'}", bound=bound, quiet=True
    )
    options = __import__("dataclasses").replace(options, out=tmp_path / "run")
    with contextlib.redirect_stdout(io.StringIO()):
        run_verb.run(options)
    found = compared(tmp_path / "run", out)
    assert (found["n"], found["b"], found["c"]) == (5, 0, 0)
    with pytest.raises(SpecError, match="is a run, which has one rule"):
        compared(f"{tmp_path / 'run'}:majority", out)


def test_other_tasks_are_refused_by_name(out: Path, tmp_path: Path) -> None:
    """Tasks that only one has, and tasks with another suite, are named."""
    less = a_replay(tmp_path, "less", range(1, 5))
    with pytest.raises(SpecError, match=r"not of the same tasks: only in .*out: t/0: compare others"):
        compared(out, less)
    other = a_replay(tmp_path, "other", range(5), prompt="another")
    with pytest.raises(SpecError, match="judged by different suites: t/0, t/1, t/2, t/3, t/4"):
        compared(out, other)


def test_what_cannot_be_compared_is_a_sentence(out: Path, tmp_path: Path) -> None:
    """No directory, no such rule, nothing that measures, not closed: each says so."""
    for spec, what in (
        (tmp_path / "nothing", "no such directory"),
        (f"{out}:best", "no rule 'best'"),
        (tmp_path, "holds no run"),
        (a_replay(tmp_path, "blind", range(5), hidden=[]), "no task has hidden tests"),
    ):
        with pytest.raises(SpecError, match=what):
            compared(out, spec)
    ledger = out / "ledger.jsonl"
    lines = ledger.read_bytes().splitlines(keepends=True)
    ledger.write_bytes(b"".join(lines[:-1]))
    with pytest.raises(SpecError, match="is not closed"):
        compared(out, out)


def test_a_path_with_a_colon_is_a_path(out: Path) -> None:
    """What stands before the last colon may hold colons."""
    odd = out.rename(out.parent / "a:b")
    assert compared(odd, f"{odd}:oracle")["c"] == 2
