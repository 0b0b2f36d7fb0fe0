"""What a report says of where it comes from, so that it can be derived again."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from html import unescape
from importlib.metadata import version

from gate.model import Json
from gate.report.content import Report

MARK = "<!-- gate-report "

Places = Sequence[str]  # where each source lies, as seen from the report


LIBRARIES = ("acceptance-gate", "markdown-it-py", "matplotlib", "pygments")


def libraries() -> dict[str, Json]:
    """What draws a page, by version: other versions may write the same content in other bytes."""
    return {name: version(name) for name in LIBRARIES}


def about(report: Report, places: Places, *, drawn: bool = False) -> dict[str, Json]:
    """What a report says of where it comes from, so that it can be derived again.

    Args:
        drawn: Whether it has figures, which other versions of the libraries draw in other bytes.
    """
    return {
        "schema": "gate.page/1",
        "sources": [
            {"kind": source.kind, "bank": source.bank, "head": source.head, "at": at}
            for source, at in zip(report.sources, places, strict=True)
        ],
        **({"libraries": libraries()} if drawn else {}),
    }


def read_about(text: str, suffix: str) -> Json:
    """What a report in some format says of where it comes from; None where it does not say."""
    found: Json = None
    try:
        if suffix == ".html":
            match = re.search(r'<script type="application/json" id="gate-report">(.*?)</script>', text, re.DOTALL)
            found = json.loads(match[1]) if match else None
        elif suffix == ".md":
            match = re.search(rf"^{MARK}(.*) -->$", text, re.MULTILINE)
            found = json.loads(match[1]) if match else None
        elif suffix == ".json":
            found = json.loads(text)["about"]
        elif suffix == ".xml":
            match = re.search(r'<property name="gate-report" value="([^"]*)"', text)
            found = json.loads(unescape(match[1])) if match else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
