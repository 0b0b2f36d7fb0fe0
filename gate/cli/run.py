"""`gate run`: the gate over a whole bank."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import anyio

from gate import engine
from gate.backends.banks import Bank, open_bank
from gate.backends.jsonl import JsonlLedger
from gate.backends.rundir import RunDir, write_atomically
from gate.cli import exits, printing, wiring
from gate.errors import SpecError
from gate.model import Json, Task, digest_bytes
from gate.report import data, markdown
from gate.resources import suites_dir
from gate.summary import Summary, Tally
from gate.version import gate_version


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What the command line asked for."""

    bank: str
    source: str
    draws: int = 5
    full_pool: bool = False
    isolation: str = "container"
    runtime: str | None = None
    out: Path | None = None
    limit: int | None = None
    tasks: tuple[str, ...] = ()
    jobs: int | None = None
    infra_budget: float = 0.01
    quiet: bool = False
    verbose: bool = False
    json: bool = False


def parse_share(text: str) -> float:
    """`1%` or `0.01` as a fraction.

    Raises:
        SpecError: It is neither, or not between 0 and 1.
    """
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise SpecError(f"--infra-budget: {text!r} is no share: write 1% or 0.01")
    return share


def run(options: RunOptions) -> int:
    """Run, print the result, and say with the exit code how it went."""
    where = RunDir(options.out or new_run_path(options.bank))
    summary, head, stopped = execute(options, where)
    config = where.read_config()
    result = data.run_json(config, summary, head=head)
    if options.json:
        printing.print_json({**result, "run_dir": str(where.path)})
    else:
        print(f"{result_lines(summary, options.infra_budget)}\n{where.path}/REPORT.md")
    return exits.STOPPED if stopped else exits.exit_code(summary, options.infra_budget)


def new_run_path(bank: str) -> Path:
    """A new directory in `runs/`, named by bank and time."""
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    return Path("runs") / f"{Path(bank).name.split('.')[0]}-{stamp}"


def result_lines(summary: Summary, infra_budget: float) -> str:
    """The result in a few lines."""
    lines = [
        f"{summary.tasks} tasks = {summary.delivered} delivered + {summary.refused} refused "
        f"+ {summary.infra} infra + {summary.not_run} not run",
        f"{summary.draws} draws, {summary.calls_per_task:.2f} calls a task",
    ]
    if not summary.has_headline(infra_budget):
        lines.append("no headline: tasks are missing, or our own world failed too often")
    elif summary.hidden is not None:
        lines.append(
            f"on the hidden tests: {summary.hidden.success} right, {summary.hidden.wrong_delivered} wrong of "
            f"{summary.delivered} delivered"
        )
    return "\n".join(lines)


def execute(options: RunOptions, where: RunDir) -> tuple[Summary, str, bool]:
    """Everything but the printing: the summary, the ledger's head, and whether it was stopped."""
    bank = open_bank(options.bank, suites_dir())
    known = wiring.open_engine(options.runtime)
    with wiring.open_source(options.source) as source:
        where.create()
        try:
            suites_digest, number = where.write_suites(selected(bank, options))
        except BaseException:
            where.discard()
            raise
        warn_unknown(source, where)
        config = configuration(options, bank, suites_digest, number)
        config["source"] = {**source_facts(options.source), "digest": source.digest}
        config |= wiring.engine_facts(known, options.runtime)
        run_digest = digest_bytes(where.write_config(config))
        with JsonlLedger(where.ledger) as ledger:
            ledger.append("run", {"run": run_digest})
            stopped = anyio.run(_run_all, options, where, number, source, known, ledger)
            summary = derive_summary(where)
            if not stopped:
                ledger.append("closed", closing_counts(summary))
            head = ledger.head
    write_derived(where, config, summary, head)
    return summary, head, stopped


async def _run_all(
    options: RunOptions,
    where: RunDir,
    number: int,
    source: wiring.PoolSource,
    known: wiring.Engine,
    ledger: JsonlLedger,
) -> bool:
    """Decide all tasks; whether a signal stopped it."""
    jobs = options.jobs or wiring.default_jobs()
    stopped = False
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as watch:
            watch.start_soon(_stop_on_signal, scope)
            with printing.progress(number, quiet=options.quiet, verbose=options.verbose) as shown:
                async with wiring.open_sandbox(known, runtime=options.runtime, concurrency=jobs) as sandbox:
                    await engine.run_tasks(
                        where.tasks(),
                        source=source,
                        sandbox=sandbox,
                        ledger=ledger,
                        concurrency=jobs,
                        draws=options.draws,
                        full_pool=options.full_pool,
                        on_decision=shown.advance,
                    )
            watch.cancel_scope.cancel()
    stopped = scope.cancelled_caught
    return stopped


async def _stop_on_signal(scope: anyio.CancelScope) -> None:
    """Ctrl-C and SIGTERM end the run in order."""
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for _ in signals:
            scope.cancel()
            return


def selected(bank: Bank, options: RunOptions) -> Iterator[Task]:
    """The tasks that this run is about.

    Raises:
        SpecError: A task that was named is not in the bank, or there is none.
    """
    wanted = set(options.tasks)
    first = None
    number = 0
    for task in bank.tasks():
        first = first or task.id
        if options.tasks and task.id not in wanted:
            continue
        if number == options.limit:
            break
        wanted.discard(task.id)
        number += 1
        yield task
    if wanted and number != options.limit:
        raise SpecError(f"--task: {bank.name} has no task {min(wanted)!r}: its first is {first!r}")


def warn_unknown(source: wiring.PoolSource, where: RunDir) -> None:
    """Say how many saved tasks this run does not know; they are not lost, just not asked for."""
    known = {task.id for task in where.tasks()}
    unknown = {task_id: count for task_id, count in source.task_ids().items() if task_id not in known}
    if unknown:
        first = printing.escape(next(iter(unknown)))
        printing.say(
            f"gate: {len(unknown)} tasks in the samples are not among this run's tasks "
            f"({sum(unknown.values())} samples, first: {first})"
        )


def source_facts(spec: str) -> dict[str, Json]:
    """A source without its path: its kind, and the last part of what it names."""
    kind, _, where = spec.partition(":")
    return {"spec": f"{kind}:{Path(where).name}", "path": where}


def configuration(options: RunOptions, bank: Bank, suites_digest: str, number: int) -> dict[str, Json]:
    """The resolved configuration; secrets have no place in it."""
    return {
        "schema": "gate.config/1",
        "version": gate_version(),
        "bank": {"name": bank.name, "reference": options.bank, "digest": bank.digest(), "tasks": number},
        "suites_digest": suites_digest,
        "options": {
            "draws": options.draws,
            "full_pool": options.full_pool,
            "isolation": options.isolation,
            "runtime": options.runtime,
            "limit": options.limit,
            "tasks": list(options.tasks),
            "infra_budget": options.infra_budget,
        },
    }


def derive_summary(where: RunDir) -> Summary:
    """The counts, from the run's own suites and ledger."""
    tally = Tally()
    for suite in where.suite_specs():
        tally.add_suite(suite)
    for record in where.records():
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


def write_derived(where: RunDir, config: dict[str, Json], summary: Summary, head: str) -> None:
    """Everything that can be made again."""
    import json

    where.write_delivered()
    result = json.dumps(data.run_json(config, summary, head=head), indent=2, ensure_ascii=False) + "\n"
    write_atomically(where.path / "summary.json", result.encode())
    write_atomically(where.path / "REPORT.md", markdown.render(config, summary).encode())
