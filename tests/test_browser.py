"""The page in a real browser: quick, quiet, usable by keyboard, and nobody's text obeyed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import Page, browsing, program
from reported import SCRIPTS, many, run_of

from gate.cli.recorded import read_recorded
from gate.report.content import compose
from gate.report.formats import FORMATS

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """One headless Chromium; `make test` installs it where it can."""
    if program() is None:
        pytest.skip("no Chromium here, and `make browser` could not install one")
    with browsing(tmp_path_factory.mktemp("profile")) as page:
        yield page


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of 500 tasks with five programs each."""
    folder = tmp_path_factory.mktemp("large")
    report = compose([read_recorded(many(folder / "run", 500).path)])
    path = folder / "large.html"
    path.write_bytes(FORMATS[".html"](report, ["run"]))
    assert sum(len(story.draws) for story in report.stories) == 2_500
    return path


def attacks() -> dict[str, str]:
    """Programs of the corpus that attack whoever shows them."""
    names = ("log-and-html-injection", "prints-a-terminal-attack")
    return {name: (Path(__file__).parent / "cases" / name / "candidate.py").read_text("utf-8") for name in names}


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page in which every text of other people's making would like to run."""
    folder = tmp_path_factory.mktemp("hostile")
    pool = {
        f"t/{number}": [f"def f(value): {text}\n", f"def f(value): {text}  # return 2\n"]
        for number, text in enumerate(SCRIPTS)
    }
    pool |= {f"cases/{name}": [text] for name, text in attacks().items()}
    where = run_of(folder / "run", pool, prompt="\n".join(SCRIPTS[:-1]), bank=SCRIPTS[2])
    path = folder / "hostile.html"
    path.write_bytes(FORMATS[".html"](compose([read_recorded(where.path)]), ["run"]))
    return path


def opened(browser: Page, path: Path, *, width: int = 1280, height: int = 900) -> float:
    """Open a page; how long it took, in seconds."""
    browser.errors.clear()
    browser.requests.clear()
    browser.look(width=width, height=height)
    return browser.open(path.as_uri())


def quiet(browser: Page, path: Path) -> None:
    """Nothing was said in the console, and nothing but the page itself was asked for."""
    assert browser.errors == []
    assert [each for each in browser.requests if not each.startswith("data:")] == [path.as_uri()]


def test_five_hundred_tasks_fit_a_page(browser: Page, large: Path) -> None:
    """The page is below 6 MB, and all of it is there."""
    assert large.stat().st_size < 6_000_000
    opened(browser, large)
    assert browser.run("return document.querySelectorAll('details.task').length") == 500
    quiet(browser, large)


@pytest.mark.soak
def test_five_hundred_tasks_open_within_a_second(browser: Page, large: Path) -> None:
    """By the page's own clock, the best of three, as other work may run beside it."""
    assert min(opened(browser, large) for _ in range(3)) < 1.0


def shown(browser: Page) -> Any:
    return browser.run(
        "return [[...document.querySelectorAll('details.task')].filter(d => !d.hidden).length,"
        "document.getElementById('shown').textContent]"
    )


def choose(browser: Page, name: str, value: str) -> Any:
    """Set one filter as a reader would; what is shown then."""
    browser.run(
        f"const form = document.getElementById('filters');"
        f"form.elements[{json.dumps(name)}].value = {json.dumps(value)};"
        "form.dispatchEvent(new Event('input', {bubbles: true}))"
    )
    return shown(browser)


def test_the_filters_filter(browser: Page, large: Path) -> None:
    """Outcome, reason and text each narrow the list, together too, and it can be had whole again."""
    opened(browser, large)
    everything, refused = shown(browser), choose(browser, "state", "refused")
    assert everything == [500, "500 of 500 tasks"]
    assert 0 < refused[0] < 500 and refused[1] == f"{refused[0]} of 500 tasks"
    assert choose(browser, "reason", "raised")[0] == refused[0]
    assert choose(browser, "text", "many/499")[0] in (0, 1)
    assert choose(browser, "text", "no such words")[0] == 0
    assert browser.run("return document.getElementById('none').hidden") is False
    browser.run("document.getElementById('reset').click()")
    assert shown(browser) == everything
    assert choose(browser, "text", "Draw 3 of 13.")[0] == 1
    quiet(browser, large)


