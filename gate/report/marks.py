"""Text of other people's making, made safe to stand in Markdown or to be seen.

A report holds names and reasons that came from suites, engines and candidates. None of
them may end a line or a table cell, start markup of its own, or reach a terminal raw.
"""

from __future__ import annotations

import re

MAX_CHARS = 200

_FOLDERS = re.compile(r"(?:(?<![\w.:/-])|(?<=://))/(?:[^\s/]+/)*+(?=[^\s/])")
# An underscore inside a word is none: `none_passed` reads as it is in the source, too.
_MARKS = re.compile(r"[\\`*\[\]<>|#~&$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")

# What stands for a control character: its picture.
PICTURES = {code: 0x2400 + code for code in range(0x20) if chr(code) not in "\n\t"} | {0x7F: 0x2421}


def line(text: object) -> str:
    """The text of something as one bounded line that a terminal may show: no control characters, no lone surrogates."""
    shown = " ".join(str(text).split())[:MAX_CHARS]
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in shown)


def plain(text: object) -> str:
    """The text of something as it stands, with all that Markdown or HTML would read as a mark escaped."""
    return _MARKS.sub(r"\\\g<0>", line(text))


def code(text: object) -> str:
    """The text of something as a code span, in which nothing but a backtick could end it."""
    return "`" + (line(text).replace("`", "'") or " ") + "`"


def without_folders(text: str) -> str:
    """Some text with absolute paths cut to their last part; a report says nothing of the machine it was made on."""
    return _FOLDERS.sub("", text)


def cell(text: str) -> str:
    """Some text for a table cell."""
    return plain(text) or "(none)"


def visible(text: object) -> str:
    """Some text with every character that would not show, or would move others about, as one that shows."""
    shown = str(text).translate(PICTURES)
    if shown.isprintable():
        return shown
    return "".join(char if char.isprintable() or char in "\n\t" else _spelled(char) for char in shown)


def _spelled(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")
