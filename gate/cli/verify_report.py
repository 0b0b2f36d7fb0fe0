"""`gate verify x.html`: a report held against the record that it derives from.

What must stand in every report is looked for first, in its text alone; where its run is not
to be found, also whether its shares are those of the counts beside them. Then the report is
made again from its run, and compared byte for byte. Where other versions of the libraries
drew it, its figures may differ in all but their words; that is said, and is no pass.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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
from gate.report.shares import wrong_shares
from gate.verify import Mismatch

TEXTS = (".md", ".html", ".json")  # these have the premise
OWN = ("report.html", "report.json", "report.xml")  # these may stand beside a run's record
MAX_CHARS = 300
MAX_SEARCHED = 4000  # texts; among more, what is found may be coarser


@dataclass(frozen=True, slots=True)
class Held:
    """What came of holding a report against its record.

    Attributes:
        drawn_by: What drew its figures, where that is not what is here, and so only their words could be compared.
    """

    mismatches: Sequence[Mismatch]
    drawn_by: str = ""

    @property
    def sentence(self) -> str:
        """For people, where nothing was found."""
        sound = "all that this report says derives from its record"
        if not self.drawn_by:
            return sound
        return f"{sound}, but of its figures only the words were compared: {self.drawn_by} drew them, not what is here"


def holds_record(folder: Path) -> bool:
    """Whether a folder is a run's own; a report of some folder may be called `run.json` too."""
    return any((folder / name).exists() for name in ("ledger.jsonl", "suites.jsonl.gz"))


def is_report(path: Path) -> bool:
    """Whether a path is a report rather than a run."""
    return path.is_file() and format_of(path.name) is not None


def verify_report(path: Path, runs: Sequence[Path], *, rule: str | None) -> Held:
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
    if not found or not all((each / "run.json").is_file() for each in found):
        missing += _wrong_shares(text, ending, about) if ending in TEXTS else []
        if missing:
            return Held(missing)
    if not found:
        raise SpecError(f"{path}: does not say which run it derives from: name it by --run DIR")
    for each in found:
        if not (each / "run.json").is_file():
            raise SpecError(f"{path}: derives from {each}, where no run is: name its run by --run DIR")
    whole = compose([read_recorded(each, rule=rule) for each in found])
    gone_on = list(_other_heads(about, [source.head for source in whole.sources]))
    if gone_on:
        return Held(missing + gone_on)
    again = FORMATS[ending](whole, places if len(places) == len(found) else [""] * len(found))
    mismatches = missing + list(differences(data, again, ending))
    if not mismatches and data != again:
        return Held([], drawn_by=", ".join(f"{name} {number}" for name, number in _others(about)))
    return Held(mismatches)


def _other_heads(about: Json, heads: Sequence[str]) -> Iterator[Mismatch]:
    """Where a report speaks of another record, or of an earlier state of this one."""
    for source, head in zip(_sources(about), heads, strict=False):
        claimed = source.get("head")
        if claimed != head:
            yield Mismatch(where="head of the ledger", claimed=str(claimed)[:MAX_CHARS], derived=head)


def _others(about: Json) -> list[tuple[str, str]]:
    """The libraries that a page names in other versions than are here."""
    named = about.get("libraries") if isinstance(about, dict) else None
    here = libraries()
    return [(name, str(named[name])) for name in here if isinstance(named, dict) and named.get(name) != here[name]]


def _sources(about: Json) -> list[dict[str, Json]]:
    """What a report says of each run, in its order; an empty one where it says nothing that can be read."""
    sources = about.get("sources") if isinstance(about, dict) else None
    if not isinstance(sources, list):
        return []
    return [source if isinstance(source, dict) else {} for source in sources]


def _banks(about: Json) -> set[str]:
    return {str(source.get("bank")) for source in _sources(about)}


def _places(about: Json) -> list[str]:
    places = [source.get("at") for source in _sources(about)]
    return [place for place in places if isinstance(place, str)] if all(places) else []


