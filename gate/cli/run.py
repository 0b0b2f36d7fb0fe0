"""`gate run`: the gate over a whole bank, from the start or from where a run was stopped."""

from __future__ import annotations

import shlex
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

import anyio

from gate import engine
from gate.backends import leftovers
from gate.backends.banks import Bank, open_bank
from gate.backends.jsonl import FIRST, JsonlLedger
from gate.backends.rundir import RunDir
from gate.cli import check, exits, printing, wiring
from gate.cli.derive import closing_counts, derive_summary, write_derived
from gate.cli.replayed import KIND
from gate.errors import IntegrityError, SpecError, UnsoundError
from gate.history import History
from gate.model import Json, Task, digest_bytes
from gate.report import data
from gate.report.premise import weakness_sentence
from gate.resources import suites_dir
from gate.rules import MAX_DRAWS
from gate.strength import Strengths, strength
from gate.summary import Summary
from gate.version import gate_version


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """The options that a run is bound to: a resumed run has the same. None: not given."""

    draws: int | None = None
    full_pool: bool | None = None
    isolation: str | None = None
    runtime: str | None = None
    limit: int | None = None
    tasks: tuple[str, ...] | None = None
    infra_budget: float | None = None
    model: str | None = None
    base_url: str | None = None
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    seed: int | None = None

    def as_json(self) -> dict[str, Json]:
        """As `run.json` spells them, with the defaults filled in; those of a model stay None where not given."""
        return {
            **{name: getattr(self, name) for name in wiring.MODEL_OPTIONS},
            "draws": self.draws or MAX_DRAWS,
            "full_pool": bool(self.full_pool),
            "isolation": self.isolation or "container",
            "runtime": self.runtime,
            "limit": self.limit,
            "tasks": list(self.tasks or ()),
            "infra_budget": 0.01 if self.infra_budget is None else self.infra_budget,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What the command line asked for; with `resume`, bank and source come from the run itself."""

    bank: str | None = None
    source: str | None = None
    bound: Bound = Bound()
    resume: Path | None = None
    out: Path | None = None
    jobs: int | None = None
    max_connections: int | None = None
    require_sound: bool = False
    quiet: bool = False
    verbose: bool = False
    json: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a run ended: what its ledger adds up to, its head, and whether a signal stopped it."""

    config: dict[str, Json]
    summary: Summary
    head: str
    stopped: bool


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
    where = RunDir(options.resume or options.out or new_run_path(str(options.bank)))
    outcome = execute(options, where)
    budget = outcome.config["options"]["infra_budget"]
    if options.json:
        result = data.run_json(outcome.config, outcome.summary, head=outcome.head)
        printing.print_json({**result, "run_dir": str(where.path)})
    else:
        print(f"{result_lines(outcome.summary, budget)}\n{where.path}/REPORT.md")
    return exits.STOPPED if outcome.stopped else exits.exit_code(outcome.summary, budget)


def new_run_path(bank: str) -> Path:
    """A new directory in `runs/`, named by bank and time."""
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    return Path("runs") / f"{Path(bank).name.split('.')[0]}-{stamp}"


def result_lines(summary: Summary, infra_budget: float) -> str:
    """The result in a few lines."""
    lines = [
        printing.counts_sentence(summary),
        f"{summary.draws} draws, {summary.calls_per_task:.2f} calls a task",
    ]
    if not summary.has_headline(infra_budget):
        lines.append("no headline: tasks are missing, or our own world failed too often")
    elif summary.hidden is not None:
        lines.append(
            f"on the hidden tests: {summary.hidden.success} right, {summary.hidden.wrong_delivered} wrong of "
            f"{summary.delivered} delivered"
        )
    if summary.infra_reasons:
        reason, number = next(iter(summary.infra_reasons.items()))
        lines.append(f"infra, {number} of {summary.infra}: {printing.escape(' '.join(reason.split()))}")
    return "\n".join(lines)


def execute(options: RunOptions, where: RunDir) -> Outcome:
    """Everything but the printing: begin or take up the run, decide what is left, derive."""
    known = wiring.open_engine(options.bound.runtime)
    leftovers.reap(known.client)
    if options.resume is None:
        begin(options, where, known)
    config = where.read_config()
    if config.get("kind") == KIND:
        raise SpecError(f"{where.path}: is a replay: go on with the same gate replay and --out {where.path}")
    if options.resume is not None:
        refuse_other_options(options, where, config, known)
        if options.require_sound:
            refuse_unsound(options, where)
    spec = options.source or wiring.source_spec(config["source"])
    opened = wiring.open_source(spec, config["options"], options.max_connections)
    with opened as source, JsonlLedger(where.ledger) as ledger:
        if source.digest != config["source"]["digest"]:
            raise SpecError(
                f"--source {spec}: is another source ({source.digest[:12]}) than {where.path} was begun with "
                f"({config['source']['digest'][:12]}): name that one"
            )
        history = take_up(where, ledger)
        try:
            stopped = anyio.run(_run_all, options, where, config, source, known, ledger, history)
        except BaseException:
            say_resume(options, where)
            raise
        summary = derive_summary(where)
        if not stopped and not is_closed(where, summary):
            where.sweep_content()
            ledger.append("closed", closing_counts(summary))
        head = ledger.head
    write_derived(where, config, summary, head)
    if stopped or summary.infra:
        say_resume(options, where)
    return Outcome(config=config, summary=summary, head=head, stopped=stopped)


def say_resume(options: RunOptions, where: RunDir) -> None:
    """The exact next command after a run that is not at its end."""
    if not options.quiet:
        printing.say(f"gate: go on with: gate run --resume {shlex.quote(str(where.path))}")


def begin(options: RunOptions, where: RunDir, known: wiring.Engine) -> None:
    """Write what a run is bound to, in one step: there is a whole run directory, or none."""
    if options.bank is None or options.source is None:
        raise SpecError("gate run: a new run needs BANK and --source: see `gate run --help`")
    bank = open_bank(options.bank, suites_dir())
    bound = options.bound.as_json()
    with wiring.open_source(options.source, bound) as source, where.beginning() as begun:
        suites_digest, number = begun.write_suites(selected(bank, options.bound))
        look_at_gauge(options, begun)
        warn_unknown(source, bank)
        config = {
            "schema": "gate.config/1",
            "version": gate_version(),
            "bank": {"name": bank.name, "reference": options.bank, "digest": bank.digest(), "tasks": number},
            "suites_digest": suites_digest,
            "options": bound,
            "source": {**wiring.source_facts(options.source, bound), "digest": source.digest},
            **wiring.engine_facts(known, options.bound.runtime),
        }
        begun.write_config(config)


def look_at_gauge(options: RunOptions, where: RunDir) -> None:
    """Say how many suites of a run are weak; with `require_sound`, refuse to draw unless all are sound.

    Raises:
        UnsoundError: One is not.
    """
    if options.require_sound:
        refuse_unsound(options, where)
        return
    strengths = Strengths()
    for suite in where.suite_specs():
        strengths.add(strength(suite))
    if strengths.weak:
        printing.say(f"gate: {weakness_sentence(strengths.weakness())}")


def refuse_unsound(options: RunOptions, where: RunDir) -> None:
    """Hold the suites of a run to what `gate check` asks for, references included.

    Raises:
        UnsoundError: One is weak, or wrong by its own programs.
    """
    statuses: Counter[str] = Counter()
    first: list[str] = []

    async def look() -> None:
        reading = ((task.id, task) for task in where.tasks())
        async for finding in check.findings(reading, check.Programs(runtime=options.bound.runtime, jobs=options.jobs)):
            statuses[finding.status] += 1
            first.extend(check.finding_lines(finding) if not first else ())

    anyio.run(look)
    if first:
        raise UnsoundError(f"--require-sound: {check.counts_line(statuses)}; nothing was drawn; the first: {first[0]}")


def refuse_other_options(options: RunOptions, where: RunDir, config: dict[str, Json], known: wiring.Engine) -> None:
    """A resumed run is the same run.

    Raises:
        SpecError: An option, the bank or the image differs; both values are named.
        IntegrityError: The run's own copy of the suites is not the one that it is bound to.
    """
    given = {field.name: getattr(options.bound, field.name) for field in fields(Bound)}
    for name, value in given.items():
        recorded = config["options"].get(name)
        if value is not None and (list(value) if isinstance(value, tuple) else value) != recorded:
            flag = "--" + name.replace("_", "-").replace("tasks", "task")
            raise SpecError(f"{flag} {value}: {where.path} was begun with {recorded}: leave it out, or begin a new run")
    if options.bank is not None:
        digest = open_bank(options.bank, suites_dir()).digest()
        if digest != config["bank"]["digest"]:
            raise SpecError(
                f"{options.bank}: is another bank ({digest[:12]}) than {where.path} was begun with "
                f"({config['bank']['digest'][:12]}): leave it out, or begin a new run"
            )
    if known.image.content != config["image"]["content"]:
        raise SpecError(
            f"{where.path}: was begun in image {config['image']['content']}, the engine has {known.image.content}: "
            "build that one again, or begin a new run"
        )
    found = where.suites_digest()
    if found != config["suites_digest"]:
        raise IntegrityError(f"{where.suites}: has digest {found}, run.json says {config['suites_digest']}")


def take_up(where: RunDir, ledger: JsonlLedger) -> History:
    """Bind an empty ledger to the run, or read how far it came.

    Raises:
        IntegrityError: It is another run's ledger, or damaged.
    """
    bound = digest_bytes(where.run_json.read_bytes())
    if ledger.cut_bytes:
        printing.say(f"gate: {where.ledger}: cut a torn last record of {ledger.cut_bytes} bytes")
    if ledger.head == FIRST:
        ledger.append("run", {"run": bound})
        return History()
    history = History()
    for number, record in enumerate(where.records()):
        if number == 0 and (record["kind"] != "run" or record.get("run") != bound):
            raise IntegrityError(f"{where.ledger}:1: is bound to run.json {record.get('run')}, not to {bound}")
        history.add(record)
    return history


def is_closed(where: RunDir, summary: Summary) -> bool:
    """Whether the ledger's last line closes it with these counts."""
    last: dict[str, Json] = {}
    for record in where.records():
        last = record
    return last["kind"] == "closed" and all(last[name] == count for name, count in closing_counts(summary).items())


async def _run_all(
    options: RunOptions,
    where: RunDir,
    config: dict[str, Json],
    source: wiring.PoolSource,
    known: wiring.Engine,
    ledger: JsonlLedger,
    history: History,
) -> bool:
    """Decide all that is left; whether a signal stopped it."""
    tasks = [task_id for task_id, each in history.tasks.items() if each.is_decided]
    left = config["bank"]["tasks"] - len(tasks)
    jobs = options.jobs or wiring.default_jobs()
    with anyio.CancelScope() as scope:
        async with AsyncExitStack() as stack, anyio.create_task_group() as watch:
            watch.start_soon(stop_on_signal, scope)
            stack.push_async_callback(wiring.close_source, source)
            with printing.progress(left, quiet=options.quiet, verbose=options.verbose) as shown:
                async with wiring.open_sandbox(
                    known, runtime=config["options"]["runtime"], concurrency=jobs
                ) as sandbox:
                    await engine.run_tasks(
                        (task for task in where.tasks() if is_left(task, history)),
                        source=source,
                        sandbox=sandbox,
                        ledger=ledger,
                        concurrency=jobs,
                        draws=config["options"]["draws"],
                        full_pool=config["options"]["full_pool"],
                        history=history,
                        on_decision=shown.advance,
                    )
            watch.cancel_scope.cancel()
    return scope.cancelled_caught


def is_left(task: Task, history: History) -> bool:
    """Whether something of a task is still to be done: its decision, or the measuring of what was delivered."""
    known = history.task(task.id)
    delivered = known.decision is not None and known.decision.outcome == "delivered"
    return not known.is_decided or (delivered and bool(task.suite.hidden) and not known.measured)


async def stop_on_signal(scope: anyio.CancelScope) -> None:
    """Ctrl-C and SIGTERM end the run in order."""
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for _ in signals:
            scope.cancel()
            return


class Selection(Protocol):
    """Which tasks of a bank a run is about."""

    @property
    def limit(self) -> int | None:
        """The first so many only."""
        ...

    @property
    def tasks(self) -> tuple[str, ...] | None:
        """These only."""
        ...


def selected(bank: Bank, bound: Selection) -> Iterator[Task]:
    """The tasks that this run is about.

    Raises:
        SpecError: A task that was named is not in the bank.
    """
    wanted = set(bound.tasks or ())
    first = None
    number = 0
    for task in bank.tasks():
        first = first or task.id
        if bound.tasks and task.id not in wanted:
            continue
        if number == bound.limit:
            break
        wanted.discard(task.id)
        number += 1
        yield task
    if wanted and number != bound.limit:
        raise SpecError(f"--task: {bank.name} has no task {min(wanted)!r}: its first is {first!r}")


def warn_unknown(source: wiring.PoolSource, bank: Bank) -> None:
    """Say how many saved tasks the bank does not have; they are not lost, just not asked for."""
    saved = dict(source.task_ids())
    if saved:
        for task in bank.tasks():
            saved.pop(task.id, None)
    if saved:
        first = printing.escape(next(iter(saved)))
        printing.say(
            f"gate: {len(saved)} tasks in the samples are not in the bank "
            f"({sum(saved.values())} samples, first: {first})"
        )
