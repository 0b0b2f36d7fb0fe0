"""From what a model answered to one program: fences by lines, reasoning first, nothing repaired."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gate.extract import defines, extract_program, fenced_blocks, response_text, without_reasoning

ADD = "def add(a, b):\n    return a + b\n"
SUB = "def add(a, b):\n    return a - b\n"


def fenced(code: str, fence: str = "```", info: str = "python") -> str:
    """A program between two fences."""
    return f"{fence}{info}\n{code}{fence}\n"


@pytest.mark.parametrize(
    "text",
    [
        f"Sure!\n\n{fenced(ADD)}\nIt adds.",
        fenced(ADD, info=""),
        fenced(ADD, info=' Python {linenos="yes"}'),
        fenced(ADD, fence="~~~"),
        fenced(ADD, fence="~~~", info="a `tick`"),
        fenced(ADD, fence="``````"),
        f"```python\n{ADD}",
        f"```python\n{ADD}````   \nand so on",
        "   ```python\n   def add(a, b):\n       return a + b\n  ```\n",
        f"{fenced(ADD)}Use it so:\n{fenced('print(add(1, 2))' + chr(10))}",
        f"{fenced(SUB)}No, wrong. Rather:\n{fenced(ADD)}",
        f"{fenced(ADD)}```\n",
    ],
    ids=[
        *("prose", "bare", "info", "tildes", "ticks in info", "long", "unclosed", "longer close", "indented"),
        *("example after", "draft before", "blank after"),
    ],
)
def test_the_block_that_counts(text: str) -> None:
    """The program is the last fenced block that defines the entry point, however it is fenced."""
    assert extract_program(text, "add") == ADD


@pytest.mark.parametrize(
    "program",
    [
        'def add(a, b):\n    """Adds.\n\n    ```\n    add(1, 2)\n    ```\n    """\n    return a + b\n',
        'def add(a, b):\n    """Adds.\n\n~~~\nadd(1, 2)\n~~~\n    """\n    return a + b\n',
        'def add(a, b):\n    """Adds.\n\n```python\nadd(1, 2)\n    """\n    return a + b\n',
        "def add(a, b):\n    return a + b  # ```\n",
        "def add(a, b):\n    s = '''\n``` no fence: words follow\n'''\n    return a + b\n",
    ],
    ids=["indented by four", "other character", "with words", "within a line", "words after"],
)
def test_a_fence_in_a_program(program: str) -> None:
    """A fence in a docstring ends no block unless it is one that would end it: bare, long enough, not indented."""
    assert extract_program(f"Here:\n\n{fenced(program)}\nDone.", "add") == program


def test_a_shorter_fence_in_a_program() -> None:
    """A block that begins with four backticks holds lines of three."""
    program = 'def add(a, b):\n    """\n```\nadd(1, 2)\n```\n    """\n    return a + b\n'
    assert extract_program(fenced(program, fence="````"), "add") == program


def test_a_bare_fence_cuts() -> None:
    """What a line parser cannot know stays cut: a bare fence of the block's own kind ends it, nothing is repaired."""
    text = fenced('def add(a, b):\n    """\n```\nadd(1, 2)\n')
    assert extract_program(text, "add") == 'def add(a, b):\n    """\n'


@pytest.mark.parametrize(
    ("text", "entry_point", "program"),
    [
        (ADD, "add", ADD),
        ("I cannot do that.", "add", "I cannot do that."),
        ("", "add", ""),
        (f"{fenced('x = 1' + chr(10))}{fenced('y = 2' + chr(10))}", "add", "y = 2\n"),
        (f"{fenced(ADD)}{fenced('print(2)' + chr(10))}", None, "print(2)\n"),
        ("```python\n```\n", "add", ""),
        ("    ```\n    x\n    ```\n", "add", "    ```\n    x\n    ```\n"),
        ("```python```\nx", "add", "```python```\nx"),
        ("def add(a, b):\r\n    return a + b\r\n", "add", "def add(a, b):\r\n    return a + b\r\n"),
        ("```python\r\ndef add(a, b): ...\r\n```\r\nDone.", "add", "def add(a, b): ...\r\n"),
        ("```\nx = '\u2028```\u2028'\n```\n", "add", "x = '\u2028```\u2028'\n"),
        ("```\nx = '\ud800'\n```\n", "add", "x = '\ud800'\n"),
    ],
    ids=[
        *("no fence", "prose", "nothing", "none defines", "a program on stdin", "blank block", "indented by four"),
        *("one line", "CRLF", "CRLF fences", "other line ends", "surrogate"),
    ],
)
def test_where_nothing_defines(text: str, entry_point: str | None, program: str) -> None:
    """Without a defining block it is the last that is not blank; without any block the whole text, as it is."""
    assert extract_program(text, entry_point) == program


@pytest.mark.parametrize(
    ("line", "entry_point", "yes"),
    [
        ("def add(a, b):", "add", True),
        ("async  def add(a, b):", "add", True),
        ("def add[T](a: T) -> T:", "add", True),
        ("class Stack:", "Stack.push", True),
        ("class Stack(list):", "Stack", True),
        ("add = lambda a, b: a + b", "add", True),
        ("add: Callable[[int], int] = abs", "add", True),
        ("import os\ndef add(a): ...", "add", True),
        ("def add_all(a):", "add", False),
        ("def adds(a):", "add", False),
        ("    def add(a):", "add", False),
        ("add == 3", "add", False),
        ("print(add(1, 2))", "add", False),
        ("# def add(a):", "add", False),
        ("def push(self):", "Stack.push", False),
        ("def axb():", "a.b", False),
        ("add: int", "add", False),
    ],
)
def test_what_defines(line: str, entry_point: str, yes: bool) -> None:
    """A definition begins its line with def, class or an assignment to exactly that name; of a method, its class."""
    assert defines(line, entry_point) is yes


