"""A benchmark's rows as a bank's lines, and what is not in it.

A task with a hidden test that has no form leaves the bank: a bank's ground truth is
complete or it is not there. A visible test that has no form is left out and named, and
so are visible tests that contradict each other: nobody can say which of them is meant.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from conversion.forms import Unconvertible, convert_test
from gate.errors import SpecError
from gate.model import Json, canonical_json
from gate.suite import suite_from_tree


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One task as the data has it, with the parts that this bank uses.

    Attributes:
        entry_point: None for a program on standard input and output.
        visible: Cases that the task's statement shows.
        hidden: Cases of the ground truth; none where the benchmark has no others.
        visible_from: Where the visible cases were read.
        lost: `(where, why)` of each test that the data itself could not hold.
    """

    task_id: str
    prompt: str
    entry_point: str | None
    visible: list[Json]
    hidden: list[Json]
    reference: str | None
    visible_from: str
    lost: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """Saved candidates that go with a bank: the first `draws` of each of its tasks."""

    read: str
    written: str
    draws: int
    keys: tuple[str, ...] = ("task_id", "solution", "model", "sample_index", "published_passed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How one bank is made.

    Attributes:
        sources: What was used, with repository, commit and licence; the benchmark itself first.
        reads: The files below the data folder.
        rows: Reads them, in the bank's order.
        left_out: Tasks of the benchmark that `rows` does not give, each with the reason.
        changed: What differs from the source in more than form, by task.
        limits: What a suite allows beyond the default, by task.
    """

    name: str
    sources: tuple[dict[str, str], ...]
    reads: tuple[str, ...]
    rows: Callable[[Path], Iterator[Row]]
    left_out: Callable[[Path], Mapping[str, str]]
    samples: Samples | None = None
    changed: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, Json] = field(default_factory=dict)


@dataclass(kw_only=True)
class Conversion:
    """What became of one benchmark.

    Attributes:
        lines: The bank's lines, one suite a task.
        visible_from: Where the visible tests of kept tasks were read, and for how many tasks.
        unconverted: `{task, where, why}` of each test that has no form.
        not_data: `{task, why}` of each task that is not in the bank.
    """

    lines: list[Json] = field(default_factory=list)
    visible_from: Counter[str] = field(default_factory=Counter)
    unconverted: list[dict[str, str]] = field(default_factory=list)
    not_data: list[dict[str, str]] = field(default_factory=list)


def convert(rows: Iterator[Row], left_out: Mapping[str, str], limits: Mapping[str, Json] | None = None) -> Conversion:
    """Every task of the benchmark, converted or named with the reason why not."""
    done = Conversion()
    for row in rows:
        _convert_row(row, done)
    for line in done.lines:
        if limits and line["task"] in limits:
            line["limits"] = limits[line["task"]]
    done.not_data += [{"task": task_id, "why": why} for task_id, why in left_out.items()]
    return done


def _convert_row(row: Row, done: Conversion) -> None:
    done.unconverted += [{"task": row.task_id, "where": where, "why": why} for where, why in row.lost]
    tests, _ = _convert_cases(row, "tests", row.visible, done)
    hidden, whole = _convert_cases(row, "hidden", row.hidden, done)
    tests = _without_contradictions(row, tests, done)
    if not whole:
        done.not_data.append({"task": row.task_id, "why": "a hidden test has no form in a suite (see `unconverted`)"})
    elif not tests and not hidden:
        done.not_data.append({"task": row.task_id, "why": "none of its tests has a form in a suite"})
    else:
        if tests:
            done.visible_from[row.visible_from] += 1
        done.lines.append(bank_line(row, tests, hidden))


def _convert_cases(row: Row, where: str, cases: list[Json], done: Conversion) -> tuple[list[Json], bool]:
    tests = []
    for number, case in enumerate(cases):
        try:
            tests.append(convert_case(case, calls=row.entry_point is not None))
        except Unconvertible as exc:
            done.unconverted.append({"task": row.task_id, "where": f"{where}[{number}]", "why": str(exc)})
    return tests, len(tests) == len(cases)


def _without_contradictions(row: Row, tests: list[Json], done: Conversion) -> list[Json]:
    """The tests whose call has one answer."""
    by_call: dict[str, list[Json]] = {}
    for test in tests:
        by_call.setdefault(_call_text(test), []).append(test)
    doubtful = {call for call, group in by_call.items() if len(group) > 1 and _contradict(row, group)}
    for number, test in enumerate(tests):
        if _call_text(test) in doubtful:
            why = "another visible test of the same call has another answer"
            done.unconverted.append({"task": row.task_id, "where": f"tests[{number}]", "why": why})
    return [test for test in tests if _call_text(test) not in doubtful]


def _call_text(test: Json) -> str:
    return canonical_json({key: test[key] for key in ("args", "kwargs", "stdin") if key in test})


def _contradict(row: Row, group: list[Json]) -> bool:
    """Whether no program can pass all of some tests; the loader judges."""
    try:
        suite_from_tree(bank_line(row, [], group))
    except SpecError:
        return True
    return False


def convert_case(case: Json, *, calls: bool) -> Json:
    """One case as a test, of a call or of a program.

    Raises:
        Unconvertible: It has no form in a suite.
    """
    if calls:
        return convert_test(case)
    if case.keys() != {"stdin", "stdout"}:
        raise Unconvertible(f"is no pair of stdin and stdout but {sorted(case)}")
    return {"stdin": case["stdin"], "stdout": case["stdout"]}


def bank_line(row: Row, tests: list[Json], hidden: list[Json]) -> Json:
    """A task as a suite; what it has not got is left out."""
    head: Json = {"version": 1, "task": row.task_id, "prompt": row.prompt}
    if row.entry_point is not None:
        head |= {"entry_point": row.entry_point, "compare": "python"}
    line = head | {"tests": tests, "hidden": hidden}
    return line if row.reference is None else line | {"reference": row.reference}


def contained(line: Json) -> bool:
    """Whether each visible test of a bank line stands among its hidden ones, word for word."""
    hidden = {canonical_json(test) for test in line["hidden"]}
    return all(canonical_json(test) in hidden for test in line["tests"])


def provenance(recipe: Recipe, done: Conversion, inputs: Json, outputs: Json) -> Json:
    """What the bank was made from, what is in it and what is not."""
    measured = [line for line in done.lines if line["hidden"]]
    inside = sum(map(contained, measured))
    return {
        "bank": recipe.name,
        "source": recipe.sources[0]["repository"],
        "commit": recipe.sources[0]["commit"],
        "licence": recipe.sources[0]["licence"],
        "sources": list(recipe.sources),
        "tasks": len(done.lines),
        "tasks_with_hidden": len(measured),
        "visible": sum(len(line["tests"]) for line in done.lines),
        "hidden": sum(len(line["hidden"]) for line in done.lines),
        "tasks_visible_subset_of_hidden": inside,
        "visible_subset_of_hidden": inside == len(measured) if measured else None,
        "visible_from": dict(done.visible_from),
        "changed": dict(recipe.changed),
        "limits": dict(recipe.limits),
        "unconverted": done.unconverted,
        "not_data": done.not_data,
        "inputs": inputs,
        "outputs": outputs,
    }
