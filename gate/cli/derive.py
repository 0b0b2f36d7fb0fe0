"""Everything that can be made again from a run's configuration, suites and ledger."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from gate.backends.rundir import RunDir, write_atomically
from gate.errors import IntegrityError
from gate.history import check
from gate.model import Json
from gate.report import data, markdown
from gate.summary import Summary, Tally


def whole_records(where: RunDir) -> Iterator[dict[str, Json]]:
    """The ledger's records, in order, each of a known kind and whole.

    Raises:
        IntegrityError: A line is damaged, or holds no record of ours.
    """
    for number, record in enumerate(where.records(), 1):
        try:
            check(record)
        except IntegrityError as exc:
            raise IntegrityError(f"{where.ledger}:{number}: {exc}") from exc
        yield record


def derive_summary(where: RunDir) -> Summary:
    """The counts, from the run's own suites and ledger.

    Raises:
        IntegrityError: The records are damaged or contradict each other.
    """
    tally = Tally()
    for suite in where.suite_specs():
        tally.add_suite(suite)
    for record in whole_records(where):
        tally.add_record(record)
    return tally.summary()


def closing_counts(summary: Summary) -> dict[str, Json]:
    """What the closing line says."""
    return {
        "tasks": summary.tasks,
        "delivered": summary.delivered,
        "refused": summary.refused,
        "infra": summary.infra,
        "not_run": summary.not_run,
        "draws": summary.draws,
    }


def derived_texts(config: dict[str, Json], summary: Summary, head: str) -> dict[str, bytes]:
    """The derived files that are made from the counts alone, by name.

    Raises:
        IntegrityError: The configuration lacks what a report says.
    """
    try:
        result = json.dumps(data.run_json(config, summary, head=head), indent=2, ensure_ascii=False) + "\n"
        report = markdown.render(config, summary)
    except (KeyError, TypeError, ValueError, AttributeError) as exc:
        raise IntegrityError(f"run.json: does not say what a report needs ({exc!r})") from exc
    return {"summary.json": result.encode(), "REPORT.md": report.encode()}


def write_derived(
    where: RunDir, config: dict[str, Json], summary: Summary, head: str, *, into: Path | None = None
) -> None:
    """Write all derived files anew, in the run directory or into another one."""
    target = into or where.path
    where.write_delivered(target)
    for name, content in derived_texts(config, summary, head).items():
        write_atomically(target / name, content)
