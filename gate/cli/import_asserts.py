"""`gate import asserts`: a Python file's asserts as a suite.

The file is parsed in the sandbox (`sandbox/asserts.py`), as a candidate's call is answered
there: its text goes in as an argument, plain data comes back.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import anyio

from gate.cli import exits, printing, wiring
from gate.errors import SandboxError, SpecError
from gate.model import Call, Candidate, Exit, Json, Limits, Observation
from gate.preflight import last_words
from gate.resources import sandbox_dir
from gate.seams import Sandbox
from gate.suite import load_suite

LIMITS = Limits(wall_s=60.0, cpu_s=30.0, memory_mb=1024, output_kb=65536)
MAX_FILE_BYTES = 4 << 20

_NO_ID = re.compile(r"[^A-Za-z0-9._-]+")
# What JSON leaves as it is and YAML does not read.
_NUMBER = re.compile(r'"(?:[^"\\]|\\.)*"|(?<![0-9.])(-?[0-9]+)(e[+-][0-9]+)')
_NOT_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One assert as a test, or one line that is none.

    Attributes:
        entry: What the test calls; None for a line that is no test.
        what: The test, or why there is none.
    """

    line: int
    entry: str | None
    what: Json


def import_asserts(
    path: Path, *, out: Path | None, entry_point: str | None, task: str | None, runtime: str | None, as_json: bool
) -> int:
    """Parse, write, list, and say with the exit code: 0 all lines, 1 some are no tests, 2 there is no suite."""
    text = _read(path)
    found = anyio.run(_parse, text, entry_point, runtime)
    entry = entry_point or _only_entry(found, path)
    tests, rest = divide(found, entry)
    for each in rest:
        printing.say(f"{path}:{each.line}: left out: {printing.escape(' '.join(str(each.what).split()))}")
    if not tests:
        raise SpecError(f"{path}: no assert of it is a test of {entry or 'a function'}: see what was left out")
    suite = suite_text(task or default_task(path), str(entry), [each.what for each in tests])
    source = _loaded(suite, tests, path)
    _deliver(suite, source, out=out, rest=rest, path=path, as_json=as_json)
    return exits.REFUSED if rest else exits.DONE


def _deliver(suite: str, source: Json, *, out: Path | None, rest: list[Found], path: Path, as_json: bool) -> None:
    if out is not None:
        try:
            out.write_text(suite, encoding="utf-8")
        except OSError as exc:
            raise SpecError(f"{out}: cannot be written ({exc.strerror}): name a place where files can be") from exc
    if as_json:
        left_out = [{"where": f"{path}:{each.line}", "why": str(each.what)} for each in rest]
        made = {"suite": source} if out is None else {"bank": str(out)}
        counts = {"tasks": 1, "visible": len(source["tests"]), "hidden": 0}
        printing.print_json({"schema": "gate.import/1", **made, **counts, "left_out": left_out})
    elif out is None:
        print(suite, end="")
    else:
        print(f"{out}: {len(source['tests'])} tests; {len(rest)} lines left out")


def _loaded(suite: str, tests: list[Found], path: Path) -> Json:
    """The suite in its normal form.

    Raises:
        SpecError: It is no sound suite; the message speaks of the file's lines.
    """
    try:
        return load_suite(suite.encode(), "suite").source
    except SpecError as exc:
        what = re.sub(r"^suite:[0-9]+: ", "", str(exc))
        what = re.sub(r"tests\[([0-9]+)\]", lambda found: f"line {tests[int(found[1])].line}", what)
        raise SpecError(f"{path}: {what}") from exc


def _read(path: Path) -> str:
    """A file's text, decoded as Python decodes it where nothing else is declared."""
    try:
        data = path.read_bytes()
    except OSError as exc:
        raise SpecError(f"{path}: cannot be read ({exc.strerror}): name a Python file") from exc
    if len(data) > MAX_FILE_BYTES:
        raise SpecError(f"{path}: larger than {MAX_FILE_BYTES >> 20} MiB: split it")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise SpecError(f"{path}: not UTF-8: save it as UTF-8") from None


