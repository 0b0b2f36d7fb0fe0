"""How far a ledger has brought each task: what a resumed run goes on from.

A record that contradicts one before it is an integrity error, never last-wins: a second
candidate for one draw, one out of turn, a verdict on a draw that is not there, a second
final verdict, a delivery of what was never drawn, a second final decision, anything that
decides after the decision and anything that measures before it. What ended because our
own world failed (`error`, `infra`) is not final and may be superseded.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from gate import records
from gate.errors import IntegrityError
from gate.model import Candidate, Decision, Json, Outcome, Verdict
from gate.money import read_tokens

_TEXT_OR_NONE = (str, type(None))
_COUNT_OR_NONE = (int, type(None))
_OF_DRAW: dict[str, tuple[type, ...]] = {"task": (str,), "index": (int,)}
_FORMS: dict[str, dict[str, tuple[type, ...]]] = {
    "run": {"run": (str,)},
    "asked": {**_OF_DRAW, "attempt": (int,), "worst": (dict,)},
    "fault": {**_OF_DRAW, "what": (str,), "billed": (dict, type(None))},
    "candidate": {**_OF_DRAW, "digest": (str,), "code": (str,), "origin": (dict,)},
    "observation": {
        **_OF_DRAW,
        **dict.fromkeys(("part", "candidate", "calls", "exit", "detail", "output_tail"), (str,)),
        "replies": (list,),
        "load": (dict, type(None)),
        "limit": _TEXT_OR_NONE,
        "usage": (dict,),
        "where": (dict,),
    },
    "verdict": {
        **_OF_DRAW,
        **dict.fromkeys(("part", "outcome", "detail"), (str,)),
        "reason": _TEXT_OR_NONE,
        "test": _COUNT_OR_NONE,
        "usage": (dict,),
        "tests": (dict,),
        "suite": (str,),
        "seen": (list,),
    },
    "decision": {
        **dict.fromkeys(("task", "outcome"), (str,)),
        **dict.fromkeys(("delivered", "reason"), _TEXT_OR_NONE),
        "index": _COUNT_OR_NONE,
        "draws": (int,),
    },
    "closed": dict.fromkeys(("tasks", "delivered", "refused", "infra", "not_run", "draws"), (int,)),
}
_WORDS = {
    "observation": ("part", ("visible", "hidden")),
    "verdict": ("part", ("visible", "hidden")),
    "decision": ("outcome", ("delivered", "refused", "infra")),
}
_REPLIES = ("returned", "raised", "printed", "unserialisable", "too_large")
_READ = {
    "candidate": records.read_candidate,
    "observation": records.read_observation,
    "verdict": records.read_verdict,
    "decision": records.read_decision,
}


def check(record: dict[str, Json]) -> None:
    """See that a record is one of ours: of a known kind, whole, and with every field of its type.

    Raises:
        IntegrityError: It is not.
    """
    kind = record["kind"]
    if not isinstance(kind, str) or kind not in _FORMS:
        raise IntegrityError(f"a record of unknown kind {kind!r} (known: {', '.join(_FORMS)})")
    for name, types in _FORMS[kind].items():
        if name not in record or type(record[name]) not in types:
            raise IntegrityError(f"a {kind} record without a proper {name!r}")
    name, words = _WORDS.get(kind, ("kind", (kind,)))
    if record[name] not in words:
        raise IntegrityError(f"a {kind} record with unknown {name} {record[name]!r} (known: {', '.join(words)})")
    try:
        _READ.get(kind, dict)(record)
        _check_parts(record)
    except (KeyError, TypeError, ValueError, AttributeError) as exc:
        raise IntegrityError(f"a {kind} record that cannot be read: {exc!r}") from exc


def _check_parts(record: dict[str, Json]) -> None:
    """What reading takes as it is: numbers, digests and the kinds of replies."""
    counts = record.get("tests", {}).values()
    numbers = record.get("usage", {}).values()
    tokens = [record[name] for name in ("worst", "billed") if record.get(name) is not None]
    kinds = [reply["kind"] for reply in record.get("replies", ())]
    if any(type(count) is not int for count in counts):
        raise ValueError("a count that is no whole number")
    if any(read_tokens(each) is None for each in tokens):
        raise ValueError("tokens that are no whole numbers")
    if any(type(number) not in (int, float, type(None)) for number in numbers):
        raise ValueError("a usage that is no number")
    if any(type(digest) is not str for digest in record.get("seen", ())):
        raise ValueError("a digest that is no text")
    if any(kind not in _REPLIES for kind in kinds):
        raise ValueError(f"a reply that is none of {', '.join(_REPLIES)}")


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
            IntegrityError: It is none of ours, or contradicts an earlier one.
        """
        check(record)
        kind = record["kind"]
        if kind in ("candidate", "verdict", "decision"):
            task = self.tasks.setdefault(record["task"], TaskHistory())
            if kind == "candidate":
                _add_candidate(task, records.read_candidate(record))
            elif kind == "decision":
                _add_decision(task, records.read_decision(record))
            elif record["part"] == "visible":
                _add_verdict(task, record)
            else:
                _add_measurement(task, record)

    def task(self, task_id: str) -> TaskHistory:
        """One task's history; an empty one where nothing has happened."""
        return self.tasks.get(task_id) or TaskHistory()


