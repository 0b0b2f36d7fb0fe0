"""The figures of a report: drawn from counts, as SVG text for a page or as PNG bytes for a slide.

Meaning never hangs on colour alone: every series has a shape, a line style or a word of its
own. In a page, ink and accents are CSS variables, so that a figure follows light and dark.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gate import stats
from gate.report.marks import visible
from gate.report.replay import rule_name
from gate.report.story import Draw, TaskStory
from gate.tables import GATE, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

INK, FAINT, ACCENT, GOOD, BAD, WARN = "#1c2126", "#9aa3ab", "#1d5fd1", "#17794a", "#b3352a", "#a86400"
_VARIABLES = {INK: "--ink", FAINT: "--faint", ACCENT: "--accent", GOOD: "--good", BAD: "--bad", WARN: "--warn"}
_WIDTH_IN = 5.4
_WIDE_IN = 10.8
_SLIDE_IN = 9.0
_BAND = 90  # tasks in one row of the outcome grid
_STYLE: Any = {
    "svg.fonttype": "none",
    "text.parse_math": False,  # a bank may be called a$b
    "svg.hashsalt": "gate",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "legend.frameon": False,
    "figure.facecolor": "white",
}
_RULE_STYLES: dict[str, tuple[str, str, str]] = {
    GATE: (ACCENT, "o", "-"),
    "single": (INK, "s", ":"),
    "majority": (WARN, "^", "--"),
    "oracle": (GOOD, "D", "-."),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One figure that is still to be drawn.

    Attributes:
        title: What is seen, with n.
        note: How it is to be read.
        height_in: Its height in inches.
        shape: How much of a page it takes: "half" of its width, all of it ("wide"), or half beside its note ("side").
    """

    name: str
    title: str
    note: str
    height_in: float
    draw: Callable[[Axes], None]
    shape: str = "half"


def figures(tables: Sequence[Table], stories: Sequence[TaskStory]) -> tuple[Figure, ...]:
    """What a report shows: of replays how the rules fare, of everything the grid of outcomes."""
    found: list[Figure] = []
    if any(table.pairs for table in tables):
        found.append(forest(tables))
    for table in tables:
        if table.tasks and table.containment.tasks:
            found += [by_draws(table), difficulty(table)]
    if any(story.draws for story in stories):
        found.append(grid(stories))
    return tuple(found)


def forest(tables: Sequence[Table]) -> Figure:
    """The gate against each other rule: differences with their intervals.

    Args:
        tables: Of one bank, or of several and last of all of them as one.
    """
    rows = [(table, pair) for table in tables for pair in table.pairs]

    def draw(axes: Axes) -> None:
        labels = []
        for place, (table, pair) in enumerate(reversed(rows)):
            low, high = pair.paired.ci95_pp
            resolved = stats.is_resolved(pair.p_holm)
            colour = ACCENT if resolved else INK
            axes.plot([low, high], [place, place], color=colour, linewidth=2, solid_capstyle="butt")
            axes.plot([pair.paired.delta_pp], [place], marker="o", markersize=8, color=colour,
                      markerfacecolor=colour if resolved else "none", linestyle="none")  # fmt: skip
            bank = f"{_named(table, 24)}: " if len(tables) > 1 else ""
            labels.append(f"{bank}{rule_name(pair.second)}")
        axes.set_yticks(range(len(rows)), labels)
        axes.set_ylim(-0.6, len(rows) - 0.4)
        axes.axvline(0, color=FAINT, linewidth=1)
        axes.set_xlabel("Δ in percentage points of all tasks")

    return Figure(
        name="forest",
        title=f"First pass against other rules, n = {tables[-1].tasks} tasks",
        note="Right of zero the gate is ahead. Point and 95 % interval (Tango): a full point is resolved after Holm, "
        "a hollow one is unresolved.",
        height_in=0.8 + 0.4 * len(rows),
        draw=draw,
        shape="side",
    )


def by_draws(table: Table) -> Figure:
    """Success by number of draws, under the ceiling, with the bound that false accepts put on any number."""
    ks = list(range(1, table.draws + 1))

    def draw(axes: Axes) -> None:
        for name, (colour, marker, line) in _RULE_STYLES.items():
            if name in table.rules:
                shares = [100 * counts.success / table.tasks for counts in table.rules[name]]
                axes.plot(ks, shares, color=colour, marker=marker, linestyle=line, label=rule_name(name))
        limits = [100 * weak.limit for weak in table.weak_oracle]
        axes.plot(ks, limits, color=BAD, marker="x", linestyle=(0, (1, 3)), label="bound by false accepts")
        axes.set_xticks(ks, [f"{k}\n{table.rules[GATE][k - 1].calls_per_task:.2f}" for k in ks])
        axes.set_xlabel("draws at most, and below it the gate's calls a task")
        axes.set_ylabel("right, % of all tasks")

    return Figure(
        name=f"draws-{table.bank}",
        title=f"Success by number of draws: {_named(table, 40)}, n = {table.tasks} tasks",
        note="The ceiling is what a chooser that knows the answers would reach. The bound is what the gate would "
        "approach with ever more draws, estimated from the first k.",
        height_in=3.5,
        draw=draw,
    )


