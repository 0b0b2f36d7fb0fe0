"""Everything that can be made again from a replay's configuration, suites and ledger."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Protocol

from gate.backends.jsonl import Line, PoolIndex
from gate.backends.rundir import RunDir, write_atomically
from gate.errors import IntegrityError
from gate.model import Decision, Json, SuiteSpec, Task
from gate.outcomes import Row
from gate.pools import Rule
from gate.report import marks, replay
from gate.report.markdown import bound, digest_note
from gate.report.premise import PREMISE
from gate.strata import StrengthTally
from gate.strength import Strengths, strength
from gate.summary import Containment, visible_is_contained
from gate.tables import Table, Tally, table
from gate.taskpool import TaskPool, fold_pool, row_of

KIND = "replay"


class TaskLines(Protocol):
    """Where the lines of each task are to be had."""

    def task_ids(self) -> set[str]:
        """The tasks that lines speak of."""
        ...

    def lines(self, task_id: str) -> Iterator[Line]:
        """The lines of one task, in order."""
        ...


@dataclass(slots=True, kw_only=True)
class PoolCounts:
    """What a pool and a bank lack; nothing of it is dropped from a denominator.

    Attributes:
        missing_tasks: Tasks of which the pool has no draw at all.
        short_tasks: Tasks of which it has some, but fewer than a rule may use up.
        no_visible_tests: Tasks that the gate refuses before the first draw.
        no_hidden_tests: Tasks on which nothing says what is right.
        error_draws: Draws on which our own world failed.
    """

    missing_tasks: int = 0
    short_tasks: int = 0
    no_visible_tests: int = 0
    no_hidden_tests: int = 0
    error_draws: int = 0

    def add(self, suite: SuiteSpec, row: Row) -> None:
        """Count one task."""
        self.missing_tasks += row.missing == len(row.cells)
        self.short_tasks += 0 < row.missing < len(row.cells)
        self.no_visible_tests += not suite.tests
        self.no_hidden_tests += not suite.hidden
        self.error_draws += sum(cell.is_error for cell in row.cells)


@dataclass(slots=True, kw_only=True)
class DecisionCounts:
    """What the gate decided: delivered + refused + infra + not_run = tasks."""

    tasks: int = 0
    delivered: int = 0
    refused: int = 0
    infra: int = 0
    not_run: int = 0
    draws: int = 0

    def add(self, decision: Decision | None) -> None:
        """Count one task."""
        self.tasks += 1
        if decision is None:
            self.not_run += 1
            return
        self.draws += decision.draws
        self.delivered += decision.outcome == "delivered"
        self.refused += decision.outcome == "refused"
        self.infra += decision.outcome == "infra"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """What a replay's ledger adds up to."""

    table: Table
    decisions: DecisionCounts
    pool: PoolCounts

    @property
    def infra(self) -> int:
        """Tasks with a draw on which our own world failed, whether the decision hangs on it or only a rule."""
        return self.table.infra

    def has_headline(self, infra_budget: float) -> bool:
        """Whether figures may be printed: all tasks were judged, and infra is within its budget."""
        tasks = self.decisions.tasks
        return tasks > 0 and self.decisions.not_run == 0 and self.infra / tasks <= infra_budget


@dataclass(slots=True)
class _Held:
    """For how many tasks the hidden tests contain the visible ones."""

    tasks: int = 0
    contained: int = 0

    def add(self, suite: SuiteSpec) -> None:
        self.tasks += bool(suite.hidden)
        self.contained += bool(suite.hidden) and visible_is_contained(suite)


