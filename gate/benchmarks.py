"""Tasks of other projects' benchmark files, as suites: LiveCodeBench, APPS, CommonOJ.

Each reader takes one row as plain JSON and gives one suite; what it cannot say as data it
refuses with the reason. The rows come from strangers: texts in them that hold JSON again
are parsed strictly, what is packed is unpacked within a bound, and a pickle is never
unpickled: of the one form that LiveCodeBench uses, a pickled text, the text is read off
the list of its operations.
"""

from __future__ import annotations

import base64
import binascii
import pickletools
import re
import zlib
from collections.abc import Callable, Mapping
from typing import Any

from gate import values
from gate.errors import SpecError
from gate.model import Json
from gate.suite import suite_from_tree
from gate.values import CodecError

MAX_UNPACKED_BYTES = 256 << 20
# A pickle of one text: a frame around it, the text, and a note that it could be used again.
_FRAMING = {"PROTO", "FRAME", "MEMOIZE", "BINPUT", "LONG_BINPUT", "STOP"}
_TEXTS = {"SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8", "UNICODE"}
_NO_ID = re.compile(r"[^A-Za-z0-9._/-]+")


class NotConvertible(ValueError):
    """This task has no suite; the text says why."""


def benchmark_suite(reader: str, row: Json, *, visible: int | None) -> dict[str, Json]:
    """One row as a suite that the loader accepts.

    Args:
        reader: Which of `READERS`.
        row: The row, as plain JSON.
        visible: How many of the tests decide, where the benchmark does not say; the others
            become hidden. None: all of them decide.

    Raises:
        NotConvertible: There is no suite that says the same.
    """
    if not isinstance(row, dict):
        raise NotConvertible("is no object")
    tree = READERS[reader](row, visible)
    try:
        suite_from_tree(tree)
    except SpecError as exc:
        raise NotConvertible(f"makes no sound {exc}") from exc
    return tree


# LiveCodeBench


def livecodebench_suite(row: Mapping[str, Json], visible: int | None) -> dict[str, Json]:
    """`public_test_cases` decide, `private_test_cases` measure."""
    public = _json_list(_text(row, "public_test_cases"), "public_test_cases")
    private = _private_cases(_text(row, "private_test_cases", default="[]"))
    kinds = {_text(_object(case, "a test case"), "testtype") for case in public + private}
    if len(kinds) != 1:
        raise NotConvertible(f"has tests of {len(kinds)} kinds: {', '.join(sorted(kinds)) or 'no test at all'}")
    (kind,) = kinds
    head = _head(f"livecodebench/{_text(row, 'question_id')}", _text(row, "question_content"))
    if kind == "stdin":
        return head | {"tests": [_stdin_case(case) for case in public], "hidden": [_stdin_case(c) for c in private]}
    if kind != "functional":
        raise NotConvertible(f"has tests of an unknown kind {kind!r}")
    starter = _text(row, "starter_code", default="")
    if starter.strip():
        head["prompt"] += f"\n\n{starter}"
    metadata = _object(_json(_text(row, "metadata", default="{}"), "metadata"), "metadata")
    head["entry_point"] = _entry_point(_text(metadata, "func_name"), starter)
    return head | {"tests": [_call_case(case) for case in public], "hidden": [_call_case(case) for case in private]}


def _private_cases(text: str) -> list[Json]:
    """The private cases: JSON, or JSON that was pickled, compressed and written in base64."""
    if text.lstrip().startswith("["):
        return _json_list(text, "private_test_cases")
    try:
        packed = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise NotConvertible("private_test_cases: neither a JSON list nor base64") from None
    return _json_list(pickled_text(_unpacked(packed)), "private_test_cases")


def _unpacked(packed: bytes) -> bytes:
    unpacker = zlib.decompressobj()
    try:
        data = unpacker.decompress(packed, MAX_UNPACKED_BYTES)
    except zlib.error as exc:
        raise NotConvertible(f"private_test_cases: no zlib data ({exc})") from None
    if unpacker.unconsumed_tail:
        raise NotConvertible(f"private_test_cases: more than {MAX_UNPACKED_BYTES >> 20} MiB unpacked")
    if not unpacker.eof:
        raise NotConvertible("private_test_cases: the zlib data is cut off")
    return data


