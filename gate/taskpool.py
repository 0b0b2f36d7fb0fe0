"""What a replay's ledger says of one task: its pool, judged as far as it came.

A replay judges every draw on the visible and on the hidden tests. The decision of the
gate stands between the two, so the hidden tests cannot have had a part in it. What ended
because our own world failed (`error`, `infra`) is not final and may be superseded; any
other second answer is an integrity error, never last-wins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from gate import outcomes, records, rules
from gate.errors import IntegrityError
from gate.history import Judged
from gate.model import Candidate, Decision, Json, Observation, Outcome, Task, Verdict
from gate.outcomes import Cell, Row

PARTS = ("visible", "hidden")


@dataclass(slots=True)
class TaskPool:
    """The pool of one task so far.

    Attributes:
        candidates: The draws, in order.
        verdicts: Theirs, by part and draw.
        looks: The observations under the visible calls, by the digest of their line.
        decision: What the gate makes of the pool.
    """

    candidates: list[Candidate] = field(default_factory=list)
    verdicts: dict[str, dict[int, Judged]] = field(default_factory=lambda: {part: {} for part in PARTS})
    looks: dict[str, Observation] = field(default_factory=dict)
    decision: Decision | None = None

    def final(self, part: str, index: int) -> Judged | None:
        """The verdict on one draw, where there is one that stands."""
        found = self.verdicts[part].get(index)
        return None if found is None or found.verdict.outcome is Outcome.ERROR else found


def fold_pool(found: Iterable[tuple[str, dict[str, Json]]]) -> TaskPool:
    """The pool that the records of one task tell, each with the digest of its line.

    Raises:
        IntegrityError: They contradict each other.
    """
    pool = TaskPool()
    for digest, record in found:
        kind = record["kind"]
        if kind == "candidate":
            _add_candidate(pool, records.read_candidate(record))
        elif kind == "observation" and record["part"] == "visible":
            pool.looks[digest] = records.read_observation(record)
        elif kind == "verdict":
            _add_verdict(pool, record)
        elif kind == "decision":
            _add_decision(pool, records.read_decision(record))
    return pool


def _add_candidate(pool: TaskPool, candidate: Candidate) -> None:
    if candidate.index != len(pool.candidates):
        where = f"draw {candidate.index} of {candidate.task_id!r}"
        raise IntegrityError(f"the ledger has {where} out of turn: draw {len(pool.candidates)} would be next")
    if pool.decision is not None and pool.decision.outcome != "infra":
        raise IntegrityError(f"the ledger draws {candidate.task_id!r} again after its decision")
    pool.candidates.append(candidate)


def _add_verdict(pool: TaskPool, record: dict[str, Json]) -> None:
    index, part = record["index"], record["part"]
    where = f"draw {index} of {record['task']!r}"
    if not 0 <= index < len(pool.candidates):
        raise IntegrityError(f"the ledger judges {where}, which was never drawn")
    if pool.final(part, index) is not None:
        raise IntegrityError(f"the ledger has two {part} verdicts on {where}")
    if part == "hidden" and pool.decision is None:
        raise IntegrityError(f"the ledger measures {where} before the decision")
    if part == "visible" and pool.decision is not None and index not in pool.verdicts[part]:
        raise IntegrityError(f"the ledger judges {where} after its decision")
    pool.verdicts[part][index] = Judged(verdict=records.read_verdict(record), seen=tuple(record["seen"]))


def _add_decision(pool: TaskPool, decision: Decision) -> None:
    if pool.decision is not None and pool.decision.outcome != "infra":
        raise IntegrityError(f"the ledger decides {decision.task_id!r} twice")
    pool.decision = decision


def parts_of(task: Task) -> Sequence[str]:
    """The parts that a task has tests for."""
    return [part for part in PARTS if rules.part_of(task.suite, part)[0]]


def is_complete(task: Task, pool: TaskPool, draws: int) -> bool:
    """Whether every draw is judged and the decision stands: nothing is left to do."""
    return (
        len(pool.candidates) == draws
        and pool.decision is not None
        and pool.decision.outcome != "infra"
        and all(pool.final(part, index) is not None for part in parts_of(task) for index in range(draws))
    )


def decide_pool(task: Task, candidates: Sequence[Candidate], visible: Sequence[Verdict]) -> Decision:
    """What the gate makes of a pool of which more is judged than it would have asked for.

    It stops at the first draw that is no failure, and draws after it are not used up.
    """
    fails = takewhile(lambda verdict: verdict.outcome is Outcome.FAIL, visible)
    asked = min(len(visible), sum(1 for _ in fails) + 1)
    return rules.decide(task, candidates[:asked], visible[:asked])


def row_of(task: Task, pool: TaskPool) -> Row:
    """The pool as the rules over pools see it."""
    missing = sum("missing" in candidate.origin for candidate in pool.candidates)
    return Row(task_id=task.id, cells=tuple(_cells(task, pool)), missing=missing)


def _cells(task: Task, pool: TaskPool) -> Iterator[Cell]:
    for index, candidate in enumerate(pool.candidates):
        visible, hidden = (pool.verdicts[part].get(index) for part in PARTS)
        looks = [] if visible is None else [pool.looks[each] for each in visible.seen if each in pool.looks]
        yield outcomes.judged(
            candidate,
            task.suite.limits,
            visible=None if visible is None else visible.verdict,
            hidden=None if hidden is None else hidden.verdict,
            seen=looks,
        )
