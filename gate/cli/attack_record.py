"""What `gate attack` leaves behind: a record of every outcome, and the table that a reader wants of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from gate import attacks
from gate.attacks import Row
from gate.backends.rundir import write_atomically
from gate.errors import SpecError
from gate.model import Json, digest_bytes
from gate.report import marks
from gate.resources import checkout_dir
from gate.verify import Mismatch

RECORD = "attack.json"
TABLE = "ATTACK.md"


def read_seed() -> tuple[dict[str, Json], ...]:
    """The published rows, which stand in a checkout; none without one."""
    folder = checkout_dir("experiments")
    path = None if folder is None else folder / "attacks" / "seed.json"
    return () if path is None else tuple(json.loads(path.read_text(encoding="utf-8")))


def write_record(out: Path, record: dict[str, Json], text: str) -> None:
    """Write both files; an outcome is one line of the record."""
    rest = {name: value for name, value in record.items() if name != "outcomes"}
    lines = ",\n".join(json.dumps(each) for each in record["outcomes"])
    whole = f'{json.dumps(rest, indent=1)[:-2]},\n "outcomes": [\n{lines}\n]}}\n'
    write_atomically(out / TABLE, text.encode())
    write_atomically(out / RECORD, whole.encode())


def report(bank: str, rows: Sequence[Row], seed: Sequence[dict[str, Json]], left_out: Sequence[str]) -> str:
    """ATTACK.md: the matrix, what the self-checks saw, and the published rows beside ours."""
    parts = [
        f"# Attack the gauge: {marks.plain(bank)}\n",
        "How many of N attacks got through: what must never be delivered was. The same suites stand in each gauge, "
        "as code in the candidate's process, as code in a process of its own, and as data.\n",
        *(
            [f"Left out, because the honest suite refuses its own reference: {marks.plain(', '.join(left_out))}.\n"]
            * bool(left_out)
        ),
        _table(
            ("attack", "gauge", "delivered of N, 95 % (Wilson)", "its self-check", "against data: b, c, exact p"),
            (
                (row.attack, f"`{row.gauge}`", attacks.share(row), row.self_check or "–", _paired_words(row))
                for row in rows
            ),
        ),
        *_drops(rows),
        "## Beside the published figures\n",
        _table(("published stage", "published", "here", "why they differ"), attacks.seed_rows(seed, rows)),
        "`generic_gauged` and `weak_oracle` are what is left: no gauge knows better than its tests. `gate check` says "
        "which suites are weak, and GT measures what they let through.\n",
    ]
    return "\n".join(parts)


def _paired_words(row: Row) -> str:
    paired = row.against_data
    return "–" if paired is None else f"b = {paired.b}, c = {paired.c}, p = {paired.p_exact:.2g}"


def _drops(rows: Sequence[Row]) -> Iterator[str]:
    """How far the delivery of real candidates falls under a gauge that changes after its check."""
    dropped = [row for row in rows if row.drop is not None]
    if dropped:
        yield "## A stateful gauge: what happens to honest candidates\n"
        yield _table(
            ("gauge", "delivery of the pool's own candidates", "95 % (Tango)", "its self-check"),
            (
                (f"`{row.gauge}`", f"{0.0 - row.drop.delta_pp:+.2f} pp, {row.drop.b} of {row.drop.n} tasks lost",
                 f"[{-row.drop.ci95_pp[1]:+.2f}, {-row.drop.ci95_pp[0]:+.2f}]", row.self_check or "–")
                for row in dropped
                if row.drop is not None
            ),
        )  # fmt: skip


def _table(header: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    rows = [header, ["---"] * len(header), *lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows) + "\n"


def is_record(path: Path) -> bool:
    """Whether a path is what `gate attack --out` wrote: the folder or the file."""
    return (path / RECORD).is_file() or (path.is_file() and path.name == RECORD)


def verify_record(path: Path) -> list[Mismatch]:
    """What in a recorded experiment does not follow from its outcomes.

    Raises:
        SpecError: It cannot be read.
    """
    folder = path if path.is_dir() else path.parent
    try:
        told = json.loads((folder / RECORD).read_bytes())
        outcomes = [attacks.read_outcome(each) for each in told["outcomes"]]
        claimed = told["rows"]
        bank, left_out = str(told["bank"]), [str(each) for each in told["left_out"]]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as exc:
        raise SpecError(f"{folder / RECORD}: is no record of gate attack ({exc!r})") from exc
    rows = attacks.rows(outcomes)
    found = [
        Mismatch(where=f"rows[{number}]", claimed=json.dumps(one), derived=json.dumps(other))
        for number, (one, other) in enumerate(_beside(claimed, [row.as_json() for row in rows]))
        if one != other
    ]
    text = folder / TABLE
    if text.is_file() and text.read_text(encoding="utf-8", errors="replace") != report(
        bank, rows, read_seed(), left_out
    ):
        found.append(Mismatch(where=TABLE, claimed=digest_bytes(text.read_bytes()), derived="another text"))
    return found


def _beside(claimed: Json, derived: list[Json]) -> Iterator[tuple[Json, Json]]:
    told = claimed if isinstance(claimed, list) else []
    for number in range(max(len(told), len(derived))):
        yield (told[number : number + 1] or [None])[0], (derived[number : number + 1] or [None])[0]
