"""What a person reads of a replay: a table of rules, the comparisons, the two errors, what is missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gate import stats
from gate.cli import printing
from gate.cli.replayed import Replayed, lacking
from gate.model import Json
from gate.report import replay
from gate.report.markdown import share
from gate.rules import MAX_DRAWS
from gate.tables import Comparison, Table

ORDER = ("oracle", "first_pass", "single", "majority", "majority_text", "ship_always")


def result_text(config: dict[str, Json], found: Replayed) -> str:
    """The result in some lines; without any figure where no headline may stand."""
    decisions, of = found.decisions, found.table
    isolation = config["options"]["isolation"]
    amounts = f"{counted(of.tasks, 'task')}, {counted(of.candidates, 'candidate')}, {counted(of.draws, 'draw')} a task"
    lines = [f"{of.bank}: {amounts}, isolation {isolation}"]
    if of.draws > MAX_DRAWS:
        lines.append(f"{of.draws} draws: {replay.RESEARCH}")
    if not found.has_headline(config["options"]["infra_budget"]):
        lines.append(
            f"no headline: {decisions.not_run} of {decisions.tasks} tasks were not judged, "
            f"in {found.infra} our own world failed"
        )
        return printing.escape("\n".join(lines))
    if of.containment.tasks:
        lines += ["", *_rules(of), "", *_pairs(of), "", *_errors(of)]
    else:
        lines += ["no task has hidden tests, so nothing says what is right", "", *_rules(of), ""]
    lines += [f"counted: {words}" for words in lacking(config, found)]
    return printing.escape("\n".join(lines))


def _rules(of: Table) -> Iterator[str]:
    names = [*(ORDER if of.containment.tasks else ORDER[1:]), *(name for name in of.rules if name not in ORDER)]
    measured = of.containment.tasks > 0
    rows = [("rule", *(["right"] if measured else []), "calls a task", "delivered", "refused")]
    for name in names:
        counts = of.rules[name][-1]
        right = f"{counts.success} ({100 * counts.success / of.tasks:.2f} %)"
        numbers = (f"{counts.calls_per_task:.2f}", f"{counts.delivered}", f"{counts.refused}")
        rows.append((replay.rule_name(name), *([right] if measured else []), *numbers))
    yield from aligned(rows)


def _pairs(of: Table) -> Iterator[str]:
    rows = [("first pass against", "difference", "95 % interval", "b", "c", "p", "p (Holm)", "")]
    for pair in of.pairs:
        paired = pair.paired
        figures = (f"{replay.pp(paired.delta_pp)} pp", replay.ci(paired), f"{paired.b}", f"{paired.c}")
        ps = (replay.p_text(paired.p_exact), replay.p_text(pair.p_holm))
        rows.append((replay.rule_name(pair.second), *figures, *ps, _reading(pair)))
    yield from aligned(rows)


def _reading(pair: Comparison) -> str:
    """What a comparison resolves; what it could have shown is in the report, for it takes a while to compute."""
    return "" if stats.is_resolved(pair.p_holm) else "unresolved"


def _errors(of: Table) -> Iterator[str]:
    weak, lossy = of.weak_oracle[-1], of.lossy_filter
    yield f"refused audit: all draws wrong on {of.audit.all_wrong} of {of.audit.refused} refused tasks"
    yield f"weak oracle:   {share(weak.wrong, weak.accepted)} accepted draws are wrong by the hidden tests"
    note = "; V ⊆ GT: true by construction, no evidence" if of.containment.holds else ""
    yield f"lossy filter:  {share(lossy.refused, lossy.correct)} correct draws are refused by the visible tests{note}"
    for each in of.by_strength:
        right, wrong = share(each.success, each.tasks), share(each.wrong, each.delivered)
        yield f"by strength:   {each.name}: {right} tasks right, {wrong} deliveries wrong"


def counted(number: int, noun: str) -> str:
    """`1 task`, `5 tasks`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def aligned(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Rows as columns: the first to the left, numbers to the right, a last text column to the left."""
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    for row in rows:
        figures = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
        yield "  ".join([row[0].ljust(widths[0]), *figures]).rstrip()
