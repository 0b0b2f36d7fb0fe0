"""`gate compare`: two runs, two replays, or two rules of one, on the same tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gate import stats
from gate.backends.jsonl import PoolIndex
from gate.backends.rundir import RunDir
from gate.cli import exits, printing
from gate.cli.derive import whole_records
from gate.cli.own_rule import load_rule
from gate.cli.replayed import KIND, draws_of, task_pools
from gate.errors import IntegrityError, SpecError
from gate.model import Json, Outcome, Verdict
from gate.pools import RULES, Rule, succeeds
from gate.report import replay
from gate.summary import Tally
from gate.tables import GATE, Split, split
from gate.taskpool import row_of

MAX_NAMED = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How one task ended.

    Attributes:
        suite: The digest of its suite.
        success: Whether what was delivered is right by the hidden tests.
    """

    suite: str
    success: bool


@dataclass(slots=True)
class Side:
    """One of the two that are compared.

    Attributes:
        name: As the command line names it.
        config: What `run.json` holds.
        endings: By task, in the bank's order.
        unmeasured: Tasks on which nobody could tell whether it is right; they count as failures.
    """

    name: str
    config: dict[str, Json]
    endings: dict[str, Ending] = field(default_factory=dict)
    unmeasured: int = 0


def compare(first: str, second: str, *, as_json: bool) -> int:
    """Compare two, print, and say with the exit code that it is done.

    Raises:
        SpecError: One cannot be read, or they are not of the same tasks.
        IntegrityError: A ledger is damaged.
    """
    one, other = read_side(first), read_side(second)
    refuse_other_tasks(one, other)
    outcomes = ((task_id, each.success, other.endings[task_id].success) for task_id, each in one.endings.items())
    found = split(one.name, other.name, outcomes)
    for side in (one, other):
        if side.unmeasured:
            printing.say(f"gate: {side.name}: {side.unmeasured} tasks could not be measured: they count as failures")
    if as_json:
        printing.print_json(replay.split_json(found))
    else:
        print(printing.escape("\n".join(lines_of(found, one, other))))
    return exits.DONE


def read_side(spec: str) -> Side:
    """A run or a replay, with what `:RULE` behind its path says.

    Raises:
        SpecError: There is none, it is not closed, it has no such rule, or nothing in it measures.
        IntegrityError: Its ledger is damaged.
    """
    path, rule = split_spec(spec)
    where = RunDir(path)
    config = where.read_config()
    side = Side(name=spec, config=config)
    if config.get("kind") == KIND:
        _read_replay(side, where, rule_named(rule or GATE, spec))
    elif rule is None:
        _read_run(side, where)
    else:
        raise SpecError(f"{spec}: {path} is a run, which has one rule: leave :{rule} out, or name a replay")
    return side


def rule_named(name: str, spec: str) -> Rule:
    """A rule by its name; one of the user's own is `my.module:rule`.

    Raises:
        SpecError: There is no such rule.
    """
    if name not in RULES and ":" not in name:
        raise SpecError(f"{spec}: no rule {name!r} (known: {', '.join(RULES)}, or my.module:rule)")
    return RULES.get(name) or load_rule(name).choose


def split_spec(spec: str) -> tuple[Path, str | None]:
    """The path and the rule in `PATH` or `PATH:RULE`; a path may hold colons, and so may a rule.

    Raises:
        SpecError: No part of it is a directory.
    """
    parts = spec.split(":")
    for number in range(len(parts), 0, -1):
        path = Path(":".join(parts[:number]))
        if path.is_dir():
            return path, ":".join(parts[number:]) or None
    raise SpecError(f"{spec}: no such directory: name a run, a replay or REPLAY:RULE")


def _read_replay(side: Side, where: RunDir, rule: Rule) -> None:
    index = PoolIndex(where.ledger)
    _refuse_open(side, where, closed=index.last.get("kind") == "closed")
    draws = draws_of(side.config)
    measured = False
    for task, pool in task_pools(where, index):
        row = row_of(task, pool)
        choice = rule(row, draws)
        measured |= bool(task.suite.hidden)
        right = succeeds(row, choice)
        side.unmeasured += choice.index is not None and _is_unknown(row.cells[choice.index].hidden)
        side.endings[task.id] = Ending(suite=task.suite.digest, success=right)
    _refuse_unmeasured(side, measured=measured)


def _read_run(side: Side, where: RunDir) -> None:
    tally = Tally()
    suites: dict[str, str] = {}
    for suite in where.suite_specs():
        tally.add_suite(suite)
        suites[suite.task_id] = suite.digest
    kind = None
    for record in whole_records(where):
        kind = record["kind"]
        tally.add_record(record)
    _refuse_open(side, where, closed=kind == "closed")
    for task_id, digest in suites.items():
        decision = tally.decisions.get(task_id)
        hidden = None if decision is None else tally.measured.get((task_id, decision.index))
        delivered = decision is not None and decision.outcome == "delivered"
        side.unmeasured += delivered and hidden not in (Outcome.PASS, Outcome.FAIL)
        side.unmeasured += decision is not None and decision.outcome == "infra"
        side.endings[task_id] = Ending(suite=digest, success=delivered and hidden is Outcome.PASS)
    _refuse_unmeasured(side, measured=any(tally.order.values()))


