"""A report as JUnit XML, in the form that GitHub's and GitLab's readers show."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from xml.etree import ElementTree

from gate.report.about import Places, about
from gate.report.content import Report, Source
from gate.report.marks import visible
from gate.report.story import TaskStory


def junit(report: Report, places: Places) -> bytes:
    """A test case for each task.

    Delivered is a success, refused a failure, a failure of our own world an error, a task
    that was not run is skipped. A delivery that the hidden tests reject is a failure too.
    """
    root = ElementTree.Element("testsuites", name=_xml(report.title))
    told = json.dumps(about(report, places), sort_keys=True)
    totals = dict.fromkeys(("tests", "failures", "errors", "skipped"), 0)
    seconds = 0.0
    for source in report.sources:
        stories = [story for story in report.stories if story.bank == source.bank]
        suite = _junit_suite(source, stories, told)
        for name in totals:
            totals[name] += int(suite.get(name, "0"))
        seconds += float(suite.get("time", "0"))
        root.append(suite)
    for name, number in totals.items():
        root.set(name, str(number))
    root.set("time", f"{seconds:.3f}")
    ElementTree.indent(root)
    text: bytes = ElementTree.tostring(root, encoding="UTF-8", xml_declaration=True)
    return text + b"\n"


def _junit_suite(source: Source, stories: Sequence[TaskStory], told: str) -> ElementTree.Element:
    states = [story.state for story in stories]
    suite = ElementTree.Element(
        "testsuite",
        name=_xml(source.bank),
        tests=str(len(stories)),
        failures=str(states.count("refused") + states.count("wrong")),
        errors=str(states.count("infra")),
        skipped=str(states.count("not_run")),
        time=f"{sum(map(_seconds, stories)):.3f}",
        timestamp=source.began[:19],
        hostname="gate",
    )
    properties = ElementTree.SubElement(suite, "properties")
    ElementTree.SubElement(properties, "property", name="ledger-head", value=source.head)
    ElementTree.SubElement(properties, "property", name="gate-report", value=told)
    for story in stories:
        suite.append(_junit_case(story))
    return suite


def _seconds(story: TaskStory) -> float:
    parts = [part for draw in story.draws for part in (draw.visible, draw.hidden) if part is not None]
    return sum(part.usage.wall_s or 0.0 for part in parts)


def _junit_case(story: TaskStory) -> ElementTree.Element:
    case = ElementTree.Element(
        "testcase", classname=_xml(story.bank), name=_xml(story.id), time=f"{_seconds(story):.3f}"
    )
    kinds = {"refused": "failure", "wrong": "failure", "infra": "error", "not_run": "skipped"}
    kind = kinds.get(story.state)
    if kind is not None:
        reason = story.reason or {"wrong": "delivered, and wrong by the hidden tests"}.get(story.state, story.state)
        found = ElementTree.SubElement(case, kind, message=_xml(reason))
        if kind != "skipped":
            found.set("type", story.state)
            found.text = _xml("\n".join(_junit_lines(story)))
    return case


def _junit_lines(story: TaskStory) -> Iterator[str]:
    for draw in story.draws:
        for name, part in (("visible", draw.visible), ("hidden", draw.hidden)):
            if part is None or part.outcome == "pass":
                continue
            failure = part.failure
            told = f"draw {draw.index}, {name} tests: {part.reason or 'our world failed'}"
            if failure is None:
                yield f"{told}: {part.detail}" if part.detail else told
            else:
                yield f"{told} at test {failure.test}: {failure.call}: got {failure.got}, expected {failure.expected}"


def _xml(text: str) -> str:
    """Text that XML can hold: what it cannot is spelled out."""
    return visible(text)
