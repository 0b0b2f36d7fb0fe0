"""What is known of a bank: `python suites/findings.py NAME…` writes `NAME/findings.json`.

The counts are read off the bank, and so is which programs that know nothing get through.
Whether references pass is seen by running each of them in the sandbox, on the visible
tests and on the hidden ones; `--static` leaves that part as it is. A reference that does
not pass needs its reason in `REASONS`; one without is named on stderr, and the exit code
is 1.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import anyio

from conversion.files import write_json
from conversion.recipes import RECIPES
from gate.backends.banks import open_bank
from gate.cli.wiring import default_jobs, open_engine, open_sandbox
from gate.contradictions import contradictions
from gate.engine import side_by_side, verdict_on
from gate.model import Candidate, Expect, Json, Outcome, SuiteSpec, Test, Verdict
from gate.seams import Sandbox
from gate.strength import strength
from gate.summary import visible_is_contained

SUITES = Path(__file__).resolve().parent
FINDINGS_OUT = "findings.json"
WRONG_EXAMPLE = (
    "the docstring's example is wrong: it says 15.0 where the benchmark's own test and every right program say 8.0"
)
MATCH_OBJECT = "it returns a match object of re, which is no plain data; a program that answers True and False passes"
REASONS: dict[tuple[str, str], str] = {
    ("humaneval", "HumanEval/47"): WRONG_EXAMPLE,
    ("humaneval-plus", "HumanEval/47"): WRONG_EXAMPLE,
    **{(bank, f"Mbpp/{n}"): MATCH_OBJECT for bank in ("mbpp", "mbpp-plus") for n in (737, 787, 794)},
}


# Read off the bank


def read_bank(folder: Path) -> list[SuiteSpec]:
    """The suites of a bundled bank, in order."""
    return [task.suite for task in open_bank(folder.name, folder.parent).tasks()]


def static_findings(suites: Sequence[SuiteSpec]) -> dict[str, Json]:
    """What the suites say by themselves."""
    return {
        "tasks": len(suites),
        "visible_tests": count_manners(test for suite in suites for test in suite.tests),
        "hidden_tests": count_manners(test for suite in suites for test in suite.hidden),
        "without_visible_tests": [suite.task_id for suite in suites if not suite.tests],
        "visible_subset_of_hidden": containment(suites),
        "weak": weak_suites(suites),
        "contradictions": [found for suite in suites for found in visible_against_hidden(suite)],
    }


def count_manners(tests: Iterable[Test]) -> dict[str, int]:
    """How many tests compare in which manner, the most frequent first."""
    counts = Counter(manner(test.expect) for test in tests)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def manner(expect: Expect) -> str:
    """How an answer is held against what is expected, in a few words."""
    if expect.kind == "raises":
        return "raises"
    words = [expect.compare]
    if expect.project is not None:
        words.append(f"project {expect.project}")
    if expect.tolerance is not None:
        words.append("tolerance")
    if len(expect.values) > 1:
        words.append("any_of")
    return ", ".join(words)


def containment(suites: Sequence[SuiteSpec]) -> dict[str, Json]:
    """For which tasks V ⊆ GT holds; a task without visible tests has nothing to contain."""
    measured = [suite for suite in suites if suite.hidden]
    outside = [suite.task_id for suite in measured if not visible_is_contained(suite)]
    return {
        "holds": None if not measured else not outside,
        "tasks_with_hidden": len(measured),
        "tasks_contained": len(measured) - len(outside),
        "not_contained": outside,
    }


def weak_suites(suites: Sequence[SuiteSpec]) -> dict[str, list[str]]:
    """The programs that know nothing of a task and pass its visible tests, by task."""
    found = {suite.task_id: strength(suite) for suite in suites}
    return {task_id: list(known.programs) for task_id, known in found.items() if known.weak}


def visible_against_hidden(suite: SuiteSpec) -> Iterator[Json]:
    """Visible tests that no program passes together with a hidden one."""
    tests = (*suite.tests, *suite.hidden)
    for first, second in contradictions(tests):
        if first < len(suite.tests) <= second:
            place = second - len(suite.tests)
            call = suite.tests[first].call.as_json()
            yield {
                "task": suite.task_id,
                "visible": first,
                "hidden": place,
                "call": call,
                "visible_says": answer(tests[first].expect),
                "hidden_says": answer(tests[second].expect),
            }


def answer(expect: Expect) -> Json:
    """What is expected, as data."""
    if expect.kind == "raises":
        return expect.raises
    return expect.stdout if expect.kind == "stdout" else list(expect.values)


# Seen in the sandbox


async def reference_findings(name: str, suites: Sequence[SuiteSpec], sandbox: Sandbox, jobs: int) -> dict[str, Json]:
    """Which references do not pass, on which part, and why."""
    found: dict[tuple[int, str], Json] = {}

    async def work(item: tuple[int, SuiteSpec]) -> None:
        place, suite = item
        for part, verdict in await reference_verdicts(suite, sandbox):
            if verdict.outcome is not Outcome.PASS:
                found[place, part] = exception(name, suite, part, verdict)

    having = [(place, suite) for place, suite in enumerate(suites) if suite.reference is not None]
    await side_by_side(having, work, concurrency=jobs)
    return {
        "run": sum(suite.reference is not None for suite in suites),
        "missing": [suite.task_id for suite in suites if suite.reference is None],
        "exceptions": [found[key] for key in sorted(found, key=lambda key: (key[0], key[1] == "hidden"))],
    }


async def reference_verdicts(suite: SuiteSpec, sandbox: Sandbox) -> list[tuple[str, Verdict]]:
    """The verdicts on a reference: of the visible tests, repeated as in a run, and of the hidden ones."""
    reference = Candidate(task_id=suite.task_id, index=0, code=suite.reference or "")
    parts = [("visible", suite.tests, True), ("hidden", suite.hidden, False)]
    return [
        (part, await verdict_on(reference, suite, tests, sandbox=sandbox, repeat=repeat))
        for part, tests, repeat in parts
        if tests
    ]


def exception(name: str, suite: SuiteSpec, part: str, verdict: Verdict) -> dict[str, Json]:
    """A reference that does not pass, with the reason that somebody found."""
    return {
        "task": suite.task_id,
        "part": part,
        "outcome": verdict.outcome.value,
        "reason": verdict.reason,
        "test": verdict.test,
        "detail": verdict.detail,
        "why": REASONS.get((name, suite.task_id), ""),
    }


async def find_references(name: str, suites: Sequence[SuiteSpec], jobs: int) -> dict[str, Json]:
    """What becomes of a bank's references, in a sandbox that is opened for them."""
    async with open_sandbox(open_engine(None), runtime=None, concurrency=jobs) as sandbox:
        return await reference_findings(name, suites, sandbox, jobs)


def main(argv: list[str] | None = None) -> int:
    """Write the findings of the named banks; 1 if a reference fails and nobody knows why."""
    parser = argparse.ArgumentParser(description="Find out what is to be known of a bank.")
    parser.add_argument("banks", nargs="+", choices=list(RECIPES))
    parser.add_argument("--jobs", type=int, default=default_jobs(), help="programs at a time")
    parser.add_argument("--static", action="store_true", help="run no reference: keep what is known of them")
    options = parser.parse_args(argv)
    unexplained = 0
    for name in options.banks:
        suites, path = read_bank(SUITES / name), SUITES / name / FINDINGS_OUT
        if options.static:
            references = json.loads(path.read_text(encoding="ascii"))["references"]
        else:
            references = anyio.run(find_references, name, suites, options.jobs)
        write_json(path, {"bank": name, **static_findings(suites), "references": references})
        unknown = [entry for entry in references["exceptions"] if not entry["why"]]
        unexplained += len(unknown)
        for entry in unknown:
            print("{task} {part}: {reason} at test {test}: {detail}".format_map(entry), file=sys.stderr)
        print(f"{name}: {references['run']} references, {len(references['exceptions'])} exceptions")
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
