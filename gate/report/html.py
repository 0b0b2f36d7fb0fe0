"""A report as one HTML file that asks nobody for anything.

All text of other people's making goes through `visible` and jinja2's escaping; a policy in
the page forbids every script but the page's own, and every request.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from gate.model import Json, Usage
from gate.report import highlight, plots
from gate.report.content import Report, Source
from gate.report.marks import visible
from gate.report.plots import KINDS, Figure, kind_of
from gate.report.story import STATES, Draw, Part, TaskStory

# Bytes of a page, of all programs, of all that tests say of them, and of all prompts; the longest are cut first.
MAX_BYTES = {"code": 2_400_000, "told": 1_300_000, "asked": 500_000}
SIGNS = {"delivered": "✓", "wrong": "✗", "refused": "○", "infra": "!", "not_run": "·"}
WORDS = {
    "delivered": "delivered",
    "wrong": "delivered, wrong",
    "refused": "refused",
    "infra": "our world failed",
    "not_run": "not run",
}
MARKS = {"right": "●", "wrong": "✗", "lost": "△", "neither": "–", "passed": "◐", "failed": "|", "error": "!"}
OUTCOMES = {"pass": "✓", "fail": "✗", "error": "!"}
_LAST = ("How it was run", "How it was made")
_PREMISE = "The premise"
_FIGURE = re.compile(r"<td((?: style=\"[^\"]*\")?>(?:[-+–\d\[]|&lt; )[^<]{0,40}</td>)")


def page(report: Report, *, about: Json, refresh: bool = False) -> str:
    """The whole page.

    Args:
        about: What the page says of itself to `gate verify`: see `sources_json`.
        refresh: Whether it stands on a server of ours and looks there for news.
    """
    script = _asset("page.js") + (_asset("refresh.js") if refresh else "")
    sections = list(_sections(report.text))
    several = len({story.bank for story in report.stories}) > 1
    text: str = _template("page.html.j2").render(
        title=visible(f"{report.title}: acceptance gate"),
        kicker=visible(" · ".join(dict.fromkeys(_kicker(source) for source in report.sources))),
        opening=_markup(sections[0]["html"]),
        tiles=report.tiles,
        sections=sections[1:],
        figures=[_figure(figure) for figure in plots.figures(report.tables, report.stories)],
        stories=list(_stories(report.stories)),
        several=several,
        states=_states(report.stories),
        reasons=sorted({reason for story in report.stories for reason in story.reasons}),
        kinds=[{"name": name, "sign": MARKS[name], "words": words} for name, words, _, _ in _kinds(report.stories)],
        sources=[{"kind": each.kind, "bank": visible(each.bank), "head": each.head} for each in report.sources],
        about=_markup(_inert(about)),
        style=_markup(_asset("page.css")),
        script=_markup(script),
        script_hash=_hash(script),
        refresh=refresh,
    )
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One run or replay in a list of them.

    Attributes:
        href: Where its page is.
        says: Its headline, or how far it came.
        state: "running", "closed", "stopped" or "damaged".
    """

    href: str
    began: str
    kind: str
    bank: str
    what: str
    says: str
    state: str


_STATES = {
    "running": ("◌", "running"),
    "closed": ("✓", "closed"),
    "stopped": ("‖", "not closed"),
    "damaged": ("✗", "damaged"),
}


def list_page(entries: Sequence[Entry], *, folder: str) -> str:
    """A page that lists runs and replays, and looks for news."""
    script = _asset("refresh.js")
    text: str = _template("list.html.j2").render(
        folder=visible(folder),
        entries=[
            {
                "href": entry.href,
                "state": entry.state,
                "sign": _STATES[entry.state][0],
                "state_words": _STATES[entry.state][1],
                **{name: visible(getattr(entry, name)) for name in ("began", "kind", "bank", "what", "says")},
            }
            for entry in entries
        ],
        style=_markup(_asset("page.css")),
        script=_markup(script),
        script_hash=_hash(script),
    )
    return text