def pickled_text(data: bytes) -> str:
    """The text that a pickle of one text holds, read off its operations; nothing is unpickled.

    Raises:
        NotConvertible: The pickle holds anything else, or is damaged.
    """
    found: list[str] = []
    try:
        for operation, argument, _ in pickletools.genops(data):
            if operation.name in _TEXTS:
                found.append(str(argument))
            elif operation.name not in _FRAMING:
                raise NotConvertible(
                    f"private_test_cases: a pickle of more than a text (operation {operation.name}), never unpickled"
                )
    except NotConvertible:
        raise
    except Exception as exc:  # pickletools raises whatever its readers meet in damaged data
        raise NotConvertible(f"private_test_cases: a damaged pickle ({exc})") from None
    if len(found) != 1:
        raise NotConvertible(f"private_test_cases: a pickle of {len(found)} texts, not of one")
    return found[0]


def _stdin_case(case: Json) -> dict[str, Json]:
    return {"stdin": _text(case, "input"), "stdout": _text(case, "output")}


def _call_case(case: Json) -> dict[str, Json]:
    """A line of JSON is an argument, the output is a value; an answer may be a tuple where it is a list."""
    lines = _text(case, "input").split("\n")
    args = [_tagged(_json(line, "a test's input")) for line in lines]
    return {"args": args, "expected": _tagged(_json(_text(case, "output"), "a test's output"))}


# APPS


def apps_suite(row: Mapping[str, Json], visible: int | None) -> dict[str, Json]:
    """`input_output`, of a function (`fn_name`) or of a program."""
    given = row.get("input_output")
    cases = _object(_json(given, "input_output") if isinstance(given, str) else given, "input_output")
    inputs, outputs = cases.get("inputs"), cases.get("outputs")
    if not isinstance(inputs, list) or not isinstance(outputs, list) or len(inputs) != len(outputs):
        raise NotConvertible("input_output: inputs and outputs are no two lists of one length")
    number = row.get("problem_id", row.get("id"))
    if not isinstance(number, int | str) or isinstance(number, bool):
        raise NotConvertible("has no problem_id")
    head = _head(f"apps/{number}", _text(row, "question"))
    starter = _text(row, "starter_code", default="")
    if starter.strip():
        head["prompt"] += f"\n\n{starter}"
    if cases.get("fn_name") is None:
        tests = [_apps_run(*pair) for pair in zip(inputs, outputs, strict=True)]
    else:
        head["entry_point"] = _entry_point(_text(cases, "fn_name"), starter)
        tests = [_apps_call(*pair) for pair in zip(inputs, outputs, strict=True)]
    return head | _split(tests, visible) | _reference(row.get("solutions"))


def _apps_run(given: Json, printed: Json) -> dict[str, Json]:
    return {"stdin": _joined(given, "an input"), "stdout": _joined(printed, "an output")}


def _joined(text: Json, what: str) -> str:
    """A text, or its lines."""
    if isinstance(text, list) and all(isinstance(line, str) for line in text):
        return "\n".join(text)
    if not isinstance(text, str):
        raise NotConvertible(f"input_output: {what} that is neither a text nor a list of lines")
    return text


def _apps_call(given: Json, answer: Json) -> dict[str, Json]:
    """A list of arguments; an answer is written as it is, or as the only member of a list: then both are right."""
    if not isinstance(given, list):
        raise NotConvertible("input_output: an input that is no list of arguments")
    if isinstance(answer, dict):
        answer = [answer]
    args = [_tagged(_with_int_keys(argument)) for argument in given]
    if isinstance(answer, list) and len(answer) == 1:
        plain = _with_int_keys(answer[0])
        return {"args": args, "any_of": [_tagged([plain]), _tagged(plain)]}
    return {"args": args, "expected": _tagged(answer)}


def _with_int_keys(value: Json) -> Any:
    """A dict whose keys are all numbers had integers for keys, which JSON cannot hold."""
    if isinstance(value, dict) and value and all(re.fullmatch(r"-?[0-9]{1,18}", key) for key in value):
        return {int(key): item for key, item in value.items()}
    return value


