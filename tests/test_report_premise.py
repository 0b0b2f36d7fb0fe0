"""The premise: word for word, and for each bank whether V ⊆ GT."""

from __future__ import annotations

import pytest

from gate.report.premise import PREMISE, containment_line, strength_line
from gate.strength import Weakness
from gate.summary import Containment

WORDS = (
    "These numbers hold under one premise: the visible acceptance tests are the customer's own, they were bound by "
    "digest before the first candidate was drawn, and what is delivered is judged against tests that include them. "
    'Where hidden tests contain the visible ones (V ⊆ GT), "the visible filter loses no correct candidate" is true '
    "by construction and is no evidence. Where they do not, the gate can refuse a correct candidate, and nothing here "
    "bounds how often."
)
LINES = (
    "> These numbers hold under one premise: the visible acceptance tests are",
    "> before the first candidate was drawn, and what is delivered is judged",
    "> contain the visible ones (V ⊆ GT),",
    "> evidence. Where they do not, the gate can refuse",
)


def test_the_premise_stands_word_for_word() -> None:
    """Not a word of the premise is another, missing or added."""
    assert " ".join(line.removeprefix("> ") for line in PREMISE.splitlines()) == WORDS


def test_the_premise_is_one_block_of_four_lines() -> None:
    """It is a quotation, broken where the specification breaks it, so that a search for a line finds it."""
    lines = PREMISE.splitlines()
    assert len(lines) == len(LINES)
    assert all(line.startswith(start) for line, start in zip(lines, LINES, strict=True))
    assert PREMISE.endswith(".\n")


@pytest.mark.parametrize(
    ("tasks", "contained", "line"),
    [
        (0, 0, "- `bank`: V ⊆ GT: not applicable, no task has hidden tests."),
        (3, 3, "- `bank`: V ⊆ GT: yes, the hidden tests contain the visible ones in 3 of 3 tasks."),
        (3, 2, "- `bank`: V ⊆ GT: no, the hidden tests contain the visible ones in 2 of 3 tasks."),
        (3, 0, "- `bank`: V ⊆ GT: no, the hidden tests contain the visible ones in 0 of 3 tasks."),
    ],
)
def test_a_bank_says_whether_its_hidden_tests_contain_the_visible(tasks: int, contained: int, line: str) -> None:
    """One task that does not contain them makes it a no, and the counts stand beside the word."""
    assert containment_line("bank", Containment(tasks=tasks, contained=contained)) == line


def test_a_banks_name_is_no_markup() -> None:
    """A name with line ends and backticks stays one code span in one line."""
    line = containment_line("a`\n- `b`: V ⊆ GT: yes", Containment(tasks=1, contained=0))
    assert line.startswith("- `a' - 'b': V ⊆ GT: yes`: V ⊆ GT: no")
    assert line.count("`") == 2
    assert "\n" not in line


@pytest.mark.parametrize(
    ("weakness", "said"),
    [
        (
            Weakness(suites=3, weak=0, commonest=None, passed=0),
            "0 of 3 suites are weak: no program that knows nothing of the task passes one",
        ),
        (
            Weakness(suites=157, weak=157, commonest="looks up the prompt's examples", passed=145),
            "157 of 157 suites are weak: a program that knows nothing of the task passes; "
            "most often one that looks up the prompt's examples (145)",
        ),
        (
            Weakness(suites=1, weak=1, commonest="returns one constant", passed=1),
            "1 of 1 suite is weak: a program that knows nothing of the task passes; "
            "most often one that returns one constant (1)",
        ),
    ],
)
def test_a_bank_says_how_strong_its_suites_are(weakness: Weakness, said: str) -> None:
    """How many are weak stands there with the program that gets through most of them."""
    assert strength_line("bank", weakness) == f"- `bank`: strength: {said}."
