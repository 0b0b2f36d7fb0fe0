"""JUnit: in the form that the readers of GitHub and GitLab take."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

from golden import make
from reported import run_of

from gate.cli.recorded import read_recorded
from gate.report.content import compose
from gate.report.junit import junit


def tree(path: Path) -> ElementTree.Element:
    """A run's report as XML."""
    return ElementTree.fromstring(junit(compose([read_recorded(path)]), ["run"]))


def test_each_task_is_a_case() -> None:
    """Refused and wrong are failures with what went wrong; the counts are those of the cases."""
    root = tree(make.RUN)
    (suite,) = root.findall("testsuite")
    cases = suite.findall("testcase")
    assert [case.get("name") for case in cases] == [make.REVERSE, make.HALVES, make.COUNT, make.SUM]
    found = Counter(child.tag for case in cases for child in case)
    for element in (root, suite):
        assert element.get("tests") == "4" and element.get("failures") == str(found["failure"]) == "2"
        assert element.get("errors") == element.get("skipped") == "0" and float(str(element.get("time"))) > 0
    failure = cases[2].find("failure")
    assert failure is not None and failure.get("type") == "refused" and failure.get("message") == "none_passed"
    assert "draw 1, visible tests: wrong_answer at test 0: count('a a'): got {'a': 1}, expected {'a': 2}" in str(
        failure.text
    )


def test_the_form_is_that_of_the_schema(tmp_path: Path) -> None:
    """Elements stand in the order, and with the attributes, that Jenkins's JUnit schema requires."""
    root = tree(run_of(tmp_path / "run", {"a/1": ["return 2 right"], "a/2": ["x"]}).path)
    assert root.tag == "testsuites"
    for suite in root:
        assert suite.tag == "testsuite" and {*suite.keys()} >= {"name", "tests", "failures", "errors", "time"}
        assert next(child.tag for child in suite) == "properties"
        assert {child.tag for child in suite} == {"properties", "testcase"}
        for case in suite.findall("testcase"):
            assert {*case.keys()} >= {"name", "classname", "time"}
            assert {child.tag for child in case} <= {"failure", "error", "skipped"}
