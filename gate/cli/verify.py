"""`gate verify`: every claim of a run derived again."""

from __future__ import annotations

import json
import shlex
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from gate.backends.jsonl import FIRST, Line, LineIndex, read_lines
from gate.backends.rundir import RunDir
from gate.cli import exits, printing
from gate.cli.derive import closing_counts, derived_texts
from gate.errors import IntegrityError, SpecError
from gate.history import History
from gate.model import Json, digest_bytes
from gate.summary import Summary, Tally
from gate.verify import Mismatch, Noted, verify_task

KEPT = ("run.json", "suites.jsonl.gz", "ledger.jsonl")
UNCLAIMED = ("run.log",)  # for people; no claim rests on it
MAX_SHOWN = 20


@dataclass(slots=True)
class Reading:
    """What the first reading of a ledger tells.

    Attributes:
        first: The record on the first line; None where there is no line.
        last: SHA-256 of the last line.
        closed: Whether the last line closes the run.
        tasks: The tasks that lines speak of.
        known_head: Whether the head that the derived files name is that of any line.
    """

    index: LineIndex
    first: dict[str, Json] | None = None
    last: str = FIRST
    closed: bool = False
    tasks: set[str] = field(default_factory=set)
    known_head: bool = False


def verify(path: Path, *, head: str | None, as_json: bool) -> int:
    """Verify, print, and say with the exit code: 0 all derives, 1 not closed, 4 something does not.

    Raises:
        SpecError: There is no run.
    """
    where = RunDir(path)
    if not where.run_json.is_file() and not where.ledger.is_file():
        raise SpecError(f"{path}: holds no run: name a run directory")
    mismatches: list[Mismatch] = []
    closed = False
    try:
        reading = read_whole(where)
        closed = reading.closed
        for mismatch in verify_run(where, reading, head=head):
            mismatches.append(mismatch)
    except IntegrityError as exc:
        mismatches.append(Mismatch(where=_inside(str(exc), path), claimed="a sound record", derived="damage"))
    if as_json:
        found = [mismatch.as_json() for mismatch in mismatches]
        ok = closed and not mismatches
        printing.print_json(
            {"schema": "gate.verify/1", "ok": ok, "level": "recorded", "closed": closed, "mismatches": found}
        )
    else:
        print("\n".join(verdict_lines(where, mismatches, closed=closed)))
    return exits.INTEGRITY if mismatches else exits.DONE if closed else exits.REFUSED


def _inside(text: str, path: Path) -> str:
    return text.replace(f"{path}/", "")


def verdict_lines(where: RunDir, mismatches: list[Mismatch], *, closed: bool) -> Iterator[str]:
    """The result in words."""
    for each in mismatches[:MAX_SHOWN]:
        yield printing.escape(f"{each.where}\n  claimed: {each.claimed}\n  derived: {each.derived}")
    if len(mismatches) > MAX_SHOWN:
        yield f"… and {len(mismatches) - MAX_SHOWN} more"
    if mismatches:
        yield f"{len(mismatches)} claim{'s do' if len(mismatches) > 1 else ' does'} not derive"
    elif not closed:
        again = f"gate run --resume {shlex.quote(str(where.path))}"
        yield f"all that is recorded derives, but the run is not closed: resume it: {again}"
    else:
        yield "every verdict, decision, count and report derives from the record"


def read_whole(where: RunDir) -> Reading:
    """Read the ledger line by line: the chain, the form of each record, and what contradicts what.

    Raises:
        IntegrityError: A line is damaged, or contradicts one before it.
    """
    reading, history = Reading(index=LineIndex(where.ledger)), History()
    told = _told_head(where)
    for number, line in enumerate(read_lines(where.ledger) if where.ledger.is_file() else (), 1):
        try:
            history.add(line.record)
        except IntegrityError as exc:
            raise IntegrityError(f"{where.ledger}:{number}: {exc}") from exc
        if (line.record["kind"] == "run") is not (number == 1):
            raise IntegrityError(f"{where.ledger}:{number}: a ledger begins with its run, and only there")
        _note(reading, line, told)
    return reading


def _note(reading: Reading, line: Line, told: str | None) -> None:
    reading.first = reading.first or line.record
    reading.last = line.digest
    reading.closed = line.record["kind"] == "closed"
    reading.known_head |= line.digest == told
    if "task" in line.record:
        reading.tasks.add(line.record["task"])
    reading.index.add(line)


