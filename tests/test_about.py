"""What a report says of its origin comes back from every format that has it."""

from __future__ import annotations

import pytest
from golden import make

from gate.cli.recorded import read_recorded
from gate.report.about import about, read_about
from gate.report.content import compose
from gate.report.formats import FORMATS

REPORT = compose([read_recorded(make.RUN)])
ODD = '../a "b" <c> & --> \u2028'


@pytest.mark.parametrize("ending", [".html", ".md", ".json", ".xml"])
def test_it_comes_back(ending: str) -> None:
    """Sources with their heads and places, and the libraries, whatever the place is called."""
    data = FORMATS[ending](REPORT, [ODD]).decode()
    found = read_about(data, ending)
    assert found == about(REPORT, [ODD], drawn=ending == ".html")
    assert found["sources"] == [{"kind": "run", "bank": "golden", "head": REPORT.sources[0].head, "at": ODD}]


@pytest.mark.parametrize("ending", [".html", ".md", ".json", ".xml", ".csv"])
@pytest.mark.parametrize("text", ["", "{}", "[1]", "<!-- gate-report { -->", '<property name="gate-report" value="{"'])
def test_nothing_comes_back_from_other_text(text: str, ending: str) -> None:
    """A file that does not say, or says it wrongly, has no origin."""
    assert read_about(text, ending) is None
