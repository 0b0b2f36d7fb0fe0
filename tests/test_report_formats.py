"""Reports in every format: whole, the same each time, and nobody's text obeyed in any of them."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from golden import make
from reported import SCRIPTS, run_of

from gate.cli.recorded import read_recorded
from gate.errors import SpecError
from gate.report.content import Report, compose
from gate.report.formats import FORMATS, format_of
from gate.report.premise import PREMISE


@pytest.fixture(scope="module")
def golden() -> Report:
    """The golden run as a report."""
    return compose([read_recorded(make.RUN)])


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """A run in which every text that somebody else makes is hostile."""
    pool = {
        f"t/{number}": [f"def f(value): {text}\n", f"def f(value): {text}  # return 2\n", f"return 2, right {text}"]
        for number, text in enumerate(SCRIPTS)
    }
    where = run_of(tmp_path_factory.mktemp("hostile") / "run", pool, prompt="\n".join(SCRIPTS[:-1]), bank=SCRIPTS[0])
    return compose([read_recorded(where.path)])


@pytest.mark.parametrize("ending", FORMATS)
def test_a_report_is_the_same_bytes_each_time(ending: str, golden: Report) -> None:
    """Whatever it is written as, the same record makes the same file."""
    again = compose([read_recorded(make.RUN)])
    assert FORMATS[ending](golden, ["run"]) == FORMATS[ending](again, ["run"])


@pytest.mark.parametrize(
    ("name", "ending"),
    [
        ("a.html", ".html"),
        ("A.HTML", ".html"),
        ("a.json", ".json"),
        ("eval_results.json", "eval_results.json"),
        ("x_eval_results.json", "eval_results.json"),
        ("a.jsonl", ".jsonl"),
        ("a.pdf", None),
        ("html", None),
    ],
)
def test_the_end_of_a_name_says_the_format(name: str, ending: str | None) -> None:
    """The longest ending that fits counts; another name has no format."""
    assert format_of(name) == ending


def test_the_text_stands_in_markdown_and_in_the_page(golden: Report) -> None:
    """The premise, V ⊆ GT and the headline stand in both."""
    text = FORMATS[".md"](golden, ["run"]).decode()
    assert PREMISE in text and "V ⊆ GT: no" in text and "3 of 4 (75.0 %) tasks delivered" in text
    page = FORMATS[".html"](golden, ["run"]).decode()
    assert "V ⊆ GT: no" in page and "These numbers hold under one premise" in page
    assert "3 of 4 (75.0 %) tasks delivered" in page


def test_the_json_has_every_draw(golden: Report) -> None:
    """`gate.report/1` has the results, the headline, the text and each task's draws."""
    found = json.loads(FORMATS[".json"](golden, ["run"]))
    assert (found["schema"], found["results"][0]["schema"]) == ("gate.report/1", "gate.run/1")
    states = {task["task"]: task["state"] for task in found["tasks"]}
    assert states == {
        make.REVERSE: "delivered",
        make.HALVES: "wrong",
        make.COUNT: "refused",
        make.SUM: "delivered",
    }
    (count,) = [task for task in found["tasks"] if task["task"] == make.COUNT]
    failure = count["draws"][1]["visible"]["failure"]
    assert (failure["call"], failure["expected"], failure["got"]) == ("count('a a')", "{'a': 2}", "{'a': 1}")
    assert [draw["code"] for draw in count["draws"]][:2] == [make.RAISING, make.LENGTHS]


def test_the_csv_has_a_line_a_draw(golden: Report) -> None:
    """A spreadsheet gets one row a draw under a header."""
    rows = list(csv.DictReader(io.StringIO(FORMATS[".csv"](golden, ["run"]).decode())))
    assert [row["task"] for row in rows].count(make.COUNT) == 5
    assert {row["visible_reason"] for row in rows if row["task"] == make.COUNT} == {
        "raised",
        "wrong_answer",
        "timeout",
        "no_program",
    }


def test_no_cell_is_a_formula(hostile: Report) -> None:
    """No text of anybody's begins a cell in a way that a spreadsheet would compute."""
    rows = csv.reader(io.StringIO(FORMATS[".csv"](hostile, ["run"]).decode()))
    assert not [cell for row in rows for cell in row if re.match(r"[=+@\t]|-\D", cell)]


def test_pictures_are_pictures(golden: Report) -> None:
    """The slides are an SVG and a PNG with the figures in them."""
    assert FORMATS[".png"](golden, ["run"]).startswith(b"\x89PNG")
    svg = ElementTree.fromstring(FORMATS[".svg"](golden, ["run"]))
    assert "Every draw, n = 4 tasks" in "".join(svg.itertext())


def test_nothing_hostile_is_markup(hostile: Report) -> None:
    """In the page every hostile text stands escaped: no tag, no attribute and no address of theirs."""
    page = FORMATS[".html"](hostile, ["run"]).decode()
    body = page[page.index("<body>") : page.index('<script type="application/json"')]
    tags = set(re.findall(r"<([a-zA-Z!/][\w-]*)", re.sub(r"<svg viewBox.*?</svg>", "", body, flags=re.DOTALL)))
    assert not tags & {"script", "img", "iframe", "style", "svg", "!--"}, tags
    assert not re.search(r"<[^>]*\son\w+=", body)
    assert not re.search(r"(?:href|src)=\"(?!#)", body)
    for raw in "\x00\x1b\x07\u202e\u2066\u2028":
        assert raw not in page
    assert "␛[2J" in page and "\\u202e" in page and "\\ud800" in page


@pytest.mark.parametrize("ending", [".md", ".json", ".csv", ".xml", ".jsonl", "eval_results.json"])
def test_nothing_hostile_breaks_a_file(ending: str, hostile: Report) -> None:
    """Each format stays readable by its own reader, and a terminal is never obeyed."""
    data = FORMATS[ending](hostile, ["run"])
    text = data.decode("utf-8")
    assert "\x1b" not in text and "\x00" not in text
    if ending in (".json", "eval_results.json"):
        json.loads(data)
    elif ending == ".jsonl":
        assert len([json.loads(line) for line in text.splitlines()]) == len(SCRIPTS) * 2
    elif ending == ".xml":
        ElementTree.fromstring(data)


def test_the_page_asks_nobody_for_anything(golden: Report) -> None:
    """There is no address in it but places in itself, and a policy that forbids every request."""
    page = FORMATS[".html"](golden, ["run"]).decode()
    addresses = re.findall(r"""(?:href|src|action|srcset|data)\s*=\s*["']([^"']*)""", page)
    assert all(address.startswith(("#", "data:,")) for address in addresses), addresses
    assert not re.search(r"url\((?!#)|@import", page)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy and "default-src 'none'" in policy[1] and "connect-src" not in policy[1]


def test_runs_and_replays_do_not_mix_and_several_runs_stand_side_by_side() -> None:
    """Several runs make one report, with the premise once and a line for each bank."""
    one = read_recorded(make.RUN)
    both = compose([one, one])
    assert both.text.count("These numbers hold under one premise") == 1
    assert both.text.count(": V ⊆ GT: ") == 2
    assert len(both.stories) == 8
    replay = replace(one, source=replace(one.source, kind="replay"))
    with pytest.raises(SpecError, match="one kind at a time"):
        compose([one, replay])


def test_what_has_no_run_is_refused(tmp_path: Path) -> None:
    """A folder without a run is named in one sentence."""
    with pytest.raises(SpecError, match="holds no run"):
        read_recorded(tmp_path)