def test_a_task_opens_to_its_draws_by_keyboard(browser: Page, large: Path) -> None:
    """The slash leads to the search, arrows from task to task, Enter opens one; its code is coloured then."""
    opened(browser, large)
    browser.press("/", "/")
    assert browser.run("return document.activeElement.name") == "text"
    browser.press("Escape")
    browser.run("document.querySelector('details.task > summary').focus()")
    browser.press("ArrowDown")
    assert browser.run("return document.activeElement.querySelector('.id').textContent") == "many/1"
    browser.press("Enter", "\r")
    found = browser.run(
        "await new Promise(done => setTimeout(done, 200));"
        "const task = document.activeElement.parentElement; const code = task.querySelector('pre.code');"
        "return [task.open, code.checkVisibility(), code.querySelectorAll('.k').length, code.textContent,"
        "task.querySelector('.versus').textContent]"
    )
    assert found[:2] == [True, True] and found[2] > 3
    assert found[3].startswith('def f(value):\n    """Draw 0 of 1."""') and "RuntimeError" in found[4]
    quiet(browser, large)


def test_everything_can_be_reached_without_a_mouse(browser: Page, large: Path) -> None:
    """Each control and each task takes part in the tab order, and shows where the reader is."""
    opened(browser, large)
    for _ in range(12):
        browser.press("Tab")
    assert browser.run(
        "const at = document.activeElement; const style = getComputedStyle(at.closest('label') || at);"
        "return at !== document.body && (style.outlineStyle !== 'none' || getComputedStyle(at).outlineStyle !== 'none')"
    )


@pytest.mark.parametrize("width", [390, 1440])
def test_the_filters_stay_in_sight(browser: Page, large: Path, width: int) -> None:
    """Deep in the list they are still there, and hide no task that the keyboard leads to."""
    opened(browser, large, width=width, height=800)
    assert browser.run(
        "const task = document.querySelectorAll('details.task > summary')[300]; task.scrollIntoView();"
        "await new Promise(done => setTimeout(done, 300));"
        "document.querySelectorAll('details.task > summary')[299].focus();"
        "await new Promise(done => setTimeout(done, 300));"
        "const bar = document.getElementById('filters').getBoundingClientRect();"
        "return bar.top >= 0 && bar.bottom <= document.activeElement.getBoundingClientRect().top + 1"
    )


def test_long_texts_leave_the_page_small(browser: Page, tmp_path: Path) -> None:
    """Long programs in a long script, which say long things, are cut until the page is below 6 MB."""
    body = ("    text = '" + "<é\U0001f600>" * 20 + "'\n") * 40
    codes = [f"def f(value):\n{body}    # {draw}\n" for draw in range(500)]
    pool = {f"long/{task}": codes[5 * task : 5 * task + 5] for task in range(100)}
    report = compose([read_recorded(run_of(tmp_path / "run", pool, prompt="<é>" * 20_000).path)])
    path = tmp_path / "long.html"
    path.write_bytes(FORMATS[".html"](report, ["run"]))
    assert 2_000_000 < path.stat().st_size < 6_000_000
    opened(browser, path)
    assert "Cut here: " in browser.run("return document.querySelector('.task').textContent")
    quiet(browser, path)


@pytest.mark.parametrize("width", [390, 1440])
def test_no_page_is_wider_than_its_window(browser: Page, large: Path, width: int) -> None:
    """On a phone as on a desk nothing sticks out to the side."""
    opened(browser, large, width=width)
    browser.run("for (const task of [...document.querySelectorAll('details.task')].slice(0, 20)) task.open = true")
    assert browser.run("return document.documentElement.scrollWidth") <= width


def test_hostile_text_is_shown_and_never_obeyed(browser: Page, hostile: Path) -> None:
    """With every task open, each hostile text can be read, and the page is still the page."""
    opened(browser, hostile)
    text = browser.run(
        "for (const each of document.querySelectorAll('details')) {"
        "each.open = true; each.style.contentVisibility = 'visible'; }"  # else only what is on the screen has a text
        "await new Promise(done => setTimeout(done, 500)); return document.body.innerText"
    )
    for each in SCRIPTS[:-1]:
        assert each in text, each
    assert "␛[2J␛]0;owned␇ ␀ \\u202e\\u2066 \\ud800 \\u2028" in text
    shown_codes = browser.run("return [...document.querySelectorAll('pre.code')].map(each => each.textContent)")
    for name, code in attacks().items():
        assert code.rstrip() in shown_codes, name
    assert "owned" not in browser.run("return document.title").replace("document.title='owned'", "")
    assert browser.run("return document.title") != "pass"
    assert browser.run(
        "return document.scripts.length === 2"
        " && !document.querySelector('iframe, img, object, embed, base, link[rel=stylesheet]')"
    )
    assert browser.run("return document.querySelectorAll('a:not([href^=\"#\"])').length") == 0
    quiet(browser, hostile)
