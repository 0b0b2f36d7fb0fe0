"""`gate report`: everything that derives from a run's ledger, made again."""

from __future__ import annotations

from pathlib import Path

from gate.backends.jsonl import FIRST, PoolIndex, read_lines
from gate.backends.rundir import RunDir
from gate.cli import exits, printing
from gate.cli.derive import derive_summary, write_derived
from gate.cli.replayed import KIND, derive_replay, result_json, write_replayed
from gate.errors import SpecError
from gate.model import Json
from gate.report import data


def ledger_head(where: RunDir) -> str:
    """SHA-256 of the ledger's last line, with the chain checked on the way."""
    head = FIRST
    for line in read_lines(where.ledger):
        head = line.digest
    return head


def report(path: Path, *, as_json: bool) -> int:
    """Write the derived files again, byte for byte what they were, and print the report."""
    where = RunDir(path)
    config = where.read_config()
    if config.get("kind") == KIND:
        return report_replay(where, config, as_json=as_json)
    summary, head = derive_summary(where), ledger_head(where)
    write_derived(where, config, summary, head)
    if as_json:
        printing.print_json({**data.run_json(config, summary, head=head), "run_dir": str(path)})
    else:
        print((path / "REPORT.md").read_text(encoding="utf-8"))
    return exits.DONE


def report_replay(where: RunDir, config: dict[str, Json], *, as_json: bool) -> int:
    """The same for a replay.

    Raises:
        SpecError: It has a rule of the user's own, which is code that only `gate replay` is told to run.
    """
    if config.get("rule") is not None:
        raise SpecError(f"{where.path}: has a rule of its own: the same gate replay again makes its report")
    index = PoolIndex(where.ledger)
    found = derive_replay(where, index, config, {})
    write_replayed(where, config, found, index.head)
    if as_json:
        printing.print_json(result_json(config, found))
    else:
        print((where.path / "REPORT.md").read_text(encoding="utf-8"))
    return exits.DONE