def derive_replay(where: RunDir, index: TaskLines, config: dict[str, Json], rules: Mapping[str, Rule]) -> Replayed:
    """All counts of a replay, from its own suites and ledger; one task at a time is in memory.

    Args:
        rules: The user's own rule, by name, where the replay has one.

    Raises:
        IntegrityError: The records are damaged or contradict each other.
        SpecError: The user's rule fails.
    """
    tally = Tally(draws_of(config), rules)
    decisions, pool, held = DecisionCounts(), PoolCounts(), _Held()
    by_strength, strengths = StrengthTally(draws_of(config)), Strengths()
    for task, found in task_pools(where, index):
        row = row_of(task, found)
        held.add(task.suite)
        decisions.add(found.decision)
        pool.add(task.suite, row)
        tally.add(row)
        found_strength = strength(task.suite)
        strengths.add(found_strength)
        by_strength.add(found_strength, row)
    containment = Containment(tasks=held.tasks, contained=held.contained)
    counts = table(tally, bank=config["bank"]["name"], containment=containment)
    return Replayed(
        table=replace(counts, by_strength=by_strength.strata(), weakness=strengths.weakness()),
        decisions=decisions,
        pool=pool,
    )


def draws_of(config: dict[str, Json]) -> int:
    """K, how many draws a rule may use up.

    Raises:
        IntegrityError: The configuration does not say.
    """
    options = config.get("options")
    draws = options.get("draws") if isinstance(options, dict) else None
    if type(draws) is not int or draws < 1:
        raise IntegrityError("run.json: names no draws among its options")
    return draws


def task_pools(where: RunDir, index: TaskLines) -> Iterator[tuple[Task, TaskPool]]:
    """The tasks of a replay, in the bank's order, each with what the ledger says of it.

    Raises:
        IntegrityError: The records are damaged or contradict each other.
    """
    unknown = index.task_ids()
    for task in where.tasks():
        unknown.discard(task.id)
        yield task, pool_of(task, index)
    if unknown:
        raise IntegrityError(f"{where.ledger}: speaks of {min(unknown)!r}, a task that the replay does not have")


def pool_of(task: Task, index: TaskLines) -> TaskPool:
    """What the ledger says of one task.

    Raises:
        IntegrityError: Its records are damaged or contradict each other.
    """
    try:
        return fold_pool((line.digest, line.record) for line in index.lines(task.id))
    except (KeyError, TypeError, ValueError, AttributeError) as exc:
        raise IntegrityError(f"ledger.jsonl: a record of {task.id!r} cannot be read: {exc!r}") from exc


def is_done(task: Task, index: PoolIndex, draws: int) -> bool:
    """Whether nothing of a task is left to do, as its lines' beginnings say."""
    marks_ = index.marks(task.id)
    return (
        marks_.is_decided
        and marks_.candidates == draws
        and marks_.visible == (draws if task.suite.tests else 0)
        and marks_.hidden == (draws if task.suite.hidden else 0)
    )


def closing_counts(found: Replayed) -> dict[str, Json]:
    """What the closing line says, as that of a run."""
    return asdict(found.decisions)


def result_json(config: dict[str, Json], found: Replayed) -> dict[str, Json]:
    """The result for programs, `gate.replay/1`; without any figure where no headline may stand."""
    isolation = config["options"]["isolation"]
    decisions = found.decisions
    counts = {
        "bank": config["bank"]["name"],
        "infra": found.infra,
        "not_run": decisions.not_run,
        "pool": {**config["source"]["counts"], **asdict(found.pool), **config["bank"]["counts"]},
    }
    if not found.has_headline(config["options"]["infra_budget"]):
        nothing: dict[str, Json] = {
            "rules": {},
            "pairs": [],
            "refused_audit": None,
            "weak_oracle": None,
            "lossy_filter": None,
        }
        head = {"schema": "gate.replay/1", "tasks": decisions.tasks, "draws": found.table.draws}
        holds = found.table.containment.holds
        return {**head, "isolation": isolation, "visible_subset_of_hidden": holds, **nothing, **counts}
    return {**replay.replay_json(found.table, isolation=isolation), **counts}


