"""The corpus of hostile and odd programs: each gets a right answer, and no hollow judge would."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

import corpus
import docker
import pytest
import yaml
from corpus import CASES, KINDS, WORDS, Case, answers, fail_all, gate_judge, naive_judge, pass_all, right, wrong

from gate.backends.container import ContainerSandbox
from gate.backends.image import Image
from gate.backends.labels import owner_labels
from gate.resources import sandbox_dir

AT_ONCE = 8
SHUFFLED = 20261201
KEYS = {"about", "kind", "accept"}
FILES = {"candidate.py", "case.yaml", "suite.yaml"}
# What each judge that is none gets right, by the ids of the cases; to be read when it changes, not only renewed.
GETS_RIGHT: dict[str, list[str]] = json.loads((Path(__file__).parent / "dummies.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    return corpus.read_cases()


@pytest.fixture
async def sandbox(engine: docker.APIClient, image: Image) -> AsyncIterator[ContainerSandbox]:
    seccomp = (sandbox_dir() / "seccomp.json").read_text(encoding="utf-8")
    async with ContainerSandbox(engine, image, seccomp=seccomp, labels=owner_labels(), concurrency=AT_ONCE) as opened:
        yield opened


def test_each_case_is_whole() -> None:
    """A folder has its three files, says what it is about in one sentence, and names answers that there are."""
    for folder in sorted(path for path in CASES.iterdir() if path.is_dir()):
        assert {path.name for path in folder.iterdir()} == FILES, folder.name
        said = yaml.safe_load((folder / "case.yaml").read_text(encoding="utf-8"))
        assert set(said) == KEYS, folder.name
        assert said["about"].endswith("."), folder.name
        assert said["kind"] in KINDS, folder.name
        assert said["accept"] and set(said["accept"]) <= set(WORDS), folder.name


def test_no_hostile_case_may_pass_and_each_other_must(cases: list[Case]) -> None:
    """Both directions are kept apart: what is hostile never passes, what is odd may fail only where it names why."""
    assert [case.id for case in cases if case.kind == "hostile" and "pass" in case.accept] == []
    # Without numpy in the image the program cannot be loaded; with it, it must pass.
    assert [case.id for case in cases if case.kind != "hostile" and case.accept != ("pass",)] == ["numpy-scalar"]


def test_a_suite_belongs_to_its_case(cases: list[Case]) -> None:
    """Each suite bears its case's name, so that no case is judged by another's."""
    assert [case.suite.task_id for case in cases] == [f"cases/{case.id}" for case in cases]


def test_the_corpus_has_all_kinds_of_answers(cases: list[Case]) -> None:
    """There is a case for every reason that a verdict can have, and as much odd as hostile is kept in balance."""
    assert {word for case in cases for word in case.accept} == set(WORDS)
    kinds = [case.kind for case in cases]
    assert min(kinds.count("hostile"), kinds.count("odd")) > 100


@pytest.mark.parametrize("name", ["pass_all", "fail_all"])
async def test_a_hollow_judge_gets_only_its_half(cases: list[Case], name: str) -> None:
    """A judge that always says the same gets exactly the listed cases right, and none of the other direction."""
    ask = {"pass_all": pass_all, "fail_all": fail_all}[name]
    found = right(cases, await answers(cases, ask, at_once=1))
    assert found == GETS_RIGHT[name]
    kinds = {case.kind for case in cases if case.id in found}
    assert kinds == ({"odd", "probe"} if name == "pass_all" else {"hostile"})


def test_an_answer_that_is_not_listed_is_wrong(cases: list[Case]) -> None:
    """One wrong answer among right ones is named, with what would have been right; `infra` is never right."""
    said = {case.id: case.accept[0] for case in cases}
    assert wrong(cases, said) == {}
    for word in ("infra", "pass"):
        said["segfault"] = word
        assert wrong(cases, said) == {"segfault": (word, ("crash",))}


@pytest.mark.docker
@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_every_other_case_gets_a_right_answer(cases: list[Case], sandbox: ContainerSandbox) -> None:
    """Whatever a candidate does, its verdict is one of those that its case lists; tests/test_cell.py has the others."""
    some = cases[::2]
    assert wrong(some, await answers(some, gate_judge(sandbox), at_once=AT_ONCE)) == {}


@pytest.mark.docker
@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_a_naive_grader_is_fooled(cases: list[Case], sandbox: ContainerSandbox) -> None:
    """A grader in the candidate's own process gets exactly the listed ones right, of every thirtieth case."""
    some = cases[7::30]  # some of both kinds that it gets right, and some that it does not; none that takes long
    found = right(some, await answers(some, naive_judge(sandbox), at_once=AT_ONCE))
    assert found == [case.id for case in some if case.id in GETS_RIGHT["naive"]]


@pytest.mark.docker
@pytest.mark.soak
async def test_a_naive_grader_is_fooled_by_much(cases: list[Case], sandbox: ContainerSandbox) -> None:
    """A grader in the candidate's own process gets exactly the listed cases right, and lets hostile ones pass."""
    said = await answers(cases, naive_judge(sandbox), at_once=AT_ONCE)
    assert right(cases, said) == GETS_RIGHT["naive"]
    assert sum(said[case.id] == "pass" for case in cases if case.kind == "hostile") > 10


@pytest.mark.docker
@pytest.mark.soak
async def test_order_and_company_change_nothing(cases: list[Case], sandbox: ContainerSandbox) -> None:
    """As listed and shuffled, alone and eight at a time, twice each: every answer is right, and always the same."""
    ask = gate_judge(sandbox)
    first: dict[str, str] = {}
    for order, at_once, turn in itertools.product((None, SHUFFLED), (AT_ONCE, 1), (1, 2)):
        said = await answers(cases, ask, at_once=at_once, order=order)
        assert wrong(cases, said) == {}, (order, at_once, turn)
        first = first or said
        assert {id_: (first[id_], said[id_]) for id_ in said if said[id_] != first[id_]} == {}, (order, at_once, turn)


def test_the_threat_model_names_cases_that_there_are(cases: list[Case]) -> None:
    """Each case that a line of sandbox/README.md is shown by is a folder of the corpus."""
    text = (sandbox_dir() / "README.md").read_text(encoding="utf-8")
    rows = [line.split("|") for line in text.splitlines() if line.startswith("| ") and line.count("|") == 4]
    shown = [name for row in rows for name in re.findall(r"`([^`]+)`", row[3]) if not name.startswith("test_")]
    assert set(shown) <= {case.id for case in cases}
    assert len(set(shown)) > 80
