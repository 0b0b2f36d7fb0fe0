"""The shares that a report's text states beside their counts, reckoned again: no record is needed for that."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gate.stats import wilson

# "116 of 157 (73.9 %)", and in a table "107 / 157 | 68.15 % [60.51, 74.93]"; without its interval
# a percentage in the next column may be another count's.
SHARES = (
    re.compile(r"(?<![\d./])(\d{1,9}) of (\d{1,9}) \((\d{1,3}\.\d{1,9}) %\)"),
    re.compile(
        r"(?<![\d./])(\d{1,9}) / (\d{1,9}) (?:\| )?(\d{1,3}\.\d{1,9}) % \[(\d{1,3}\.\d{1,9}), (\d{1,3}\.\d{1,9})\]"
    ),
)


def wrong_shares(text: str) -> Iterator[tuple[str, str]]:
    """Each share that its own counts do not give, as the text has it and as they give it.

    Args:
        text: Markdown, or the texts of a page with one blank between them.
    """
    for share in SHARES:
        for match in share.finditer(text):
            derived = _derived(match)
            if derived != match[0]:
                yield match[0], derived


def _derived(match: re.Match[str]) -> str:
    """The words of a share, with the figures that its counts give."""
    part, whole = int(match[1]), int(match[2])
    if part > whole or not whole:
        return "a part of a whole"
    words = match[0]
    figures = (part / whole, *wilson(part, whole))[: len(match.groups()) - 2]
    for group, figure in reversed(list(enumerate(figures, 3))):
        start, end = (at - match.start() for at in match.span(group))
        digits = len(match[group].partition(".")[2])
        words = f"{words[:start]}{100 * figure:.{digits}f}{words[end:]}"
    return words