def _told_head(where: RunDir) -> str | None:
    """The head that `summary.json` names; None where it names none."""
    try:
        told = json.loads((where.path / "summary.json").read_bytes())["head"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return told if isinstance(told, str) else None


def verify_run(where: RunDir, reading: Reading, *, head: str | None) -> Iterator[Mismatch]:
    """What does not derive, from the bindings to the reports.

    Raises:
        IntegrityError: The configuration or the suites are damaged, or records contradict them.
    """
    if reading.first is None:
        if head is not None or _derived_names(where.path):
            yield Mismatch(where="ledger.jsonl", claimed="holds the records of the run", derived="is missing or empty")
        return
    broken = list(_verify_bindings(where, reading.first))
    if broken:
        yield from broken
        return
    config = where.read_config()
    if head is not None and head != reading.last:
        yield Mismatch(where="ledger.jsonl: head", claimed=head, derived=reading.last)
    tally = Tally()
    yield from _verify_tasks(where, config, reading, tally)
    yield from _verify_closing(where, tally)
    yield from verify_derived(where, config, tally.summary(), reading)


def _verify_bindings(where: RunDir, first: dict[str, Json]) -> Iterator[Mismatch]:
    """The first line binds `run.json`, which binds the suites."""
    if not where.run_json.is_file():
        yield Mismatch(where="run.json", claimed=first["run"], derived="is missing")
        return
    bound = digest_bytes(where.run_json.read_bytes())
    if first["run"] != bound:
        yield Mismatch(where="run.json", claimed=first["run"], derived=bound)
        return
    claimed, found = where.read_config().get("suites_digest"), where.suites_digest()
    if found != claimed:
        yield Mismatch(where="suites.jsonl.gz", claimed=str(claimed), derived=found)


def _verify_tasks(where: RunDir, config: dict[str, Json], reading: Reading, tally: Tally) -> Iterator[Mismatch]:
    """Each task of the run by its own records; the tally learns of the suites on the way."""
    draws, full_pool = _rule_of(config)
    unknown = set(reading.tasks)
    for task in where.tasks():
        tally.add_suite(task.suite)
        unknown.discard(task.id)
        noted = [Noted(digest=line.digest, record=line.record) for line in reading.index.lines(task.id)]
        yield from verify_task(task, noted, draws=draws, full_pool=full_pool, closed=reading.closed)
    for task_id in sorted(unknown):
        yield Mismatch(
            where=f"ledger.jsonl: {task_id}", claimed="is a task of the run", derived="the run has none such"
        )


def _rule_of(config: dict[str, Json]) -> tuple[int, bool]:
    options = config.get("options")
    found = (options.get("draws"), options.get("full_pool")) if isinstance(options, dict) else (None, None)
    if type(found[0]) is not int or type(found[1]) is not bool:
        raise IntegrityError("run.json: names no draws and no full_pool among its options")
    return found[0], found[1]


def _verify_closing(where: RunDir, tally: Tally) -> Iterator[Mismatch]:
    """What a closing line says is what the records before it add up to."""
    for number, record in enumerate(where.records(), 1):
        tally.add_record(record)
        if record["kind"] == "closed":
            derived = closing_counts(tally.summary())
            claimed = {name: record[name] for name in derived}
            if claimed != derived:
                yield Mismatch(where=f"ledger.jsonl:{number}: closing line", claimed=str(claimed), derived=str(derived))


def _derived_names(path: Path) -> set[str]:
    """All files of a run directory that claim to derive from the three that are kept."""
    return {str(each.relative_to(path)) for each in path.rglob("*") if not each.is_dir()} - {*KEPT, *UNCLAIMED}


def verify_derived(where: RunDir, config: dict[str, Json], summary: Summary, reading: Reading) -> Iterator[Mismatch]:
    """Each derived file is byte for byte what is made again, and there is no other.

    A run that is not closed may have none, or those of an earlier stop: they are made
    again when it goes on. But they too must speak of this ledger.
    """
    have = _derived_names(where.path)
    if "summary.json" not in have and not reading.closed:
        return
    told = _told_head(where)
    if told is not None and told != reading.last and (reading.closed or not reading.known_head):
        place = "summary.json: head, or the last line of ledger.jsonl"
        yield Mismatch(where=place, claimed=told, derived=reading.last)
    if told is not None and told != reading.last and not reading.closed:
        return
    texts = derived_texts(config, summary, reading.last)
    with tempfile.TemporaryDirectory() as folder:
        again = Path(folder)
        where.write_delivered(again)
        for name in sorted(texts.keys() | _derived_names(again) | have):
            derived = texts[name] if name in texts else _content(again / name)
            claimed = _content(where.path / name) or b"" if name in have else None
            yield from _verify_file(name, claimed, derived)


def _content(path: Path) -> bytes | None:
    """A file's bytes; None where there is no such file."""
    return path.read_bytes() if path.is_file() else None


def _verify_file(name: str, claimed: bytes | None, derived: bytes | None) -> Iterator[Mismatch]:
    """One file; the first line that differs is named."""
    if claimed == derived:
        return
    if claimed is None:
        yield Mismatch(where=name, claimed="is there", derived="is missing: `gate report` makes it again")
    elif derived is None:
        yield Mismatch(where=name, claimed="belongs to the run", derived="does not derive from it")
    else:
        yield from _first_difference(name, claimed.split(b"\n"), derived.split(b"\n"))


def _first_difference(name: str, claimed: list[bytes], derived: list[bytes]) -> Iterator[Mismatch]:
    for number, (ours, theirs) in enumerate(zip(claimed, derived, strict=False), 1):
        if ours != theirs:
            yield Mismatch(where=f"{name}:{number}", claimed=_text(ours), derived=_text(theirs))
            return
    yield Mismatch(where=name, claimed=f"{len(claimed)} lines", derived=f"{len(derived)} lines")


def _text(line: bytes) -> str:
    return line[:300].decode("utf-8", "backslashreplace")
