"""Candidates from a program of the user's own: what it is told, and what each way to end comes to."""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
from pathlib import Path
from typing import Any

import anyio
import pytest

from gate.backends import command as module
from gate.backends.command import CommandSource, command_words
from gate.backends.prompts import Prompts
from gate.errors import FatalSourceError, SourceError, SpecError
from gate.model import Candidate, Task
from gate.suite import load_suite, task_of

ADD = "def add(a, b):\n    return a + b\n"
SUITE = {
    "version": 1,
    "task": "t",
    "prompt": "Add.",
    "entry_point": "add",
    "tests": [{"args": [2, 3], "expected": 5}],
    "hidden": [{"args": [111, 222], "expected": 333}],
}


def task() -> Task:
    return task_of(load_suite(json.dumps(SUITE).encode(), "s.json"))


def program(tmp_path: Path, text: str) -> str:
    """A command that runs a Python text."""
    (tmp_path / "generate.py").write_text(text)
    return f"{shlex.quote(sys.executable)} -S {shlex.quote(str(tmp_path / 'generate.py'))}"


async def draw(command: str, index: int = 0, **options: Any) -> Candidate:
    return await CommandSource(command, **options).draw(task(), index)


async def test_a_program_draws(tmp_path: Path) -> None:
    """What the command prints is an answer like a model's: the block that counts is the program."""
    candidate = await draw(program(tmp_path, f"print('''Sure!\n```python\n{ADD}```''')"), 2, seed=40)
    assert (candidate.index, candidate.code) == (2, ADD)
    assert candidate.origin["seed"] == 42 and candidate.origin["response"].startswith("Sure!")


async def test_what_it_is_told(tmp_path: Path) -> None:
    """The request has the task, the draw, its seed, the chat, and the visible tests where they are to be shown."""
    echo = program(tmp_path, "import sys; print(sys.stdin.read())")
    told = json.loads((await draw(echo, 3, seed=7, prompts=Prompts(show_tests=True))).origin["response"])
    messages = told.pop("messages")
    assert told == {
        "schema": "gate.draw/1",
        "task": "t",
        "index": 3,
        "seed": 10,
        "prompt": "Add.",
        "entry_point": "add",
        "tests": ["add(2, 3) == 5"],
    }
    assert [each["role"] for each in messages] == ["system", "user"] and "add(2, 3)" in messages[1]["content"]
    untold = (await draw(echo)).origin["response"]
    assert json.loads(untold)["tests"] == [] and "111" not in untold


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("", "empty"),
        ("print()", "empty"),
        ("print('<think>hm')", "empty"),
        ("print('x' * (2 << 20))", "too_large"),
        ("import sys\nwhile True: sys.stdout.write('x' * 65536)", "too_large"),
    ],
)
async def test_no_program_is_a_draw_used_up(tmp_path: Path, text: str, missing: str) -> None:
    """Nothing printed, or a flood, is an empty candidate that says why; the flood is cut off."""
    candidate = await draw(program(tmp_path, text), timeout_s=60)
    assert (candidate.code, candidate.origin["missing"]) == ("", missing)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import sys; print('no key\\x1b[31m', file=sys.stderr); sys.exit(3)", r"ended with status 3 \(no key \[31m\)"),
        ("import sys; sys.exit(1)", r"status 1 \(no word on standard error\)"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "status -9"),
        ("import time; time.sleep(60)", "did not end within 1 s"),
        ("import sys, time; sys.stdout.close(); import os; os.close(1); time.sleep(60)", "did not end within 1 s"),
    ],
)
async def test_a_failure_uses_up_no_draw(tmp_path: Path, text: str, words: str) -> None:
    """Another status, or no end in time, is our world failing: one sentence, and no candidate."""
    begun_s = time.monotonic()
    with pytest.raises(SourceError, match=words) as caught:
        await draw(program(tmp_path, text), timeout_s=1 if "sleep" in text else 60)
    assert not isinstance(caught.value, FatalSourceError)
    assert time.monotonic() - begun_s < 30