def difficulty(table: Table) -> Figure:
    """Success by how many of a task's own draws are right."""
    strata = [stratum for stratum in table.difficulty if stratum.tasks]
    names = [name for name in (GATE, "single", "majority") if name in table.rules]
    hatches = {GATE: "", "single": "////", "majority": "...."}

    def draw(axes: Axes) -> None:
        for place, name in enumerate(names):
            colour = _RULE_STYLES[name][0]
            shares = [100 * stratum.success[name] / stratum.tasks for stratum in strata]
            at = [index + (place - 1) * 0.27 for index in range(len(strata))]
            axes.bar(at, shares, width=0.24, edgecolor=colour, facecolor=colour if not hatches[name] else "none",
                     hatch=hatches[name], linewidth=1, label=rule_name(name))  # fmt: skip
        axes.set_xticks(range(len(strata)), [f"{_folded(stratum.name)}\nn = {stratum.tasks}" for stratum in strata])
        axes.set_ylabel("right, % of the tasks")
        axes.set_ylim(0, 105)

    return Figure(
        name=f"difficulty-{table.bank}",
        title=f"By difficulty: {_named(table, 40)}, n = {table.tasks} tasks",
        note="Tasks are split by how many of their own draws are right, after the fact: it describes, it predicts "
        "nothing.",
        height_in=3.5,
        draw=draw,
    )


KINDS: tuple[tuple[str, str, str, str], ...] = (
    ("right", "passed the visible and the hidden tests", GOOD, "o"),
    ("wrong", "passed only the visible tests", BAD, "X"),
    ("lost", "passed only the hidden tests", WARN, "^"),
    ("neither", "passed neither", FAINT, "_"),
    ("passed", "passed the visible tests, hidden not measured", ACCENT, "s"),
    ("failed", "failed the visible tests, hidden not measured", FAINT, "|"),
    ("error", "our world failed", INK, "*"),
)


def kind_of(draw: Draw) -> str:
    """Which of KINDS a draw is."""
    visible, hidden = draw.visible, draw.hidden
    if any(part is not None and part.outcome == "error" for part in (visible, hidden)):
        return "error"
    let_through = visible is not None and visible.outcome == "pass"
    if hidden is None:
        return "passed" if let_through else "failed"
    right = hidden.outcome == "pass"
    return {(True, True): "right", (True, False): "wrong", (False, True): "lost", (False, False): "neither"}[
        let_through, right
    ]


