"""The references of the bundled banks in the sandbox: a sample each time, all of them in a long run."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

SUITES = Path(__file__).resolve().parent.parent / "suites"
sys.path.insert(0, str(SUITES))

import findings  # noqa: E402

from conversion.recipes import RECIPES  # noqa: E402
from gate.cli.wiring import default_jobs, open_engine, open_sandbox  # noqa: E402
from gate.engine import verdict_on  # noqa: E402
from gate.model import Candidate, Outcome, SuiteSpec, Verdict  # noqa: E402
from gate.seams import Sandbox  # noqa: E402

pytestmark = pytest.mark.docker

# One of each manner of comparing, of each odd entry point, and the slowest.
SAMPLE = {
    "humaneval": ["HumanEval/4", "HumanEval/47", "HumanEval/148"],
    "humaneval-plus": ["HumanEval/38", "HumanEval/53"],
    "mbpp": ["Mbpp/56", "Mbpp/126"],
    "mbpp-plus": ["Mbpp/2", "Mbpp/596", "Mbpp/737"],
    "mbpp-397": ["Mbpp/234", "Mbpp/297"],
    "quixbugs": ["QuixBugs/flatten", "QuixBugs/sqrt"],
}


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    async with open_sandbox(open_engine(None), runtime=None, concurrency=4, checked=False) as opened:
        yield opened


def known(name: str) -> Any:
    return json.loads((SUITES / name / "findings.json").read_text())["references"]


def suite_of(name: str, task_id: str) -> SuiteSpec:
    (found,) = [suite for suite in findings.read_bank(SUITES / name) if suite.task_id == task_id]
    return found


async def judged(sandbox: Sandbox, suite: SuiteSpec, code: str) -> Verdict:
    """The verdict of the visible tests on a program."""
    candidate = Candidate(task_id=suite.task_id, index=0, code=code)
    return await verdict_on(candidate, suite, suite.tests, sandbox=sandbox)


async def test_a_sample_of_references_does_as_the_findings_say(sandbox: Sandbox) -> None:
    """A reference passes the visible and the hidden tests, unless findings.json says that it does not, and how."""
    for name, task_ids in SAMPLE.items():
        suites = [suite for suite in findings.read_bank(SUITES / name) if suite.task_id in task_ids]
        assert len(suites) == len(task_ids)
        found = await findings.reference_findings(name, suites, sandbox, jobs=4)
        expected = [entry for entry in known(name)["exceptions"] if entry["task"] in task_ids]
        assert found["exceptions"] == expected


@pytest.mark.soak
@pytest.mark.parametrize("name", list(RECIPES))
async def test_all_references_do_as_the_findings_say(name: str) -> None:
    """Every reference of every bank, on all of its tests."""
    found = await findings.find_references(name, findings.read_bank(SUITES / name), default_jobs())
    assert found == known(name)


async def test_arguments_that_a_candidate_changes_are_its_own(sandbox: Sandbox) -> None:
    """A program that empties its arguments spoils no later test and no expected value."""
    suite = suite_of("quixbugs", "QuixBugs/bucketsort")
    spoilt = f"{suite.reference}\n_sort = bucketsort\n\ndef bucketsort(arr, k):\n"
    spoilt += "    answer = _sort(list(arr), k)\n    arr.clear()\n    return answer\n"
    assert (await judged(sandbox, suite, spoilt)).outcome is Outcome.PASS


async def test_a_generator_is_no_answer(sandbox: Sandbox) -> None:
    """Who yields items where a list is asked for is refused as unserialisable, not compared."""
    suite = suite_of("quixbugs", "QuixBugs/flatten")
    yields = "def flatten(arr):\n    yield from arr\n"
    assert (await judged(sandbox, suite, yields)).reason == "unserialisable"


async def test_answers_by_truth_value_pass(sandbox: Sandbox) -> None:
    """A program that says True and False passes all of a task whose reference gives a match object."""
    suite = suite_of("mbpp-plus", "Mbpp/737")
    vowel = "def check_str(string):\n    return string[:1].lower() in tuple('aeiou')\n"
    for tests in (suite.tests, suite.hidden):
        candidate = Candidate(task_id=suite.task_id, index=0, code=vowel)
        assert (await verdict_on(candidate, suite, tests, sandbox=sandbox)).outcome is Outcome.PASS
