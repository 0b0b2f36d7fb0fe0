"""REPORT.md: one run for a reader who has a minute."""

from __future__ import annotations

from gate.model import Json
from gate.report import cost, marks
from gate.report.premise import PREMISE, containment_line, strength_line
from gate.stats import wilson
from gate.summary import Summary

ISOLATION = {
    "container": "a fresh hardened container for each run of a candidate; nothing is reused but a read-only image",
    "cell": "a fork in its own namespaces for each run of a candidate; the container around it, its limits, its warm "
    "interpreter and the image are shared by many, one after the other",
}


def render(run: dict[str, Json], summary: Summary) -> str:
    """The report of one run.

    Args:
        run: What `run.json` holds.
        summary: The counts that its ledger adds up to.
    """
    sections = (
        f"# Acceptance gate: {marks.plain(run['bank']['name'])}\n",
        headline(run, summary),
        "## The premise\n\n" + PREMISE + "\n" + bank_lines(run["bank"]["name"], summary),
        "## Counts\n\n" + counts(summary),
        measured(summary),
        reasons(summary),
        cost.section(run, summary),
        "## How it was run\n\n" + conditions(run),
    )
    return "\n".join(section for section in sections if section)


def headline(run: dict[str, Json], summary: Summary) -> str:
    """The one sentence, or why there is none."""
    if not summary.has_headline(run["options"]["infra_budget"]):
        return (
            f"**No headline: {summary.not_run} of {summary.tasks} tasks were not run, "
            f"{summary.infra} ended because our own world failed.**\n"
        )
    text = f"**{share(summary.delivered, summary.tasks)} tasks delivered"
    if summary.hidden is not None:
        text += f", {share(summary.hidden.success, summary.tasks)} right on the hidden tests"
    return text + f", at {summary.calls_per_task:.2f} calls a task.** A refusal counts as a failure.\n"


def bank_lines(bank: str, summary: Summary) -> str:
    """What is to be known of a bank beside the premise: whether V ⊆ GT, and how strong its suites are."""
    return f"{containment_line(bank, summary.containment)}\n{strength_line(bank, summary.weakness)}\n"


def counts(summary: Summary) -> str:
    """The table that adds up to N."""
    rows = (
        ("delivered", summary.delivered),
        ("refused", summary.refused),
        ("infra (our world failed)", summary.infra),
        ("not run", summary.not_run),
    )
    lines = [f"| {name} | {number} | {interval(number, summary.tasks)} |" for name, number in rows]
    total = f"| **tasks (N)** | **{summary.tasks}** | |"
    header = "| outcome | tasks | share of N, 95 % interval (Wilson) |\n|---|---:|---|\n"
    calls = f"\n{summary.draws} draws were used up: {summary.calls_per_task:.2f} calls a task.\n"
    return header + "\n".join([*lines, total]) + "\n" + calls


def measured(summary: Summary) -> str:
    """What the hidden tests say of what was delivered; they decided nothing."""
    hidden = summary.hidden
    if hidden is None:
        return ""
    lines = [
        "## On the hidden tests\n",
        "They measure; they never decide.\n",
        f"- success (delivered and right): {share(hidden.success, summary.tasks)} of all tasks, "
        f"95 % interval {interval(hidden.success, summary.tasks)}",
        f"- wrong delivered (weak oracle): {share(hidden.wrong_delivered, summary.delivered)} of the delivered",
    ]
    if hidden.unmeasured:
        lines.append(f"- not measured: {hidden.unmeasured}")
    return "\n".join(lines) + "\n"


def reasons(summary: Summary) -> str:
    """Why draws failed and why tasks were not delivered."""
    tables = (
        ("Why draws failed", "draws", summary.reasons),
        ("Why tasks were refused", "tasks", summary.refusals),
        ("Why tasks ended as infra", "tasks", summary.infra_reasons),
    )
    parts = [
        f"## {title}\n\n| reason | {unit} |\n|---|---:|\n"
        + "".join(f"| {marks.cell(marks.without_folders(reason))} | {number} |\n" for reason, number in counted.items())
        for title, unit, counted in tables
        if counted
    ]
    return "\n".join(parts)


def conditions(run: dict[str, Json]) -> str:
    """What the numbers depend on, with the digests that bind it."""
    options, bank, engine, image = run["options"], run["bank"], run["engine"], run["image"]
    engine_name = f"{engine['name']} {engine['version']}"
    pool = "; the rest of the pool is drawn, not run" if options["full_pool"] else ""
    rows = (
        ("bank", f"{marks.code(bank['name'])}, digest `{bank['digest']}`"),
        ("tasks as loaded", f"digest `{run['suites_digest']}`"),
        *bound(run),
        ("candidates", marks.code(run["source"]["spec"]) + digest_note(run["source"].get("digest"))),
        ("draws", f"at most {options['draws']} a task, in order, stopping at the first pass{pool}"),
        *asked(options),
        ("isolation", f"`{options['isolation']}`: {ISOLATION[options['isolation']]}"),
        ("engine", f"{marks.plain(engine_name)}, runtime {marks.code(engine['runtime'])}"),
        ("image", f"{marks.code(image['content'])} (Python {marks.plain(image['python'])})"),
        ("gate", run["version"]),
    )
    return "".join(f"- {name}: {text}\n" for name, text in rows)


def bound(run: dict[str, Json]) -> list[tuple[str, str]]:
    """By which lock of the customer's the suites were bound, where one was named."""
    lock = run.get("bind")
    return [] if lock is None else [("bound by the customer's lock", f"digest `{lock['digest']}`")]


def asked(options: dict[str, Json]) -> list[tuple[str, str]]:
    """How a model was asked, where one was; that it saw the visible tests is for every reader to know."""
    if not options.get("model"):
        return []
    words = [f"temperature {options['temperature']:g}", f"at most {options['max_tokens']} tokens an answer"]
    words += [f"seed {options['seed']} + draw"]
    words += ["**the visible tests were shown**"] if options.get("show_tests") else []
    words += [f"own {name}" for name in ("system", "template") if options.get(name) is not None]
    words += [f"prelude {marks.code(options['prelude'])} before each program"] if options.get("prelude") else []
    return [("asked with", ", ".join(words))]


def digest_note(digest: str | None) -> str:
    """A digest in words, where there is one."""
    return "" if digest is None else f", digest `{digest}`"


def share(part: int, whole: int) -> str:
    """`116 of 157 (73.9 %)`."""
    return f"{part} of {whole} ({100 * part / whole:.1f} %)" if whole else f"{part} of {whole}"


def interval(part: int, whole: int) -> str:
    """`73.9 % [66.5, 80.1]`."""
    if not whole:
        return ""
    low, high = wilson(part, whole)
    return f"{100 * part / whole:.1f} % [{100 * low:.1f}, {100 * high:.1f}]"