def missing_parts(text: str, ending: str, about: Json) -> Iterator[Mismatch]:
    """What stands in every report, and is not in this one: the premise, and whether V ⊆ GT for each bank."""
    words = " ".join(_text_of(text, ending).split())
    premise = " ".join(PREMISE.replace("\n> ", " ").removeprefix("> ").split())
    if premise not in words:
        yield Mismatch(where="the premise", claimed="stands word for word in every report", derived="is missing")
    if words.count(": V ⊆ GT: ") < max(1, len(_banks(about))):
        yield Mismatch(where="V ⊆ GT", claimed="a line for each bank", derived="is missing")


def _wrong_shares(text: str, ending: str, about: Json) -> Iterator[Mismatch]:
    """What a report gainsays by itself; what others wrote in it, its programs and the names of banks, is left out."""
    own = text.partition('<section id="tasks">')[0] if ending == ".html" else text
    words = " ".join(_text_of(own, ending).split())
    for name in _banks(about):
        words = words.replace(name, "") if any(wrong_shares(name)) else words
    for claimed, derived in wrong_shares(words):
        yield Mismatch(where="a share beside its counts", claimed=claimed, derived=derived)


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


def differences(data: bytes, again: bytes, ending: str) -> Iterator[Mismatch]:
    """Where a report is not what is made again, but for figures and colours that other libraries drew."""
    if data == again:
        return
    found = False
    for where, claimed, derived in _changed(_parts(data, ending), _parts(again, ending)):
        found = True
        yield Mismatch(where=where[:MAX_CHARS], claimed=claimed[:MAX_CHARS], derived=derived[:MAX_CHARS])
    if not found and not _differs_in_drawing_alone(data, again, ending):
        yield Mismatch(where="the file as a whole", claimed=digest_bytes(data), derived=digest_bytes(again))


def _changed(claimed: Sequence[tuple[str, str]], derived: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str, str]]:
    """Where two sequences of texts differ, and how; what they begin and end with alike costs no search."""
    one, other = ([text for _, text in each] for each in (claimed, derived))
    shortest = min(len(one), len(other))
    start = next((at for at in range(shortest) if one[at] != other[at]), shortest)
    tail = next((at for at in range(shortest - start) if one[-1 - at] != other[-1 - at]), shortest - start)
    one, other = one[start : len(one) - tail], other[start : len(other) - tail]
    quick = len(one) + len(other) > MAX_SEARCHED
    for kind, low, high, first, last in SequenceMatcher(None, one, other, autojunk=quick).get_opcodes():
        if kind != "equal":
            places = claimed[start + low : start + high] or derived[start + first : start + last]
            yield places[0][0], " ".join(one[low:high]) or "(nothing)", " ".join(other[first:last]) or "(nothing)"


def _differs_in_drawing_alone(data: bytes, again: bytes, ending: str) -> bool:
    """Whether a page that says that other libraries drew it is the same but for figures and colours."""
    text, derived = (each.decode("utf-8", "replace") for each in (data, again))
    named = read_about(text, ending)
    if ending != ".html" or not _others(named):
        return False
    told = read_about(derived, ending)
    alike = all(named[name] == told[name] for name in ("schema", "sources")) and named.keys() == told.keys()
    return alike and _frame(text) == _frame(derived)


def _frame(page: str) -> str:
    """A page without what libraries draw, and without their names."""
    return re.sub(r'<svg.*?</svg>| data-runs="[^"]*"|<script type="application/json".*?</script>', "", page, flags=re.S)


def _parts(data: bytes, ending: str) -> list[tuple[str, str]]:
    text = data.decode("utf-8", "replace")
    if ending == ".html":
        return pieces(text)
    return [(f"line {number}", line) for number, line in enumerate(text.splitlines(), 1)]


def result_json(mismatches: Sequence[Mismatch]) -> dict[str, Any]:
    """`gate.verify/1` of a report."""
    found = [mismatch.as_json() for mismatch in mismatches]
    return {"schema": "gate.verify/1", "ok": not mismatches, "level": "report", "mismatches": found}
