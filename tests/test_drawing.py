"""A whole run against a scripted server that fails in every way: the same decisions, no draw lost or doubled.

The server's own log is what counts. The sandbox only pretends (`scripted_gate.py`), so that
hundreds of tasks take seconds; real containers stand behind `test_run_openai.py`.
"""

from __future__ import annotations

import base64
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from fake_openai import FakeOpenAI, Request, Step, completion, error

ROOT = Path(__file__).resolve().parent
KEY = "sk-test-0123456789abcdefghijklmnop"
RIGHT = "```python\ndef {name}(x):\n    return x + 1\n```"
WRONG = "```python\ndef {name}(x):\n    return x - 1  # {index}\n```"
SEED = 700
SLOW_S = 3.0  # a loaded machine is slow, not wrong: an honest answer must come in time
NAME = re.compile(r"Write (t\d+)\(x\)")

FAULTS: dict[str, Step] = {
    "429": error(429),
    "429 with Retry-After": error(429, headers={"Retry-After": "0.2"}),
    "500": error(500),
    "503": Step(status=503, body=b"<html>busy</html>"),
    "cut body": replace(completion(RIGHT), cut=True),
    "slow": replace(completion(RIGHT), wait_s=2 * SLOW_S),
    "malformed JSON": Step(body=b'{"choices": [{"message"'),
    "empty choices": Step(body={"choices": []}),
}


def bank_of(tasks: int, path: Path) -> Path:
    """A bank of tasks that differ in nothing but their names."""
    with path.open("w") as file:
        for number in range(tasks):
            name = f"t{number:03}"
            suite = {
                "version": 1,
                "task": name,
                "prompt": f"Write {name}(x): one more than x.",
                "entry_point": name,
                "tests": [{"args": [1], "expected": 2}, {"args": [5], "expected": 6}],
            }
            file.write(json.dumps(suite) + "\n")
    return path


def draw_of(request: Request) -> tuple[str, int]:
    """Which draw a request is for: the task by its prompt, the index by its seed."""
    found = NAME.search(request.body["messages"][-1]["content"])
    assert found is not None
    return found[1], request.body["seed"] - SEED


def right_index(task: str) -> int:
    """The first draw of a task that is right; 5 for none."""
    return random.Random(task).choice([0, 0, 1, 2, 3, 4, 5])


def honest(request: Request) -> Step:
    """The answer of a server that never fails."""
    task, index = draw_of(request)
    text = RIGHT if index == right_index(task) else WRONG
    return replace(completion(text.format(name=task, index=index)), name="answer")


class Faulty:
    """Answers honestly after some faults, so many of each sort, spread over the draws by chance."""

    def __init__(self, each: int, draws: list[tuple[str, int]], seed: int = 1) -> None:
        chance = random.Random(seed)
        self._left: dict[tuple[str, int], list[str]] = {}
        for name in FAULTS:
            for draw in chance.sample(draws, each):
                self._left.setdefault(draw, []).append(name)

    def __call__(self, request: Request) -> Step:
        left = self._left.get(draw_of(request), [])
        if not left:
            return honest(request)
        name = left.pop()
        return replace(FAULTS[name], name=name)


def all_draws(tasks: int) -> list[tuple[str, int]]:
    """Every draw that a run of so many tasks makes."""
    names = [f"t{number:03}" for number in range(tasks)]
    return [(name, index) for name in names for index in range(min(5, right_index(name) + 1))]


def command(server: FakeOpenAI, bank: Path, out: Path, *more: str) -> list[str]:
    """`gate run`, begun or taken up."""
    how = ["--resume", str(out)] if out.exists() else [str(bank), "--source", "openai", "--out", str(out)]
    where = [] if out.exists() else ["--model", "stub", "--base-url", server.url, "--seed", str(SEED)]
    script = [sys.executable, str(ROOT / "scripted_gate.py"), "run", *how, *where]
    return [*script, "--request-timeout", str(SLOW_S), "-q", "--json", *more]


