"""Every claim of a recorded run derived again, by somebody who trusts nobody.

Theory of operation. The ledger is read twice. The first time line by line: the chain,
and which lines speak of which task. The second time task by task, in the bank's order,
with the task's suite at hand: every verdict must follow from the observations that it
names, the draws must be those that the rule asks for, the decision must follow from the
verdicts. Nothing is kept in memory but a few numbers a line. What does not derive is a
`Mismatch`, with where it stands, what is claimed and what derives.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass

from gate import records, rules
from gate.model import Candidate, Decision, Json, Observation, Outcome, Task, Verdict, digest_json
from gate.taskpool import PARTS, TaskPool, decide_pool, fold_pool, parts_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """One claim that does not derive."""

    where: str
    claimed: str
    derived: str

    def as_json(self) -> dict[str, Json]:
        """As `gate.verify/1` spells it."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """One record of a task, with the digest of its line."""

    digest: str
    record: dict[str, Json]


def verify_task(task: Task, noted: Sequence[Noted], *, draws: int, full_pool: bool, closed: bool) -> Iterator[Mismatch]:
    """What does not derive in one task's records.

    Args:
        task: The task, with its suite as the run loaded it.
        noted: All records of the task, in the ledger's order, each whole and of a known kind.
        draws: How many draws the run permits.
        full_pool: Whether it goes on drawing after a pass.
        closed: Whether the ledger says that all is done.
    """
    candidates: dict[int, Candidate] = {}
    for each in _of_kind(noted, "candidate"):
        candidate = records.read_candidate(each.record)
        candidates[candidate.index] = candidate
        if candidate.digest != each.record["digest"]:
            yield _mismatch(task, f"candidate {candidate.index}", each.record["digest"], candidate.digest)
    yield from _verify_requests(task, noted)
    yield from _verify_observations(task, noted, candidates)
    yield from _verify_verdicts(task, noted, candidates, unseen=("hidden",))
    yield from _verify_decision(task, noted, candidates, draws=draws, full_pool=full_pool, closed=closed)


def verify_pool(task: Task, noted: Sequence[Noted], *, draws: int, closed: bool) -> Iterator[Mismatch]:
    """What does not derive in one task's records of a replay, in which every draw is judged on both parts.

    Args:
        task: The task, with its suite as the replay loaded it.
        noted: All records of the task, in the ledger's order, each whole and of a known kind.
        draws: How many draws of each task there are.
        closed: Whether the ledger says that all is done.

    Raises:
        IntegrityError: The records contradict each other.
    """
    pool = fold_pool((each.digest, each.record) for each in noted)
    for each in _of_kind(noted, "candidate"):
        found = pool.candidates[each.record["index"]].digest
        if found != each.record["digest"]:
            yield _mismatch(task, f"candidate {each.record['index']}", each.record["digest"], found)
    candidates = dict(enumerate(pool.candidates))
    yield from _verify_observations(task, noted, candidates)
    yield from _verify_verdicts(task, noted, candidates, unseen=PARTS)
    yield from _verify_whole(task, pool, draws=draws, closed=closed)
    yield from _verify_pool_decision(task, pool, closed=closed)


def _verify_whole(task: Task, pool: TaskPool, *, draws: int, closed: bool) -> Iterator[Mismatch]:
    """No draw beyond those asked for; once closed, none is left out and none is left unjudged."""
    found = len(pool.candidates)
    if found > draws or (closed and found < draws):
        yield _mismatch(task, "draws", found, draws)
    for part in PARTS:
        due = list(range(draws)) if part in parts_of(task) else []
        judged = sorted(pool.verdicts[part])
        if not set(judged) <= set(due) or (closed and judged != due):
            yield _mismatch(task, f"{part} verdicts", judged, due)


def _verify_pool_decision(task: Task, pool: TaskPool, *, closed: bool) -> Iterator[Mismatch]:
    """The gate's decision follows from the visible verdicts."""
    claimed, visible = pool.decision, pool.verdicts["visible"]
    if claimed is None:
        if closed:
            yield _mismatch(task, "decision", "the replay is closed", "there is none")
        return
    judged = [index for index in sorted(visible) if index < len(pool.candidates)]
    derived = decide_pool(
        task, [pool.candidates[index] for index in judged], [visible[index].verdict for index in judged]
    )
    # A draw that was judged again may wait for the decision that follows from it.
    if derived != claimed and (closed or claimed.outcome != "infra"):
        yield _mismatch(task, "decision", _decision_text(claimed), _decision_text(derived))


