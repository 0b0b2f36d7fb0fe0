"""`gate run`: the gate over a whole bank, from the start or from where a run was stopped."""

from __future__ import annotations

import shlex
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Protocol

import anyio

from gate import engine
from gate.backends import leftovers
from gate.backends.banks import Bank, open_bank
from gate.backends.books import Books
from gate.backends.jsonl import FIRST, JsonlLedger
from gate.backends.rundir import RunDir
from gate.cli import bind, check, exits, printing, progress, standing, wiring
from gate.cli.derive import closing_counts, derive_summary, write_derived
from gate.cli.replayed import KIND
from gate.cli.runlog import RunLog
from gate.errors import GateError, IntegrityError, SpecError, UnsoundError
from gate.history import History
from gate.model import Json, Task, digest_bytes
from gate.money import Account, Budget, price_of
from gate.report import cost, data
from gate.report.premise import weakness_sentence
from gate.resources import suites_dir
from gate.rules import MAX_DRAWS
from gate.strength import Strengths, strength
from gate.summary import Summary
from gate.version import gate_version

MAX_SHOWN_CHARS = 100


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
    price_in: float | None = None
    price_out: float | None = None
    cache: str | None = None
    system: str | None = None
    template: str | None = None
    show_tests: bool | None = None
    prelude: str | None = None

    def as_json(self) -> dict[str, Json]:
        """As `run.json` spells them, with the defaults filled in; those of a model stay None where not given."""
        return {
            **{name: getattr(self, name) for name in (*wiring.MODEL_OPTIONS, *wiring.PROMPT_OPTIONS)},
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
    """What the command line asked for; with `resume`, bank and source come from the run itself.

    A budget is for the run in whole; a resumed run may have another one.
    """

    bank: str | None = None
    source: str | None = None
    bound: Bound = Bound()
    budget_usd: float | None = None
    budget_tokens: int | None = None
    bind: Path | None = None
    resume: Path | None = None
    out: Path | None = None
    jobs: int | None = None
    max_connections: int | None = None
    require_sound: bool = False
    request_timeout_s: float | None = None
    quiet: bool = False
    verbose: bool = False
    json: bool = False

    @property
    def budgets(self) -> dict[str, Json]:
        """The budgets that were given, as `run.json` spells them."""
        return {"budget_usd": self.budget_usd, "budget_tokens": self.budget_tokens}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a run ended: what its ledger adds up to, its head, and whether a signal or the budget stopped it."""

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


def prices_of(
    price_in: float | None, price_out: float | None, table: Path | None, model: str | None, resume: Path | None
) -> tuple[float | None, float | None]:
    """The price that is meant: as given, or from a table by the model's name.

    Raises:
        SpecError: Both were given, there is no model to look up, or the table lacks it.
    """
    if table is None:
        return price_in, price_out
    if price_in is not None or price_out is not None:
        raise SpecError("--prices: says what --price-in and --price-out say: leave one of them out")
    if model is None and resume is not None:
        model = RunDir(resume).read_config()["options"].get("model")
    if model is None:
        raise SpecError("--prices: needs --model, to look it up")
    from gate.backends.prices import read_prices

    return read_prices(table, model)


def option_text(path: Path, option: str) -> str:
    """The text of a file that an option names.

    Raises:
        SpecError: It cannot be read as one.
    """
    from gate.backends.prompts import read_text

    return read_text(path, option)


def run(options: RunOptions) -> int:
    """Run, print the result, and say with the exit code how it went."""
    where = RunDir(options.resume or options.out or new_run_path(str(options.bank)))
    outcome = execute(options, where)
    budget = outcome.config["options"]["infra_budget"]
    if options.json:
        result = data.run_json(outcome.config, outcome.summary, head=outcome.head)
        printing.print_json({**result, "run_dir": str(where.path)})
    else:
        print(f"{result_lines(outcome.config, outcome.summary)}\n{where.path}/REPORT.md")
    return exits.STOPPED if outcome.stopped else exits.exit_code(outcome.summary, budget)


def new_run_path(bank: str) -> Path:
    """A new directory in `runs/`, named by bank and time."""
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    return Path("runs") / f"{Path(bank).name.split('.')[0]}-{stamp}"


def result_lines(config: dict[str, Json], summary: Summary) -> str:
    """The result in a few lines."""
    infra_budget = config["options"]["infra_budget"]
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
    spent = cost.line(config, summary)
    if spent:
        lines.append(spent)
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
        bind.refuse_other_lock(options.bind, where, config)
        if options.require_sound:
            refuse_unsound(options, where)
    spec = options.source or wiring.source_spec(config["source"])
    budgets = budgets_in_force(options, config["options"], spec)
    with JsonlLedger(where.ledger) as ledger, RunLog(where.log) as log:
        history = take_up(where, ledger)
        show = progress.Watching(log.note)
        books = Books(ledger, account_of(where), **money_of(config["options"], budgets), watch=show.note)
        drawing = wiring.Drawing(
            max_connections=options.max_connections, request_timeout_s=options.request_timeout_s, books=books
        )
        with wiring.open_source(spec, config["options"], drawing) as source:
            refuse_other_source(spec, source.digest, where, config)
            log.say(f"gate {gate_version()}: begun, {sum(each.is_decided for each in history.tasks.values())} decided")
            try:
                stopped = anyio.run(_run_all, options, where, config, source, known, books, history, show)
            except BaseException as exc:
                log.say(f"ended: {first_line(exc)}")
                say_resume(options, where)
                raise
        summary = derive_summary(where)
        if not stopped and not books.spent_out and not is_closed(where, summary):
            where.sweep_content()
            ledger.append("closed", closing_counts(summary))
        log.say("stopped" if stopped else books.spent_out or f"closed: {printing.counts_sentence(summary)}")
        head = ledger.head
    write_derived(where, config, summary, head)
    if books.spent_out:
        printing.say(f"gate: the budget is spent: {books.spent_out}")
    if stopped or books.spent_out or summary.infra:
        say_resume(options, where, "" if books.spent_out is None else more_budget(budgets))
    return Outcome(config=config, summary=summary, head=head, stopped=stopped or books.spent_out is not None)


def first_line(exc: BaseException) -> str:
    """An exception in a few words, those of an error of ours; others may hold anything, so they give their kind."""
    while isinstance(exc, BaseExceptionGroup):
        exc = exc.exceptions[0]
    return str(exc) if isinstance(exc, GateError) else type(exc).__name__


def budgets_in_force(options: RunOptions, recorded: dict[str, Json], spec: str) -> dict[str, Json]:
    """The budgets of this session: what was given, else what the run was begun with.

    Raises:
        SpecError: One is out of range, or has no place here.
    """
    budgets = {name: recorded.get(name) if value is None else value for name, value in options.budgets.items()}
    wiring.refuse_misplaced(spec.partition(":")[0], budgets)
    wiring.check_money({**recorded, **budgets})
    return budgets


def money_of(options: dict[str, Json], budgets: dict[str, Json]) -> dict[str, Any]:
    """Price and budget as the books want them."""
    usd = budgets["budget_usd"]
    budget = Budget(usd=None if usd is None else Decimal(str(usd)), tokens=budgets["budget_tokens"])
    return {"budget": budget, "price": price_of(options)}


def more_budget(budgets: dict[str, Json]) -> str:
    """What the next command needs beside --resume."""
    return " " + " ".join(f"--{name.replace('_', '-')} MORE" for name, value in budgets.items() if value is not None)


def say_resume(options: RunOptions, where: RunDir, more: str = "") -> None:
    """The exact next command after a run that is not at its end."""
    if not options.quiet:
        printing.say(f"gate: go on with: gate run --resume {shlex.quote(str(where.path))}{more}")


def refuse_other_source(spec: str, digest: str, where: RunDir, config: dict[str, Json]) -> None:
    """A resumed run draws from the same source.

    Raises:
        SpecError: It is another one; both digests are named.
    """
    if digest != config["source"]["digest"]:
        raise SpecError(
            f"--source {spec}: is another source ({digest[:12]}) than {where.path} was begun with "
            f"({config['source']['digest'][:12]}): name that one"
        )


def begin(options: RunOptions, where: RunDir, known: wiring.Engine) -> None:
    """Write what a run is bound to, in one step: there is a whole run directory, or none."""
    if options.bank is None or options.source is None:
        raise SpecError("gate run: a new run needs BANK and --source: see `gate run --help`")
    bank = open_bank(options.bank, suites_dir())
    lock = held(bank, options.bank, options.bind)
    bound = wiring.resolved(options.source, {**options.bound.as_json(), **options.budgets})
    with wiring.open_source(options.source, bound) as source, where.beginning() as begun:
        suites_digest, number = begun.write_suites(bind.as_bound(checked(selected(bank, options.bound), source), lock))
        look_at_gauge(options, begun)
        warn_unknown(source, bank)
        bound["base_url"] = getattr(source, "where", None)  # which server it is by default is settled, too
        config = {
            "schema": "gate.config/1",
            "version": gate_version(),
            "bank": {"name": bank.name, "reference": options.bank, "digest": bank.digest(), "tasks": number},
            **({} if lock is None else {"bind": lock.as_json()}),
            "suites_digest": suites_digest,
            "options": bound,
            "source": {**wiring.source_facts(options.source, bound), "digest": source.digest},
            **wiring.engine_facts(known, options.bound.runtime),
        }
        begun.write_config(config)


def held(bank: Bank, reference: str, lock: Path | None) -> bind.Bound | None:
    """The lock that a bank is held against, where one was named.

    Raises:
        SpecError: The bank is not the one that is bound.
    """
    if lock is None:
        return None
    bound = bind.read_bound(lock)
    bind.refuse_unbound(bound, reference, bank.tasks())
    return bound


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
            raise SpecError(
                f"{flag} {shown_value(value)}: {where.path} was begun with {shown_value(recorded)}: "
                "leave it out, or begin a new run"
            )
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


def shown_value(value: Json) -> str:
    """An option's value for a sentence; of a long text the beginning, and its digest."""
    text = str(value)
    if len(text) <= MAX_SHOWN_CHARS and text.isprintable():
        return text
    return f"{text[:MAX_SHOWN_CHARS]!r}… (sha256 {digest_bytes(text.encode('utf-8', 'surrogatepass'))[:12]})"


def account_of(where: RunDir) -> Account:
    """What the run has cost so far; what was under way when it stopped counts at its worst case."""
    account = Account()
    for record in where.records():
        account.add(record["kind"], record)
    account.abandon()
    return account


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
    books: Books,
    history: History,
    watching: progress.Watching,
) -> bool:
    """Decide all that is left; whether a signal stopped it."""
    tasks = [task_id for task_id, each in history.tasks.items() if each.is_decided]
    left = config["bank"]["tasks"] - len(tasks)
    jobs = options.jobs or wiring.default_jobs(config["options"]["isolation"])
    at_a_time = options.jobs or wiring.tasks_at_a_time(config["source"]["kind"], options.max_connections)
    with anyio.CancelScope() as scope:
        async with AsyncExitStack() as stack, anyio.create_task_group() as watch:
            watch.start_soon(stop_on_signal, scope)
            stack.push_async_callback(wiring.close_source, source)
            cost = standing.cost_of(books.account, books.price)
            with progress.progress(left, quiet=options.quiet, verbose=options.verbose, cost=cost) as shown:
                watching.show = shown.note
                async with wiring.open_sandbox(
                    known,
                    runtime=config["options"]["runtime"],
                    concurrency=jobs,
                    isolation=config["options"]["isolation"],
                ) as sandbox:
                    await engine.run_tasks(
                        (task for task in where.tasks() if is_left(task, history)),
                        source=source,
                        sandbox=sandbox,
                        ledger=books,
                        concurrency=at_a_time,
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


def checked(tasks: Iterator[Task], source: wiring.PoolSource) -> Iterator[Task]:
    """The same tasks, each of which the source can ask for.

    Raises:
        SpecError: One of them it cannot.
    """
    check = getattr(source, "check_task", None)
    for task in tasks:
        if check is not None:
            check(task)
        yield task


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
