"""Hold our verdicts against published ones: `python experiments/published_verdicts/agree.py NAME…`.

NAME is a bundled bank whose saved samples carry the verdict of the harness that they were
published with. Each sample is judged once, in the container sandbox, on the tests that the
other harness had. What is written is `results/NAME.json`: the counts, and every sample on
which the two differ.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio

from gate.backends.banks import open_bank
from gate.cli.wiring import default_jobs, open_engine, open_sandbox
from gate.engine import side_by_side, verdict_on
from gate.model import Candidate, Json, Outcome, SuiteSpec, Test, Verdict
from gate.resources import suites_dir
from gate.seams import Sandbox

HERE = Path(__file__).resolve().parent
SAMPLES = {"humaneval": "davinci-002-k5.jsonl.gz", "mbpp-397": "gpt-4-k5.jsonl.gz"}
ALL_ASSERTS = "all 3 asserts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One saved program, with the verdict that was published for it.

    Attributes:
        by: Whose verdict it is, where a bank has samples of several harnesses.
    """

    task_id: str
    index: int
    code: str
    passed: bool
    by: str


def read_samples(bank: str) -> Iterator[Sample]:
    """The saved samples of a bundled bank, in order."""
    with gzip.open(suites_dir() / bank / "samples" / SAMPLES[bank]) as stream:
        for line in stream:
            row = json.loads(line)
            yield Sample(
                task_id=row["task_id"],
                index=row["sample_index"],
                code=row["solution"],
                passed=row["published_passed"],
                by=row.get("published_by", ""),
            )


def tests_for(suite: SuiteSpec, sample: Sample) -> tuple[Test, ...]:
    """The tests that the published verdict rests on: the hidden ones, or the visible ones as well."""
    return suite.tests + suite.hidden if ALL_ASSERTS in sample.by else suite.hidden


async def judge_all(bank: str, samples: Sequence[Sample], sandbox: Sandbox, jobs: int) -> list[Verdict]:
    """Our verdicts on some samples, in their order."""
    suites = {task.id: task.suite for task in open_bank(bank, suites_dir()).tasks()}
    verdicts: dict[int, Verdict] = {}

    async def work(place: int) -> None:
        sample = samples[place]
        suite = suites[sample.task_id]
        candidate = Candidate(task_id=sample.task_id, index=sample.index, code=sample.code)
        verdicts[place] = await verdict_on(candidate, suite, tests_for(suite, sample), sandbox=sandbox)

    await side_by_side(range(len(samples)), work, concurrency=jobs)
    return [verdicts[place] for place in range(len(samples))]


def compare(samples: Sequence[Sample], verdicts: Sequence[Verdict]) -> dict[str, Json]:
    """The counts, and each sample on which the two verdicts differ."""
    pairs = list(zip(samples, verdicts, strict=True))
    differing = [pair for pair in pairs if (pair[1].outcome is Outcome.PASS) is not pair[0].passed]
    return {
        "judged": len(pairs),
        "agreed": len(pairs) - len(differing),
        "both_pass": sum(sample.passed and verdict.outcome is Outcome.PASS for sample, verdict in pairs),
        "errors": sum(verdict.outcome is Outcome.ERROR for _, verdict in pairs),
        "disagreements": [difference(sample, verdict) for sample, verdict in differing],
    }


def difference(sample: Sample, verdict: Verdict) -> dict[str, Json]:
    """One disagreement, as it is written down."""
    return {
        "task": sample.task_id,
        "index": sample.index,
        "published": "pass" if sample.passed else "fail",
        "ours": verdict.reason or "pass",
        "test": verdict.test,
        "detail": verdict.detail,
    }


async def agree(bank: str, samples: Sequence[Sample], jobs: int) -> dict[str, Json]:
    """Judge the samples of one bank and compare."""
    async with open_sandbox(open_engine(None), runtime=None, concurrency=jobs) as sandbox:
        return compare(samples, await judge_all(bank, samples, sandbox, jobs))


def main(argv: list[str] | None = None) -> int:
    """Judge, compare, write, and say the share in a line."""
    parser = argparse.ArgumentParser(description="Hold our verdicts against published ones.")
    parser.add_argument("banks", nargs="+", choices=list(SAMPLES))
    parser.add_argument("--jobs", type=int, default=default_jobs(), help="programs at a time")
    parser.add_argument("--out", type=Path, default=HERE / "results", help="where the results go")
    options = parser.parse_args(argv)
    options.out.mkdir(parents=True, exist_ok=True)
    for bank in options.banks:
        found = anyio.run(agree, bank, list(read_samples(bank)), options.jobs)
        (options.out / f"{bank}.json").write_text(json.dumps(found, indent=1) + "\n", encoding="ascii")
        print(f"{bank}: {found['agreed']} of {found['judged']} agree")
    return 0


if __name__ == "__main__":
    sys.exit(main())