def report_text(config: dict[str, Json], found: Replayed) -> str:
    """REPORT.md of a replay."""
    isolation = config["options"]["isolation"]
    if found.has_headline(config["options"]["infra_budget"]):
        return replay.render_replay([found.table], isolation=isolation, conditions=conditions(config, found))
    decisions, bank = found.decisions, config["bank"]["name"]
    return (
        f"# Replay: {marks.plain(bank)}\n\n"
        f"**No headline: {decisions.not_run} of {decisions.tasks} tasks were not judged, "
        f"in {found.infra} our own world failed.**\n\n"
        f"## The premise\n\n{PREMISE}\n{replay.bank_lines(found.table)}"
    )


def conditions(config: dict[str, Json], found: Replayed) -> Iterator[tuple[str, str]]:
    """What the numbers depend on, with the digests that bind it, and what pool and bank lack."""
    bank, engine, image, source = config["bank"], config["engine"], config["image"], config["source"]
    yield "bank", f"{marks.code(bank['name'])}, digest `{bank['digest']}`"
    yield "tasks as loaded", f"digest `{config['suites_digest']}`"
    yield from bound(config)
    yield "pool", marks.code(source["spec"]) + digest_note(source.get("digest"))
    for words in lacking(config, found):
        yield "counted", words
    rule = config.get("rule")
    if rule is not None:
        yield "rule of the user's own", f"{marks.code(rule['name'])}, digest `{rule['digest']}`"
    engine_name = f"{engine['name']} {engine['version']}"
    yield "engine", f"{marks.plain(engine_name)}, runtime {marks.code(engine['runtime'])}"
    yield "image", f"{marks.code(image['content'])} (Python {marks.plain(image['python'])})"
    yield "gate", marks.plain(config["version"])


def lacking(config: dict[str, Json], found: Replayed) -> list[str]:
    """What is not there, or not used, in words; nothing where all is there."""
    pool, source, bank = found.pool, config["source"]["counts"], config["bank"]["counts"]
    draws = found.table.draws
    counted = (
        (pool.missing_tasks, "tasks without any draw in the pool", "all their draws count as failures"),
        (pool.short_tasks, f"tasks with fewer than {draws} draws in the pool", "the missing ones count as failures"),
        (pool.no_visible_tests, "tasks without visible tests", "the gate refuses them before the first draw"),
        (pool.no_hidden_tests, "tasks without hidden tests", "nothing says what is right, so no rule is right there"),
        (pool.error_draws, "draws on which our own world failed", "they count as failures"),
        (
            source["unknown_tasks"],
            "tasks in the pool that are not in the bank",
            f"samples: {source['unknown_samples']}",
        ),
        (source["unused_samples"], f"samples beyond the first {draws} of their task", "not used"),
        (bank["unconverted_tests"], "tests of the benchmark that have no form as data", "the bank is without them"),
        (bank["left_out_tasks"], "tasks of the benchmark that only code could judge", "the bank is without them"),
    )
    return [f"{what}: {number} ({so})" for number, what, so in counted if number]


def replay_texts(config: dict[str, Json], found: Replayed, head: str) -> dict[str, bytes]:
    """The derived files of a replay, by name.

    Raises:
        IntegrityError: The configuration lacks what a report says.
    """
    try:
        result = json.dumps({**result_json(config, found), "head": head}, indent=2, ensure_ascii=False) + "\n"
        report = report_text(config, found)
    except (KeyError, TypeError, ValueError, AttributeError) as exc:
        raise IntegrityError(f"run.json: does not say what a report needs ({exc!r})") from exc
    return {"summary.json": result.encode(), "REPORT.md": report.encode()}


def write_replayed(where: RunDir, config: dict[str, Json], found: Replayed, head: str) -> None:
    """Write the derived files; REPORT.md first, so that a summary with this head says that both are there."""
    for name, content in sorted(replay_texts(config, found, head).items()):
        write_atomically(where.path / name, content)


def has_written(where: RunDir, head: str) -> bool:
    """Whether the derived files are those of this head already."""
    try:
        told = json.loads((where.path / "summary.json").read_bytes())["head"]
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return bool(told == head) and (where.path / "REPORT.md").is_file()
