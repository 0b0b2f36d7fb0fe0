"""`gate show`: what happened, in full."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gate import records
from gate.backends.rundir import RunDir
from gate.cli import exits, printing
from gate.cli.derive import derive_summary, whole_records
from gate.errors import SpecError
from gate.model import Candidate, Json, Observation, Usage

INDENT = "    "


def show(path: Path, task_id: str | None, *, as_json: bool) -> int:
    """A run's tasks, one line each; or one task with its draws, programs and verdicts."""
    where = RunDir(path)
    config = where.read_config()
    if task_id is None:
        return _show_run(where, config, as_json=as_json)
    found = [record for record in whole_records(where) if record.get("task") == task_id]
    if not found and task_id not in {task.id for task in where.tasks()}:
        raise SpecError(f"{path}: the run has no task {task_id!r}: `gate show {path}` lists them")
    if as_json:
        printing.print_json({"schema": "gate.show/1", "task": task_id, "records": found})
    else:
        print(printing.escape("\n".join(task_lines(task_id, found))))
    return exits.DONE


def _show_run(where: RunDir, config: dict[str, Json], *, as_json: bool) -> int:
    decisions = {record["task"]: record for record in whole_records(where) if record["kind"] == "decision"}
    rows = [(task.id, decisions.get(task.id)) for task in where.tasks()]
    if as_json:
        tasks = [{"task": task_id, "decision": record} for task_id, record in rows]
        printing.print_json({"schema": "gate.show/1", "bank": config["bank"]["name"], "tasks": tasks})
    else:
        for task_id, record in rows:
            words = "not run" if record is None else printing.decision_words(records.read_decision(record))
            print(f"{printing.escape(task_id)}: {words}")
        print(printing.counts_sentence(derive_summary(where)))
    return exits.DONE


def task_lines(task_id: str, found: list[dict[str, Json]]) -> Iterator[str]:
    """The story of one task; what it holds of a candidate's making is not yet escaped."""
    yield f"task {task_id}"
    for record in found:
        kind = record["kind"]
        if kind == "candidate":
            yield from _candidate_lines(records.read_candidate(record))
        elif kind == "observation":
            yield from _observation_lines(record["part"], records.read_observation(record))
        elif kind == "verdict":
            yield from _verdict_lines(record)
        elif kind == "decision":
            yield f"decision: {printing.decision_words(records.read_decision(record))}"
    if not found:
        yield "nothing has happened yet"


def _candidate_lines(candidate: Candidate) -> Iterator[str]:
    facts = ", ".join(f"{name}: {value}" for name, value in candidate.origin.items())
    yield ""
    yield f"draw {candidate.index}, {candidate.digest[:12]}" + (f" ({' '.join(facts.split())})" if facts else "")
    for number, line in enumerate(candidate.code.split("\n"), 1):
        yield f"{number:4d}  {line}"


def _observation_lines(part: str, seen: Observation) -> Iterator[str]:
    repeat = ", alone" if seen.where.get("alone") else ""
    yield f"  ran the {part} tests under hash seed {seen.where.get('seed')}{repeat}: {_usage_text(seen.usage)}"
    yield from _quoted(seen.detail)
    if seen.output_tail:
        yield f"{INDENT}it printed, at the end:"
        yield from _quoted("\n".join(seen.output_tail.rstrip("\n").split("\n")[-10:]))


def _quoted(text: str) -> Iterator[str]:
    """Text of a candidate's making, each line marked: none can pass for a line of ours."""
    if text:
        yield from (f"{INDENT}| {line}" for line in text.split("\n"))


def _usage_text(usage: Usage) -> str:
    cpu = "CPU unknown" if usage.cpu_s is None else f"{usage.cpu_s:.3f} s CPU"
    memory = "memory unknown" if usage.memory_bytes is None else f"{usage.memory_bytes / 1e6:.1f} MB"
    wall = "wall unknown" if usage.wall_s is None else f"{usage.wall_s:.3f} s wall"
    return f"{wall}, {cpu}, {memory}"


def _verdict_lines(record: dict[str, Json]) -> Iterator[str]:
    verdict = records.read_verdict(record)
    words = "pass" if verdict.reason is None else f"{verdict.outcome.value}: {verdict.reason}"
    where = "" if verdict.test is None else f" at test {verdict.test}"
    yield f"  verdict of the {record['part']} tests: {words}{where}; {verdict.passed} of {verdict.total} passed"
    yield from _quoted(verdict.detail)
