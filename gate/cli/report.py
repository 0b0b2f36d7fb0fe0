"""`gate report`: everything that derives from a run's ledger, made again."""

from __future__ import annotations

from pathlib import Path

from gate.backends.jsonl import FIRST, read_lines
from gate.backends.rundir import RunDir
from gate.cli import exits, printing
from gate.cli.derive import derive_summary, write_derived
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
    summary, head = derive_summary(where), ledger_head(where)
    write_derived(where, config, summary, head)
    if as_json:
        printing.print_json({**data.run_json(config, summary, head=head), "run_dir": str(path)})
    else:
        print((path / "REPORT.md").read_text(encoding="utf-8"))
    return exits.DONE
