"""`gate report`: everything that derives from a run's ledger, made again, in whatever format is asked for."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from gate.backends.jsonl import FIRST, PoolIndex, read_lines
from gate.backends.rundir import RunDir, write_atomically
from gate.cli import exits, printing
from gate.cli.derive import derive_summary, write_derived
from gate.cli.recorded import read_recorded
from gate.cli.replayed import KIND, derive_replay, result_json, write_replayed
from gate.cli.verify_report import OWN, holds_record
from gate.errors import SpecError
from gate.model import Json
from gate.report import data
from gate.report.content import compose
from gate.report.formats import FORMATS, format_of


def ledger_head(where: RunDir) -> str:
    """SHA-256 of the ledger's last line, with the chain checked on the way."""
    head = FIRST
    for line in read_lines(where.ledger):
        head = line.digest
    return head


def report(paths: Sequence[Path], outputs: Sequence[Path], *, rule: str | None, as_json: bool) -> int:
    """Write the files that are asked for; where none is, the derived files of one run again, and print its report.

    Raises:
        SpecError: An output's name says no format, or the runs cannot stand in one report.
    """
    endings = [_ending(output) for output in outputs]
    if not outputs:
        if len(paths) != 1:
            raise SpecError("gate report: several runs make one report only with -o FILE: say where it goes")
        return report_one(paths[0], as_json=as_json)
    whole = compose([read_recorded(path, rule=rule) for path in paths])
    for output, ending in zip(outputs, endings, strict=True):
        places = [relative_place(path, output) for path in paths]
        write_atomically(output, FORMATS[ending](whole, places))
    if as_json:
        printing.print_json({"schema": "gate.written/1", "files": [str(output) for output in outputs]})
    else:
        for output in outputs:
            printing.say(f"gate: wrote {output}")
    return exits.DONE


def _ending(output: Path) -> str:
    ending = format_of(output.name)
    if ending is None:
        raise SpecError(f"-o {output}: no format is called so: end the name in one of {', '.join(FORMATS)}")
    if any(map(holds_record, output.resolve().parents[:2])) and output.name not in OWN:
        raise SpecError(f"-o {output}: lies in a run, where only {', '.join(OWN)} may join the record: write elsewhere")
    if not output.parent.is_dir() or output.is_dir():
        raise SpecError(f"-o {output}: no place for a file: name one in a folder that is there")
    return ending


def relative_place(path: Path, output: Path) -> str:
    """Where a run lies as seen from the report about it; no report holds an absolute path."""
    return Path(os.path.relpath(path.resolve(), output.resolve().parent)).as_posix()


def report_one(path: Path, *, as_json: bool) -> int:
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
