"""`gate replay`: saved pools judged offline, every rule over them recomputed."""

from __future__ import annotations

import shlex
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import anyio

from gate.backends import leftovers
from gate.backends.banks import Bank, open_bank
from gate.backends.jsonl import ENDS, FIRST, JsonlLedger, PoolIndex
from gate.backends.observations import CachedSandbox, ObservationCache
from gate.backends.poolfiles import JoinedPools, open_pools
from gate.backends.rundir import RunDir
from gate.cli import bind, exits, printing, progress, wiring
from gate.cli.own_rule import OwnRule, load_rule
from gate.cli.provenance import bank_counts
from gate.cli.replay_text import result_text
from gate.cli.replayed import (
    KIND,
    Replayed,
    closing_counts,
    derive_replay,
    has_written,
    is_done,
    pool_of,
    result_json,
    write_replayed,
)
from gate.cli.run import held, selected, stop_on_signal, warn_unknown
from gate.errors import IntegrityError, SpecError
from gate.model import Json, digest_bytes, digest_json
from gate.pools import Rule
from gate.replay import replay_tasks
from gate.resources import suites_dir
from gate.rules import MAX_DRAWS
from gate.version import gate_version

CACHE_NAME = "observations.sqlite"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayBound:
    """The options that a replay is bound to: one that goes on has the same. None: not given."""

    draws: int | None = None
    isolation: str | None = None
    runtime: str | None = None
    limit: int | None = None
    tasks: tuple[str, ...] | None = None
    infra_budget: float | None = None

    def as_json(self) -> dict[str, Json]:
        """As `run.json` spells them, with the defaults filled in; the boundary stays None where none was named."""
        return {
            "draws": self.draws or MAX_DRAWS,
            "isolation": self.isolation,
            "runtime": self.runtime,
            "limit": self.limit,
            "tasks": list(self.tasks or ()),
            "infra_budget": 0.01 if self.infra_budget is None else self.infra_budget,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    """What the command line asked for."""

    pools: tuple[Path, ...]
    bank: str
    bound: ReplayBound = ReplayBound()
    rule: str | None = None
    bind: Path | None = None
    out: Path | None = None
    jobs: int | None = None
    quiet: bool = False
    verbose: bool = False
    json: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a replay ended: what its ledger adds up to, and whether a signal stopped it."""

    config: dict[str, Json]
    found: Replayed
    stopped: bool


def replay(options: ReplayOptions) -> int:
    """Replay, print the result, and say with the exit code how it went."""
    where, outcome = execute(options)
    if options.json:
        printing.print_json(result_json(outcome.config, outcome.found))
    else:
        print(result_text(outcome.config, outcome.found))
    if not options.quiet:
        printing.say(f"gate: {where.path}/REPORT.md")
    if outcome.stopped:
        return exits.STOPPED
    decisions = outcome.found.decisions
    if not outcome.found.has_headline(outcome.config["options"]["infra_budget"]):
        return exits.WORLD
    return exits.DONE if decisions.delivered == decisions.tasks else exits.REFUSED


def execute(options: ReplayOptions) -> tuple[RunDir, Outcome]:
    """Everything but the printing: begin or take up the replay, judge what is left, derive."""
    rule = None if options.rule is None else load_rule(options.rule)
    bank = open_bank(options.bank, suites_dir())
    source = open_pools(options.pools)
    try:
        return _execute(Asked(options=options, bank=bank, source=source, rule=rule))
    finally:
        source.close()


@dataclass(slots=True, kw_only=True)
class Asked:
    """What was asked for, opened; the engine only when something needs it: what is judged needs none."""

    options: ReplayOptions
    bank: Bank
    source: JoinedPools
    rule: OwnRule | None
    _engine: wiring.Engine | None = None

    @property
    def engine(self) -> wiring.Engine:
        """The engine that answers.

        Raises:
            SandboxError: None does.
        """
        if self._engine is None:
            self._engine = wiring.open_engine(self.options.bound.runtime)
            leftovers.reap(self._engine.client)
        return self._engine

    @property
    def rules(self) -> dict[str, Rule]:
        """The user's own rule, by its name."""
        return {} if self.rule is None else {self.rule.name: self.rule.choose}

    def binding(self) -> dict[str, Json]:
        """What a replay is bound to, whatever the engine; one with another of these is another replay."""
        return {
            "options": self.options.bound.as_json(),
            "bank": self.bank.digest(),
            "pool": self.source.digest,
            "rule": None if self.rule is None else self.rule.as_json(),
        }


def _execute(asked: Asked) -> tuple[RunDir, Outcome]:
    binding = asked.binding()
    where = RunDir(asked.options.out or default_path(asked, binding))
    if not where.run_json.is_file():
        begin(where, asked, binding)
    config = where.read_config()
    refuse_another(where, config, binding)
    bind.refuse_other_lock(asked.options.bind, where, config)
    with JsonlLedger(where.ledger, synced=ENDS) as ledger:
        index = take_up(where, ledger)
        known = finished(where, config, asked, index)
        if known is not None:
            if not has_written(where, ledger.head):
                write_replayed(where, config, known, ledger.head)
            return where, Outcome(config=config, found=known, stopped=False)
        try:
            stopped = judge_rest(asked, where, config, ledger, index)
        except BaseException:
            say_again(asked.options, where)
            raise
        found = derive_replay(where, PoolIndex(where.ledger), config, asked.rules)
        if not stopped:
            where.sweep_content()
            ledger.append("closed", closing_counts(found))
        write_replayed(where, config, found, ledger.head)
    if stopped or found.infra:
        say_again(asked.options, where)
    return where, Outcome(config=config, found=found, stopped=stopped)


def finished(where: RunDir, config: dict[str, Json], asked: Asked, index: PoolIndex) -> Replayed | None:
    """What a closed replay adds up to, if our own world failed nowhere in it: then nothing is left to do."""
    if index.last["kind"] != "closed":
        return None
    found = derive_replay(where, index, config, asked.rules)
    closed = all(index.last.get(name) == count for name, count in closing_counts(found).items())
    return found if closed and not found.pool.error_draws else None


def say_again(options: ReplayOptions, where: RunDir) -> None:
    """How to go on after a replay that is not at its end."""
    if not options.quiet:
        printing.say(f"gate: go on with the same command; it has --out {shlex.quote(str(where.path))}")


def default_path(asked: Asked, binding: dict[str, Json]) -> Path:
    """Where a replay stands if --out does not say: the same for the same replay, so that a second one finds it."""
    lock = [] if asked.options.bind is None else [bind.read_bound(asked.options.bind).digest]
    digest = digest_json([gate_version(), asked.engine.image.content, binding, *lock])
    return Path("runs") / f"replay-{asked.bank.name}-{digest[:12]}"


def begin(where: RunDir, asked: Asked, binding: dict[str, Json]) -> None:
    """Write what a replay is bound to, in one step: there is a whole directory, or none."""
    options, bank, source = asked.options, asked.bank, asked.source
    bound = binding["options"]
    if bound["isolation"] is None:
        bound = {**bound, "isolation": wiring.replay_isolation(asked.engine, bound["runtime"])}
    lock = held(bank, options.bank, options.bind)
    with where.beginning() as begun:
        suites_digest, number = begun.write_suites(bind.as_bound(selected(bank, options.bound), lock))
        warn_unknown(source, bank)
        config = {
            "schema": "gate.config/1",
            "kind": KIND,
            "version": gate_version(),
            "bank": {
                "name": bank.name,
                "reference": options.bank,
                "digest": binding["bank"],
                "tasks": number,
                "counts": bank_counts(bank),
            },
            **({} if lock is None else {"bind": lock.as_json()}),
            "suites_digest": suites_digest,
            "options": bound,
            "source": {
                "spec": " + ".join(path.name for path in options.pools),
                "kind": "pools",
                "paths": [str(path) for path in options.pools],
                "digest": source.digest,
                "counts": source_counts(source, bank, bound["draws"]),
            },
            "rule": binding["rule"],
            **wiring.engine_facts(asked.engine, bound["runtime"]),
        }
        begun.write_config(config)


def source_counts(source: JoinedPools, bank: Bank, draws: int) -> dict[str, Json]:
    """What a pool holds, and what of it is not used."""
    unknown = Counter(source.task_ids())
    samples = unknown.total()
    unused = sum(max(0, unknown.pop(task.id, 0) - draws) for task in bank.tasks())
    return {
        "samples": samples,
        "unknown_tasks": len(unknown),
        "unknown_samples": unknown.total(),
        "unused_samples": unused,
    }


def refuse_another(where: RunDir, config: dict[str, Json], binding: dict[str, Json]) -> None:
    """A replay goes on only as what it was begun as.

    Raises:
        SpecError: What stands there is no replay, or one of something else; both values are named.
        IntegrityError: Its own copy of the suites is not the one that it is bound to.
    """
    if config.get("kind") != KIND:
        raise SpecError(f"{where.path}: holds a run, no replay: choose another --out")
    for name, value in binding["options"].items():
        recorded = config["options"].get(name)
        if value != recorded and (name != "isolation" or value is not None):
            flag = "--" + name.replace("_", "-").replace("tasks", "task")
            raise SpecError(f"{flag} {value}: {where.path} was begun with {recorded}: choose another --out")
    recorded_now = {
        "bank": config["bank"]["digest"],
        "pool": config["source"]["digest"],
        "rule": config["rule"],
    }
    for name, recorded in recorded_now.items():
        if recorded != binding[name]:
            raise _another(where, name, recorded, binding[name])
    found = where.suites_digest()
    if found != config["suites_digest"]:
        raise IntegrityError(f"{where.suites}: has digest {found}, run.json says {config['suites_digest']}")


def _another(where: RunDir, name: str, recorded: Json, given: Json) -> SpecError:
    was, now = _short(recorded), _short(given)
    return SpecError(f"{where.path}: was begun with another {name} ({was}, now {now}): choose another --out")


def _short(value: Json) -> str:
    if isinstance(value, dict):
        return f"{value['name']} {value['digest'][:12]}"
    return "none" if value is None else str(value)[:64]


def take_up(where: RunDir, ledger: JsonlLedger) -> PoolIndex:
    """Bind an empty ledger to the replay, or read how far it came.

    Raises:
        IntegrityError: It is another run's ledger, or damaged.
    """
    bound = digest_bytes(where.run_json.read_bytes())
    if ledger.cut_bytes:
        printing.say(f"gate: {where.ledger}: cut a torn last record of {ledger.cut_bytes} bytes")
    if ledger.head == FIRST:
        ledger.append("run", {"run": bound})
    index = PoolIndex(where.ledger)
    if index.first is None or index.first["kind"] != "run" or index.first.get("run") != bound:
        raise IntegrityError(f"{where.ledger}:1: is not bound to run.json {bound}")
    return index


def judge_rest(asked: Asked, where: RunDir, config: dict[str, Json], ledger: JsonlLedger, index: PoolIndex) -> bool:
    """Judge all that is left; whether a signal stopped it.

    Raises:
        SpecError: The engine has another image than the replay was begun in.
    """
    recorded, found = config["image"]["content"], asked.engine.image.content
    if recorded != found:
        raise _another(where, "image", recorded, found)
    with ObservationCache(where.path.absolute().parent / CACHE_NAME) as cache:
        return anyio.run(_judge_rest, asked, where, config, ledger, index, cache)


async def _judge_rest(
    asked: Asked,
    where: RunDir,
    config: dict[str, Json],
    ledger: JsonlLedger,
    index: PoolIndex,
    cache: ObservationCache,
) -> bool:
    bound, options = config["options"], asked.options
    jobs = options.jobs or wiring.default_jobs(bound["isolation"])
    left = sum(not is_done(task, index, bound["draws"]) for task in where.tasks())
    conditions = {
        "image": config["image"]["content"],
        "isolation": bound["isolation"],
        "runtime": config["engine"]["runtime"],
    }
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as watch:
            watch.start_soon(stop_on_signal, scope)
            with progress.progress(left, quiet=options.quiet, verbose=options.verbose) as shown:
                async with wiring.open_when_needed(
                    asked.engine, isolation=bound["isolation"], runtime=bound["runtime"], concurrency=jobs
                ) as sandbox:
                    await replay_tasks(
                        (task for task in where.tasks() if not is_done(task, index, bound["draws"])),
                        source=asked.source,
                        sandbox=CachedSandbox(sandbox, cache, conditions),
                        ledger=ledger,
                        concurrency=jobs,
                        draws=bound["draws"],
                        pool_of=lambda task: pool_of(task, index),
                        on_decision=shown.advance,
                    )
            watch.cancel_scope.cancel()
    return scope.cancelled_caught