def _reference(solutions: Json) -> dict[str, Json]:
    """The first solution that somebody handed in, if there is one."""
    if isinstance(solutions, str) and solutions.strip():
        solutions = _json(solutions, "solutions")
    first = solutions[0] if isinstance(solutions, list) and solutions else None
    return {"reference": first} if isinstance(first, str) and first.strip() else {}


# CommonOJ (SandboxFusion)


def commonoj_suite(row: Mapping[str, Json], visible: int | None) -> dict[str, Json]:
    """`test`, a list of inputs and outputs of a program that uses the standard streams alone."""
    labels = row.get("labels", {})
    labels = _object(_json(labels, "labels") if isinstance(labels, str) else labels, "labels")
    form = labels.get("problem_format", "Standard")
    if form != "Standard":
        raise NotConvertible(f"labels: problem_format {form!r}: its answers need code to check them")
    given = row.get("test")
    cases = _json(given, "test") if isinstance(given, str) else given
    if not isinstance(cases, list) or not cases:
        raise NotConvertible("test: no list of tests")
    number = row.get("id")
    if not isinstance(number, int | str) or isinstance(number, bool):
        raise NotConvertible("has no id")
    tests = [_commonoj_case(_object(case, "test: a test")) for case in cases]
    return _head(f"commonoj/{number}", _text(row, "content")) | _split(tests, visible) | _python_solution(row)


def _commonoj_case(case: Mapping[str, Json]) -> dict[str, Json]:
    given, printed = _object(case.get("input"), "test: an input"), _object(case.get("output"), "test: an output")
    files = sorted((given.keys() - {"stdin"}) | (printed.keys() - {"stdout"}))
    if files:
        raise NotConvertible(f"test: uses the file {files[0]!r} beside the standard streams")
    return {"stdin": _text(given, "stdin", default=""), "stdout": _text(printed, "stdout")}


def _python_solution(row: Mapping[str, Json]) -> dict[str, Json]:
    solution = row.get("canonical_solution")
    if isinstance(solution, str) and solution.lstrip().startswith("{"):
        solution = _json(solution, "canonical_solution")
    return _reference(solution.get("python")) if isinstance(solution, dict) else {}


# What they share


def _head(task_id: str, prompt: str) -> dict[str, Json]:
    return {"version": 1, "task": _NO_ID.sub("-", task_id), "prompt": prompt}


def _split(tests: list[Json], visible: int | None) -> dict[str, Json]:
    """The first tests decide, the others measure; each in its own list."""
    return {"tests": tests[:visible], "hidden": [] if visible is None else tests[visible:]}


def _entry_point(name: str, starter: str) -> str:
    """The function, or the method of the class that the starter code opens."""
    return f"Solution.{name}" if re.search(r"^\s*class Solution\b", starter, re.MULTILINE) else name


def _text(fields: Mapping[str, Json], key: str, *, default: str | None = None) -> str:
    value = fields.get(key)
    if value is None and default is not None:
        return default
    if not isinstance(value, str):
        raise NotConvertible(f"{key}: {'is missing' if value is None else 'is no text'}")
    return value


def _object(value: Json, what: str) -> dict[str, Json]:
    if not isinstance(value, dict):
        raise NotConvertible(f"{what}: is no object")
    return value


def _json(text: str, what: str) -> Json:
    try:
        return values.loads(text.encode("utf-8", "surrogatepass"))
    except CodecError as exc:
        raise NotConvertible(f"{what}: no strict JSON ({exc})") from None


def _json_list(text: str, what: str) -> list[Json]:
    found = _json(text, what)
    if not isinstance(found, list):
        raise NotConvertible(f"{what}: is no list")
    return found


def _tagged(value: Any) -> Json:
    """A JSON value in a suite's encoding, where a key that starts with $ needs a tag."""
    try:
        return values.encode(value)
    except CodecError as exc:
        raise NotConvertible(f"holds a value that no suite can hold ({exc})") from None


READERS: dict[str, Callable[[Mapping[str, Json], int | None], dict[str, Json]]] = {
    "livecodebench": livecodebench_suite,
    "apps": apps_suite,
    "commonoj": commonoj_suite,
}