def _mismatch(task: Task, what: str, claimed: object, derived: object) -> Mismatch:
    return Mismatch(where=f"{task.id}: {what}", claimed=str(claimed)[:500], derived=str(derived)[:500])


def _of_kind(noted: Sequence[Noted], kind: str) -> Iterator[Noted]:
    return (each for each in noted if each.record["kind"] == kind)


def _verify_requests(task: Task, noted: Sequence[Noted]) -> Iterator[Mismatch]:
    """A draw that took so many requests stands behind the records of as many, so none of them is free."""
    asked: Counter[int] = Counter()
    for each in noted:
        kind, index = each.record["kind"], each.record.get("index", 0)
        asked[index] += kind == "asked"
        claimed = each.record["origin"].get("attempts") if kind == "candidate" else None
        if type(claimed) is int and claimed > asked[index]:
            yield _mismatch(task, f"candidate {index}: requests", claimed, asked[index])


def _verify_observations(task: Task, noted: Sequence[Noted], candidates: dict[int, Candidate]) -> Iterator[Mismatch]:
    """An observation is of a candidate that was drawn, under the calls of this suite."""
    calls = {
        "visible": digest_json([call.as_json() for call in task.suite.calls]),
        "hidden": digest_json([call.as_json() for call in task.suite.hidden_calls]),
    }
    for each in _of_kind(noted, "observation"):
        index, part = each.record["index"], each.record["part"]
        what = f"observation of draw {index}, {part}"
        candidate = candidates.get(index)
        drawn = "no such draw" if candidate is None else candidate.digest
        if each.record["candidate"] != drawn:
            yield _mismatch(task, f"{what}: candidate", each.record["candidate"], drawn)
        if each.record["calls"] != calls.get(part):
            yield _mismatch(task, f"{what}: calls", each.record["calls"], calls.get(part))


def _verify_verdicts(
    task: Task, noted: Sequence[Noted], candidates: dict[int, Candidate], *, unseen: Collection[str]
) -> Iterator[Mismatch]:
    """A verdict is by the suite of its task, and follows from the observations that it names by the rules alone.

    Args:
        unseen: The parts of which a record may say that our world failed before anything was seen.
    """
    seen = {each.digest: each.record for each in _of_kind(noted, "observation")}
    for each in _of_kind(noted, "verdict"):
        what = f"verdict on draw {each.record['index']}, {each.record['part']}"
        claimed = records.read_verdict(each.record)
        if each.record["suite"] != task.suite.digest:
            yield _mismatch(task, f"{what}: suite", each.record["suite"], task.suite.digest)
        derived = _derive_verdict(task, each.record, seen, candidates, unseen)
        if derived != claimed:
            yield _mismatch(
                task, what, verdict_text(claimed), derived if isinstance(derived, str) else verdict_text(derived)
            )


def _derive_verdict(
    task: Task,
    record: dict[str, Json],
    seen: dict[str, dict[str, Json]],
    candidates: dict[int, Candidate],
    unseen: Collection[str],
) -> Verdict | str:
    """The verdict that the named observations give, or why they give none."""
    candidate = candidates.get(record["index"])
    if candidate is None:
        return "no such draw"
    screened = rules.screen(candidate)
    if screened is not None:
        return screened
    if not record["seen"] and record["part"] in unseen and record["outcome"] == Outcome.ERROR.value:
        return rules.unmeasured(task.suite, record["part"], record["detail"])
    looks: list[Observation] = []
    for digest in record["seen"]:
        each = seen.get(digest)
        if each is None or each["part"] != record["part"] or each["candidate"] != candidate.digest:
            return "it rests on an observation that is not in the ledger, or is of something else"
        looks.append(records.read_observation(each))
    try:
        return _conclude(task, record["part"], looks)
    except (KeyError, TypeError, ValueError, AttributeError) as exc:  # only a forger's replies are of no proper form
        return f"the rules can make nothing of its observations: {exc!r}"


