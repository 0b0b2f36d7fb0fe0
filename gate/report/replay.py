"""A replay and a comparison, for programs (`gate.replay/1`) and for readers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from gate import stats
from gate.model import Json
from gate.report import marks
from gate.report.markdown import share
from gate.report.premise import PREMISE, containment_line, strength_line
from gate.rules import MAX_DRAWS
from gate.tables import GATE, Comparison, RuleCount, Split, Table, across, comparison, together

if TYPE_CHECKING:
    from gate.report.shapes import CompareJson, PairJson, RuleJson

RESEARCH = "research, not the gate's rule"
ISOLATION = {
    "container": "a fresh hardened container for each run of a candidate; nothing is reused but a read-only image",
    "cell": "a fork of a warm interpreter in its own namespaces for each run of a candidate; the outer container, "
    "its limits and the warm interpreter are shared",
}
NAMES = {
    "first_pass": "first pass (the gate)",
    "single": "one single draw",
    "majority": "majority, by behaviour",
    "majority_text": "majority, by text",
    "ship_always": "first pass, else draw 0",
    "oracle": "ceiling (any draw right)",
}
_NUMBERS = ("", "one", "two", "three", "four", "five")


def replay_json(of: Table, *, isolation: str) -> dict[str, Json]:
    """The result of a replay for programs. Some keys stand there only when they say something:
    `by_strength` where the suites were looked at, `label` with more draws than the gate takes,
    `infra` where our world failed."""
    result: dict[str, Json] = {
        "schema": "gate.replay/1",
        "tasks": of.tasks,
        "draws": of.draws,
        "isolation": isolation,
        "visible_subset_of_hidden": of.containment.holds,
        "rules": {name: _rule_json(counts[-1]) for name, counts in of.rules.items()},
        "pairs": [pair_json(pair) for pair in of.pairs],
        "refused_audit": {"refused": of.audit.refused, "all_wrong": of.audit.all_wrong},
        "weak_oracle": {"accepted": of.weak_oracle[-1].accepted, "wrong": of.weak_oracle[-1].wrong},
        "lossy_filter": {"correct": of.lossy_filter.correct, "refused": of.lossy_filter.refused},
    }
    if of.by_strength:
        result["by_strength"] = [asdict(each) for each in of.by_strength]
    if of.draws > MAX_DRAWS:
        result["label"] = RESEARCH
    if of.infra:
        result["infra"] = of.infra
    return result


def _rule_json(counts: RuleCount) -> RuleJson:
    return {
        "success": counts.success,
        "delivered": counts.delivered,
        "refused": counts.refused,
        "calls": counts.calls,
        "calls_per_task": round(counts.calls_per_task, 4),
    }


def pair_json(pair: Comparison) -> PairJson:
    """One comparison for programs."""
    paired = pair.paired
    return {
        "first": pair.first,
        "second": pair.second,
        "n": paired.n,
        "b": paired.b,
        "c": paired.c,
        "delta_pp": paired.delta_pp,
        "ci95_pp": list(paired.ci95_pp),
        "ci_method": paired.ci_method,
        "p_exact": paired.p_exact,
        "p_mid": paired.p_mid,
        "p_holm": pair.p_holm,
    }


def split_json(of: Split) -> CompareJson:
    """The result of `gate compare` for programs: one comparison and the tasks that tell the two apart."""
    return {
        "schema": "gate.compare/1",
        **pair_json(of.comparison),
        "only_first": list(of.only_first),
        "only_second": list(of.only_second),
    }


def render_replay(
    tables: Sequence[Table],
    *,
    isolation: str,
    conditions: Iterable[tuple[str, str]] = (),
) -> str:
    """The report of a replay of one bank or several; several also stand as one.

    Whether failures of our own world are within their budget is for the caller to say
    first; here they are counted.

    Args:
        conditions: More lines of what the numbers depend on, as (name, Markdown).
    """
    shown = [*tables, together(tables)] if len(tables) > 1 else list(tables)
    draws = shown[-1].draws
    sections = (
        _title(tables, draws),
        headline(shown[-1]),
        "## The premise\n\n" + PREMISE + "\n" + "".join(bank_lines(each) for each in tables),
        _ceiling(shown),
        _rules(shown),
        _against(shown),
        _banks(tables, shown) if len(tables) > 1 else "",
        _same_budget(shown),
        _audits(shown),
        _weak(shown),
        _lossy(shown),
        _strength(shown),
        _difficulty(shown),
        _by_draws(shown),
        _how(isolation, draws, conditions),
    )
    return "\n".join(section for section in sections if section)


def bank_lines(of: Table) -> str:
    """What is to be known of a bank beside the premise: whether V ⊆ GT, and how strong its suites are."""
    lines = [containment_line(of.bank, of.containment)]
    if of.weakness is not None:
        lines.append(strength_line(of.bank, of.weakness))
    return "".join(f"{line}\n" for line in lines)


def _title(tables: Sequence[Table], draws: int) -> str:
    names = ", ".join(marks.plain(each.bank) for each in tables)
    label = f"\n**{draws} draws: {RESEARCH}**, which takes at most {MAX_DRAWS}.\n" if draws > MAX_DRAWS else ""
    return f"# Replay: {names}\n{label}"


def headline(of: Table) -> str:
    """The one sentence, with what stands against it; or why there is none."""
    if not of.tasks:
        return "**No headline: no task was judged.**\n"
    if of.containment.tasks == 0:
        return "**No headline: no task has hidden tests, so nothing says what is right.**\n"
    gate, alone, most = (of.rules[name][-1] for name in (GATE, "single", "majority"))
    text = (
        f"**The gate is right on {share(gate.success, of.tasks)} tasks at {gate.calls_per_task:.2f} calls a task; "
        f"one single draw on {share(alone.success, of.tasks)}, a majority vote on {share(most.success, of.tasks)} "
        f"at {most.calls_per_task:.2f} calls. No rule gets beyond {share(of.ceiling, of.tasks)}.** "
        "A refusal counts as a failure; the denominator is all tasks.\n"
    )
    return text + "".join(f"\n{note}\n" for note in _notes(of))


def _notes(of: Table) -> list[str]:
    """What the counts hold that a reader would not expect."""
    counted = (
        (of.missing, "draws that the pool does not have"),
        (of.infra, "tasks with a draw on which our own world failed"),
        (of.unmeasured, "tasks with a draw that was not judged on hidden tests"),
    )
    return [f"{text}: {number}; such a draw counts as a failure." for number, text in counted if number]


def _ceiling(shown: Sequence[Table]) -> str:
    all_of = _all_of(shown[0].draws)
    rows = [
        (_name(each), f"{each.candidates}", pct(each.ceiling, each.tasks), f"{each.all_wrong} / {each.tasks}")
        for each in shown
    ]
    return _section(
        "The ceiling of the pools",
        "A rule only chooses: on a task whose draws are all wrong, none can be right.",
        ("Task set", "Candidates", "Candidate-pool ceiling", f"Tasks with {all_of} wrong"),
        rows,
    )


def _rules(shown: Sequence[Table]) -> str:
    rows = [
        (
            _name(each),
            rule_name(name),
            f"{counts[-1].success} / {counts[-1].tasks}",
            proportion(counts[-1].success, counts[-1].tasks),
            f"{counts[-1].delivered}",
            f"{counts[-1].refused}",
            f"{counts[-1].calls_per_task:.2f}",
        )
        for each in shown
        for name, counts in each.rules.items()
    ]
    return _section(
        "Every rule over the same draws",
        "",
        ("Task set", "Rule", "Success", "share of N, 95 % interval (Wilson)", "Delivered", "Refused", "Calls per task"),
        rows,
    )


def _against(shown: Sequence[Table]) -> str:
    rows = [
        (_name(each), rule_name(pair.second), *_figures(pair), p_text(pair.p_holm), reading(pair))
        for each in shown
        for pair in each.pairs
    ]
    return _section(
        "First pass against the others",
        "b: tasks on which first pass alone is right; c: the other alone. p (Holm) is adjusted for the "
        "comparisons of the same task set.",
        ("Task set", "Against", "Δ", "95 % interval (Tango)", "b", "c", "p (exact)", "mid-p", "p (Holm)", "Reading"),
        rows,
    )


def _figures(pair: Comparison) -> tuple[str, ...]:
    paired = pair.paired
    return (pp(paired.delta_pp), ci(paired), f"{paired.b}", f"{paired.c}", p_text(paired.p_exact), p_text(paired.p_mid))


def _banks(tables: Sequence[Table], shown: Sequence[Table]) -> str:
    filled = [each for each in tables if each.tasks]
    if not filled:
        return ""
    adjusted = [p_read(pair.p_holm) for pair in across(filled, "single")]
    rows = []
    for each, p_holm in zip([*filled, shown[-1]], [*adjusted, ""], strict=True):
        paired = comparison(each, "single").paired
        rows.append(
            (
                _name(each),
                f"{each.tasks}",
                f"{pp(paired.delta_pp)} pp",
                ci(paired),
                f"b={paired.b} c={paired.c}, p = {p_read(paired.p_exact)}",
                p_holm,
                f"{each.rules[GATE][-1].calls_per_task:.2f}",
            )
        )
    return _section(
        "The task banks side by side",
        "p (Holm) is adjusted for the banks of this table. The last row takes each bank as a stratum: every task is "
        "held against itself and counts once.",
        (
            "Task bank",
            "n",
            "Difference (vs one single sample)",
            "95 % interval (Tango)",
            "Statistic",
            "p (Holm)",
            "Calls per task",
        ),
        rows,
    )


def _same_budget(shown: Sequence[Table]) -> str:
    draws = shown[0].draws
    number = _number(draws)
    rows = []
    for each in (each for each in shown if each.tasks):
        pair = comparison(each, "majority")
        gate, most = each.rules[GATE][-1], each.rules["majority"][-1]
        rows.append(
            (
                _name(each),
                f"{gate.success} / {each.tasks}",
                f"{most.success} / {each.tasks}",
                f"{draws}",
                pp(pair.paired.delta_pp),
                p_text(pair.paired.p_exact),
                "" if stats.is_resolved(pair.paired.p_exact) else "unresolved",
            )
        )
    return _section(
        f"The same {number} candidates, the same {number} calls",
        f"One delivers the first that passes, the other takes a majority vote of the {number}. The budget of both is "
        f"{number} calls; the gate stops early and spends fewer.",
        ("Task bank", "Gate success", "Majority-vote success", "Calls each", "Δ", "Uncorrected p", "Reading"),
        rows,
    )


def _audits(shown: Sequence[Table]) -> str:
    rows = [(_name(each), f"{each.audit.refused}", f"{each.audit.all_wrong} / {each.audit.refused}") for each in shown]
    return _section(
        "What was refused",
        "After the fact, by the hidden tests: were all draws of a refused task wrong?",
        ("Task set", "Tasks refused", f"{_all_of(shown[0].draws).capitalize()} wrong"),
        rows,
    )


def _weak(shown: Sequence[Table]) -> str:
    rows = [
        (
            _name(each),
            f"{weak.draws}",
            f"{weak.wrong} / {weak.accepted}",
            pct(weak.wrong, weak.accepted),
            f"{weak.wrong_delivered} / {weak.delivered}",
            f"{100 * weak.limit:.2f} %",
            f"{100 * weak.limit_at_most:.2f} %",
        )
        for each in shown
        for weak in each.weak_oracle
    ]
    return _section(
        "Weak oracle: what passes and is wrong",
        "Drawing on turns refusals into deliveries, and each delivery is only as right as what the visible tests "
        "let through. With ever more draws the gate is right on a task as often as an accepted draw of that task is; "
        "the mean of that share over all tasks bounds what any number of draws can reach (Stroebl, Kapoor and "
        "Narayanan, Inference scaling fLaws, arXiv:2411.17501, 2024). Here it is estimated task by task from the "
        "first k draws. A task without an accepted draw counts as wrong in the first of the two columns, as right in "
        "the second.",
        (
            "Task set",
            "k",
            "Accepted draws that are wrong",
            "Share",
            "Delivered and wrong",
            "Limit for any number of draws",
            "The same, tasks without an accepted draw right",
        ),
        rows,
    )


def _lossy(shown: Sequence[Table]) -> str:
    rows = [
        (_name(each), f"{each.lossy_filter.correct}", f"{each.lossy_filter.refused}", _lossy_reading(each))
        for each in shown
    ]
    return _section(
        "Lossy filter: what is right and does not pass",
        "",
        ("Task set", "Correct draws", "Refused by the visible tests", "Share"),
        rows,
    )


def _lossy_reading(of: Table) -> str:
    text = pct(of.lossy_filter.refused, of.lossy_filter.correct)
    if not of.containment.holds:
        return text
    if of.lossy_filter.refused:
        return f"{text} (V ⊆ GT: a pass on V that did not repeat)"
    return f"{text} (V ⊆ GT: true by construction, no evidence)"


def _strength(shown: Sequence[Table]) -> str:
    rows = [
        (
            _name(each),
            of.name,
            f"{of.tasks}",
            proportion(of.success, of.tasks),
            f"{of.wrong} / {of.delivered}",
            pct(of.wrong, of.delivered),
            pct(of.single, of.tasks),
            pct(of.wrong_accepted, of.accepted),
            pct(of.refused_correct, of.correct),
        )
        for each in shown
        for of in each.by_strength
    ]
    text = (
        "Tasks are split by which programs that know nothing of the task pass the visible tests (`gate check`). That "
        "is read off the suites alone, before any draw. Tasks differ in more than their suites: the split describes."
    )
    header = (
        *("Task set", "Visible tests", "Tasks", "First pass right, 95 % interval (Wilson)"),
        *("Delivered and wrong", "Share", "One single draw right", "Weak oracle", "Lossy filter"),
    )
    return _section("By strength of the visible tests", text, header, rows) if rows else ""


def _difficulty(shown: Sequence[Table]) -> str:
    rows = []
    for each in shown:
        for stratum in each.difficulty:
            paired = stratum.against_single
            if paired is not None:
                counts = [f"{stratum.success[name]} / {stratum.tasks}" for name in (GATE, "single", "majority")]
                figures = (pp(paired.delta_pp), f"b={paired.b} c={paired.c}", p_read(paired.p_exact))
                rows.append((_name(each), stratum.name, *counts, *figures))
    return _section(
        "By difficulty",
        "Tasks are split by how many of their own draws are right. Where none is, or all are, no rule can differ "
        "from another but by refusing. The split is made after the fact from the same draws: it describes, "
        "it predicts nothing.",
        ("Task set", "Pool", "First pass", "One single draw", "Majority", "Δ vs single", "Statistic", "p (exact)"),
        rows,
    )


def _by_draws(shown: Sequence[Table]) -> str:
    names = list(shown[0].rules)
    rows = [
        (_name(each), f"{k + 1}", *(_at(each.rules[name][k]) for name in names), f"{100 * each.pass_at[k]:.2f} %")
        for each in shown
        for k in range(each.draws)
    ]
    return _section(
        "By number of draws",
        "Success with the first k draws, and calls per task in brackets; pass@k is how often k draws, taken at random "
        "from the pool, hold a right one (the unbiased estimator).",
        ("Task set", "k", *(rule_name(name) for name in names), "pass@k"),
        rows,
    )


def _at(counts: RuleCount) -> str:
    return f"{counts.success} ({counts.calls_per_task:.2f})"


def _how(isolation: str, draws: int, conditions: Iterable[tuple[str, str]]) -> str:
    lines = [
        ("draws", f"at most {draws} a task, as saved, in order; no model was asked"),
        ("isolation", f"`{isolation}`: {ISOLATION[isolation]}"),
        *conditions,
    ]
    return (
        "## How it was made\n\n"
        + "".join(f"- {name}: {text}\n" for name, text in lines)
        + "- p: exact two-sided McNemar; mid-p: the same less half of the observed count's probability on each side; "
        "p from .05 up is unresolved, which is not to say that the rules are alike\n"
    )


def reading(pair: Comparison) -> str:
    """What a comparison resolves; if nothing, what it could have."""
    paired = pair.paired
    if stats.is_resolved(paired.p_exact):
        return "resolved" if stats.is_resolved(pair.p_holm) else "unresolved after Holm"
    shown = stats.smallest_shown_pp(b=paired.b, c=paired.c, n=paired.n)
    could = "too few to resolve any" if shown is None else f"could have shown {shown:.1f} pp"
    return f"unresolved (n = {paired.n}: {could})"


def rule_name(name: str) -> str:
    """A rule in words; one from outside by its own name."""
    return NAMES.get(name) or marks.cell(name)


def pct(part: int, whole: int) -> str:
    """`82.68 %`; a dash where there is nothing to take a share of."""
    return f"{100 * part / whole:.2f} %" if whole else "–"


def proportion(part: int, whole: int) -> str:
    """`78.21 % [71.62, 83.63]`, the interval by Wilson."""
    if not whole:
        return "–"
    low, high = stats.wilson(part, whole)
    return f"{pct(part, whole)} [{100 * low:.2f}, {100 * high:.2f}]"


def pp(points: float) -> str:
    """`+4.47`: percentage points, always with a sign."""
    return f"{points + 0.0:+.2f}"


def ci(paired: stats.Paired) -> str:
    """`[+0.57, +8.04]`."""
    low, high = paired.ci95_pp
    return f"[{pp(low)}, {pp(high)}]"


def p_text(p: float) -> str:
    """`0.0963`; what would read as zero is said to be below the last digit."""
    return f"{p:.4f}" if p >= 0.00005 else "< 0.0001"


def p_read(p: float) -> str:
    """`0.0963 unresolved`: for a table without a column for the reading."""
    return p_text(p) if stats.is_resolved(p) else f"{p_text(p)} unresolved"


def _number(count: int) -> str:
    return _NUMBERS[count] if count < len(_NUMBERS) else str(count)


def _all_of(draws: int) -> str:
    return f"all {_number(draws)}" if draws > 1 else "the one draw"


def _name(of: Table) -> str:
    return marks.cell(of.bank)


def _section(title: str, text: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in (header, ["---"] * len(header), *rows)]
    return f"## {title}\n\n" + (f"{text}\n\n" if text else "") + "\n".join(lines) + "\n"