def fold(found: Iterable[dict[str, Json]]) -> History:
    """The history that some records tell.

    Raises:
        IntegrityError: They are none of ours, or contradict each other.
    """
    history = History()
    for record in found:
        history.add(record)
    return history


def _add_candidate(task: TaskHistory, candidate: Candidate) -> None:
    where = f"draw {candidate.index} of {candidate.task_id!r}"
    if task.is_decided:
        raise IntegrityError(f"the ledger draws {candidate.task_id!r} again after its decision")
    if candidate.index in task.candidates:
        raise IntegrityError(f"the ledger has two candidates for {where}")
    if candidate.index != len(task.candidates):
        raise IntegrityError(f"the ledger has {where} out of turn: draw {len(task.candidates)} would be next")
    task.candidates[candidate.index] = candidate


def _add_verdict(task: TaskHistory, record: dict[str, Json]) -> None:
    where = f"draw {record['index']} of {record['task']!r}"
    if task.is_decided:
        raise IntegrityError(f"the ledger judges {where} after its decision")
    if record["index"] not in task.candidates:
        raise IntegrityError(f"the ledger judges {where}, which was never drawn")
    before = task.verdicts.get(record["index"])
    if before is not None and before.verdict.outcome is not Outcome.ERROR:
        raise IntegrityError(f"the ledger has two verdicts on {where}: {before.verdict.outcome.value}, then another")
    task.verdicts[record["index"]] = Judged(verdict=records.read_verdict(record), seen=tuple(record["seen"]))


def _add_measurement(task: TaskHistory, record: dict[str, Json]) -> None:
    """Hidden tests measure what was delivered, once, and after the decision: so they cannot have decided it."""
    where = f"draw {record['index']} of {record['task']!r}"
    if not task.is_decided or task.decision is None or record["index"] != task.decision.index:
        raise IntegrityError(f"the ledger measures {where}, which is not delivered")
    if task.measured:
        raise IntegrityError(f"the ledger measures {where} twice")
    task.measured = records.read_verdict(record).outcome is not Outcome.ERROR


def _add_decision(task: TaskHistory, decision: Decision) -> None:
    if task.is_decided:
        raise IntegrityError(f"the ledger decides {decision.task_id!r} twice")
    drawn = None if decision.index is None else task.candidates.get(decision.index)
    if decision.outcome == "delivered" and (drawn is None or drawn.digest != decision.delivered):
        raise IntegrityError(f"the ledger delivers for {decision.task_id!r} what was never drawn")
    task.decision = decision
    if task.is_decided:
        task.candidates = {} if drawn is None else {drawn.index: drawn}
        task.verdicts = {}
