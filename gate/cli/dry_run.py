"""`gate run --dry-run`: what would run, and at most how much of it."""

from __future__ import annotations

from gate.backends.banks import open_bank
from gate.backends.rundir import RunDir
from gate.cli import bind, exits, printing, wiring
from gate.cli.run import RunOptions, checked, held, is_left, selected
from gate.errors import SpecError
from gate.history import History, fold
from gate.model import Json, Task
from gate.money import Tokens, price_of
from gate.resources import suites_dir


def dry_run(options: RunOptions) -> int:
    """Read everything that a run would read, and say what it would do; no engine is asked.

    Raises:
        SpecError: The bank, the samples or the run cannot be used.
    """
    facts = _resumed(options) if options.resume is not None else _new(options)
    if options.json:
        printing.print_json({"schema": "gate.dry-run/1", **facts})
    else:
        print(
            f"{facts['left']} of {facts['tasks']} tasks of {facts['bank']} would run, {facts['visible']} visible tests"
        )
        print(f"at most {facts['calls_at_most']} draws, from {facts['source']}")
        if "tokens_at_most" in facts:
            cost = "" if "usd_at_most" not in facts else f", ${facts['usd_at_most']:.4f}"
            print(f"at most {facts['tokens_at_most']} tokens{cost}, if no request has to be repeated")
        if facts["without_candidates"]:
            print(f"{facts['without_candidates']} of these tasks have no candidates there and would be refused")
    return exits.DONE


def _new(options: RunOptions) -> dict[str, Json]:
    if options.bank is None or options.source is None:
        raise SpecError("gate run: a new run needs BANK and --source: see `gate run --help`")
    bank = open_bank(options.bank, suites_dir())
    held(bank, options.bank, options.bind)
    bound = wiring.resolved(options.source, {**options.bound.as_json(), **options.budgets})
    return _facts(bank.name, options.source, bound, list(selected(bank, options.bound)), History())


def _resumed(options: RunOptions) -> dict[str, Json]:
    where = RunDir(options.resume)  # type: ignore[arg-type]
    config = where.read_config()
    bind.refuse_other_lock(options.bind, where, config)
    source = options.source or wiring.source_spec(config["source"])
    history = fold(where.records())
    return _facts(config["bank"]["name"], source, config["options"], list(where.tasks()), history)


def _facts(bank: str, source: str, bound: dict[str, Json], tasks: list[Task], history: History) -> dict[str, Json]:
    with wiring.open_source(source, bound) as opened:
        have = opened.task_ids()
        most_for = getattr(opened, "most_for", None)
        most = {task.id: most_for(task) for task in checked(iter(tasks), opened) if most_for is not None}
    left = [task for task in tasks if is_left(task, history)]
    undecided = [task for task in left if task.suite.tests and not history.task(task.id).is_decided]
    draws = {task.id: bound["draws"] - len(history.task(task.id).candidates) for task in undecided}
    tokens = sum([most[name] for name, number in draws.items() for _ in range(number)] if most else [], Tokens())
    price = price_of(bound)
    return {
        "bank": bank,
        "tasks": len(tasks),
        "left": len(left),
        "visible": sum(len(task.suite.tests) for task in left),
        "calls_at_most": sum(draws.values()),
        **({"tokens_at_most": tokens.total} if most else {}),
        **({"usd_at_most": float(price.cost(tokens))} if most and price else {}),
        "source": source,
        "without_candidates": sum(task.id not in have for task in left) if have else 0,
    }
