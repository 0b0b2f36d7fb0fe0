"""One report of several runs or replays: side by side, as one, and nothing that cannot stand together."""

from __future__ import annotations

from dataclasses import replace

import pytest
from golden import make
from pools_made import rows_of

from gate.cli.recorded import read_recorded
from gate.errors import SpecError
from gate.report.content import Recorded, compose
from gate.report.premise import PREMISE
from gate.summary import Containment
from gate.tables import Tally, table


@pytest.fixture(scope="module")
def run() -> Recorded:
    """The golden run."""
    return read_recorded(make.RUN)


def replayed(run: Recorded, bank: str, kinds: dict[str, int], draws: int = 5) -> Recorded:
    """A replay of a bank with so many tasks of each kind."""
    tally = Tally(draws)
    for row in rows_of(kinds):
        tally.add(row)
    tasks = sum(kinds.values())
    return replace(
        run,
        source=replace(run.source, kind="replay", bank=bank),
        text=f"# Replay: {bank}\n",
        summary=None,
        table=table(tally, bank=bank, containment=Containment(tasks=tasks, contained=0)),
        conditions=(("pool", bank),),
    )


def test_runs_stand_side_by_side(run: Recorded) -> None:
    """A row for each, the premise once, V ⊆ GT for each; no figure of a run that has no headline."""
    whole = compose([run, replace(run, has_headline=False)])
    assert whole.text.startswith("# 2 runs side by side\n")
    assert whole.text.count(PREMISE) == 1 and whole.text.count(": V ⊆ GT: ") == 2
    rows = [line for line in whole.text.splitlines() if line.startswith("| ") and "`" in line]
    assert rows[0].count("|") == rows[1].count("|") == 7
    assert "3 of 4 (75.0 %) | 1 of 4 (25.0 %) | 1 of 3 (33.3 %)" in rows[0]
    assert rows[1].count("no headline") == 4
    assert whole.tiles == () and len(whole.stories) == 2 * len(run.stories)


def test_replays_stand_side_by_side_and_as_one(run: Recorded) -> None:
    """Several banks have a table together, last, and the headline counts each task once."""
    one = replayed(run, "one", {"all right": 3, "single": 2})
    two = replayed(run, "two", {"all right": 4, "refused": 1})
    whole = compose([one, two])
    assert [each.bank for each in whole.tables] == ["one", "two", "all banks"]
    assert whole.tables[-1].tasks == 10 and whole.tiles[0].note.startswith("7 of 10 tasks")
    assert whole.title == "one, two" and "- one: pool: one" in whole.text and "- two: pool: two" in whole.text
    alone = compose([one])
    assert [each.bank for each in alone.tables] == ["one"] and alone.text == one.text


def test_another_isolation_is_named(run: Recorded) -> None:
    """Where replays ran within other boundaries, that of each other one stands beside its bank."""
    one = replayed(run, "one", {"all right": 1})
    two = replayed(run, "two", {"all right": 1})
    two = replace(two, source=replace(two.source, isolation="cell"))
    assert "- two: isolation: `cell`" in compose([one, two]).text


def test_what_cannot_stand_together(run: Recorded) -> None:
    """Runs among replays, a replay without a headline, replays with other draws: one sentence each."""
    one = replayed(run, "one", {"all right": 1})
    with pytest.raises(SpecError, match="runs and replays among each other"):
        compose([run, one])
    with pytest.raises(SpecError, match="has no headline"):
        compose([one, replace(one, has_headline=False)])
    with pytest.raises(SpecError, match="other draws or rules"):
        compose([one, replayed(run, "two", {"all right": 1}, draws=4)])


def test_without_hidden_tests_there_is_no_headline_of_a_replay(run: Recorded) -> None:
    """Where nothing says what is right, no tile does."""
    one = replayed(run, "one", {"all right": 1})
    assert one.table is not None
    blind = replace(one, table=replace(one.table, containment=Containment(tasks=0, contained=0)))
    assert compose([blind]).tiles == ()