def _hash(script: str) -> str:
    """A script as a policy names it."""
    return f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}"


def _kicker(source: Source) -> str:
    parts = [source.kind, source.began[:10], source.model or source.candidates, f"isolation: {source.isolation}"]
    return ", ".join(part for part in parts if part)


def _inert(value: Json) -> str:
    """JSON in which nothing ends a script element."""
    text = json.dumps(value, ensure_ascii=True, sort_keys=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


# The text


def _sections(text: str) -> Iterator[dict[str, Any]]:
    """The parts of the Markdown text, each from one heading of the second level to the next."""
    for number, part in enumerate(re.split(r"^(?=## )", text, flags=re.MULTILINE)):
        title = part.partition("\n")[0].removeprefix("## ")
        yield {
            "id": f"part-{number}",
            "title": re.sub(r"\\(.)", r"\1", title),
            "html": _markup(_html(part)),
            "premise": title == _PREMISE,
            "early": title == _PREMISE,
            "last": title in _LAST,
        }


def _html(text: str) -> str:
    html: str = _markdown().render(text)
    html = _FIGURE.sub(r'<td class="n"\1', html)  # a figure stays whole
    return html.replace("<table>", '<div class="scroll"><table>').replace("</table>", "</table></div>")


@cache
def _markdown() -> Any:
    from markdown_it import MarkdownIt

    reader = MarkdownIt("commonmark", {"html": False}).enable("table")
    return reader.disable(["image", "link", "autolink", "reference", "html_inline", "html_block"])


# The figures


def _figure(figure: Figure) -> dict[str, Any]:
    return {
        "id": re.sub(r"[^a-z0-9-]+", "-", figure.name.lower()),
        "shape": figure.shape,
        "title": visible(figure.title),
        "note": figure.note,
        "svg": _markup(plots.svg(figure)),
    }


# The tasks


def _states(stories: Sequence[TaskStory]) -> list[dict[str, Any]]:
    counts = Counter(story.state for story in stories)
    return [
        {"name": state, "sign": SIGNS[state], "words": WORDS[state], "number": counts[state]}
        for state in STATES
        if counts[state]
    ]


def _kinds(stories: Sequence[TaskStory]) -> list[tuple[str, str, str, str]]:
    found = {kind_of(draw) for story in stories for draw in story.draws}
    return [kind for kind in KINDS if kind[0] in found]


def _stories(stories: Sequence[TaskStory]) -> Iterator[dict[str, Any]]:
    most = {name: longest(map(size, texts), MAX_BYTES[name]) for name, texts in _long_texts(stories).items()}
    for story in stories:
        yield {
            "bank": visible(story.bank),
            "id": visible(story.id),
            "prompt": fitted(story.prompt.strip(), most["asked"]),
            "state": story.state,
            "sign": SIGNS[story.state],
            "words": WORDS[story.state],
            "why": visible(_why(story)),
            "reasons": " ".join(story.reasons),
            "draws": [_draw(draw, story, most) for draw in story.draws],
        }


def _why(story: TaskStory) -> str:
    told = [] if story.reason in ("", "none_passed") else [story.reason]
    return ", ".join([*told, *story.reasons])


def _long_texts(stories: Sequence[TaskStory]) -> dict[str, list[str]]:
    """What makes a page long, by the name of its budget."""
    draws = [draw for story in stories for draw in story.draws]
    parts = [part for draw in draws for part in (draw.visible, draw.hidden) if part is not None]
    failures = [part.failure for part in parts if part.failure is not None]
    told = [part.detail for part in parts if part.failure is None]
    return {
        "code": [draw.code for draw in draws if draw.same_as is None],
        "told": told + [text for each in failures for text in (each.call, each.expected, each.got)],
        "asked": [story.prompt for story in stories],
    }


def size(text: str) -> int:
    """How many bytes a text takes in a page."""
    from markupsafe import escape

    return len(str(escape(visible(text))).encode())


def fitted(text: str, most: int) -> str:
    """A text as a page shows it, cut to about this many bytes."""
    bytes_ = size(text)
    return visible(text) if bytes_ <= most else visible(text[: len(text) * most // bytes_]) + "…"


def longest(lengths: Iterable[int], budget: int) -> int:
    """The length to which texts are cut so that all of them together fit; short ones are left whole.

    Args:
        lengths: Of all texts.
        budget: Of all of them together, in the same unit.
    """
    left, rest = budget, sorted(lengths)
    while rest:
        share = left // len(rest)
        if rest[0] > share:
            return share
        left -= rest.pop(0)
    return budget


def _draw(draw: Draw, story: TaskStory, most: Mapping[str, int]) -> dict[str, Any]:
    kind = kind_of(draw)
    code, note = _code(draw, most["code"])
    return {
        "index": draw.index,
        "kind": kind,
        "kind_words": next(words for name, words, _, _ in KINDS if name == kind),
        "sign": MARKS[kind],
        "delivered": draw.index == story.delivered,
        "digest": draw.digest[:12],
        "facts": visible(_facts(draw)),
        "parts": [
            _part(name, part, most["told"])
            for name, part in (("visible tests", draw.visible), ("hidden tests", draw.hidden))
            if part is not None
        ],
        "code": code,
        "runs": highlight.runs(code) if code else "",
        "note": visible(note),
    }


def _code(draw: Draw, most: int) -> tuple[str, str]:
    """What is shown of a program, and what is to be said of it."""
    if draw.missing:
        told = draw.visible is not None and draw.visible.detail == draw.missing
        return "", "" if told else f"No program: {draw.missing}"
    if draw.same_as is not None:
        return "", f"The same program as draw {draw.same_as}."
    if size(draw.code) > most:
        return fitted(draw.code, most), f"Cut here: {len(draw.code)} characters in all; the run's record has them."
    return visible(draw.code.rstrip(" \n")), ""


def _facts(draw: Draw) -> str:
    tokens = draw.tokens
    facts = [draw.model, "" if tokens is None else f"{tokens.prompt} + {tokens.completion} tokens"]
    return ", ".join(fact for fact in facts if fact)


def _part(name: str, part: Part, most: int) -> dict[str, Any]:
    passed = f"{part.passed} of {part.total} passed" if part.total else ""
    words = {"pass": "pass", "fail": part.reason, "error": "our world failed"}[part.outcome]
    failure = part.failure
    return {
        "name": name,
        "outcome": part.outcome,
        "sign": OUTCOMES[part.outcome],
        "words": ", ".join(word for word in (words, passed) if word),
        "usage": usage_text(part.usage),
        "detail": fitted(part.detail, most),
        "failure": None
        if failure is None
        else {
            "test": failure.test,
            "call": fitted(failure.call, most),
            "expected": fitted(failure.expected, most),
            "got": fitted(failure.got, most),
        },
    }


def usage_text(usage: Usage) -> str:
    """`0.02 s wall, 0.01 s CPU, 9.1 MB`; nothing where nothing is known."""
    told = (
        None if usage.wall_s is None else f"{usage.wall_s:.2f} s wall",
        None if usage.cpu_s is None else f"{usage.cpu_s:.2f} s CPU",
        None if usage.memory_bytes is None else f"{usage.memory_bytes / 1e6:.1f} MB",
    )
    return ", ".join(each for each in told if each)


# Templates


@cache
def _environment() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("gate.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _template(name: str) -> Any:
    return _environment().get_template(name)


@cache
def _asset(name: str) -> str:
    environment = _environment()
    source: str = environment.loader.get_source(environment, name)[0]
    return source


def _markup(text: str) -> Any:
    """Text that is markup already: of our own templates and renderers."""
    from markupsafe import Markup

    return Markup(text)