def environment() -> dict[str, str]:
    return {**os.environ, "OPENAI_API_KEY": KEY}


def run(server: FakeOpenAI, bank: Path, out: Path, *more: str) -> subprocess.CompletedProcess[str]:
    """One session of a run, to its end."""
    return subprocess.run(
        command(server, bank, out, *more), env=environment(), capture_output=True, text=True, timeout=600
    )


def records(out: Path, *kinds: str) -> Iterator[dict[str, Any]]:
    for line in (out / "ledger.jsonl").read_text().splitlines():
        record = json.loads(line)
        if record["kind"] in kinds:
            yield record


def decisions(out: Path) -> dict[str, tuple[Any, ...]]:
    found = {}
    for record in records(out, "decision"):
        assert record["task"] not in found
        found[record["task"]] = (record["outcome"], record["index"], record["delivered"], record["draws"])
    return found


def drawn(out: Path) -> list[tuple[str, int]]:
    return sorted((record["task"], record["index"]) for record in records(out, "candidate"))


def asked(out: Path) -> Counter[tuple[str, int]]:
    return Counter((record["task"], record["index"]) for record in records(out, "asked"))


def requests_of(server: FakeOpenAI) -> Counter[tuple[str, int]]:
    return Counter(draw_of(request) for request in server.requests)


