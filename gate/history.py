"""How far a ledger has brought each task: what a resumed run goes on from.

A record that contradicts one before it is an integrity error, never last-wins: a second
candidate for one draw, a second final verdict on it, a second final decision. What ended
because our own world failed (`error`, `infra`) is not final and may be superseded.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from gate import records
from gate.errors import IntegrityError
from gate.model import Candidate, Decision, Json, Outcome, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A verdict, with the digests of the ledger lines of the observations it rests on."""

    verdict: Verdict
    seen: tuple[str, ...] = ()


@dataclass(slots=True)
class TaskHistory:
    """One task so far."""

    candidates: dict[int, Candidate] = field(default_factory=dict)
    verdicts: dict[int, Judged] = field(default_factory=dict)
    decision: Decision | None = None
    measured: bool = False

    @property
    def is_decided(self) -> bool:
        """Whether there is a decision that stands."""
        return self.decision is not None and self.decision.outcome != "infra"


@dataclass(slots=True)
class History:
    """All tasks so far, folded from records in order; programs are kept only while they are needed."""

    tasks: dict[str, TaskHistory] = field(default_factory=dict)

    def add(self, record: dict[str, Json]) -> None:
        """Take in one record.

        Raises:
            IntegrityError: It contradicts an earlier one.
        """
        kind = record["kind"]
        if kind in ("candidate", "verdict", "decision"):
            task = self.tasks.setdefault(record["task"], TaskHistory())
            if kind == "candidate":
                _add_candidate(task, records.read_candidate(record))
            elif kind == "verdict":
                _add_verdict(task, record)
            else:
                _add_decision(task, records.read_decision(record))

    def task(self, task_id: str) -> TaskHistory:
        """One task's history; an empty one where nothing has happened."""
        return self.tasks.get(task_id) or TaskHistory()


def fold(found: Iterable[dict[str, Json]]) -> History:
    """The history that some records tell.

    Raises:
        IntegrityError: They contradict each other.
    """
    history = History()
    for record in found:
        history.add(record)
    return history


def _add_candidate(task: TaskHistory, candidate: Candidate) -> None:
    if task.is_decided:
        raise IntegrityError(f"the ledger draws {candidate.task_id!r} again after its decision")
    if candidate.index in task.candidates:
        raise IntegrityError(f"the ledger has two candidates for draw {candidate.index} of {candidate.task_id!r}")
    task.candidates[candidate.index] = candidate


def _add_verdict(task: TaskHistory, record: dict[str, Json]) -> None:
    verdict = records.read_verdict(record)
    where = f"draw {record['index']} of {record['task']!r}"
    if record["part"] == "hidden":
        if task.measured:
            raise IntegrityError(f"the ledger measures {where} twice")
        task.measured = verdict.outcome is not Outcome.ERROR
        return
    before = task.verdicts.get(record["index"])
    if before is not None and before.verdict.outcome is not Outcome.ERROR:
        raise IntegrityError(f"the ledger has two verdicts on {where}: {before.verdict.outcome.value}, then another")
    task.verdicts[record["index"]] = Judged(verdict=verdict, seen=tuple(record["seen"]))


def _add_decision(task: TaskHistory, decision: Decision) -> None:
    if task.is_decided:
        raise IntegrityError(f"the ledger decides {decision.task_id!r} twice")
    task.decision = decision
    if task.is_decided:
        kept = {} if decision.index is None else {decision.index: task.candidates.get(decision.index)}
        task.candidates = {index: candidate for index, candidate in kept.items() if candidate is not None}
        task.verdicts = {}