def grid(stories: Sequence[TaskStory]) -> Figure:
    """Every draw of every task as one mark; tasks that are alike stand together."""
    order = {name: place for place, (name, *_) in enumerate(KINDS)}
    kinds = sorted(
        ([order[kind_of(draw)] for draw in story.draws] for story in stories), key=lambda row: (row, len(row))
    )
    bands = [kinds[start : start + _BAND] for start in range(0, len(kinds), _BAND)]
    heights = [1 + max(1, *(len(row) for row in band)) for band in bands]
    tops = [-sum(heights[:place]) for place in range(len(bands))]

    def draw(axes: Axes) -> None:
        marks: dict[int, tuple[list[float], list[float]]] = {}
        for top, band in zip(tops, bands, strict=True):
            for column, row in enumerate(band):
                for index, kind in enumerate(row):
                    xs, ys = marks.setdefault(kind, ([], []))
                    xs.append(column)
                    ys.append(top - index)
        for kind, (xs, ys) in sorted(marks.items()):
            _, words, colour, marker = KINDS[kind]
            axes.plot(xs, ys, linestyle="none", marker=marker, markersize=4.8, color=colour,
                      markeredgewidth=0 if marker in "oX^s*" else 1, label=f"{words} ({len(xs)})")  # fmt: skip
        axes.set_xlim(-1, _BAND)
        axes.set_ylim(-sum(heights) + 0.4, 0.8)
        axes.set_yticks(tops, ["draw 0"] * len(tops))
        axes.set_xticks([])
        axes.spines[["left", "bottom"]].set_visible(False)
        axes.tick_params(length=0)

    total = sum(len(row) for row in kinds)
    return Figure(
        name="grid",
        title=f"Every draw, n = {len(kinds)} tasks and {total} draws",
        note="A column is a task, its draws from top to bottom in order; where a run stops at the first pass the rest "
        "of the column stays empty. Tasks that are alike stand together.",
        height_in=0.3 + 0.125 * sum(heights) + 0.25 * -(-len({kind for row in kinds for kind in row}) // 2),
        draw=draw,
        shape="wide",
    )


def svg(figure: Figure, *, themed: bool = True) -> str:
    """A figure as SVG text, the same bytes each time; themed, it takes its colours from the page."""
    buffer = io.StringIO()
    canvas = _canvas([figure], titled=not themed)
    _save(canvas, buffer, "svg", transparent=themed)
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    if not themed:
        return text
    text = re.sub(r"#[0-9a-f]{6}", lambda found: _themed(found[0]), text)
    text = re.sub(r'<svg [^>]*?viewBox="([^"]*)"[^>]*>', r'<svg viewBox="\1" role="img">', text, count=1)
    return _lean(re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", text, flags=re.DOTALL))


def _lean(text: str) -> str:
    """SVG without what a page does not need of it: names of groups, fonts of its own, the last decimals, indents."""
    text = re.sub(r"<[^>]+>", lambda tag: re.sub(r"(\.\d\d)\d+", r"\1", tag[0]), text)
    text = re.sub(r' id="(?:[a-z0-9]+_\d+|matplotlib\.axis_\d+)"', "", text)
    text = re.sub(r" font-family: [^;\"]*;?", "", text)
    return re.sub(r"\s*\n\s*", " ", text)


def svg_of(several: Sequence[Figure]) -> str:
    """Several figures under each other as one SVG file, for slides."""
    buffer = io.StringIO()
    _save(_canvas(several, titled=True), buffer, "svg", transparent=False)
    return buffer.getvalue()


def png_of(several: Sequence[Figure], *, dots_per_inch: int = 160) -> bytes:
    """Several figures under each other as one PNG file, for slides."""
    buffer = io.BytesIO()
    _save(_canvas(several, titled=True), buffer, "png", transparent=False, dpi=dots_per_inch)
    return buffer.getvalue()


def _named(table: Table, most: int) -> str:
    """A bank's name as a figure has it, so many characters of it at most."""
    name = visible(table.bank)
    return name if len(name) <= most else f"{name[: most - 1]}…"


def _folded(words: str) -> str:
    """Words in two lines, broken about the middle."""
    middle = len(words) // 2
    breaks = [at for at, char in enumerate(words) if char == " "]
    at = min(breaks, key=lambda place: abs(place - middle), default=None)
    return words if at is None else f"{words[:at]}\n{words[at + 1 :]}"


def _themed(colour: str) -> str:
    variable = _VARIABLES.get(colour)
    return colour if variable is None else f"var({variable})"


def _canvas(several: Sequence[Figure], *, titled: bool) -> Canvas:
    import matplotlib as mpl
    from matplotlib.figure import Figure as Canvas

    with mpl.rc_context(_STYLE):
        heights = [figure.height_in + (0.35 if titled else 0) for figure in several]
        width = _SLIDE_IN if titled else {"wide": _WIDE_IN}.get(several[0].shape, _WIDTH_IN)
        canvas = Canvas(figsize=(width, sum(heights)), layout="constrained")
        rows = canvas.subfigures(len(several), 1, squeeze=False, height_ratios=heights)[:, 0]
        for row, figure in zip(rows, several, strict=True):
            axes = row.subplots()  # each with margins of its own
            figure.draw(axes)
            _legend(axes, wide=figure.shape == "wide", beside=titled)
            if titled:
                axes.set_title(figure.title, loc="left", fontweight="bold")
        return canvas


def _legend(axes: Axes, *, wide: bool, beside: bool) -> None:
    """What the marks mean: below a wide figure, beside one on a slide, else above, where it needs no more width."""
    if not axes.get_legend_handles_labels()[0]:
        return
    if wide:
        axes.legend(loc="upper left", bbox_to_anchor=(0, -0.01), ncols=2)
    elif beside:
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
    else:
        axes.legend(loc="lower left", bbox_to_anchor=(-0.02, 1), ncols=2, columnspacing=1.2)


def _save(canvas: Canvas, into: Any, kind: str, **how: Any) -> None:
    import matplotlib as mpl

    metadata = {"Date": None, "Creator": None} if kind == "svg" else {"Software": None}
    with mpl.rc_context(_STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # a name may be in any script
        canvas.savefig(into, format=kind, metadata=metadata, **how)