async def test_what_it_has_started_is_killed_with_it(tmp_path: Path) -> None:
    """A child that outlives the program, or holds its output open, does not outlive the draw."""
    text = "import subprocess, sys\np = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(300)'])\n"
    text += f"open({str(tmp_path / 'pid')!r}, 'w').write(str(p.pid))\n"
    with pytest.raises(SourceError, match="did not end"):
        await draw(program(tmp_path, text), timeout_s=3)
    pid = int((tmp_path / "pid").read_text())
    for _ in range(100):
        if not alive(pid):
            break
        await anyio.sleep(0.05)
    assert not alive(pid)


def alive(pid: int) -> bool:
    """Whether a process runs; one that nobody has waited for does not."""
    try:
        return " Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


async def test_it_need_not_read(tmp_path: Path) -> None:
    """A program that leaves its input unread is served all the same."""
    text = f"import os; os.close(0); print({ADD!r})"
    assert (await draw(program(tmp_path, text), prompts=Prompts(system="x" * 500_000))).code.startswith("def add")


async def test_its_words_show_no_key(tmp_path: Path) -> None:
    """A program that prints the key finds no echo, neither in its failure nor in what is kept."""
    key = "sk-test-0123456789"
    with pytest.raises(SourceError) as caught:
        await draw(program(tmp_path, f"import sys; sys.exit('bad key {key}')"), secrets=(key,))
    assert "[key]" in str(caught.value) and key not in str(caught.value)
    kept = await draw(program(tmp_path, f"print('# {key}')"), secrets=(key,))
    assert key not in kept.code + str(kept.origin)


async def test_processes_are_bounded(tmp_path: Path) -> None:
    """No more of them run at a time than was said."""
    text = (
        "import os, sys, time\n"
        f"f = {str(tmp_path)!r} + '/' + str(os.getpid()) + '.now'\n"
        f"open(f, 'w'); time.sleep(0.1); print(len([x for x in os.listdir({str(tmp_path)!r}) if x.endswith('.now')]))\n"
        "os.remove(f)\n"
    )
    source = CommandSource(program(tmp_path, text), max_connections=2)
    seen: list[int] = []

    async def one(index: int) -> None:
        seen.append(int((await source.draw(task(), index)).code))

    async with anyio.create_task_group() as group:
        for index in range(6):
            group.start_soon(one, index)
    assert len(seen) == 6 and max(seen) <= 2


async def test_a_draw_can_be_cancelled(tmp_path: Path) -> None:
    """A draw that is cancelled leaves no process behind."""
    text = f"import os, time; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep(300)"
    with anyio.move_on_after(2) as scope:
        await draw(program(tmp_path, text))
    assert scope.cancelled_caught
    assert not alive(int((tmp_path / "pid").read_text()))


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("no-such-program x", "'no-such-program' is no program"),
        ("", "nothing is no program"),
        ("'a", "cannot be split"),
    ],
)
def test_a_command_that_is_none(command: str, words: str) -> None:
    """What cannot be started is a usage error before anything is drawn."""
    with pytest.raises(SpecError, match=words):
        CommandSource(command)


def test_no_shell(tmp_path: Path) -> None:
    """Words are split as a shell would, and nothing in them is carried out."""
    assert command_words(f"{sys.executable} 'a b' $(id) ; x") == [sys.executable, "a b", "$(id)", ";", "x"]
    assert os.path.isabs(command_words("env x")[0])


def test_the_digest_is_of_what_it_is_told() -> None:
    """Another command, seed, prompt or prelude is another source; another time limit is not."""
    base = CommandSource("env a").digest
    assert CommandSource("env  a", timeout_s=3, max_connections=1).digest == base
    others = [CommandSource("env b"), CommandSource("env a", seed=1), CommandSource("env a", prelude="typing")]
    others.append(CommandSource("env a", prompts=Prompts(show_tests=True)))
    assert len({base, *(each.digest for each in others)}) == 5
    assert CommandSource("env a").task_ids() == {}
    assert module.MAX_OUTPUT_BYTES >= 4 << 20
