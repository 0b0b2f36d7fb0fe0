"""`gate verify x.html`: a report held against the record that it derives from.

What must stand in every report is looked for first, in its text alone. Then the report is
made again from its run, and compared: byte for byte, and where only the libraries that drew
it differ, text by text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from gate.cli.recorded import read_recorded
from gate.errors import SpecError
from gate.model import Json, digest_bytes
from gate.report.about import libraries, read_about
from gate.report.content import compose
from gate.report.formats import FORMATS, format_of
from gate.report.premise import PREMISE
from gate.verify import Mismatch

TEXTS = (".md", ".html", ".json")  # these have the premise
MAX_CHARS = 300


def is_report(path: Path) -> bool:
    """Whether a path is a report rather than a run."""
    return path.is_file() and format_of(path.name) is not None


def verify_report(path: Path, runs: Sequence[Path], *, rule: str | None) -> list[Mismatch]:
    """What in a report does not derive from the record.

    Args:
        runs: The runs that it is about, in its order, where they do not lie where it says.

    Raises:
        SpecError: It cannot be read, or its runs are not to be found.
        IntegrityError: A record is damaged.
    """
    ending = format_of(path.name)
    if ending in (None, ".png"):
        raise SpecError(f"{path}: nothing can be read from a picture: verify the run, or a report as text")
    try:
        data = path.read_bytes()
    except OSError as exc:
        raise SpecError(f"{path}: cannot be read ({exc.strerror}): name a report") from exc
    text = data.decode("utf-8", "replace")
    about = read_about(text, ending)
    missing = list(missing_parts(text, ending, about)) if ending in TEXTS else []
    places = _places(about)
    found = list(runs) or [path.parent / place for place in places]
    if missing and not all((each / "run.json").is_file() for each in found):
        return missing
    if not found:
        raise SpecError(f"{path}: does not say which run it derives from: name it by --run DIR")
    for each in found:
        if not (each / "run.json").is_file():
            raise SpecError(f"{path}: derives from {each}, where no run is: name its run by --run DIR")
    again = FORMATS[ending](compose([read_recorded(each, rule=rule) for each in found]), places or [""] * len(found))
    return missing + list(differences(data, again, ending, about))


def _places(about: Json) -> list[str]:
    sources = about.get("sources") if isinstance(about, dict) else None
    if not isinstance(sources, list):
        return []
    places = [source.get("at") if isinstance(source, dict) else None for source in sources]
    return [place for place in places if isinstance(place, str)] if all(places) else []


def missing_parts(text: str, ending: str, about: Json) -> Iterator[Mismatch]:
    """What stands in every report, and is not in this one: the premise, and whether V ⊆ GT for each bank."""
    words = " ".join(_text_of(text, ending).split())
    premise = " ".join(PREMISE.replace("\n> ", " ").removeprefix("> ").split())
    if premise not in words:
        yield Mismatch(where="the premise", claimed="stands word for word in every report", derived="is missing")
    sources = about.get("sources") if isinstance(about, dict) else None
    banks = {str(source.get("bank")) for source in sources or () if isinstance(source, dict)}
    if words.count(": V ⊆ GT: ") < max(1, len(banks)):
        yield Mismatch(where="V ⊆ GT", claimed="a line for each bank", derived="is missing")


def _text_of(text: str, ending: str) -> str:
    if ending == ".html":
        return " ".join(piece for _, piece in pieces(text))
    if ending == ".json":
        try:
            text = json.loads(text)["text"]
        except (ValueError, KeyError, TypeError, RecursionError):
            return ""
    return str(text).replace("\n> ", "\n").replace("`", "")


class _Reader(HTMLParser):
    """The texts of a page that a reader sees, each with the last heading or task before it."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[str, str]] = []
        self._place = "head"
        self._within: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("style", "script", "h1", "h2", "h3", "summary", "figcaption"):
            self._within.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self._within and self._within[-1] == tag:
            self._within.pop()

    def handle_data(self, data: str) -> None:
        text = " ".join(data.split())
        within = self._within[-1] if self._within else ""
        if text and within not in ("style", "script"):
            if within:
                self._place = text
            self.found.append((self._place, text))


def pieces(page: str) -> list[tuple[str, str]]:
    """The texts of a page in order, each with where it stands."""
    reader = _Reader()
    reader.feed(page)
    reader.close()
    return reader.found


def differences(data: bytes, again: bytes, ending: str, about: Json) -> Iterator[Mismatch]:
    """Where a report is not what is made again."""
    if data == again:
        return
    claimed, derived = (_parts(each, ending) for each in (data, again))
    one, other = ([text for _, text in each] for each in (claimed, derived))
    found = False
    for kind, start, end, low, high in SequenceMatcher(None, one, other, autojunk=False).get_opcodes():
        if kind != "equal":
            found = True
            place = (claimed[start : start + 1] or derived[low : low + 1])[0][0]
            yield Mismatch(
                where=place[:MAX_CHARS],
                claimed=" ".join(one[start:end])[:MAX_CHARS] or "(nothing)",
                derived=" ".join(other[low:high])[:MAX_CHARS] or "(nothing)",
            )
    made_with = about.get("libraries") if isinstance(about, dict) else None
    if not found and (ending not in (".html", ".svg") or made_with in (None, libraries())):
        yield Mismatch(where="the file as a whole", claimed=digest_bytes(data), derived=digest_bytes(again))


def _parts(data: bytes, ending: str) -> list[tuple[str, str]]:
    text = data.decode("utf-8", "replace")
    if ending == ".html":
        return pieces(text)
    return [(f"line {number}", line) for number, line in enumerate(text.splitlines(), 1)]


def result_json(mismatches: Sequence[Mismatch]) -> dict[str, Any]:
    """`gate.verify/1` of a report."""
    found = [mismatch.as_json() for mismatch in mismatches]
    return {"schema": "gate.verify/1", "ok": not mismatches, "level": "report", "mismatches": found}
