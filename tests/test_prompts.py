"""What a model is told: the default words, templates in their sandbox, visible tests on demand, hidden ones never."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gate.backends import prompts
from gate.backends.prompts import Prompts, read_text, shown_tests
from gate.errors import SpecError
from gate.model import Task
from gate.suite import load_suite, task_of


def task(prompt: str = "Write add(a, b).", entry_point: str | None = "add", **more: Any) -> Task:
    tests = [{"args": [2, 3], "expected": 5}] if entry_point else [{"stdin": "3\n", "stdout": "6\n"}]
    suite = {"version": 1, "task": "t", "prompt": prompt, "tests": tests, **more}
    if entry_point:
        suite["entry_point"] = entry_point
    return task_of(load_suite(json.dumps(suite).encode(), "s.json"))


def user(told: Prompts, about: Task) -> str:
    return told.messages(about)[-1]["content"]


def test_the_default_words() -> None:
    """A function is asked for by its name, a program by what it reads and writes."""
    assert user(Prompts(), task()) == "Write add(a, b).\n\nThe program must define `add`."
    assert user(Prompts(), task("Double.", None)) == (
        "Double.\n\nThe program must read standard input and write standard output."
    )
    assert [each["role"] for each in Prompts().messages(task())] == ["system", "user"]


def test_a_prompt_is_taken_as_it_is() -> None:
    """Braces, markup and template words in a task's prompt stay text, and its blanks stay."""
    text = "  Use {{ 7 * 7 }} and {% raw %} and <b> & {entry_point}.\n\n"
    assert user(Prompts(template="{{ prompt }}"), task(text)) == text


def test_no_system_message() -> None:
    """An empty system message is none."""
    assert Prompts(system="", template="{{ task }}").messages(task()) == [{"role": "user", "content": "t"}]


def test_visible_tests_are_shown_on_demand() -> None:
    """With show_tests the visible tests stand below the prompt; without, the template sees none."""
    tests = [{"args": [2, 3], "expected": 5}, {"args": [0, 0], "expected": 0}]
    about = task(tests=tests)
    shown = user(Prompts(show_tests=True), about)
    assert shown == (
        "Write add(a, b).\n\nThe program must define `add`.\n\n"
        "It must pass these tests:\n\nadd(2, 3) == 5\nadd(0, 0) == 0"
    )
    assert "add(2, 3)" not in user(Prompts(), about)
    assert user(Prompts(template="{{ tests|length }}."), about) == "0."


def test_hidden_tests_and_references_are_never_shown() -> None:
    """Whatever is asked for, what measures stays out."""
    about = task(hidden=[{"args": [111, 222], "expected": 333}], reference="def add(a, b): return 444")
    told = Prompts(template="{{ task }}{{ prompt }}{{ entry_point }}{{ tests }}", show_tests=True).messages(about)
    assert "111" not in str(told) and "444" not in str(told)


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"args": [2], "kwargs": {"b": 3}, "expected": 5}, "add(2, b=3) == 5"),
        ({"args": [2], "any_of": [1, 2]}, "add(2) is one of 1, 2"),
        ({"args": ["x"], "raises": "ValueError"}, "add('x') raises ValueError"),
        ({"args": [{"$tuple": [1, {"$float": "inf"}]}], "expected": {"$set": [1]}}, "add((1, inf)) == {1}"),
        ({"args": [], "expected": {"$int": "0x" + "f" * 5000}}, 'add() == {"$int":"0x' + "f" * 5000 + '"}'),
    ],
)
def test_a_test_in_words(fields: dict[str, Any], line: str) -> None:
    """Calls are written as Python writes them; what Python will not write, as the suite has it."""
    assert prompts.test_line("add", task(tests=[fields]).suite.tests[0]) == line


def test_methods_and_programs_in_words() -> None:
    """A method is called on a fresh object, and a program has input and output."""
    about = task(entry_point="Stack.push")
    assert prompts.test_line("Stack.push", about.suite.tests[0]) == "Stack().push(2, 3) == 5"
    assert prompts.test_line(None, task(entry_point=None).suite.tests[0]) == "input '3\\n' prints '6\\n'"


def test_long_tests_are_left_out_and_counted() -> None:
    """A test of a megabyte does not go into a prompt, and the prompt says that there are more."""
    tests = [{"args": ["x" * 10_000], "expected": 1}, {"args": [1], "expected": 2}]
    assert shown_tests(task(tests=tests)) == ["add(1) == 2", "(and 1 more)"]
    many = [{"args": ["y" * 1500, number], "expected": 1} for number in range(30)]
    assert sum(map(len, shown_tests(task(tests=many)))) <= prompts.MAX_TESTS_CHARS + 20


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{% if %}", "line 1"),
        ("a\n{{ prompt", "line 2"),
        ("{{ hidden }}", "'hidden' is undefined"),
        ("{{ suite.reference }}", "'suite' is undefined"),
        ("{{ prompt.__class__.__mro__ }}", "unsafe"),
        ("{{ ''.__class__.__base__.__subclasses__() }}", "unsafe"),
        ("{{ '%s'.__init__.__globals__ }}", "unsafe"),
        ("{% include '/etc/passwd' %}", "--template"),
        ("{% import 'os' as os %}", "--template"),
        ("{{ 1 / 0 }}", "division"),
        ("{% for i in range(10 ** 9) %}x{% endfor %}", "Range too big"),
        ("{{ tests.append(1) }}", "unsafe"),
        ("", "which is no prompt"),
        ("  \n", "which is no prompt"),
        ("{% for i in range(99999) %}0123456789abcdef{% endfor %}", "which is no prompt"),
    ],
)
def test_a_template_that_is_wrong_says_so(template: str, words: str) -> None:
    """A template that fails, escapes its sandbox or makes no prompt is a usage error."""
    with pytest.raises(SpecError, match="--template") as caught:
        Prompts(template=template).messages(task())
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_texts_are_read_as_utf8(tmp_path: Path) -> None:
    """A file's text as it is, without a byte order mark; what is none says so."""
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfd\xc3\xa9j\xc3\xa0\n")
    assert read_text(tmp_path / "a.txt", "--system") == "déjà\n"
    (tmp_path / "b.txt").write_bytes(b"\xff")
    (tmp_path / "c.txt").write_bytes(b"x" * (prompts.MAX_TEXT_BYTES + 1))
    wrong = {"b.txt": "no UTF-8", "c.txt": "longer", "none": "cannot be read", ".": "cannot be read"}
    for name, words in wrong.items():
        with pytest.raises(SpecError, match=f"--system .*{words}"):
            read_text(tmp_path / name, "--system")
