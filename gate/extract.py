"""From what a model answered to one program, by lines; nothing is repaired and nothing is parsed as Python.

Reasoning goes first. `<think>` begins it where the tag opens its line, or where a
`</think>` follows anywhere; it ends with the next `</think>`, or with the text. A
`</think>` without a beginning (some servers swallow it) makes reasoning of all before it.
Inside a fenced block a tag is a program's text, save a `</think>` alone on its line and
without a beginning: that block was a draft.

Then the fences, as CommonMark has them: three or more backticks or tildes, indented by at
most three spaces, with any words after them; that indentation is taken off the block's
lines. A block ends only at a line that is a fence and nothing else, of the same character
and at least as long, or with the text. So a fence in a docstring stays text where it is
indented by four, shorter than the block's own, or of the other character.

Which block counts: the last that has a line defining the entry point, else the last that
is not blank; where nothing is fenced, the whole text.

What many prompts take for granted can be put before a program (a prelude): names of `typing`,
on one line. A program that has a line `from __future__ import …`, which must stay first, is
left as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from gate.model import Json

Prelude = Literal["typing"]
PRELUDES: dict[Prelude, str] = {
    "typing": (
        "from typing import Any, Callable, DefaultDict, Deque, Dict, FrozenSet, Generator, Iterable, Iterator, List,"
        " Mapping, Optional, Sequence, Set, Tuple, Type, TypeVar, Union\n"
    )
}

# Possessive throughout: a text that was made to be slow takes linear time.
_OPENING = re.compile(r"( {0,3})(?:(`{3,}+)[^`\n]*+|(~{3,}+)[^\n]*+)(?:\n|\Z)")
_CLOSING = re.compile(r" {0,3}(`{3,}+|~{3,}+)[ \t]*+\r?(?:\n|\Z)")
_TAG = re.compile(r"<(/?)think(?:ing)?>", re.IGNORECASE)
_END_ALONE = re.compile(r"[ \t]*+</think(?:ing)?>[ \t]*+\r?(?:\n|\Z)", re.IGNORECASE)
_FUTURE = re.compile(r"^[ \t]*+from[ \t]++__future__[ \t]", re.MULTILINE)
_BLANKS = re.compile(r"[ \t]*+")


@dataclass(frozen=True, slots=True)
class _Fence:
    """The line that opened a block: its fence, and how many spaces stand before it."""

    mark: str
    indent: int


def response_text(message: Json) -> str:
    """The text of a chat message: its content, or the parts of it that are of type text, joined.

    Fields beside the content (reasoning, refusals, tool calls) and parts of other types
    are none of it. What has no text gives the empty text.
    """
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = (part.get("text") for part in parts if isinstance(part, dict) and part.get("type") == "text")
    return "".join(text for text in texts if isinstance(text, str))


def extract_program(text: str, entry_point: str | None) -> str:
    """The program in an answer, by the rules above; empty where there is none.

    Args:
        text: The answer, reasoning and all.
        entry_point: `name` or `Class.method`; None for a program on stdin and stdout.
    """
    answer = without_reasoning(text)
    blocks = list(fenced_blocks(answer))
    if not blocks:
        return answer
    filled = [block for block in blocks if block.strip()]
    defining = [block for block in filled if entry_point is not None and defines(block, entry_point)]
    return (defining or filled or blocks)[-1]


def defines(program: str, entry_point: str) -> bool:
    """Whether a line of it begins to define the entry point: a function, a class or a plain assignment.

    Of `Class.method` it is the class. By the line's text alone, so a line within a
    docstring counts as well.
    """
    name = re.escape(entry_point.partition(".")[0])
    line = rf"^(?:(?:async[ \t]++)?+def[ \t]++{name}(?!\w)|class[ \t]++{name}(?!\w)|{name}[ \t]*+(?::[^=\n]*+)?+=(?!=))"
    return re.search(line, program, re.MULTILINE) is not None


def with_prelude(program: str, prelude: Prelude | None) -> str:
    """A program after the prelude of that name; as it is where there is none, or it has none to run."""
    if prelude is None or not program.strip() or _FUTURE.search(program):
        return program
    mark = "\ufeff" if program.startswith("\ufeff") else ""
    return mark + PRELUDES[prelude] + program.removeprefix(mark)


def fenced_blocks(text: str) -> Iterator[str]:
    """The content of each fenced block, in order."""
    fence: _Fence | None = None
    lines: list[str] = []
    for start, end in _line_spans(text):
        if fence is None:
            fence, lines = _opened(text, start, end), []
        elif _closes(fence, text, start, end):
            yield "".join(lines)
            fence = None
        else:
            lines.append(_unindented(text[start:end], fence.indent))
    if fence is not None:
        yield "".join(lines)


def without_reasoning(text: str) -> str:
    """The text without what stands between `<think>` and `</think>`, by the rules above."""
    kept: list[str] = []
    begin: int | None = 0  # where the answer that is being read began; None within reasoning
    fence: _Fence | None = None
    last_end = max((tag.start() for tag in _TAG.finditer(text) if tag[1]), default=-1)
    for start, end in _line_spans(text):
        if fence is not None:
            if _END_ALONE.match(text, start, end):
                kept, begin, fence = [], end, None
            elif _closes(fence, text, start, end):
                fence = None
            continue
        fence = _opened(text, start, end) if begin is not None else None
        if fence is not None:
            continue
        first = _first(text, start, end)
        for tag in _TAG.finditer(text, start, end):
            if tag[1]:
                kept, begin = [] if begin is not None else kept, tag.end()
            elif begin is not None and (tag.start() < last_end or tag.start() == first):
                kept.append(text[begin : tag.start()])
                begin = None
        if begin is not None and begin > start:
            fence = _opened(text, begin, end)
    return _joined(kept) + ("" if begin is None else text[begin:])


def _joined(kept: list[str]) -> str:
    """Pieces of an answer, each on lines of its own, so that no cut puts a new tag or fence together."""
    return "".join(piece if not piece or piece.endswith("\n") else piece + "\n" for piece in kept)


def _line_spans(text: str) -> Iterator[tuple[int, int]]:
    """Where each line begins and ends; only a line feed ends one."""
    start = 0
    while start < len(text):
        end = text.find("\n", start) + 1 or len(text)
        yield start, end
        start = end


def _first(text: str, start: int, end: int) -> int:
    """Where the first character of a line stands that is not blank."""
    found = _BLANKS.match(text, start, end)
    return start if found is None else found.end()


def _opened(text: str, start: int, end: int) -> _Fence | None:
    """The fence that a line opens, if it opens one."""
    found = _OPENING.match(text, start, end)
    return None if found is None else _Fence(found[2] or found[3], len(found[1]))


def _closes(fence: _Fence, text: str, start: int, end: int) -> bool:
    """Whether a line closes the block that a fence opened."""
    found = _CLOSING.match(text, start, end)
    return found is not None and found[1].startswith(fence.mark)


def _unindented(line: str, indent: int) -> str:
    """A line without its first spaces, at most as many as the fence was indented by."""
    return line[min(indent, len(line) - len(line.lstrip(" "))) :]
