"""`gate verify`: every claim of a run derived again."""

from __future__ import annotations

import json
import shlex
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from gate import records
from gate.backends.content import FOLDER, ContentStore
from gate.backends.jsonl import FIRST, Line, LineIndex, read_lines
from gate.backends.rundir import RunDir
from gate.cli import attack_record, bind, exits, printing
from gate.cli.derive import closing_counts, derived_texts
from gate.cli.own_rule import OwnRule, load_rule
from gate.cli.rejudge import Anew, judge_anew
from gate.cli.replayed import KIND, DecisionCounts, derive_replay, draws_of, replay_texts
from gate.cli.verify_report import OWN, Held, holds_record, is_report, result_json, verify_report
from gate.errors import IntegrityError, SpecError
from gate.history import History, check
from gate.model import Decision, Json, digest_bytes
from gate.summary import Summary, Tally
from gate.verify import Mismatch, Noted, verify_pool, verify_task

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
        stored: Digests of the replies that stand in the content store.
    """

    index: LineIndex
    first: dict[str, Json] | None = None
    last: str = FIRST
    closed: bool = False
    tasks: set[str] = field(default_factory=set)
    known_head: bool = False
    stored: set[str] = field(default_factory=set)


def verify(
    path: Path,
    *,
    head: str | None,
    as_json: bool,
    rejudge: int = 0,
    rule: str | None = None,
    lock: Path | None = None,
    bank: str | None = None,
    runs: Sequence[Path] = (),
) -> int:
    """Verify, print, and say with the exit code: 0 all derives, 1 not closed, 4 something does not.

    Args:
        lock: The customer's own lock of the bank, against which the run's suites are held.
        bank: The bank that a lock, which `path` then names, is held against.
        runs: The runs that a report, which `path` then names, is about, where they were moved.
        rejudge: How many verdicts to execute anew, once the record itself derives.
        rule: The user's own rule of a replay that has one.

    Raises:
        SpecError: There is no run, or a rule is missing or one too many.
        SandboxError: Nothing can be executed anew.
    """
    if bank is not None or bind.is_lock(path):
        return verify_lock(path, bank, as_json=as_json)
    if attack_record.is_record(path):
        return print_written(
            attack_record.verify_record(path), "all that it says follows from its outcomes", as_json=as_json
        )
    if path.is_file() and holds_record(path.parent):
        path = path.parent  # what a run derived itself is verified with all of it
    elif is_report(path):
        if lock is not None:
            raise SpecError("--bind: holds the suites of a run against a lock: name the run, not a report of it")
        return verify_written(path, runs, rule=rule, as_json=as_json)
    where = RunDir(path)
    if not where.run_json.is_file() and not where.ledger.is_file():
        raise SpecError(f"{path}: holds no run: name a run directory, or a report that is there")
    bound = None if lock is None else bind.read_bound(lock)
    mismatches: list[Mismatch] = []
    closed = False
    anew: Anew | None = None
    try:
        own = own_rule(where, rule)
        reading = read_whole(where)
        closed = reading.closed
        for mismatch in verify_run(where, reading, head=head, own=own):
            mismatches.append(mismatch)
        if bound is not None and where.run_json.is_file():
            mismatches.extend(bind.verify_bound(bound, where, where.read_config()))
        if not mismatches:
            mismatches.extend(_verify_own_reports(where, rule))
        if rejudge and not mismatches:
            anew = judge_anew(where, reading.index, reading.last, rejudge)
            mismatches.extend(anew.mismatches)
    except IntegrityError as exc:
        mismatches.append(Mismatch(where=_inside(str(exc), path), claimed="a sound record", derived="damage"))
    if as_json:
        found = [mismatch.as_json() for mismatch in mismatches]
        result = {"ok": closed and not mismatches, "level": "recorded" if anew is None else "rejudged"}
        judged = {} if anew is None else {"rejudged": anew.judged, "verdicts": anew.verdicts}
        printing.print_json({"schema": "gate.verify/1", **result, "closed": closed, **judged, "mismatches": found})
    else:
        print("\n".join(verdict_lines(where, mismatches, closed=closed, anew=anew)))
        if bound is not None and not mismatches:
            print(f"its suites are those that {printing.escape(str(bound.path))} binds")
    return exits.INTEGRITY if mismatches else exits.DONE if closed else exits.REFUSED


def verify_written(path: Path, runs: Sequence[Path], *, rule: str | None, as_json: bool) -> int:
    """Hold a report against its record, print, and say with the exit code: 0 it derives, 4 something does not."""
    try:
        held = verify_report(path, runs, rule=rule)
    except IntegrityError as exc:
        held = Held([Mismatch(where=_inside(str(exc), path), claimed="a sound record", derived="damage")])
    code = print_written(
        held.mismatches, held.sentence, as_json=as_json, more={"unchecked": ["figures"]} if held.drawn_by else {}
    )
    return exits.REFUSED if held.drawn_by and not held.mismatches else code


def print_written(
    mismatches: Sequence[Mismatch], sound: str, *, as_json: bool, more: dict[str, Json] | None = None
) -> int:
    """What was found in a file, and the exit code: 0 nothing, 4 something does not derive.

    Args:
        more: What else the JSON has: something in it says that not all could be checked.
    """
    if as_json:
        result = result_json(mismatches)
        printing.print_json({**result, "ok": result["ok"] and not more, **(more or {})})
    else:
        print("\n".join(found_lines(mismatches)) or sound)
    return exits.INTEGRITY if mismatches else exits.DONE


def verify_lock(path: Path, bank: str | None, *, as_json: bool) -> int:
    """Hold a lock against a bank, print, and say with the exit code: 0 it is the bound one, 4 it is not.

    Raises:
        SpecError: One of them is not there, or cannot be read.
    """
    if bank is None:
        raise SpecError(f"{path}: is a lock: say by --bank which bank is to be held against it")
    bound = bind.read_bound(path)
    mismatches = list(bind.verify_lock(bound, bank))
    if as_json:
        found = [mismatch.as_json() for mismatch in mismatches]
        printing.print_json({"schema": "gate.verify/1", "ok": not mismatches, "level": "bound", "mismatches": found})
    else:
        lines = list(found_lines(mismatches))
        number = len(bound.lock.suites)
        print("\n".join(lines or [f"all {number} suites are those that {printing.escape(str(path))} binds"]))
    return exits.INTEGRITY if mismatches else exits.DONE


def own_rule(where: RunDir, name: str | None) -> OwnRule | None:
    """The user's own rule that a replay was made with; it is code, so only the caller may name it.

    Raises:
        SpecError: The replay has one and it was not named, or it has another or none.
        IntegrityError: The configuration is damaged.
    """
    recorded = where.read_config().get("rule") if where.run_json.is_file() else None
    made_with = recorded.get("name") if isinstance(recorded, dict) else None
    if made_with == name:
        return None if name is None else load_rule(name)
    if name is None:
        raise SpecError(f"{where.path}: was made with --rule {made_with}: give it too, if you trust that code")
    raise SpecError(f"--rule {name}: {where.path} was made with {made_with or 'no rule of its own'}")


def _inside(text: str, path: Path) -> str:
    return text.replace(f"{path}/", "")


def verdict_lines(
    where: RunDir, mismatches: list[Mismatch], *, closed: bool, anew: Anew | None = None
) -> Iterator[str]:
    """The result in words."""
    yield from found_lines(mismatches)
    if not closed and not mismatches:
        again = f"gate run --resume {shlex.quote(str(where.path))}"
        if _is_replay(where):
            again = f"gate replay … --out {shlex.quote(str(where.path))}"
        yield f"all that is recorded derives, but the run is not closed: resume it: {again}"
    elif not mismatches:
        yield "every verdict, decision, count and report derives from the record"
    if anew is not None:
        same = "all the same" if not anew.mismatches else f"{len(anew.mismatches)} are not what is recorded"
        yield f"{anew.judged} of {anew.verdicts} verdicts were executed anew: {same}"


def found_lines(mismatches: Sequence[Mismatch]) -> Iterator[str]:
    """What does not derive, and how much of it; nothing where all does."""
    for each in mismatches[:MAX_SHOWN]:
        yield printing.escape(f"{each.where}\n  claimed: {each.claimed}\n  derived: {each.derived}")
    if len(mismatches) > MAX_SHOWN:
        yield f"… and {len(mismatches) - MAX_SHOWN} more"
    if mismatches:
        yield f"{len(mismatches)} claim{'s do' if len(mismatches) > 1 else ' does'} not derive"


def _is_replay(where: RunDir) -> bool:
    return where.run_json.is_file() and where.read_config().get("kind") == KIND


def read_whole(where: RunDir) -> Reading:
    """Read the ledger line by line: the chain, the form of each record, and what contradicts what.

    Raises:
        IntegrityError: A line is damaged, or contradicts one before it.
    """
    reading, history = Reading(index=LineIndex(where.ledger)), History()
    take_in = check if _is_replay(where) else history.add  # a replay's contradictions are found task by task
    told = _told_head(where)
    for number, line in enumerate(read_lines(where.ledger) if where.ledger.is_file() else (), 1):
        try:
            take_in(line.record)
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
    reading.stored.update(line.stored)


def _told_head(where: RunDir) -> str | None:
    """The head that `summary.json` names; None where it names none."""
    try:
        told = json.loads((where.path / "summary.json").read_bytes())["head"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return told if isinstance(told, str) else None


def verify_run(where: RunDir, reading: Reading, *, head: str | None, own: OwnRule | None = None) -> Iterator[Mismatch]:
    """What does not derive, from the bindings to the reports.

    Args:
        own: The user's own rule, of a replay that has one.

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
    if reading.closed:
        for name in ContentStore.beside(where.ledger).unnamed(reading.stored):
            yield Mismatch(where=f"{FOLDER}/{name}", claimed="belongs to the run", derived="no line names it")
    if config.get("kind") == KIND:
        yield from verify_replay(where, config, reading, own)
        return
    tally = Tally()
    yield from _verify_tasks(where, config, reading, tally)
    yield from _verify_closing(where, tally)
    yield from verify_derived(where, config, tally.summary(), reading)