async def _parse(text: str, entry_point: str | None, runtime: str | None) -> list[Found]:
    known = wiring.open_engine(runtime)
    async with wiring.open_sandbox(known, runtime=runtime, concurrency=1, checked=False) as sandbox:
        return await parse_asserts(text, entry_point, sandbox=sandbox)


async def parse_asserts(text: str, entry_point: str | None, *, sandbox: Sandbox) -> list[Found]:
    """What the parser in the sandbox finds in a file.

    Raises:
        SpecError: The file is too much for it.
        SandboxError: It gave no answer that can be read.
    """
    program = (sandbox_dir() / "asserts.py").read_text(encoding="utf-8")
    parser = Candidate(task_id="asserts", index=0, code=program)
    call = Call(args=(text, entry_point))
    seen = await sandbox.observe(parser, "read_asserts", [call], LIMITS)
    if seen.exit is Exit.FAULT:
        raise SandboxError(f"The sandbox failed while it parsed the file: {seen.detail}.")
    if seen.exit is not Exit.OK or not seen.replies or seen.replies[0].kind != "returned":
        raise SpecError(f"the file is more than the parser can take ({_end(seen)}): split it")
    return read_answer(seen.replies[0].value)


def _end(seen: Observation) -> str:
    said = [seen.exit.value, seen.detail, *(reply.message for reply in seen.replies)]
    return ", ".join(filter(None, said)) + last_words(seen)


def read_answer(answer: Json) -> list[Found]:
    """The parser's answer, which is plain data and trusted no further than its form.

    Raises:
        SandboxError: It has another form.
    """
    try:
        tests = [Found(line=int(each["line"]), entry=str(each["entry"]), what=each["test"]) for each in answer["tests"]]
        rest = [Found(line=int(each["line"]), entry=None, what=str(each["why"])) for each in answer["rest"]]
    except (TypeError, KeyError, ValueError) as exc:
        raise SandboxError(f"The parser in the sandbox gave an answer that is no list of tests ({exc!r}).") from exc
    return tests + rest


def _only_entry(found: list[Found], path: Path) -> str | None:
    """The one function that all tests call.

    Raises:
        SpecError: There are several.
    """
    counts = Counter(each.entry for each in found if each.entry is not None)
    if len(counts) > 1:
        named = ", ".join(f"{printing.escape(str(name))} ({count})" for name, count in counts.most_common(10))
        raise SpecError(f"{path}: the asserts call several functions, {named}: choose one by --entry-point")
    return next(iter(counts), None)


def divide(found: list[Found], entry: str | None) -> tuple[list[Found], list[Found]]:
    """The tests of one function, and all else by line."""
    tests = [each for each in found if each.entry is not None and each.entry == entry]
    rest = [each for each in found if each.entry is None]
    rest += [
        Found(line=each.line, entry=None, what=f"tests {each.entry}, another function")
        for each in found
        if each.entry is not None and each.entry != entry
    ]
    return tests, sorted(rest, key=lambda each: each.line)


def default_task(path: Path) -> str:
    """A task's id from a file's name."""
    return _NO_ID.sub("-", path.name.removesuffix(".py")).strip("-._") or "imported"


def suite_text(task: str, entry_point: str, tests: list[Json]) -> str:
    """A suite for people: YAML, each test on a line of its own, written as JSON."""
    head = ["version: 1", f"task: {_flow(task)}", f"entry_point: {_flow(entry_point)}", "compare: python", "tests:"]
    return "\n".join([*head, *(f"  - {_flow(test)}" for test in tests)]) + "\n"


def _flow(value: Json) -> str:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    text = _NUMBER.sub(lambda found: f"{found[1]}.0{found[2]}" if found[1] else found[0], text)  # 1e-06 is text in YAML
    return _NOT_YAML.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
