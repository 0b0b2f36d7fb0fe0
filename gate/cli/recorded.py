"""A run or a replay, read into the content model of reports."""

from __future__ import annotations

from pathlib import Path

from gate.backends.jsonl import FIRST, LineIndex, PoolIndex, read_lines
from gate.backends.rundir import RunDir
from gate.cli.derive import derive_summary
from gate.cli.own_rule import OwnRule, load_rule
from gate.cli.replayed import KIND, conditions, derive_replay, report_text, result_json
from gate.errors import IntegrityError, SpecError
from gate.model import Json
from gate.report import data, markdown
from gate.report.content import Recorded, Source
from gate.report.story import TaskStory, task_story


def read_recorded(path: Path, *, rule: str | None = None) -> Recorded:
    """All that a report says of one run or replay, derived from its record.

    Args:
        rule: The user's own rule, for a replay that was made with it.

    Raises:
        SpecError: There is no run, or it needs a rule of the user's own.
        IntegrityError: Its record is damaged.
    """
    where = RunDir(path)
    if not where.run_json.is_file():
        raise SpecError(f"{path}: holds no run: name a run directory")
    config = where.read_config()
    try:
        return _replay(where, config, rule) if config.get("kind") == KIND else _run(where, config)
    except (KeyError, TypeError, ValueError, AttributeError) as exc:
        raise IntegrityError(f"{path}: does not say what a report needs ({exc!r})") from exc


def _run(where: RunDir, config: dict[str, Json]) -> Recorded:
    summary = derive_summary(where)
    source, stories = _read_stories(where, config, "run")
    return Recorded(
        source=source,
        config=config,
        result=data.run_json(config, summary, head=source.head),
        text=markdown.render(config, summary),
        has_headline=summary.has_headline(config["options"]["infra_budget"]),
        summary=summary,
        stories=stories,
    )


def _replay(where: RunDir, config: dict[str, Json], rule: str | None) -> Recorded:
    own = _own_rule(where, config, rule)
    found = derive_replay(where, PoolIndex(where.ledger), config, {} if own is None else {own.name: own.choose})
    source, stories = _read_stories(where, config, "replay")
    return Recorded(
        source=source,
        config=config,
        result={**result_json(config, found), "head": source.head},
        text=report_text(config, found),
        has_headline=found.has_headline(config["options"]["infra_budget"]),
        table=found.table,
        conditions=tuple(conditions(config, found)),
        stories=stories,
    )


def _own_rule(where: RunDir, config: dict[str, Json], name: str | None) -> OwnRule | None:
    made_with = (config.get("rule") or {}).get("name")
    if made_with is None:
        return None
    if name != made_with:
        raise SpecError(f"{where.path}: was made with --rule {made_with}: give it too, if you trust that code")
    return load_rule(made_with)


def _read_stories(where: RunDir, config: dict[str, Json], kind: str) -> tuple[Source, tuple[TaskStory, ...]]:
    """The source as reports name it, and the story of each task, in the bank's order."""
    index, head, began, closed = LineIndex(where.ledger), FIRST, "", False
    for line in read_lines(where.ledger):
        index.add(line)
        head, closed = line.digest, line.record["kind"] == "closed"
        began = began or str(line.record["time"])
    options, bank = config["options"], str(config["bank"]["name"])
    source = Source(
        kind=kind,
        bank=bank,
        head=head,
        began=began,
        candidates=str(config["source"]["spec"]),
        model=str(options.get("model") or ""),
        isolation=str(options["isolation"]),
        closed=closed,
    )
    stories = tuple(
        task_story(bank, task, ((line.digest, line.record) for line in index.lines(task.id))) for task in where.tasks()
    )
    return source, stories