def verify_replay(where: RunDir, config: dict[str, Json], reading: Reading, own: OwnRule | None) -> Iterator[Mismatch]:
    """What does not derive in a replay: each task's pool, the closing lines, and what is printed of them.

    Raises:
        IntegrityError: Records contradict each other or the configuration.
    """
    draws = draws_of(config)
    if own is not None and own.as_json() != config["rule"]:
        yield Mismatch(where="run.json: rule", claimed=str(config["rule"]), derived=str(own.as_json()))
    number = 0
    for task in where.tasks():
        number += 1
        yield from verify_pool(task, _noted(reading, task.id), draws=draws, closed=reading.closed)
    yield from _verify_replay_closings(where, number)
    found = derive_replay(where, reading.index, config, {} if own is None else {own.name: own.choose})
    yield from _verify_texts(where, replay_texts(config, found, reading.last), reading)


def _verify_replay_closings(where: RunDir, tasks: int) -> Iterator[Mismatch]:
    """What each closing line says is what the decisions before it add up to."""
    decisions: dict[str, Decision] = {}
    for number, record in enumerate(where.records(), 1):
        if record["kind"] == "decision":
            decisions[record["task"]] = records.read_decision(record)
        elif record["kind"] == "closed":
            counts = DecisionCounts()
            for decision in decisions.values():
                counts.add(decision)
            counts.tasks, counts.not_run = tasks, tasks - len(decisions)
            derived = asdict(counts)
            claimed = {name: record[name] for name in derived}
            if claimed != derived:
                yield Mismatch(where=f"ledger.jsonl:{number}: closing line", claimed=str(claimed), derived=str(derived))


