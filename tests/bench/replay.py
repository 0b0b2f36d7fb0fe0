"""`gate replay` beside EvalPlus's `evaluate` on the same saved samples: `replay.py POOL… [--tasks N] [--draws K]`.

Samples are of HumanEval's tasks, those of the bundled bank, with one second as the limit for
both. EvalPlus judges each sample once, by the base tests, with its ground truth cached and
nothing around the program: with as many workers as there are cores, and with as many as it
takes by itself, half of that. gate judges it by the visible tests, a pass among them again
under another hash seed, and by the hidden tests, which are those base tests; each in a cell,
and each observation goes to the ledger before it counts. They take turns. Adds `replay` to
tests/bench/results.json: samples and observations a second, and how many passed.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from peer_folder import peer_folder

from gate.backends.banks import open_bank
from gate.resources import suites_dir

HERE = Path(__file__).resolve().parent
LIMIT_S = 1.0  # of CPU time for ours, of wall time for EvalPlus, which knows no other
WALL_S = 4.0  # so that it is CPU time that decides, also where the machine has other things to do
ROUNDS = 2


def write_bank(folder: Path, limit: int) -> set[str]:
    """The bank with the limits of the comparison, and the same tasks for EvalPlus; the ids."""
    lines = gzip.decompress((suites_dir() / "humaneval" / "bank.jsonl.gz").read_bytes()).decode().splitlines()
    suites = [json.loads(line) for line in lines][:limit]
    tasks = {task.id: task for task in open_bank("humaneval", suites_dir()).tasks()}
    with (folder / "bank.jsonl").open("w") as bank, (folder / "problems.jsonl").open("w") as problems:
        for suite in suites:
            bank.write(json.dumps({**suite, "limits": {"wall_s": WALL_S, "cpu_s": LIMIT_S}}) + "\n")
            calls = [list(test.call.args) for test in tasks[suite["task"]].suite.hidden]
            problem = {"task_id": suite["task"], "entry_point": suite["entry_point"], "base_input": calls}
            reference = {"prompt": "", "canonical_solution": suite["reference"]}
            problems.write(json.dumps({**problem, **reference, "plus_input": [], "atol": 0}) + "\n")
    return {suite["task"] for suite in suites}


def write_samples(folder: Path, pools: list[Path], ids: set[str], draws: int) -> int:
    """The samples of those tasks, so many a task, in one file; how many."""
    taken = dict.fromkeys(ids, 0)
    with (folder / "samples.jsonl").open("w") as file:
        for pool in pools:
            for line in pool.read_text().splitlines():
                row = json.loads(line)
                task_id = row.get("task_id")
                if task_id in taken and "solution" in row and taken[task_id] < draws:
                    taken[task_id] += 1
                    file.write(json.dumps({"task_id": task_id, "solution": row["solution"]}) + "\n")
    return sum(taken.values())


def run_evalplus(folder: Path, peers: Path, workers: int) -> dict[str, float]:
    """One evaluation; nothing of an earlier one is taken, but for the ground truth."""
    (folder / "samples_eval_results.json").unlink(missing_ok=True)
    words = [sys.executable, str(HERE / "peer_evaluate.py"), str(folder / "problems.jsonl")]
    words += [str(folder / "samples.jsonl"), str(workers)]
    environment = {**os.environ, "PYTHONPATH": str(peers), "XDG_CACHE_HOME": str(folder / "cache")}
    done = subprocess.run(words, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"replay.py: EvalPlus failed: {done.stderr[-2000:]}")
    found: dict[str, float] = json.loads(done.stdout)
    return found


def run_gate(folder: Path, name: str, jobs: int, draws: int) -> dict[str, float]:
    """One replay as a user starts it, from the command to its end; observations as its ledger has them."""
    words = [str(Path(sys.executable).parent / "gate"), "replay", str(folder / "samples.jsonl")]
    words += ["--bank", str(folder / "bank.jsonl"), "--draws", str(draws), "--isolation", "cell", "-j", str(jobs)]
    words += ["--out", str(folder / name / "run"), "-q"]
    begun_s = time.monotonic()
    done = subprocess.run(words, capture_output=True, text=True)
    took_s = time.monotonic() - begun_s
    if done.returncode not in (0, 1):
        raise SystemExit(f"replay.py: gate replay failed: {done.stderr[-2000:]}")
    records = [json.loads(line) for line in (folder / name / "run" / "ledger.jsonl").read_text().splitlines()]
    observations = sum(record["kind"] == "observation" for record in records)
    verdicts = [record for record in records if record["kind"] == "verdict" and record.get("part") == "hidden"]
    passed = sum(record["outcome"] == "pass" for record in verdicts)
    return {"took_s": took_s, "observations": observations, "passed": passed}


def main() -> None:
    """Both, in turns; then what came out."""
    parser = argparse.ArgumentParser(description="gate replay beside EvalPlus's evaluate.")
    parser.add_argument("pools", nargs="+", type=Path)
    parser.add_argument("--tasks", type=int, default=1000)
    parser.add_argument("--draws", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    asked = parser.parse_args()
    peers, cores = peer_folder(), os.cpu_count() or 1
    with tempfile.TemporaryDirectory(prefix="gate-bench-replay-") as name:
        folder = Path(name)
        samples = write_samples(folder, asked.pools, write_bank(folder, asked.tasks), asked.draws)
        rounds = []
        for number in range(asked.rounds):
            rounds.append(
                {
                    "evalplus": run_evalplus(folder, peers, cores),
                    "evalplus_default": run_evalplus(folder, peers, max(1, cores // 2)),
                    "gate": run_gate(folder, str(number), 2 * cores, asked.draws),
                    "load": os.getloadavg()[0],
                }
            )
            print(json.dumps(rounds[-1]), flush=True)
    keep(samples, rounds)


def keep(samples: int, rounds: list[dict[str, Any]]) -> None:
    """Print what came out, and keep it beside the rest."""
    result = {"samples": samples, "rounds": rounds}
    for who in ("evalplus", "evalplus_default", "gate"):
        result[f"{who}_samples_per_s"] = samples * len(rounds) / sum(each[who]["took_s"] for each in rounds)
    observations = sum(each["gate"]["observations"] for each in rounds)
    result["gate_observations_per_s"] = observations / sum(each["gate"]["took_s"] for each in rounds)
    for what in ("samples", "observations"):
        for who in ("evalplus", "evalplus_default"):
            result[f"replay_vs_{who}_{what}"] = result[f"gate_{what}_per_s"] / result[f"{who}_samples_per_s"]
    print(json.dumps({name: value for name, value in result.items() if name != "rounds"}, indent=1))
    path = HERE / "results.json"
    kept = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**kept, "replay": result}, indent=1) + "\n")


if __name__ == "__main__":
    main()