def _is_unknown(hidden: Verdict | None) -> bool:
    return hidden is None or hidden.outcome is Outcome.ERROR


def _refuse_open(side: Side, where: RunDir, *, closed: bool) -> None:
    if not closed:
        how = "the same gate replay again" if side.config.get("kind") == KIND else f"gate run --resume {where.path}"
        raise SpecError(f"{side.name}: is not closed, so tasks may be missing: finish it first: {how}")


def _refuse_unmeasured(side: Side, *, measured: bool) -> None:
    if not measured:
        raise SpecError(f"{side.name}: no task has hidden tests, so nothing says what is right: compare others")


def refuse_other_tasks(one: Side, other: Side) -> None:
    """Only the same tasks, judged by the same suites, can be paired.

    Raises:
        SpecError: They are not; the tasks are named.
    """
    found = [
        (f"only in {one.name}", [task_id for task_id in one.endings if task_id not in other.endings]),
        (f"only in {other.name}", [task_id for task_id in other.endings if task_id not in one.endings]),
        (
            "judged by different suites",
            [
                task_id
                for task_id, each in one.endings.items()
                if task_id in other.endings and other.endings[task_id].suite != each.suite
            ],
        ),
    ]
    said = [f"{what}: {named(ids)}" for what, ids in found if ids]
    if said:
        raise SpecError(
            printing.escape(f"{one.name} and {other.name} are not of the same tasks: {'; '.join(said)}: compare others")
        )


def named(ids: list[str]) -> str:
    """Task ids in a row; many are counted."""
    more = f" and {len(ids) - MAX_NAMED} more" if len(ids) > MAX_NAMED else ""
    return ", ".join(ids[:MAX_NAMED]) + more


def lines_of(found: Split, one: Side, other: Side) -> Iterator[str]:
    """The comparison for a person."""
    paired = found.comparison.paired
    both = sum(each.success and other.endings[task_id].success for task_id, each in one.endings.items())
    yield f"first:  {one.name}"
    yield f"second: {other.name}"
    yield from (f"they differ in {what}: {first}, {second}" for what, first, second in conditions(one, other))
    yield ""
    yield f"n = {paired.n}, judged by the hidden tests; a refusal counts as a failure"
    yield f"  both right                {both:6d}"
    yield f"  first alone right   (b)   {paired.b:6d}"
    yield f"  second alone right  (c)   {paired.c:6d}"
    yield f"  neither right             {paired.n - both - paired.b - paired.c:6d}"
    yield f"difference: {replay.pp(paired.delta_pp)} pp, 95 % interval {replay.ci(paired)} (Tango)"
    yield f"exact McNemar {p_equals(paired.p_exact)}, mid-{p_equals(paired.p_mid)}: {verdict(paired)}"
    yield smallest(paired)
    yield ""
    yield f"first alone right:  {', '.join(found.only_first) or 'none'}"
    yield f"second alone right: {', '.join(found.only_second) or 'none'}"


def p_equals(p: float) -> str:
    """`p = 0.0963`, or `p < 0.0001`."""
    text = replay.p_text(p)
    return f"p {text}" if text.startswith("<") else f"p = {text}"


def verdict(paired: stats.Paired) -> str:
    """What the p resolves."""
    return "resolved" if stats.is_resolved(paired.p_exact) else "unresolved"


def smallest(paired: stats.Paired) -> str:
    """The smallest difference that so many tasks could have shown."""
    shown = stats.smallest_shown_pp(b=paired.b, c=paired.c, n=paired.n)
    if shown is None:
        return f"{paired.n} tasks could not have shown any difference at 80 % power"
    return f"the smallest difference that {paired.n} tasks could have shown at 80 % power: {shown:.2f} pp"


def conditions(one: Side, other: Side) -> Iterator[tuple[str, Json, Json]]:
    """What the two were made under, where it is not the same."""
    for what, path in _CONDITIONS.items():
        first, second = (_at(side.config, path) for side in (one, other))
        if first != second:
            yield what, first, second


_CONDITIONS: Mapping[str, tuple[str, str]] = {
    "candidates": ("source", "spec"),
    "draws": ("options", "draws"),
    "isolation": ("options", "isolation"),
    "image": ("image", "content"),
    "runtime": ("engine", "runtime"),
}


def _at(config: dict[str, Json], path: tuple[str, str]) -> Json:
    try:
        return config[path[0]][path[1]]
    except (KeyError, TypeError):
        raise IntegrityError(f"run.json: says no {'.'.join(path)}") from None