def verify(out: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gate", "verify", str(out)], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout


def check_faults(tmp_path: Path, *, tasks: int, each: int, connections: int) -> Counter[str]:
    """Run without faults, then with; what the faulty server served, by name."""
    bank = bank_of(tasks, tmp_path / "bank.jsonl")
    flags = ("-j", str(connections), "--max-connections", str(connections))
    with FakeOpenAI(honest) as server:
        assert run(server, bank, tmp_path / "calm", *flags).returncode == 1
        assert requests_of(server) == Counter(all_draws(tasks))
    with FakeOpenAI(Faulty(each, all_draws(tasks))) as server:
        done = run(server, bank, tmp_path / "storm", *flags)
        assert done.returncode == 1, done.stderr
        assert server.most <= connections
        assert requests_of(server) == asked(tmp_path / "storm")
        served = Counter(step.name for step in server.served)
    assert decisions(tmp_path / "storm") == decisions(tmp_path / "calm")
    assert drawn(tmp_path / "storm") == drawn(tmp_path / "calm") == sorted(all_draws(tasks))
    attempts = sum(record["origin"]["attempts"] for record in records(tmp_path / "storm", "candidate"))
    faults = Counter({name: number for name, number in served.items() if name != "answer"})
    assert attempts == served.total() == served["answer"] + len(list(records(tmp_path / "storm", "fault")))
    assert served["answer"] == len(all_draws(tasks))
    verify(tmp_path / "storm")
    return faults


def test_faults_change_no_decision(tmp_path: Path) -> None:
    """Faults of every sort change no decision; server's log and ledger agree draw by draw."""
    faults = check_faults(tmp_path, tasks=40, each=4, connections=16)
    assert faults == Counter(dict.fromkeys(FAULTS, 4))


@pytest.mark.soak
def test_many_faults_at_32_connections(tmp_path: Path) -> None:
    """200 tasks at 32 connections with 25 faults of each sort: the same decisions as without, draw by draw."""
    faults = check_faults(tmp_path, tasks=200, each=25, connections=32)
    assert faults == Counter(dict.fromkeys(FAULTS, 25))
    print(f"200 tasks, 32 connections, {faults.total()} faults: {dict(faults)}")


def kill_and_resume(tmp_path: Path, *, tasks: int, each: int, kills: int, pause_s: float) -> None:
    """Kill -9 again and again, then let it end: what was drawn is as if nothing had happened."""
    bank, out = bank_of(tasks, tmp_path / "bank.jsonl"), tmp_path / "killed"
    flags = ("-j", "32", "--max-connections", "32")
    with FakeOpenAI(Faulty(each, all_draws(tasks))) as server:
        for _ in range(kills):
            running = subprocess.Popen(
                command(server, bank, out, *flags), env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
            deadline_s, before = time.monotonic() + 60, len(server.requests)
            while len(server.requests) == before and running.poll() is None and time.monotonic() < deadline_s:
                time.sleep(0.02)
            time.sleep(pause_s)
            running.send_signal(signal.SIGKILL)
            running.communicate()
        done = run(server, bank, out, *flags)
        assert done.returncode == 1, done.stderr
        recorded = asked(out)
        # A process may be killed between its record and its request, never the other way round.
        assert not requests_of(server) - recorded
        assert (recorded - requests_of(server)).total() <= 32 * kills
    assert drawn(out) == sorted(all_draws(tasks))
    right = {task: right_index(task) for task, _ in all_draws(tasks)}
    assert {task: found[1] for task, found in decisions(out).items()} == {
        task: None if index == 5 else index for task, index in right.items()
    }
    verify(out)


def test_kill_and_resume_lose_and_double_no_draw(tmp_path: Path) -> None:
    """Killed -9 under faults, a resumed run has every draw once, and every request on record."""
    kill_and_resume(tmp_path, tasks=30, each=3, kills=1, pause_s=0.3)


@pytest.mark.soak
def test_many_kills(tmp_path: Path) -> None:
    """200 tasks with 25 faults of each sort, killed -9 ten times: every draw once, every request on record."""
    kill_and_resume(tmp_path, tasks=200, each=25, kills=10, pause_s=0.8)


PRICE = ("--price-in", "1000", "--price-out", "2000")


def billed(server: FakeOpenAI) -> tuple[Decimal, int]:
    """What a server would bill: every answer that it made, whether it arrived or not; dollars and tokens."""
    made = [step for step in server.served if step.status == 200 and step.name != "malformed JSON"]
    made = [step for step in made if step.body_bytes and step.name != "empty choices"]
    return Decimal(len(made)) * (9 * 1000 + 7 * 2000) / 1_000_000, 16 * len(made)


@pytest.mark.parametrize("kind", ["usd", pytest.param("tokens", marks=pytest.mark.soak)])
def test_no_run_costs_more_than_its_budget(tmp_path: Path, kind: str) -> None:
    """A run stops before its budget is passed, also under faults, keeps what it has judged, and goes on with more."""
    bank, out = bank_of(30, tmp_path / "bank.jsonl"), tmp_path / "out"
    budget = ["--budget-usd", "6.5"] if kind == "usd" else ["--budget-tokens", "5000"]
    more = ["--budget-usd", "10000"] if kind == "usd" else ["--budget-tokens", "10000000"]
    with FakeOpenAI(Faulty(2, all_draws(30))) as server:
        done = run(server, bank, out, "-j", "8", *PRICE, *budget)
        assert done.returncode == 130, done.stderr
        assert budget[0] in done.stderr
        dollars, tokens = billed(server)
        assert 0 < dollars <= Decimal("6.5") if kind == "usd" else 0 < tokens <= 5000
        result = json.loads(done.stdout)
        assert result["not_run"] > 0 and result["infra"] == 0
        assert not any(record["kind"] == "closed" for record in records(out, "closed"))
        again = run(server, bank, out)
        assert again.returncode == 130 and requests_of(server) == asked(out)
        assert run(server, bank, out, *more).returncode == 1
    assert drawn(out) == sorted(all_draws(30))
    verify(out)


def forms(key: str) -> list[bytes]:
    """Pieces of a key that would tell it, in the forms that software repeats it in."""
    raw = [base64.b64encode(b"x" * n + key.encode())[8:28] for n in range(3)]
    return [key[3:15].encode(), quote(key, safe="").encode(), *raw]


def command_lines() -> bytes:
    """The arguments of every process that can be seen."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found.append(path.read_bytes())
    return b"\n".join(found)


def test_the_key_is_nowhere(tmp_path: Path) -> None:
    """A server that repeats the key in answers and errors, in every form, finds no echo on disk, screen or in argv."""
    key = "sk-test/K+y=0123456789abcdef"
    echo = f"Bearer {key} {quote(key, safe='')} {base64.b64encode(f'Bearer {key}'.encode()).decode()}"
    seen: list[bytes] = []

    def leaky(request: Request) -> Step:
        seen.append(command_lines())
        task, index = draw_of(request)
        assert request.headers["authorization"] == f"Bearer {key}"
        if len(seen) % 3 == 0:
            return error(503, echo)
        text = f"{echo}\n```python\n# {echo}\ndef {task}(x):\n    return x + {1 if index else 2}\n```"
        step = completion(text, reasoning_content=echo)
        step.body.update(id=echo, model=echo, system_fingerprint=echo)
        return step

    bank, out, cache = bank_of(4, tmp_path / "bank.jsonl"), tmp_path / "out", tmp_path / "cache"
    with FakeOpenAI(leaky) as server:
        words = [*command(server, bank, out, "--cache", str(cache)), "-j", "2"]
        words[words.index("-q")] = "-v"
        done = subprocess.run(words, env={**os.environ, "OPENAI_API_KEY": key}, capture_output=True, timeout=100)
    assert done.returncode == 0, done.stderr
    files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and path != bank]
    assert b"[key]" in b"".join(files) and (out / "run.log").stat().st_size > 0
    for form in forms(key):
        assert not any(form in each for each in [*files, *seen, done.stdout, done.stderr])


def test_a_cache_brings_the_same_run_without_a_request(tmp_path: Path) -> None:
    """A second run over the same cache asks nothing, costs nothing and decides the same."""
    bank, cache = bank_of(6, tmp_path / "bank.jsonl"), ("--cache", str(tmp_path / "cache"), *PRICE)
    with FakeOpenAI(honest) as server:
        assert run(server, bank, tmp_path / "first", *cache).returncode == 1
        asked_first = len(server.requests)
        again = run(server, bank, tmp_path / "second", *cache)
        assert len(server.requests) == asked_first == len(all_draws(6))
    assert decisions(tmp_path / "first") == decisions(tmp_path / "second")
    cost = json.loads(again.stdout)["cost"]
    assert (cost["requests"], cost["cache_hits"], cost["usd"]) == (0, len(all_draws(6)), 0.0)
    assert "from the cache" in (tmp_path / "second/REPORT.md").read_text()
    verify(tmp_path / "second")


GENERATOR = """
import json, sys
asked = json.load(sys.stdin)
name = asked["entry_point"]
print(f"```python\\ndef {name}(x: Optional[int]):\\n    return x + {1 if asked['index'] == 1 else 0}\\n```")
"""


def test_a_command_of_ones_own_draws(tmp_path: Path) -> None:
    """`command:` draws by the protocol, with the prelude that its programs need, and is taken up like any run."""
    (tmp_path / "generate.py").write_text(GENERATOR)
    bank, out = bank_of(3, tmp_path / "bank.jsonl"), tmp_path / "out"
    script = [sys.executable, str(ROOT / "scripted_gate.py"), "run"]
    spec = f"command:{sys.executable} {tmp_path / 'generate.py'}"
    words = [str(bank), "--source", spec, "--prelude", "typing", "--out", str(out), "-q", "--json"]
    done = subprocess.run([*script, *words], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert [json.loads(done.stdout)[name] for name in ("delivered", "draws")] == [3, 6]
    assert (out / "delivered/t000.py").read_text().startswith("from typing import ")
    other = subprocess.run([*script, "--resume", str(out), "--seed", "3"], capture_output=True, text=True, timeout=100)
    assert other.returncode == 2 and "--seed 3" in other.stderr and "begun with 0" in other.stderr
    verify(out)
