"""Turn a benchmark's data into a bank: `python suites/convert.py humaneval --data DIR`.

DIR holds `small/humaneval_157.jsonl`, `small/samples_davinci002_k5.jsonl` and
`banks/humaneval.jsonl`. What is written beside this script (or under `--out`) is
`humaneval/bank.jsonl.gz`, `humaneval/samples/davinci-002-k5.jsonl.gz` and
`humaneval/provenance.json`; a second run writes the same bytes.

A test here is a call and one of the ways in which the benchmark's asserts compared
its result. Each way has one form in a suite; a test that has none is listed with the
reason, in `provenance.json` and on stderr, and its task leaves the bank if the test
was a hidden one: a bank's ground truth is complete or it is not there.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gate.model import Json, canonical_json, digest_bytes
from gate.values import CodecError, decode, encode

SUITES = Path(__file__).resolve().parent
TASKS = "small/humaneval_157.jsonl"
SAMPLES = "small/samples_davinci002_k5.jsonl"
REFERENCES = "banks/humaneval.jsonl"
BANK_OUT = "bank.jsonl.gz"
SAMPLES_OUT = "samples/davinci-002-k5.jsonl.gz"
PROVENANCE_OUT = "provenance.json"

SOURCES = [
    {
        "what": "prompts, entry points, hidden tests, references",
        "repository": "openai/human-eval",
        "commit": "6d43fb980f9fee3c892a914eda09951f772ad10d",
        "licence": "MIT",
    },
    {
        "what": "visible tests of the tasks counted under `visible_from`: its list of the docstring's examples",
        "repository": "FloridSleeves/LLMDebugger",
        "commit": "49ac191f181d47911cf38e5b9944fbbe6d4a6e60",
        "licence": "Apache-2.0",
    },
    {
        "what": "candidates of code-davinci-002 and their published verdicts",
        "repository": "neulab/code-bert-score",
        "commit": "44106b5b5ed348b8e6fde2385653a3ce1de8a429",
        "licence": "MIT",
    },
]

VISIBLE_FROM = {
    "docstring-doctest": "the prompt's own doctest examples",
    "LDB given_tests (docstring examples)": "FloridSleeves/LLMDebugger, given_tests",
}

NOT_DATA = {
    "HumanEval/32": "draws random polynomials and accepts any root of them, so code has to judge the answer",
    "HumanEval/33": "holds three answers of the candidate against the candidate's own answers",
    "HumanEval/38": "draws random texts and encodes them with a function of the prompt",
    "HumanEval/44": "makes some of its calls and answers in a loop",
    "HumanEval/50": "draws random texts and encodes them with a function of the prompt",
    "HumanEval/53": "draws random numbers and adds them up itself",
    "HumanEval/151": "computes one argument and its answer from a range",
}


class Unconvertible(ValueError):
    """This test has no form in a suite; the text says why."""


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


def convert_test(case: Mapping[str, Json]) -> dict[str, Json]:
    """One test of the data as a test of a suite whose comparator is `python`.

    Raises:
        Unconvertible: It compares in a way that no form of a suite means.
    """
    compare = case.get("compare")
    form = FORMS.get(compare)
    if form is None:
        raise Unconvertible(f"compares by {compare!r}, which no suite can name")
    _decoded(case["args"])
    for value in case.get("kwargs", {}).values():
        _decoded(value)
    _decoded(case["expected"])
    call = {"args": case["args"]}
    if case.get("kwargs"):
        call["kwargs"] = case["kwargs"]
    rest = {key: value for key, value in case.items() if key not in ("args", "kwargs", "expected", "compare")}
    expectation = form(case["expected"], rest)
    if rest:
        raise Unconvertible(f"says {sorted(rest)[0]!r}, which no suite can say")
    return call | expectation


def _equal(expected: Json, rest: dict[str, Json]) -> dict[str, Json]:
    """`f(x) == y`."""
    return {"expected": expected}


def _identical(expected: Json, rest: dict[str, Json]) -> dict[str, Json]:
    """`f(x) is y`: equal and of the same type, which is identity for the singletons alone."""
    if expected is not None and not isinstance(expected, bool):
        raise Unconvertible("`is` against a value that is not None, True or False")
    return {"expected": expected, "compare": "strict"}


def _truthy(expected: Json, rest: dict[str, Json]) -> dict[str, Json]:
    """`assert f(x)` or `assert not f(x)`."""
    return {"expected": _flag(expected), "project": "bool"}


def _not_none(expected: Json, rest: dict[str, Json]) -> dict[str, Json]:
    """`(f(x) is not None) == y`; where the data compares a returned False as it is, a suite takes it for True."""
    return {"expected": _flag(expected), "project": "is_not_none"}


def _close(expected: Json, rest: dict[str, Json]) -> dict[str, Json]:
    """Closeness of floats, as `math.isclose` with both bounds written out.

    Three spellings of it meet here, and two of them are not quite `math.isclose`:
    `abs(f(x) - y) < eps` (`strict`) refuses a distance of exactly eps, which
    `math.isclose` allows, and takes a bool for a number, which a suite never does;
    NumPy's closeness (`abs_tol` beside `rel_tol`) allows the sum of both bounds,
    where `math.isclose` allows the larger one.
    """
    if "isclose" in rest:
        bounds = rest.pop("isclose")
        if rest.pop("fn", None) != "math.isclose" or not set(bounds) <= {"rel_tol", "abs_tol"}:
            raise Unconvertible("closeness by something else than math.isclose")
        return {"expected": expected, "tolerance": _bounds(bounds.get("rel_tol", 1e-9), bounds.get("abs_tol", 0.0))}
    if rest.pop("strict", False) and "rel_tol" in rest:
        raise Unconvertible("a strict bound beside a relative one")
    return {"expected": expected, "tolerance": _bounds(rest.pop("rel_tol", 0.0), rest.pop("abs_tol", 0.0))}


def _bounds(rel: Json, abs_: Json) -> dict[str, Json]:
    return {"rel": rel, "abs": abs_}


def _projected(expected: Json, rest: dict[str, Json]) -> dict[str, Json]:
    """`p(f(x)) == y`, or `p(f(x)) == p(y)` where `project_expected`: then p is applied to y here."""
    name, digits = rest.pop("project"), rest.pop("project_args", [])
    apply = PROJECTIONS.get(name)
    if apply is None or (digits and name != "round"):
        raise Unconvertible(f"projects by {name!r} of {digits!r}, which no suite can name")
    if name == "round" and not (len(digits) == 1 and type(digits[0]) is int):
        raise Unconvertible("rounds to something else than a number of digits")
    if rest.pop("project_expected", False):
        expected = _encoded(apply(_decoded(expected), *digits))
    return {"expected": expected, "project": {"round": digits[0]} if name == "round" else name}


def _flag(expected: Json) -> bool:
    if not isinstance(expected, bool):
        raise Unconvertible("a truth value is expected to be True or False")
    return expected


def _decoded(value: Json) -> Any:
    try:
        return decode(value)
    except CodecError as exc:
        raise Unconvertible(f"holds a value that is no tagged JSON ({exc})") from exc


def _encoded(value: Any) -> Json:
    return encode(value)


PROJECTIONS: dict[str, Callable[..., Any]] = {"set": set, "tuple": tuple, "list": list, "int": int, "round": round}
FORMS: dict[str | None, Callable[[Json, dict[str, Json]], dict[str, Json]]] = {
    None: _equal,
    "is": _identical,
    "truthy": _truthy,
    "is_not_none": _not_none,
    "approx": _close,
    "project": _projected,
}


def convert(rows: Iterable[Json], full: Mapping[str, Json]) -> Conversion:
    """Every task of the benchmark, converted or named as one that is not data.

    Args:
        rows: The tasks whose hidden tests are all data, in the bank's order.
        full: Every task of the benchmark by id, with its `reference`.
    """
    done = Conversion()
    for row in rows:
        _convert_task(row, full[row["task_id"]]["reference"], done)
    known = {line["task"] for line in done.lines} | {entry["task"] for entry in done.not_data}
    for task_id in full:
        if task_id not in known:
            why = NOT_DATA.get(task_id, "its hidden tests are not all calls and answers written out")
            done.not_data.append({"task": task_id, "why": why})
    return done


def _convert_task(row: Json, reference: str, done: Conversion) -> None:
    task_id = row["task_id"]
    tests, _ = _convert_tests(task_id, "tests", row["visible"], done)
    hidden, whole = _convert_tests(task_id, "hidden", row["hidden"], done)
    if not whole:
        done.not_data.append({"task": task_id, "why": "a hidden test has no form in a suite (see `unconverted`)"})
        return
    done.visible_from[VISIBLE_FROM.get(row["visible_source"], row["visible_source"])] += 1
    done.lines.append(
        {
            "version": 1,
            "task": task_id,
            "prompt": row["prompt"],
            "entry_point": row["entry_point"],
            "compare": "python",
            "tests": tests,
            "hidden": hidden,
            "reference": reference,
        }
    )


def _convert_tests(task_id: str, where: str, cases: list[Json], done: Conversion) -> tuple[list[Json], bool]:
    tests = []
    for number, case in enumerate(cases):
        try:
            tests.append(convert_test(case))
        except Unconvertible as exc:
            done.unconverted.append({"task": task_id, "where": f"{where}[{number}]", "why": str(exc)})
    return tests, len(tests) == len(cases)


def contained(line: Json) -> bool:
    """Whether each visible test of a bank line stands among its hidden ones, word for word."""
    hidden = {canonical_json(test) for test in line["hidden"]}
    return all(canonical_json(test) in hidden for test in line["tests"])


def convert_sample(row: Json) -> Json:
    """One candidate with the verdict that was published for it."""
    return {key: row[key] for key in ("task_id", "solution", "model", "sample_index", "published_passed")}


def read_lines(path: Path) -> Iterator[Json]:
    """The objects of a JSONL file, in order."""
    with path.open("rb") as stream:
        for line in stream:
            yield json.loads(line)


def compact_lines(rows: Iterable[Json]) -> bytes:
    """JSONL without blanks, keys in the order given."""
    return b"".join(json.dumps(row, separators=(",", ":")).encode("ascii") + b"\n" for row in rows)


def write_gzip(path: Path, content: bytes) -> dict[str, Json]:
    """Write content with an empty gzip header; the digests of what was written."""
    packed = gzip.compress(content, compresslevel=9, mtime=0)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(packed)
    return {"sha256": digest_bytes(packed), "content_sha256": digest_bytes(content), "lines": content.count(b"\n")}


def provenance(done: Conversion, inputs: Json, outputs: Json) -> Json:
    """What the bank was made from, what is in it and what is not."""
    return {
        "bank": "humaneval",
        "source": SOURCES[0]["repository"],
        "commit": SOURCES[0]["commit"],
        "licence": SOURCES[0]["licence"],
        "sources": SOURCES,
        "tasks": len(done.lines),
        "visible": sum(len(line["tests"]) for line in done.lines),
        "hidden": sum(len(line["hidden"]) for line in done.lines),
        "tasks_visible_subset_of_hidden": sum(contained(line) for line in done.lines),
        "visible_subset_of_hidden": all(contained(line) for line in done.lines),
        "visible_from": dict(done.visible_from),
        "unconverted": done.unconverted,
        "not_data": done.not_data,
        "inputs": inputs,
        "outputs": outputs,
    }


def write_humaneval(data: Path, out: Path) -> Json:
    """Write the bank, its samples and its provenance under `out`; the provenance is returned."""
    full = {row["task_id"]: row for row in read_lines(data / REFERENCES)}
    done = convert(read_lines(data / TASKS), full)
    samples = map(convert_sample, read_lines(data / SAMPLES))
    outputs = {
        BANK_OUT: write_gzip(out / BANK_OUT, compact_lines(done.lines)),
        SAMPLES_OUT: write_gzip(out / SAMPLES_OUT, compact_lines(samples)),
    }
    inputs = {name: {"sha256": digest_bytes((data / name).read_bytes())} for name in (TASKS, SAMPLES, REFERENCES)}
    record = provenance(done, inputs, outputs)
    (out / PROVENANCE_OUT).write_text(json.dumps(record, indent=1) + "\n", encoding="ascii")
    return record


def main(argv: list[str] | None = None) -> int:
    """Convert the named benchmark and say what became of it; 1 if a test has no form."""
    parser = argparse.ArgumentParser(description="Turn a benchmark's data into a bank.")
    parser.add_argument("bank", choices=["humaneval"])
    parser.add_argument("--data", type=Path, required=True, help="the folder with small/ and banks/")
    parser.add_argument("--out", type=Path, help="the bank's folder (default: beside this script)")
    options = parser.parse_args(argv)
    record = write_humaneval(options.data, options.out or SUITES / options.bank)
    print("{tasks} tasks, {visible} visible and {hidden} hidden tests".format_map(record))
    for entry in record["not_data"]:
        print(f"not in the bank: {entry['task']}: {entry['why']}", file=sys.stderr)
    for entry in record["unconverted"]:
        print(f"not converted: {entry['task']} {entry['where']}: {entry['why']}", file=sys.stderr)
    return 1 if record["unconverted"] else 0


if __name__ == "__main__":
    sys.exit(main())
