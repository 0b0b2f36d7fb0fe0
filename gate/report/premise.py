"""The condition under which the numbers hold; it stands word for word in every report."""

from __future__ import annotations

from gate.report import marks
from gate.strength import Weakness
from gate.summary import Containment

PREMISE = """\
> These numbers hold under one premise: the visible acceptance tests are the customer's own, they were bound by digest
> before the first candidate was drawn, and what is delivered is judged against tests that include them. Where hidden tests
> contain the visible ones (V ⊆ GT), "the visible filter loses no correct candidate" is true by construction and is no
> evidence. Where they do not, the gate can refuse a correct candidate, and nothing here bounds how often.
"""  # noqa: E501 - the block is quoted word for word, line by line


def containment_line(bank: str, containment: Containment) -> str:
    """Whether V ⊆ GT holds for a bank, with its counts."""
    if containment.holds is None:
        return f"- {marks.code(bank)}: V ⊆ GT: not applicable, no task has hidden tests."
    word = "yes" if containment.holds else "no"
    return (
        f"- {marks.code(bank)}: V ⊆ GT: {word}, the hidden tests contain the visible ones in "
        f"{containment.contained} of {containment.tasks} tasks."
    )


def strength_line(bank: str, weakness: Weakness) -> str:
    """How many suites of a bank are weak: what is delivered is worth as much as the tests that let it through."""
    return f"- {marks.code(bank)}: strength: {weakness_sentence(weakness)}."


def weakness_sentence(weakness: Weakness) -> str:
    """`157 of 157 suites are weak: …`, with the program that gets through most of them."""
    counted = f"{weakness.weak} of {weakness.suites} suite{'' if weakness.suites == 1 else 's'}"
    if weakness.commonest is None:
        return f"{counted} are weak: no program that knows nothing of the task passes one"
    verb = "is" if weakness.weak == 1 else "are"
    return (
        f"{counted} {verb} weak: a program that knows nothing of the task passes; "
        f"most often one that {weakness.commonest} ({weakness.passed})"
    )
