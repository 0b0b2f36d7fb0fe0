"""`gate run --source openai`, the installed command against a scripted server over a real socket."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import docker
import pytest
from fake_openai import FakeOpenAI, Request, Step, completion, error

pytestmark = pytest.mark.docker

GATE = str(Path(sys.executable).parent / "gate")
KEY = "sk-test-0123456789abcdefghijklmnop"
RIGHT = "Here it is:\n```python\ndef double(x):\n    return 2 * x\n```\n"
WRONG = "```python\ndef double(x):\n    return x * x\n```"
SUITE = """\
version: 1
task: {task}
prompt: Write double(x).
entry_point: double
tests:
  - {{args: [3], expected: 6}}
  - {{args: [5], expected: 10}}
hidden:
  - {{args: [-1], expected: -2}}
"""


@pytest.fixture
def bank(tmp_path: Path) -> Path:
    folder = tmp_path / "bank"
    folder.mkdir()
    for task in ("a", "b", "c"):
        (folder / f"{task}.yaml").write_text(SUITE.format(task=task))
    return folder


def gate(server: FakeOpenAI, out: Path, *args: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "OPENAI_API_KEY": KEY}
    where = [] if "--resume" in args else ["--out", str(out), "--source", "openai", "--base-url", server.url]
    return subprocess.run(
        [GATE, "run", *args, *where, "-q", "--json"], env=env, capture_output=True, text=True, timeout=100
    )


def records(out: Path, kind: str) -> list[dict[str, object]]:
    lines = (out / "ledger.jsonl").read_text().splitlines()
    return [record for record in map(json.loads, lines) if record["kind"] == kind]


def no_key_in(out: Path) -> bool:
    return all(KEY.encode() not in path.read_bytes() for path in out.rglob("*") if path.is_file())


def by_seed(request: Request) -> Step:
    """The first draw of each task is wrong, the second right."""
    return completion(WRONG if request.body["seed"] == 40 else RIGHT)


def test_a_model_is_asked_until_a_program_passes(bank: Path, tmp_path: Path, engine: docker.APIClient) -> None:
    """Wrong, then right: two requests a task, seeds that follow the draws, and no container that knows the key."""
    out = tmp_path / "out"
    seen: dict[str, str] = {}

    def looking(request: Request) -> Step:
        for each in engine.containers(all=True, filters={"label": "gate"}):
            with suppress(docker.errors.NotFound):
                seen[each["Id"]] = json.dumps(engine.inspect_container(each["Id"]))
        return by_seed(request)

    with FakeOpenAI(looking) as server:
        done = gate(server, out, str(bank), "--model", "stub-1", "--seed", "40", "--temperature", "0.5")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert [result[name] for name in ("tasks", "delivered", "draws")] == [3, 3, 6]
    assert len(server.requests) == 6
    assert sorted(request.body["seed"] for request in server.requests) == [40] * 3 + [41] * 3
    assert {request.body["temperature"] for request in server.requests} == {0.5}
    assert (out / "delivered/a.py").read_text() == "def double(x):\n    return 2 * x\n"
    (first,) = (each for each in records(out, "candidate") if (each["task"], each["index"]) == ("a", 0))
    assert first["code"] == "def double(x):\n    return x * x\n"
    assert first["origin"]["response"] == WRONG and first["origin"]["seed"] == 40  # type: ignore[index]
    assert seen and not any(KEY in each for each in seen.values())
    assert no_key_in(out) and "openai:stub-1" in (out / "REPORT.md").read_text()
    assert subprocess.run([GATE, "verify", str(out)], capture_output=True, timeout=60).returncode == 0


def test_transport_faults_use_up_no_draw(bank: Path, tmp_path: Path) -> None:
    """429, 5xx, cut bodies, broken connections, malformed JSON and empty choices change no decision."""
    faults = [
        error(429, headers={"Retry-After": "0"}),
        error(503),
        Step(body=b"{"),
        Step(body={"choices": []}),
        Step(reset=True),
        Step(body=completion(RIGHT).body, cut=True),
    ]
    lock, left = threading.Lock(), list(faults)

    def faulty(request: Request) -> Step:
        with lock:
            return left.pop() if left else by_seed(request)

    out = tmp_path / "out"
    with FakeOpenAI(faulty) as server:
        done = gate(server, out, str(bank), "--model", "stub-1", "--seed", "40")
    assert done.returncode == 0, done.stderr
    assert [json.loads(done.stdout)[name] for name in ("delivered", "draws", "infra")] == [3, 6, 0]
    assert len(server.requests) == 6 + len(faults)
    assert len(records(out, "candidate")) == 6


def test_a_wrong_key_stops_the_run_at_once_and_is_not_told(bank: Path, tmp_path: Path) -> None:
    """401 is exit 3 with one sentence after at most one request a connection; resumed with a right key it goes on."""
    out = tmp_path / "out"
    with FakeOpenAI(error(401, f"Incorrect API key provided: {KEY}")) as server:
        done = gate(server, out, str(bank), "--model", "stub-1", "-j", "1")
        assert done.returncode == 3
        assert "401" in done.stderr and KEY not in done.stderr and "Traceback" not in done.stderr
        assert len(server.requests) == 1
        assert no_key_in(out)


def test_a_run_is_resumed_with_the_same_model_only(bank: Path, tmp_path: Path) -> None:
    """A resumed run asks the same model; another is exit 2 with both names, and nothing is asked twice."""
    out = tmp_path / "out"
    with FakeOpenAI(by_seed) as server:
        assert gate(server, out, str(bank), "--model", "stub-1", "--seed", "40").returncode == 0
        asked = len(server.requests)
        other = gate(server, out, "--resume", str(out), "--model", "stub-2")
        assert other.returncode == 2 and "stub-2" in other.stderr and "stub-1" in other.stderr
        assert gate(server, out, "--resume", str(out)).returncode == 0
        assert len(server.requests) == asked


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ([], "--model"),
        (["--model", "m", "--temperature", "3"], "--temperature"),
        (["--model", "m", "--temperature", "nan"], "--temperature"),
        (["--model", "m", "--top-p", "-1"], "--top-p"),
        (["--model", "m", "--max-tokens", "0"], "--max-tokens"),
    ],
)
def test_wrong_options_of_a_model_are_usage_errors(bank: Path, tmp_path: Path, args: list[str], words: str) -> None:
    """An option out of range, or no model, is exit 2, and nothing is asked."""
    with FakeOpenAI(by_seed) as server:
        done = gate(server, tmp_path / "out", str(bank), *args)
        assert done.returncode == 2 and words in done.stderr
        assert server.requests == []


def test_a_models_option_has_no_place_beside_samples(bank: Path, tmp_path: Path) -> None:
    """--model with samples is exit 2: it would do nothing."""
    (tmp_path / "pool.jsonl").write_text('{"task_id": "a", "solution": "x"}\n')
    words = ["run", str(bank), "--source", f"samples:{tmp_path / 'pool.jsonl'}", "--model", "m"]
    done = subprocess.run([GATE, *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "--model: is for --source openai" in done.stderr