def _conclude(task: Task, part: str, looks: Sequence[Observation]) -> Verdict | str:
    suite = task.suite
    tests, repeat = rules.part_of(suite, part)
    for number, look in enumerate(looks):
        step = rules.next_step(tests, suite.limits, looks[:number], repeat=repeat)
        if isinstance(step, Verdict):
            return "the rules ask for fewer observations"
        if (look.where.get("seed"), look.where.get("alone")) != (step.seed, step.alone):
            return f"the rules ask for a look under seed {step.seed}, alone: {step.alone}"
    step = rules.next_step(tests, suite.limits, looks, repeat=repeat)
    return step if isinstance(step, Verdict) else "the rules ask for more observations"


def verdict_text(verdict: Verdict) -> str:
    words = f"{verdict.outcome.value}, {verdict.reason}, test {verdict.test}, {verdict.passed} of {verdict.total}"
    return f"{words}: {verdict.detail}" if verdict.detail else words


def _verify_decision(
    task: Task,
    noted: Sequence[Noted],
    candidates: dict[int, Candidate],
    *,
    draws: int,
    full_pool: bool,
    closed: bool,
) -> Iterator[Mismatch]:
    """The decision that stands follows from the verdicts; nothing was drawn beyond the rule, nothing left out."""
    decisions = [records.read_decision(each.record) for each in _of_kind(noted, "decision")]
    verdicts = _verdicts(noted, "visible")
    judged = [index for index in sorted(candidates) if index in verdicts]
    derived = rules.decide(task, [candidates[index] for index in judged], [verdicts[index] for index in judged])
    if not decisions:
        if closed:
            yield _mismatch(task, "decision", "the run is closed", "there is none")
        return
    claimed = decisions[-1]
    if claimed.outcome == "infra":
        yield from _verify_infra(task, claimed, derived, verdicts, draws=draws, full_pool=full_pool)
        return
    if derived != claimed:
        yield _mismatch(task, "decision", _decision_text(claimed), _decision_text(derived))
        return
    asked = draws if full_pool or derived.index is None else derived.index + 1
    wanted = list(range(asked if task.suite.tests else 0))
    if sorted(candidates) != wanted:
        yield _mismatch(task, "draws", sorted(candidates), wanted)
    needed = wanted if derived.index is None else wanted[: derived.index + 1]
    if sorted(verdicts) != needed:
        yield _mismatch(task, "verdicts", sorted(verdicts), needed)
    measured = sorted(_verdicts(noted, "hidden"))
    due = [derived.index] if derived.index is not None and task.suite.hidden else []
    if measured != due and (measured or closed):
        yield _mismatch(task, "hidden verdicts", measured, due)


def _verify_infra(
    task: Task, claimed: Decision, derived: Decision, verdicts: dict[int, Verdict], *, draws: int, full_pool: bool
) -> Iterator[Mismatch]:
    """The failure of our world was never ours to see, but it cannot stand where the verdicts decide."""
    final = sum(verdict.outcome is not Outcome.ERROR for verdict in verdicts.values())
    refused = derived.outcome == "refused" and (final >= draws or not task.suite.tests)
    # While a full pool is drawn after a pass, our world can still fail.
    if refused or (derived.outcome == "delivered" and not full_pool):
        yield _mismatch(task, "decision", _decision_text(claimed), _decision_text(derived))
    elif not final <= claimed.draws <= len(verdicts):
        yield _mismatch(task, "decision: draws", claimed.draws, len(verdicts))


def _verdicts(noted: Sequence[Noted], part: str) -> dict[int, Verdict]:
    """The verdicts of one part that stand, by draw."""
    return {
        each.record["index"]: records.read_verdict(each.record)
        for each in _of_kind(noted, "verdict")
        if each.record["part"] == part
    }


def _decision_text(decision: Decision) -> str:
    return f"{decision.outcome}, draw {decision.index}, {decision.reason}, after {decision.draws}"
