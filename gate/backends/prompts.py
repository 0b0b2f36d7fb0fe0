"""What a model is told of a task: a system message and a user message, the latter from a template.

A template is Jinja2, run in its sandbox: it sees the names below and nothing else, no file,
no attribute of an object.

- `task`: the task's id
- `prompt`: the task's prompt, as the suite has it
- `entry_point`: what the program must define; none for a program on stdin and stdout
- `tests`: the visible tests as lines of text; empty unless they are to be shown

Hidden tests, the reference and the programs that must fail are not among them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

from gate import values
from gate.errors import SpecError
from gate.model import Call, Json, Task, Test, canonical_json

MAX_TEXT_BYTES = 1 << 20
MAX_TEST_CHARS = 2_000
MAX_TESTS_CHARS = 20_000

SYSTEM = "Answer with one complete Python program in a single ```python code block."
TEMPLATE = """\
{{ prompt }}

{% if entry_point %}
The program must define `{{ entry_point }}`.
{%- else %}
The program must read standard input and write standard output.
{%- endif %}
{% if tests %}


It must pass these tests:

{% for test in tests %}
{{ test }}{{ "" if loop.last else "\\n" }}
{%- endfor %}
{% endif %}"""

_JINJA = ImmutableSandboxedEnvironment(
    undefined=jinja2.StrictUndefined,
    autoescape=False,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompts:
    """What a model is told.

    Attributes:
        system: The system message; empty for none.
        template: The Jinja2 template of the user message.
        show_tests: Whether the template sees the visible tests.
    """

    system: str = SYSTEM
    template: str = TEMPLATE
    show_tests: bool = False

    def messages(self, task: Task) -> list[dict[str, str]]:
        """The chat that asks for a task's program.

        Raises:
            SpecError: The template is wrong, or makes nothing of this task.
        """
        system = [{"role": "system", "content": self.system}] if self.system else []
        return [*system, {"role": "user", "content": self._user(task)}]

    def _user(self, task: Task) -> str:
        names = {
            "task": task.id,
            "prompt": task.prompt,
            "entry_point": task.entry_point,
            "tests": shown_tests(task) if self.show_tests else [],
        }
        try:
            text = _JINJA.from_string(self.template).render(names)
        except jinja2.TemplateSyntaxError as exc:
            raise SpecError(f"--template: line {exc.lineno}: {exc.message}: see the Jinja2 syntax") from None
        except Exception as exc:  # a template can raise anything that an expression can
            known = ", ".join(names)
            raise SpecError(f"--template: fails for task {task.id!r}: {exc} (it may use {known})") from None
        if not text.strip() or len(text) > MAX_TEXT_BYTES:
            raise SpecError(f"--template: makes {len(text)} characters of task {task.id!r}, which is no prompt")
        return text


def read_text(path: Path, option: str) -> str:
    """The text of a file that an option names.

    Raises:
        SpecError: It cannot be read, is too long, or is no UTF-8.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_TEXT_BYTES + 1)
    except OSError as exc:
        raise SpecError(f"{option} {path}: cannot be read ({exc.strerror}): name a text file") from exc
    if len(data) > MAX_TEXT_BYTES:
        raise SpecError(f"{option} {path}: is longer than {MAX_TEXT_BYTES} bytes: name a shorter text")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise SpecError(f"{option} {path}: is no UTF-8 text: save it as UTF-8") from None


def shown_tests(task: Task) -> list[str]:
    """The visible tests as lines of text; what is too long is left out, and a last line says how much."""
    lines: list[str] = []
    room = MAX_TESTS_CHARS
    for test in task.suite.tests:
        line = test_line(task.entry_point, test)
        if len(line) <= MAX_TEST_CHARS and len(line) <= room:
            lines.append(line)
            room -= len(line)
    left_out = len(task.suite.tests) - len(lines)
    return [*lines, f"(and {left_out} more)"] if left_out else lines


def test_line(entry_point: str | None, test: Test) -> str:
    """One test in words: `add(2, 3) == 5`."""
    expect = test.expect
    if expect.kind == "stdout":
        return f"input {test.call.stdin!r} prints {expect.stdout!r}"
    call = _call_text(entry_point or "", test.call)
    if expect.kind == "raises":
        return f"{call} raises {expect.raises}"
    shown = [_value_text(value) for value in expect.values]
    return f"{call} == {shown[0]}" if len(shown) == 1 else f"{call} is one of {', '.join(shown)}"


def _call_text(entry_point: str, call: Call) -> str:
    owner, dot, method = entry_point.partition(".")
    args = [_value_text(value) for value in call.args]
    args += [f"{name}={_value_text(value)}" for name, value in call.kwargs.items()]
    return f"{owner}{'().' if dot else ''}{method}({', '.join(args)})"


def _value_text(value: Json) -> str:
    """A value as Python writes it; one that Python will not write, as the suite has it."""
    try:
        return repr(values.decode(value))
    except ValueError:
        return canonical_json(value)
