"""Examples are read out of prompts as text, whatever stands around them; nothing is evaluated, and no text hurts."""

from __future__ import annotations

import time
from typing import Any

import pytest

from gate.examples import call_examples, printed_in

READ: tuple[tuple[str, Any, Any], ...] = (
    (">>> f(1)\n2", (1,), 2),
    ("    >>> f(1, 'a')\n    [1, 2]", (1, "a"), [1, 2]),
    ("f(1) == 2", (1,), 2),
    ("assert f([1, 2]) == (1, 2)", ([1, 2],), (1, 2)),
    ("f(1)->2", (1,), 2),
    ("f(1) ==> 2", (1,), 2),
    ("f(1) ➞ 2", (1,), 2),
    ("f(1) should return 2", (1,), 2),
    ("f(1) returns `2`", (1,), 2),
    ("f(1) # => 2", (1,), 2),
    ("g(1) == 2", (1,), 2),
    ("Box().f(1) == 2", (1,), 2),
    ("[3, 1] => 2", ([3, 1],), 2),
    ("For s = 'ab', n = 2 the result should be 'abab'", ("ab", 2), "abab"),
    ("Input: [4, 2]\nOutput: [2, 1]", ([4, 2],), [2, 1]),
    ("f(-1.5e3) == -.5", (-1500.0,), -0.5),
    ("f({'a': [1], 2: None}) == {1, 2}", ({"a": [1], 2: None},), {1, 2}),
    ("f(set(), frozenset([1])) == ()", (set(), frozenset([1])), ()),
    ("f(float('inf')) == (1,)", (float("inf"),), (1,)),
    ("f(true, null) => False", (True, None), False),
    (r"f('a\n\x41\u00e9\'') == r'\n'", ("a\nAé'",), r"\n"),
    ('f("""a\n"b""") == 1_000', ('a\n"b',), 1000),
    (">>> f([])\n\n>>> g(1)\n2", ([],), None),
    ("f(\n  1,\n  2,\n)\n== 3", (1, 2), 3),
)
NOT_READ = (
    "f(x) == 2",
    "f(1",
    "f(1) is quick",
    "f(1 + 1) == 2",
    "f(*a) == 2",
    "f(__import__('os').getcwd()) == 1",
    "f(1) == open('x')",
    "f({[]: 1}) == 1",
    "f({1: 2, 3}) == 1",
    "f(k=1, 2) == 1",
    "f(" + "[" * 60 + "]" * 60 + ") == 1",
    "f(" + "9" * 5000 + ") == 1",
    "1 1",
)
ATTACKS = {
    "brackets": "f(" + "[" * 250_000,
    "calls": "f(" * 130_000,
    "values": "f([" + "1," * 130_000,
    "quotes": 'f("' * 87_000,
    "backslashes": 'f("' + "\\" * 250_000,
    "blanks": " " * 250_000 + "f(1)",
    "blank lines": "f(1)\n" * 100 + "\n" * 250_000,
    "glue": "f(1)" + " is" * 80_000,
    "lines": "1,\n" * 80_000,
    "traceback": "f(1)\nTraceback (most recent call last):\n" + "...\n" * 60_000,
    "names": "a." * 130_000,
    "labels": "Input: " * 30_000,
    "sets": "f(set({" * 30_000,
}


def test_a_character_in_two_escapes_is_one() -> None:
    """Prompts that were JSON write a character beyond the first plane as the escapes of its halves."""
    (found,) = call_examples(r'f("\ud83d\ude00", "\ud83d") == 1')
    assert found.args == ("\U0001f600", "\ud83d")


@pytest.mark.parametrize(("prompt", "args", "value"), READ)
def test_an_example_is_read(prompt: str, args: tuple[Any, ...], value: Any) -> None:
    """A doctest, an assertion, an arrow or a sentence tells a call and its answer."""
    first = next(call_examples(prompt))
    assert (first.args, first.kwargs, first.value, first.raises) == (args, {}, value, None)
    assert type(first.value) is type(value)


@pytest.mark.parametrize("prompt", NOT_READ)
def test_what_is_no_plain_example_is_none(prompt: str) -> None:
    """An expression, a name or half a call tells nothing, and nothing of it is evaluated."""
    assert list(call_examples(prompt)) == []


def test_keywords_are_read() -> None:
    """Keyword arguments come with their names."""
    (first,) = call_examples("f(1, key = 'a', other=[2]) == 3")
    assert (first.args, first.kwargs) == ((1,), {"key": "a", "other": [2]})


@pytest.mark.parametrize(
    "prompt",
    [
        ">>> f(1)\nTraceback (most recent call last):\n    ...\nValueError: no",
        ">>> f(1)\nTraceback (most recent call last):\nValueError",
        "f(1) raises a ValueError",
        "f(1) should raise ValueError",
    ],
)
def test_an_exception_is_read(prompt: str) -> None:
    """A traceback, or a sentence, tells which built-in exception is raised."""
    (first,) = call_examples(prompt)
    assert first.raises == "ValueError"


@pytest.mark.parametrize("name", ATTACKS)
def test_no_prompt_takes_long(name: str) -> None:
    """Work in one prompt is bounded, however it is written; by itself each takes a few tenths of a second."""
    begun = time.process_time()
    list(call_examples(ATTACKS[name]))
    printed_in(ATTACKS[name], [("3", "6")] * 3)
    assert time.process_time() - begun < 5


@pytest.mark.parametrize(
    "prompt",
    [
        "Input\n2 3\nOutput\n5\n",
        "-----Sample Input-----\n\n2 3\n\n-----Sample Output-----\n5",
        "Sample Input 1:\n```\n2 3\n```\nSample Output 1:\n```\n5\n```",
        "Input: 2 3\nOutput: 5",
        "## Example 1\n**Input**\n  2 3\n**Output**\n  5  ",
    ],
)
def test_a_run_that_stands_in_a_prompt_is_found(prompt: str) -> None:
    """The lines of the input and then those of the output, whatever labels and fences stand between."""
    assert printed_in(prompt, [("2 3\n", "5\n"), ("2 3\n", "6\n"), ("3\n", "5\n"), ("", "")]) == [
        True,
        False,
        False,
        False,
    ]


def test_lines_far_apart_are_no_run() -> None:
    """An output that stands somewhere else in the text is not that of the input."""
    assert printed_in("2 3\n" + "words\n" * 9 + "5\n", [("2 3", "5")]) == [False]
