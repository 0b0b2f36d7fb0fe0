"""What a report says, whatever it is written as: sources, headline figures, text, figures, the story of each task."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from gate.errors import SpecError
from gate.model import Json
from gate.report import cost, marks, replay
from gate.report.markdown import share
from gate.report.premise import PREMISE
from gate.report.story import TaskStory
from gate.summary import Summary
from gate.tables import GATE, Table, together


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The run or the replay that a report, or a part of it, derives from.

    Attributes:
        kind: "run" or "replay".
        head: SHA-256 of its ledger's last line.
        began: When its first record was written, UTC.
        closed: Whether it came to its end.
    """

    kind: str
    bank: str
    head: str
    began: str
    candidates: str
    model: str
    isolation: str
    closed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """One run or replay, read.

    Attributes:
        result: Its result for programs: `gate.run/1` or `gate.replay/1`.
        text: Its own REPORT.md.
        summary: The counts of a run.
        table: Those of a replay.
        has_headline: Whether figures may be printed.
        conditions: What a replay's numbers depend on, as (name, Markdown).
    """

    source: Source
    config: dict[str, Json]
    result: dict[str, Json]
    text: str
    has_headline: bool
    summary: Summary | None = None
    table: Table | None = None
    conditions: tuple[tuple[str, str], ...] = ()
    stories: tuple[TaskStory, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """One figure of the headline: what it counts, and how much that is."""

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The content model of every format.

    Attributes:
        text: All of it but the tasks, in Markdown.
        tables: Of replays; several also stand as one, last.
    """

    title: str
    sources: tuple[Source, ...]
    results: tuple[dict[str, Json], ...]
    tiles: tuple[Tile, ...]
    text: str
    tables: tuple[Table, ...] = ()
    stories: tuple[TaskStory, ...] = field(default=())


def compose(recorded: Sequence[Recorded]) -> Report:
    """One report of one run or several, or of one replay or several.

    Raises:
        SpecError: There are runs and replays among them, or they cannot stand side by side.
    """
    kinds = {each.source.kind for each in recorded}
    if len(kinds) != 1:
        raise SpecError("gate report: runs and replays among each other: give one kind at a time")
    tables = tuple(each.table for each in recorded if each.table is not None and each.has_headline)
    if len(recorded) == 1:
        text = recorded[0].text
    elif kinds == {"run"}:
        text = runs_text(recorded)
    else:
        text = replays_text(recorded, tables)
    shown = (*tables, together(tables)) if len(tables) > 1 else tables
    return Report(
        title=", ".join(dict.fromkeys(each.source.bank for each in recorded)),
        sources=tuple(each.source for each in recorded),
        results=tuple(each.result for each in recorded),
        tiles=tuple(_tiles(recorded, shown)),
        text=text,
        tables=shown,
        stories=tuple(story for each in recorded for story in each.stories),
    )


def replays_text(recorded: Sequence[Recorded], tables: Sequence[Table]) -> str:
    """Several banks side by side and as one, stratified.

    Raises:
        SpecError: One has no headline, or they differ in draws or rules.
    """
    for each in recorded:
        if not each.has_headline:
            raise SpecError(f"{each.source.bank}: has no headline, so it cannot stand beside others: replay it again")
    first = tables[0]
    for table in tables:
        if table.draws != first.draws or table.rules.keys() != first.rules.keys():
            raise SpecError(f"{table.bank} and {first.bank} were replayed with other draws or rules: replay one again")
    isolation = recorded[0].source.isolation
    return replay.render_replay(tables, isolation=isolation, conditions=_conditions(recorded))


def _conditions(recorded: Sequence[Recorded]) -> Iterable[tuple[str, str]]:
    for each in recorded:
        name = marks.plain(each.source.bank)
        if each.source.isolation != recorded[0].source.isolation:
            yield f"{name}: isolation", f"`{each.source.isolation}`: {replay.ISOLATION[each.source.isolation]}"
        yield from ((f"{name}: {what}", words) for what, words in each.conditions)


def runs_text(recorded: Sequence[Recorded]) -> str:
    """Several runs side by side, then each by itself."""
    rows = []
    for each in recorded:
        summary = each.summary
        assert summary is not None
        hidden = summary.hidden
        right = wrong = "not measured"
        if hidden is not None:
            right, wrong = share(hidden.success, summary.tasks), share(hidden.wrong_delivered, summary.delivered)
        figures = [share(summary.delivered, summary.tasks), right, wrong, f"{summary.calls_per_task:.2f}"]
        figures = figures if each.has_headline else ["no headline"] * len(figures)
        rows.append([marks.cell(each.source.bank), marks.code(each.source.candidates), *figures])
    header = ("Bank", "Candidates", "Delivered", "Right on the hidden tests", "Delivered and wrong", "Calls a task")
    lines = ["| " + " | ".join(row) + " |" for row in (header, ["---"] * len(header), *rows)]
    parts = [each.text.replace("\n## ", "\n### ").replace("# ", "## ", 1) for each in recorded]
    parts = [
        part.replace(f"### The premise\n\n{PREMISE}", "### The premise, as above, for this bank\n") for part in parts
    ]
    return (
        f"# {len(recorded)} runs side by side\n\nEach counts its own tasks; `gate compare` pairs two of them.\n\n"
        + f"## The premise\n\n{PREMISE}\n## Side by side\n\n"
        + "\n".join(lines)
        + "\n\n"
        + "\n".join(parts)
    )


def _tiles(recorded: Sequence[Recorded], tables: Sequence[Table]) -> Iterable[Tile]:
    """The headline in figures; nothing where no headline may stand."""
    if tables:
        yield from _replay_tiles(tables[-1])
    elif len(recorded) == 1 and recorded[0].has_headline and recorded[0].summary is not None:
        yield from _run_tiles(recorded[0], recorded[0].summary)


def _run_tiles(recorded: Recorded, summary: Summary) -> Iterable[Tile]:
    yield Tile(
        label="delivered", value=_percent(summary.delivered, summary.tasks), note=_of(summary.delivered, summary)
    )
    hidden = summary.hidden
    if hidden is not None:
        yield Tile(
            label="right on the hidden tests",
            value=_percent(hidden.success, summary.tasks),
            note=_of(hidden.success, summary),
        )
        yield Tile(
            label="delivered and wrong",
            value=_percent(hidden.wrong_delivered, summary.delivered),
            note=f"{hidden.wrong_delivered} of {summary.delivered} delivered",
        )
    yield Tile(label="refused", value=_percent(summary.refused, summary.tasks), note=_of(summary.refused, summary))
    if summary.infra:
        yield Tile(label="our world failed", value=str(summary.infra), note=_of(summary.infra, summary))
    draws = recorded.config["options"]["draws"]
    yield Tile(label="calls a task", value=f"{summary.calls_per_task:.2f}", note=f"at most {draws}")
    spent = cost.cost_json(recorded.config, summary)
    if spent is not None:
        dollars = spent["usd"]
        tokens = spent["prompt_tokens"] + spent["completion_tokens"]
        yield Tile(
            label="cost", value=f"{tokens} tokens" if dollars is None else f"${dollars:.4f}", note=f"{tokens} tokens"
        )


def _replay_tiles(table: Table) -> Iterable[Tile]:
    if not table.tasks or not table.containment.tasks:
        return
    gate = table.rules[GATE][-1]
    yield Tile(
        label="right: first pass, the gate",
        value=_percent(gate.success, table.tasks),
        note=f"{gate.success} of {table.tasks} tasks, {gate.calls_per_task:.2f} calls a task",
    )
    for name, label in (("single", "right: one single draw"), ("majority", "right: majority vote")):
        counts = table.rules[name][-1]
        yield Tile(
            label=label,
            value=_percent(counts.success, table.tasks),
            note=f"{counts.success} of {table.tasks} tasks, {counts.calls_per_task:.2f} calls a task",
        )
    yield Tile(
        label="ceiling of the pool",
        value=_percent(table.ceiling, table.tasks),
        note=f"{table.ceiling} of {table.tasks} tasks",
    )
    weak = table.weak_oracle[-1]
    yield Tile(
        label="delivered and wrong",
        value=_percent(weak.wrong_delivered, weak.delivered),
        note=f"{weak.wrong_delivered} of {weak.delivered} delivered",
    )


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "–"


def _of(part: int, summary: Summary) -> str:
    return f"{part} of {summary.tasks} tasks"
