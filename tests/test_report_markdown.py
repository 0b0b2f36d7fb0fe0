"""REPORT.md: the premise, a table that adds up, a headline only where one is earned, and no stray markup."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gate.report.markdown import asked, headline, interval, render, share
from gate.stats import wilson
from gate.summary import Containment, Hidden, Summary

PREMISE = """\
> These numbers hold under one premise: the visible acceptance tests are the customer's own, they were bound by digest
> before the first candidate was drawn, and what is delivered is judged against tests that include them. Where hidden tests
> contain the visible ones (V ⊆ GT), "the visible filter loses no correct candidate" is true by construction and is no
> evidence. Where they do not, the gate can refuse a correct candidate, and nothing here bounds how often.
"""  # noqa: E501 - word for word

RUN: dict[str, Any] = {
    "version": "9.8.7",
    "bank": {"name": "words", "reference": "/home/me/banks/words.jsonl", "digest": "d1" * 32},
    "suites_digest": "d2" * 32,
    "source": {"spec": "samples:k5.jsonl", "path": "/home/me/saved/k5.jsonl", "digest": "d3" * 32},
    "options": {"draws": 5, "full_pool": False, "isolation": "container", "infra_budget": 0.01},
    "engine": {"name": "Docker", "version": "27.1", "runtime": "runc"},
    "image": {"content": "c0" * 32, "python": "3.12.7"},
}
HOSTILE = (
    "a | b\n| forged | 99 |\n\n# Forged heading\n\n**100 of 100 tasks delivered** <script>x</script> ![i](http://e.org/i)"
    " \x1b[2J \ud800 \\"
)


def summary(**changes: Any) -> Summary:
    fixed: dict[str, Any] = {
        "tasks": 10,
        "delivered": 7,
        "refused": 3,
        "infra": 0,
        "not_run": 0,
        "draws": 23,
        "reasons": {"wrong_answer": 12, "timeout": 4},
        "refusals": {"none_passed": 3},
        "infra_reasons": {},
        "hidden": None,
        "containment": Containment(tasks=0, contained=0),
    }
    return Summary(**{**fixed, **changes})


def run(**changes: Any) -> dict[str, Any]:
    return {name: {**part, **changes.get(name, {})} if isinstance(part, dict) else part for name, part in RUN.items()}


def table(report: str, title: str) -> list[list[str]]:
    """The rows of the table below a title."""
    section = report.split(f"## {title}\n", 1)[1].split("\n## ", 1)[0]
    rows = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows[2:]]


splits = st.tuples(*[st.integers(0, 40)] * 4)


@given(splits, st.sampled_from([None, 0, 3]))
def test_the_premise_stands_in_every_report(split: tuple[int, ...], hidden_tasks: int | None) -> None:
    """Word for word, once, with the line for the bank right below it, whatever came of the run."""
    delivered, refused, infra, not_run = split
    report = render(
        RUN,
        summary(
            tasks=sum(split),
            delivered=delivered,
            refused=refused,
            infra=infra,
            not_run=not_run,
            hidden=None if hidden_tasks is None else Hidden(success=0, wrong_delivered=0, unmeasured=delivered),
            containment=Containment(tasks=hidden_tasks or 0, contained=0),
        ),
    )
    assert report.count(PREMISE + "\n- `words`: V ⊆ GT: ") == 1


@pytest.mark.parametrize(
    ("containment", "words"),
    [
        (Containment(tasks=0, contained=0), "V ⊆ GT: not applicable, no task has hidden tests."),
        (
            Containment(tasks=10, contained=10),
            "V ⊆ GT: yes, the hidden tests contain the visible ones in 10 of 10 tasks.",
        ),
        (Containment(tasks=10, contained=9), "V ⊆ GT: no, the hidden tests contain the visible ones in 9 of 10 tasks."),
    ],
)
def test_the_report_says_whether_hidden_contains_visible(containment: Containment, words: str) -> None:
    """The line for the bank has the word and the counts behind it."""
    assert f"\n- `words`: {words}\n" in render(RUN, summary(containment=containment))


@given(splits)
def test_the_counts_add_up_to_all_tasks(split: tuple[int, ...]) -> None:
    """The four rows of the table sum to the N below them."""
    names = ("delivered", "refused", "infra", "not_run")
    report = render(RUN, summary(tasks=sum(split), **dict(zip(names, split, strict=True))))
    *rows, total = table(report, "Counts")
    assert [row[0] for row in rows] == ["delivered", "refused", "infra (our world failed)", "not run"]
    assert tuple(int(row[1]) for row in rows) == split
    assert total[:2] == ["**tasks (N)**", f"**{sum(split)}**"]


def test_each_count_has_its_interval() -> None:
    """Shares are of all tasks, with Wilson's interval in percent."""
    rows = table(render(RUN, summary()), "Counts")
    low, high = wilson(7, 10)
    assert rows[0][2] == f"70.0 % [{100 * low:.1f}, {100 * high:.1f}]"
    assert rows[0][2] == "70.0 % [39.7, 89.2]"  # R: prop.test(7, 10, correct = FALSE)$conf.int


@pytest.mark.parametrize(
    ("changes", "budget"),
    [
        ({"delivered": 6, "not_run": 1}, 1.0),
        ({"delivered": 6, "infra": 1}, 0.01),
        ({"tasks": 0, "delivered": 0, "refused": 0}, 1.0),
    ],
)
def test_there_is_no_headline_when_tasks_are_missing(changes: dict[str, int], budget: float) -> None:
    """A task that was not run, or too many that our own world failed: no number is printed as the result."""
    found = summary(**changes, hidden=Hidden(success=5, wrong_delivered=1, unmeasured=0))
    text = headline(run(options={"infra_budget": budget}), found)
    assert text.startswith(f"**No headline: {found.not_run} of {found.tasks} tasks were not run, {found.infra} ended")
    assert "%" not in text
    assert text in render(run(options={"infra_budget": budget}), found)


