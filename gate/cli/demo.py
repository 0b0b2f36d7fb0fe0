"""`gate demo`: the main job on real saved candidates."""

from __future__ import annotations

from pathlib import Path

from gate.backends.rundir import RunDir
from gate.cli import exits, printing
from gate.cli.run import Bound, RunOptions, execute, new_run_path
from gate.resources import suites_dir

BANK = "humaneval"
SAMPLES = "humaneval/samples/davinci-002-k5.jsonl.gz"


def demo(*, out: Path | None, isolation: str, jobs: int | None, quiet: bool) -> int:
    """Run the bundled bank with its bundled samples and print the whole report.

    Refusals are what the gate is for, so they do not fail the demo; a run that is
    incomplete, or that our own world failed, does.
    """
    where = RunDir(out or new_run_path(f"demo-{BANK}"))
    options = RunOptions(
        bank=BANK,
        source=f"samples:{suites_dir() / SAMPLES}",
        bound=Bound(isolation=isolation),
        out=where.path,
        jobs=jobs,
        quiet=quiet,
    )
    if not quiet:
        printing.say("HumanEval, 157 tasks: up to five candidates by code-davinci-002 each, drawn in order,")
        printing.say(
            f"each run in a fresh {isolation} against tests that are data; the first that passes is delivered."
        )
    outcome = execute(options, where)
    print((where.path / "REPORT.md").read_text(encoding="utf-8"))
    print(f"Everything that was seen: {where.path}/ledger.jsonl")
    print(f"Delivered programs:       {where.path}/delivered/")
    if outcome.stopped:
        return exits.STOPPED
    return exits.DONE if outcome.summary.has_headline(outcome.config["options"]["infra_budget"]) else exits.WORLD
