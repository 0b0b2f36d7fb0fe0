"""Mutants as values: scores, the diff of one change, and which hidden tests to add."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gate.mutation import (
    KILLED,
    SURVIVED,
    UNTOLD,
    Fate,
    Mutation,
    Mutations,
    Score,
    Suggestion,
    diff_text,
    plain_test,
    suggest,
    tally,
)

HIDDEN = [{"args": [number], "kwargs": {}, "expected": number} for number in range(4)]


def fate(visible: str | None, hidden: str | None = None, *killed_by: int) -> Fate:
    return Fate(line=1, what="< becomes <=", diff="", visible=visible, hidden=hidden, killed_by=killed_by)


def test_a_mutant_that_could_not_be_told_is_no_kill_and_no_survivor() -> None:
    """What our own world failed on stands in a column of its own, and so does a part without tests."""
    score = tally([KILLED, SURVIVED, UNTOLD, None, KILLED])
    assert (score.killed, score.survived, score.untold, score.told) == (2, 1, 1, 3)
    assert score.as_json() == {"killed": 2, "of": 3, "untold": 1}
    assert tally([None, None]).as_json() is None
    assert tally([UNTOLD]).as_json() == {"killed": 0, "of": 0, "untold": 1}


def test_few_hidden_tests_are_suggested_and_all_that_can_be_killed_is() -> None:
    """The test that kills most comes first, the earlier of two, and each counts only what is left."""
    fates = [
        fate(SURVIVED, KILLED, 1, 3),
        fate(SURVIVED, KILLED, 3),
        fate(SURVIVED, KILLED, 0, 2),
        fate(SURVIVED, SURVIVED),  # nothing kills it
        fate(KILLED, KILLED, 2),  # V has it already
    ]
    assert suggest(fates, HIDDEN) == (
        Suggestion(index=3, kills=2, test={"args": [3], "expected": 3}),
        Suggestion(index=0, kills=1, test={"args": [0], "expected": 0}),
    )
    assert suggest([], HIDDEN) == ()


@given(st.lists(st.sets(st.integers(0, 3)), max_size=8))
def test_the_suggested_tests_kill_all_that_hidden_tests_kill(killers: list[set[int]]) -> None:
    """Whatever kills what: each survivor that some test kills is killed by a suggested one, and counted once."""
    found = suggest([fate(SURVIVED, KILLED if each else SURVIVED, *each) for each in killers], HIDDEN)
    chosen = {each.index for each in found}
    assert all(each & chosen for each in killers if each)
    assert sum(each.kills for each in found) == sum(map(bool, killers))


def test_a_suggested_test_is_written_as_people_write_it() -> None:
    """No keyword arguments go without saying; those that there are stay."""
    assert plain_test({"args": [], "kwargs": {}, "raises": "ValueError"}) == {"args": [], "raises": "ValueError"}
    assert plain_test({"kwargs": {"k": 1}, "expected": {}}) == {"kwargs": {"k": 1}, "expected": {}}


lines = st.lists(st.sampled_from(["a", "b", "c", ""]), min_size=1, max_size=8).map("\n".join)


@given(lines, lines)
def test_a_diff_holds_both_texts(before: str, after: str) -> None:
    """What is taken away and what is kept are the first text's lines in order, and the same for the second."""
    head, *body = diff_text(before, after).split("\n")[2:]
    found = re.fullmatch(r"@@ -(\d+),(\d+) \+(\d+),(\d+) @@", head)
    assert found is not None
    start, old, _, new = map(int, found.groups())
    kept = [line[1:] for line in body if line[0] in " -"]
    made = [line[1:] for line in body if line[0] in " +"]
    assert (len(kept), len(made)) == (old, new)
    assert before.split("\n")[start - 1 : start - 1 + old] == kept
    assert [*before.split("\n")[: start - 1], *made, *before.split("\n")[start - 1 + old :]] == after.split("\n")


def test_a_diff_shows_a_line_around_the_change() -> None:
    """One hunk, as `diff -U1` has it."""
    before = "def f(a):\n    if a < 1:\n        return 0\n    return a\n"
    assert diff_text(before, before.replace("<", "<=")).split("\n") == [
        "--- reference",
        "+++ mutant",
        "@@ -1,3 +1,3 @@",
        " def f(a):",
        "-    if a < 1:",
        "+    if a <= 1:",
        "         return 0",
    ]


MUTATION = Mutation(
    possible=9,
    late=2,
    fates=(fate(KILLED, SURVIVED), fate(SURVIVED, KILLED, 1), fate(SURVIVED, SURVIVED), fate(KILLED, KILLED, 0)),
    suggested=(Suggestion(index=1, kills=1, test={}),),
)


def test_the_json_has_the_scores_and_the_survivors() -> None:
    """Both scores, every mutant that V or GT lets through, and the tests to add."""
    said = MUTATION.as_json()
    assert (said["possible"], said["made"], said["late"], said["why"]) == (9, 4, 2, None)
    assert said["visible"] == {"killed": 2, "of": 4, "untold": 0} == said["hidden"]
    assert [(each["visible"], each["hidden"]) for each in said["survivors"]] == [
        (KILLED, SURVIVED),
        (SURVIVED, KILLED),
        (SURVIVED, SURVIVED),
    ]
    assert said["suggested"] == [{"hidden": 1, "kills": 1, "test": {}}]


def test_a_bank_adds_up() -> None:
    """Suites add up one by one; a reference without mutants is none of the references."""
    tried = Mutations()
    for found in (MUTATION, Mutation(why="there is no reference"), MUTATION):
        tried.add(found)
    assert (tried.references, tried.mutants, tried.late) == (2, 8, 4)
    assert tried.visible == Score(killed=4, survived=4) == tried.hidden
    assert (tried.both, tried.gains, tried.suggested) == (2, 2, 2)
    assert tried.kills == 2


@pytest.mark.parametrize("word", [KILLED, UNTOLD])
def test_what_does_not_survive_is_no_survivor(word: str) -> None:
    """Only what is known to survive is shown as a survivor."""
    assert Mutation(fates=(fate(word, word), fate(None, word))).survivors == ()
