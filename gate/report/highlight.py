"""Where the words of a program begin and end, and of which kind they are, for a page to colour."""

from __future__ import annotations

from functools import cache
from typing import Any

MAX_CHARS = 20_000  # of a longer program the rest stays plain

_KINDS = (
    ("Token.Comment", "c"),
    ("Token.Keyword", "k"),
    ("Token.Literal.String", "s"),
    ("Token.Literal.Number", "n"),
    ("Token.Name.Function", "f"),
    ("Token.Name.Class", "f"),
    ("Token.Operator.Word", "k"),
)


def runs(code: str) -> str:
    """The kinds of a program's words as run lengths: `3k1 4f` is three characters of a keyword, one plain, …

    Lengths are of UTF-16 units, as a page's script counts them. By pygments, whose lexer
    reads any text, valid or not.
    """
    from pygments.token import string_to_tokentype

    kinds = [(string_to_tokentype(name.removeprefix("Token.")), letter) for name, letter in _KINDS]
    found: list[tuple[int, str]] = []
    for kind, text in _lexer().get_tokens(code[:MAX_CHARS]):
        letter = next((letter for parent, letter in kinds if kind in parent), " ")
        length = len(text.encode("utf-16-le", "surrogatepass")) // 2
        if found and found[-1][1] == letter:
            found[-1] = (found[-1][0] + length, letter)
        else:
            found.append((length, letter))
    return "".join(f"{length}{letter}" for length, letter in found).rstrip(" 0123456789")


@cache
def _lexer() -> Any:
    from pygments.lexers.python import PythonLexer

    return PythonLexer(ensurenl=False, stripnl=False)
