"""Our verdicts against published ones: what was found, and a sample of it judged again."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent.parent / "experiments" / "published_verdicts"
sys.path.insert(0, str(HERE))

import agree  # noqa: E402

from gate.backends.banks import open_bank  # noqa: E402
from gate.cli.wiring import open_engine, open_sandbox  # noqa: E402
from gate.engine import verdict_on  # noqa: E402
from gate.model import Call, Candidate, Outcome  # noqa: E402
from gate.resources import suites_dir  # noqa: E402
from gate.seams import Sandbox  # noqa: E402

LEAST = {"humaneval": 0.995, "mbpp-397": 0.993}
STEP = {"humaneval": 100, "mbpp-397": 300}


def results(bank: str) -> Any:
    return json.loads((HERE / "results" / f"{bank}.json").read_text())


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    async with open_sandbox(open_engine(None), runtime=None, concurrency=4, checked=False) as opened:
        yield opened


@pytest.mark.parametrize("bank", list(LEAST))
def test_the_share_is_what_was_predicted(bank: str) -> None:
    """All samples were judged, nobody's verdict was our world's failure, and the share is high enough."""
    found = results(bank)
    assert found["judged"] == sum(1 for _ in agree.read_samples(bank)) and found["errors"] == 0
    assert found["agreed"] + len(found["disagreements"]) == found["judged"]
    assert found["agreed"] / found["judged"] >= LEAST[bank]


@pytest.mark.parametrize("bank", list(LEAST))
def test_every_disagreement_has_its_kind(bank: str) -> None:
    """Each sample on which we differ is explained by one kind, and no kind speaks of any other."""
    kinds = json.loads((HERE / "kinds.json").read_text())
    explained = [tuple(sample) for kind in kinds for sample in kind["samples"].get(bank, [])]
    assert len(explained) == len(set(explained))
    assert set(explained) == {(each["task"], each["index"]) for each in results(bank)["disagreements"]}
    assert all(kind["why"] and kind["right"] in ("we", "they", "neither") for kind in kinds)


@pytest.mark.docker
@pytest.mark.parametrize("bank", list(LEAST))
async def test_a_sample_is_judged_as_recorded(bank: str, sandbox: Sandbox) -> None:
    """Every so many samples, judged again: we differ where it is recorded that we do, and nowhere else."""
    samples = list(agree.read_samples(bank))[:: STEP[bank]]
    found = agree.compare(samples, await agree.judge_all(bank, samples, sandbox, jobs=4))
    chosen = {(sample.task_id, sample.index) for sample in samples}
    recorded = [each for each in results(bank)["disagreements"] if (each["task"], each["index"]) in chosen]
    assert found["disagreements"] == recorded and found["errors"] == 0


@pytest.mark.docker
async def test_where_they_passed_a_program_their_test_was_another(sandbox: Sandbox) -> None:
    """HumanEval/95 has a dict with the key 5; with the text "5" in its place the refused program passes."""
    (suite,) = [task.suite for task in open_bank("humaneval", suites_dir()).tasks() if task.id == "HumanEval/95"]
    (sample,) = [each for each in agree.read_samples("humaneval") if (each.task_id, each.index) == ("HumanEval/95", 1)]
    candidate = Candidate(task_id=sample.task_id, index=sample.index, code=sample.code)
    theirs = []
    for test in suite.hidden:
        (given,) = test.call.args
        pairs = given.get("$dict", list(given.items()))
        theirs.append(replace(test, call=Call(args=({str(key): value for key, value in pairs},))))
    assert (await verdict_on(candidate, suite, suite.hidden, sandbox=sandbox)).reason == "raised"
    assert (await verdict_on(candidate, suite, theirs, sandbox=sandbox)).outcome is Outcome.PASS


def test_where_they_failed_a_program_another_had_bound_its_name() -> None:
    """Each MBPP program that they failed and we pass calls `sum` after one, in their order, that had bound it."""
    places = {task.id: place for place, task in enumerate(open_bank("mbpp-397", suites_dir()).tasks())}
    bound_at = {0: places["Mbpp/126"], 3: places["Mbpp/767"]}
    codes = {(sample.task_id, sample.index): sample for sample in agree.read_samples("mbpp-397")}
    assert "def sum(" in codes["Mbpp/126", 0].code and "sum = 6" in codes["Mbpp/767", 3].code
    for each in results("mbpp-397")["disagreements"]:
        assert (each["published"], each["ours"]) == ("fail", "pass")
        assert places[each["task"]] > bound_at[each["index"]]
        assert "sum(" in codes[each["task"], each["index"]].code
    users = [each for each in codes.values() if each.index == 0 and " sum(" in each.code]
    assert not any(each.passed for each in users if places[each.task_id] > bound_at[0])


@pytest.mark.docker
async def test_a_bound_name_is_what_fails_such_a_program(sandbox: Sandbox) -> None:
    """Alone the program passes; behind the other program, in one module, it fails."""
    (suite,) = [task.suite for task in open_bank("mbpp-397", suites_dir()).tasks() if task.id == "Mbpp/67"]
    codes = {(sample.task_id, sample.index): sample.code for sample in agree.read_samples("mbpp-397")}
    alone = codes["Mbpp/67", 0]
    outcomes = []
    for code in (alone, f"{codes['Mbpp/126', 0]}\n{alone}"):
        candidate = Candidate(task_id=suite.task_id, index=0, code=code)
        outcomes.append((await verdict_on(candidate, suite, suite.hidden, sandbox=sandbox)).outcome)
    assert outcomes == [Outcome.PASS, Outcome.FAIL]
