"""Recorded runs and replays to report on, made without an engine."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from golden import make

from gate import values
from gate.backends.rundir import RunDir
from gate.model import Exit, Observation, Reply, Usage
from gate.suite import suite_from_tree, task_of

# Text of everybody's making that must be shown and never obeyed.
SCRIPTS = (
    "</pre><script>document.title='owned'</script>",
    "</script><script>document.title='owned'</script>",
    "<img src=x onerror=\"document.title='owned'\">",
    "<svg/onload=document.title='owned'>",
    '"><iframe srcdoc="<script>parent.document.title=\'owned\'</script>">',
    "' onmouseover='document.title=1' x='",
    "<!-- --><style>*{display:none}</style>",
    "{{ 7 * 7 }}{% raw %}",
    "[x](javascript:document.title=1) ![y](http://127.0.0.1:9/z)",
    "javascript:document.title='owned'",
    "&lt;b&gt; &amp;",
    "\x1b[2J\x1b]0;owned\x07 \x00 \u202e\u2066 \ud800 \u2028",
)


def run_of(path: Path, pool: dict[str, list[str]], *, prompt: str = "", bank: str | None = None) -> RunDir:
    """A closed run over tasks with these draws; a program that returns 2 in its text is right.

    Each task has two visible tests and a hidden one. What a wrong program says is its own text.
    """
    trees: list[Any] = [
        {
            "version": 1,
            "task": task,
            "prompt": prompt,
            "entry_point": "f",
            "tests": [{"args": [1], "expected": 2}, {"args": ["x"], "raises": "ValueError"}],
            "hidden": [{"args": [3], "expected": 4}],
        }
        for task in pool
    ]
    tasks = [task_of(suite_from_tree(tree)) for tree in trees]
    answers = {code: looks(code) for codes in pool.values() for code in codes}
    where = make.make(path, tasks=tasks, pool=pool, answers=answers, rounds=1, derived=bank is None)
    if bank is not None:
        rename(where, bank)
    return where


def looks(code: str) -> Sequence[make.Answer]:
    """What is seen of a program: of a right one three looks, of a wrong one what it raises."""
    if "return 2" in code:
        right = seen(Reply(kind="returned", value=2), raised("ValueError", code))
        measured = seen(Reply(kind="returned", value=values.encode(4 if "right" in code else code)))
        return [right, right, measured]
    return [seen(raised("RuntimeError", code), Reply(kind="returned", value=code))]


def raised(name: str, message: str) -> Reply:
    """A reply with an exception that says something."""
    return Reply(kind="raised", types=(name, "Exception", "BaseException", "object"), message=f"{name}: {message}")


def seen(*replies: Reply) -> Observation:
    """One look at a program that answered every call."""
    usage = Usage(wall_s=0.25, cpu_s=0.125, memory_bytes=9_000_000)
    return Observation(candidate="", calls="", exit=Exit.OK, replies=replies, usage=usage, output_tail="said")


def rename(where: RunDir, bank: str) -> None:
    """Give a run's bank and model other names, with the chain made anew."""
    config = where.read_config()
    config["bank"]["name"] = bank
    config["options"]["model"] = bank
    config["options"].update({"temperature": 0.5, "max_tokens": 10, "seed": 1})
    config["source"]["spec"] = bank
    bound = make.digest_bytes(where.write_config(config))
    noted = make.noted(where)
    noted[0][1]["run"] = bound
    make.rechain(where, noted)
    make.derive_again(where)


def many(path: Path, tasks: int, draws: int = 5) -> RunDir:
    """A run over many tasks, each with as many programs of ordinary length as a pool has."""
    body = "    total = 0\n    for number in range(value):  # one after another\n        total += number * 7\n"
    pool = {
        f"many/{task}": [
            f'def f(value):\n    """Draw {draw} of {task}."""\n{body * 4}'
            f"    return {2 if draw == 4 and task % 2 else 'total'}\n"
            for draw in range(draws)
        ]
        for task in range(tasks)
    }
    return run_of(path, pool, prompt="Write f(value): what stands in the table for a value.\n" * 4)


def tampered(path: Path, old: str, new: str) -> None:
    """Change some text in a file; it must be there."""
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def written(path: Path) -> Any:
    """A JSON file, read."""
    return json.loads(path.read_bytes())