def _noted(reading: Reading, task_id: str) -> list[Noted]:
    return [Noted(digest=line.digest, record=line.record) for line in reading.index.lines(task_id)]


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
        noted = _noted(reading, task.id)
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
    """All files that claim to derive from the three that are kept; the ledger's long replies are not among them."""
    found = (each.relative_to(path) for each in path.rglob("*") if not each.is_dir())
    return {str(each) for each in found if each.parts[0] != FOLDER} - {*KEPT, *UNCLAIMED, *OWN}


def _verify_own_reports(where: RunDir, rule: str | None) -> Iterator[Mismatch]:
    """The reports of a run that somebody wrote beside its record."""
    for name in OWN:
        path = where.path / name
        if path.is_file():
            for mismatch in verify_report(path, [where.path], rule=rule).mismatches:
                yield replace(mismatch, where=f"{name}: {mismatch.where}")


def verify_derived(where: RunDir, config: dict[str, Json], summary: Summary, reading: Reading) -> Iterator[Mismatch]:
    """Each derived file of a run is byte for byte what is made again, and there is no other."""
    texts = derived_texts(config, summary, reading.last)
    with tempfile.TemporaryDirectory() as folder:
        again = Path(folder)
        where.write_delivered(again)
        yield from _verify_texts(where, texts, reading, again)


def _verify_texts(
    where: RunDir, texts: dict[str, bytes], reading: Reading, again: Path | None = None
) -> Iterator[Mismatch]:
    """Each derived file is byte for byte what is made again, and there is no other.

    A run that is not closed may have none, or those of an earlier stop: they are made
    again when it goes on. But they too must speak of this ledger.

    Args:
        texts: Derived files by name.
        again: A folder with more of them.
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
    for name in sorted(texts.keys() | (set() if again is None else _derived_names(again)) | have):
        derived = texts[name] if name in texts else None if again is None else _content(again / name)
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