@pytest.mark.parametrize(
    "text",
    [
        f"<think>maybe\n{fenced(SUB)}</think>\n{fenced(ADD)}",
        f"<think>\nmaybe\n```python\n{SUB}</think>\n{fenced(ADD)}",
        f"maybe\n{fenced(SUB)}so.\n</think>\n{fenced(ADD)}",
        f"maybe\n```python\n{SUB}</think>\n{fenced(ADD)}",
        f"maybe {SUB} so.</think>{fenced(ADD)}",
        f"  <think>a</think><think>{SUB}</think>{fenced(ADD)}",
        f"Well. <think>{SUB}</think> So:\n{fenced(ADD)}",
        f"<Thinking>\n{SUB}</Thinking>\n{ADD}",
        f"{fenced(ADD)}<think>or rather\n{fenced(SUB)}",
    ],
    ids=[
        *("closed", "open fence within", "no beginning", "no beginning, open fence", "no line of its own"),
        *("twice", "within a line", "another name", "no end"),
    ],
)
def test_reasoning_is_no_answer(text: str) -> None:
    """A draft in reasoning is never the program, and no word of reasoning is kept."""
    assert extract_program(text, "add").strip() == ADD.strip()
    assert "a - b" not in without_reasoning(text)


def test_reasoning_without_an_end_is_all() -> None:
    """An answer that never stops thinking has no program."""
    assert extract_program(f"<think>so\n{fenced(ADD)}", "add") == ""


@pytest.mark.parametrize(
    "text",
    [
        fenced("import re\n\ndef strip(text):\n    return re.sub('<think>.*?</think>', '', text)\n"),
        fenced("def strip(text):\n    return text.split('</think>')[-1]\n"),
        "A program that looks for `<think>`:\n\n" + fenced("def strip(text): ...\n"),
    ],
    ids=["both in a program", "one in a program", "in prose"],
)
def test_a_tag_that_is_text(text: str) -> None:
    """A tag in a fenced program, or one in prose that nothing closes, is text."""
    assert without_reasoning(text) == text


def test_a_cut_puts_nothing_together() -> None:
    """What stands around reasoning does not become a tag or a fence by its going."""
    assert without_reasoning("<th<think>x</think>ink>\ny") == "<th\nink>\ny"
    assert list(fenced_blocks(without_reasoning("``<think>x</think>`\ny"))) == []


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"content": "a"}, "a"),
        ({"content": None, "refusal": "no"}, ""),
        ({}, ""),
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, "ab"),
        ({"content": [{"type": "thinking", "thinking": "x"}, {"type": "text", "text": "b"}]}, "b"),
        ({"content": [{"type": "reasoning", "text": "x"}, "y", None, {"type": "text", "text": 3}]}, ""),
        ({"content": "a", "reasoning": "x", "reasoning_content": "y"}, "a"),
        ({"content": 3}, ""),
        ([], ""),
    ],
)
def test_the_text_of_a_message(message: Any, text: str) -> None:
    """Text is the content, or its parts of type text; whatever else a message holds is none."""
    assert response_text(message) == text


PIECES = st.sampled_from(["<think>", "</think>", "```", "~~~", "````", "\n", "    ", " ", "x", "def add(", "python"])


@given(st.lists(PIECES, max_size=30).map("".join))
def test_nothing_is_invented(text: str) -> None:
    """Whatever comes, every line of the program stands in the answer, and nothing raises."""
    program = extract_program(text, "add")
    assert all(line in text for line in program.split("\n"))


@given(st.text(alphabet="ab \n=():", max_size=60), st.text(alphabet="ab\n", max_size=30))
def test_a_fenced_program_comes_back(program: str, prose: str) -> None:
    """A program without fences or tags comes back byte for byte out of its fence, whatever prose is around it."""
    code = f"def add():\n{program}\n"
    assert extract_program(f"{prose}\n{fenced(code)}{prose}", "add") == code


@pytest.mark.parametrize(
    "text",
    [
        "<think>" * 300_000,
        "x<think>" * 260_000,
        " " * 1_000_000 + "x<think>" * 130_000,
        "</think>" * 260_000,
        "</think>\n" * 230_000,
        "<think></think>" * 140_000,
        "```\n" * 500_000,
        "`" * 2_000_000,
        "~~~" + " " * 2_000_000 + "x",
        " " * 2_000_000,
        "```\n" + " \n" * 300_000,
        "add" + " " * 2_000_000,
        "add: " * 400_000,
        "async " * 350_000,
        "def " * 500_000,
        "def\n" * 500_000,
        "```py`" * 330_000,
    ],
    ids=range(17),
)
def test_hostile_texts_take_linear_time(text: str) -> None:
    """Two megabytes that were made to be slow take seconds, not minutes."""
    begun_s = time.process_time()
    extract_program(text, "add")
    defines(text, "add")
    assert time.process_time() - begun_s < 10