def test_the_headline_counts_a_refusal_as_a_failure() -> None:
    """The denominator is all tasks, and the cost stands beside the share."""
    assert headline(RUN, summary()) == (
        "**7 of 10 (70.0 %) tasks delivered, at 2.30 calls a task.** A refusal counts as a failure.\n"
    )


def test_the_headline_names_success_on_the_hidden_tests() -> None:
    """Where ground truth was measured, what is right is in the same sentence, of all tasks."""
    text = headline(RUN, summary(hidden=Hidden(success=6, wrong_delivered=1, unmeasured=0)))
    assert "7 of 10 (70.0 %) tasks delivered, 6 of 10 (60.0 %) right on the hidden tests" in text


def test_hidden_tests_have_a_section_of_their_own() -> None:
    """Success is of all tasks, wrong deliveries are of the delivered, and what was not measured is said."""
    report = render(RUN, summary(hidden=Hidden(success=5, wrong_delivered=1, unmeasured=1)))
    assert "- success (delivered and right): 5 of 10 (50.0 %) of all tasks, 95 % interval 50.0 % [23.7, 76.3]" in report
    assert "- wrong delivered (weak oracle): 1 of 7 (14.3 %) of the delivered\n- not measured: 1\n" in report
    assert "On the hidden tests" not in render(RUN, summary())
    assert "not measured" not in render(RUN, summary(hidden=Hidden(success=6, wrong_delivered=1, unmeasured=0)))


def test_reasons_have_a_table_each() -> None:
    """Why draws failed, why tasks were refused, and why our world failed, each with its counts."""
    report = render(RUN, summary(delivered=6, infra=1, infra_reasons={"the engine is gone": 1}))
    assert table(report, "Why draws failed") == [["wrong_answer", "12"], ["timeout", "4"]]
    assert table(report, "Why tasks were refused") == [["none_passed", "3"]]
    assert table(report, "Why tasks ended as infra") == [["the engine is gone", "1"]]
    assert "Why tasks ended as infra" not in render(RUN, summary())


def test_a_hostile_reason_cannot_break_its_table() -> None:
    """A reason with table marks, line ends, headings and tags stays one cell of one row, and no terminal obeys it."""
    plain = render(RUN, summary(infra_reasons={"x": 1}))
    report = render(RUN, summary(infra_reasons={HOSTILE: 1}))
    assert len(report.splitlines()) == len(plain.splitlines())
    assert [line for line in report.splitlines() if line.startswith("#")] == [
        line for line in plain.splitlines() if line.startswith("#")
    ]
    ((reason, number),) = table(report, "Why tasks ended as infra")
    assert number == "1"
    assert reason.startswith(
        r"a \| b \| forged \| 99 \| \# Forged heading \*\*100 of 100 tasks delivered\*\* \<script\>"
    )
    assert report.encode("utf-8").decode("utf-8") == report
    assert all(char.isprintable() or char == "\n" for char in report)


@pytest.mark.parametrize(
    ("part", "key"),
    [("bank", "name"), ("source", "spec"), ("engine", "name"), ("engine", "runtime"), ("image", "python")],
)
def test_a_hostile_name_cannot_add_a_line(part: str, key: str) -> None:
    """Names that others chose add no line, no heading and no tag."""
    plain, report = render(RUN, summary()), render(run(**{part: {key: HOSTILE}}), summary())
    assert len(report.splitlines()) == len(plain.splitlines())
    assert not re.search(r"(?<!\\)<script", re.sub(r"`[^`]*`", "", report))


def test_no_absolute_path_is_in_the_report() -> None:
    """A report that moves tells nothing of the machine that it was made on, whatever an error named."""
    reasons = {"/home/me/saved/k5.jsonl:3: changed since it was opened: start again": 1}
    report = render(RUN, summary(infra_reasons=reasons))
    assert "/home" not in report
    assert not re.search(r"(?:^|[\s`(])/\w", report)
    assert "k5.jsonl:3: changed" in report


def test_the_conditions_bind_the_numbers() -> None:
    """Digests of bank, tasks, candidates and image, the versions and the isolation stand in the report."""
    report = render(RUN, summary())
    for text in ("d1" * 32, "d2" * 32, "d3" * 32, "c0" * 32, "Docker 27.1", "runc", "3.12.7", "9.8.7"):
        assert text in report
    assert "- isolation: `container`: a fresh hardened container for each run of a candidate" in report


def test_a_source_without_a_digest_claims_none() -> None:
    """A live model has no digest, and the line ends before the word."""
    report = render(run(source={"digest": None}), summary())
    assert "- candidates: `samples:k5.jsonl`\n" in report


def test_a_report_is_the_same_bytes_again() -> None:
    """The same run and the same counts give the same text."""
    assert render(RUN, summary()) == render(run(), summary())


def test_nothing_of_nothing_has_no_percentage() -> None:
    """An empty run divides by no zero."""
    assert share(0, 0) == "0 of 0"
    assert interval(0, 0) == ""


def test_how_a_model_was_asked_is_told() -> None:
    """A reader learns of the sampling, and that the model saw the tests that judge it; samples say nothing of it."""
    options = {"model": "m", "temperature": 0.8, "max_tokens": 400, "seed": 7}
    assert asked(options) == [("asked with", "temperature 0.8, at most 400 tokens an answer, seed 7 + draw")]
    ((_, words),) = asked({**options, "show_tests": True, "template": "x", "prelude": "typing"})
    assert words.endswith("**the visible tests were shown**, own template, prelude `typing` before each program")
    assert asked({"model": None}) == []
