"""EvalPlus's own `evaluate` on tasks and samples of ours: `peer_evaluate.py PROBLEMS SAMPLES WORKERS`.

Only its base tests, with its ground truth computed before the clock starts, as its cache gives it.
What it imports for asking models and for loading data sets is not there and not needed. Prints
how long it took, and how many samples passed, as JSON.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
import types
from pathlib import Path

from gate import values


def problems_of(path: Path) -> dict[str, dict[str, object]]:
    """Tasks as EvalPlus has them; the calls of ours are tagged JSON."""
    problems = {}
    for line in path.read_text().splitlines():
        problem = json.loads(line)
        problem["base_input"] = values.decode(problem["base_input"])
        problems[problem["task_id"]] = problem
    return problems


def main() -> None:
    """Evaluate once and print the result."""
    problems_path, samples, workers = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    for name, missing in (("datasets", "load_dataset"), ("evalplus.codegen", "run_codegen")):
        module = types.ModuleType(name)
        setattr(module, missing, None)
        sys.modules[name] = module
    from evalplus import evaluate

    problems = problems_of(problems_path)
    name = problems_path.stem
    evaluate.get_human_eval_plus = lambda **asked: problems
    evaluate.get_human_eval_plus_hash = lambda **asked: name
    with contextlib.redirect_stdout(sys.stderr):
        evaluate.get_groundtruth(problems, name, [])
        begun_s = time.monotonic()
        evaluate.evaluate("humaneval", samples, base_only=True, parallel=workers)
        took_s = time.monotonic() - begun_s
    result = json.loads(Path(samples.replace(".jsonl", "_eval_results.json")).read_text())
    passed = sum(found["base_status"] == "pass" for each in result["eval"].values() for found in each)
    print(json.dumps({"took_s": took_s, "passed": passed}))


if __name__ == "__main__":
    main()
