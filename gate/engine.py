"""The loop: draw until a candidate passes, or refuse.

Theory of operation. Tasks run side by side, `concurrency` at a time; the draws of one
task run one after another, so "first" means lowest index and nothing is drawn that the
rule would not have asked for. What each seam brings is appended to the ledger before
anything follows from it, and a verdict names the observations that it rests on. A
BackendError ends its task as `infra`, with its reason; an IntegrityError, and a source
that would refuse every other task as well, end the run. A budget that is spent leaves the
task that wanted more as it is; what is being judged beside it comes to its end.
Cancellation goes through at any await and leaves a ledger that tells how far it came: a
later run takes each task's history from it, uses what was drawn and judged, and goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import anyio

from gate import records, rules
from gate.errors import BackendError, BudgetSpent, FatalSourceError
from gate.history import History, Judged, TaskHistory
from gate.model import Call, Candidate, Decision, Observation, Outcome, Task, Test, Verdict
from gate.seams import CandidateSource, Ledger, Sandbox


class TaskRun:
    """One task on its way to a decision, with the seams that it uses.

    Args:
        task: What is asked.
        history: What an earlier run has drawn and judged of it.
    """

    def __init__(
        self, task: Task, history: TaskHistory, *, source: CandidateSource, sandbox: Sandbox, ledger: Ledger
    ) -> None:
        self.task = task
        self._history = history
        self._source = source
        self._sandbox = sandbox
        self._ledger = ledger
        self._known: dict[str, Judged] = {}

    async def decide(self, *, draws: int = rules.MAX_DRAWS, full_pool: bool = False) -> Decision:
        """Draw until a candidate passes, or refuse; then measure what was delivered.

        Args:
            draws: How many draws at most.
            full_pool: Go on drawing after a pass, so that the pool can be replayed; the
                decision is the same.
        """
        decision = self._history.decision
        delivered = None if decision is None or decision.index is None else self._history.candidates[decision.index]
        if decision is None or not self._history.is_decided:
            decision, delivered = await self._draw_and_judge(draws, full_pool)
            self._ledger.append("decision", records.decision_record(decision))
        if delivered is not None and self.task.suite.hidden and not self._history.measured:
            await self._measure(delivered)
        return decision

    async def _draw_and_judge(self, draws: int, full_pool: bool) -> tuple[Decision, Candidate | None]:
        """The decision, and the candidate that it delivers."""
        candidates: list[Candidate] = []
        verdicts: list[Verdict] = []
        decision = rules.decide(self.task, candidates, verdicts)
        try:
            for index in range(draws if self.task.suite.tests else 0):
                candidates.append(self._history.candidates.get(index) or await self._draw(index))
                if decision.outcome != "delivered":
                    verdicts.append(await self._judge(candidates[index]))
                    decision = rules.decide(self.task, candidates[: index + 1], verdicts)
                if decision.outcome == "infra" or (decision.outcome == "delivered" and not full_pool):
                    break
        except FatalSourceError:
            raise
        except BackendError as exc:
            return Decision(task_id=self.task.id, outcome="infra", reason=str(exc), draws=len(verdicts)), None
        return decision, None if decision.index is None else candidates[decision.index]

    async def _draw(self, index: int) -> Candidate:
        candidate = await self._source.draw(self.task, index)
        self._ledger.append("candidate", records.candidate_record(candidate))
        return candidate

    async def _judge(self, candidate: Candidate) -> Verdict:
        """The verdict of the visible tests; equal programs are run once."""
        suite = self.task.suite
        earlier = self._history.verdicts.get(candidate.index)
        if earlier is not None and earlier.verdict.outcome is not Outcome.ERROR:
            self._known[candidate.digest] = earlier
            return earlier.verdict
        screened = rules.screen(candidate)
        judged = Judged(verdict=screened) if screened else self._known.get(candidate.digest)
        if judged is None:
            judged = await self._look(candidate, "visible", suite.tests, suite.calls, repeat=True)
            if judged.verdict.outcome is not Outcome.ERROR:
                self._known[candidate.digest] = judged
        self._keep(candidate, "visible", judged)
        return judged.verdict

    async def _measure(self, candidate: Candidate) -> None:
        """Hold what was delivered against the hidden tests. Nothing follows from it."""
        suite = self.task.suite
        try:
            judged = await self._look(candidate, "hidden", suite.hidden, suite.hidden_calls, repeat=False)
        except BackendError as exc:
            total = len(suite.hidden)
            judged = Judged(verdict=Verdict(outcome=Outcome.ERROR, reason=rules.INFRA, detail=str(exc), total=total))
        self._keep(candidate, "hidden", judged)

    async def _look(
        self, candidate: Candidate, part: str, tests: Sequence[Test], calls: Sequence[Call], *, repeat: bool
    ) -> Judged:
        """Observe as often as the rules ask for it."""
        suite = self.task.suite
        seen: list[Observation] = []
        digests: list[str] = []
        while True:
            step = rules.next_step(tests, suite.limits, seen, repeat=repeat)
            if isinstance(step, Verdict):
                return Judged(verdict=step, seen=tuple(digests))
            found = await self._sandbox.observe(
                candidate, suite.entry_point, calls, suite.limits, seed=step.seed, alone=step.alone
            )
            seen.append(found)
            record = records.observation_record(self.task.id, candidate.index, part, found)
            digests.append(self._ledger.append("observation", record))

    def _keep(self, candidate: Candidate, part: str, judged: Judged) -> None:
        record = records.verdict_record(self.task.id, candidate.index, part, judged.verdict)
        self._ledger.append("verdict", {**record, "seen": list(judged.seen)})


async def run_task(
    task: Task,
    *,
    source: CandidateSource,
    sandbox: Sandbox,
    ledger: Ledger,
    draws: int = rules.MAX_DRAWS,
    full_pool: bool = False,
    history: TaskHistory | None = None,
) -> Decision:
    """Draw until a candidate passes, or refuse."""
    run = TaskRun(task, history or TaskHistory(), source=source, sandbox=sandbox, ledger=ledger)
    return await run.decide(draws=draws, full_pool=full_pool)


async def run_tasks(
    tasks: Iterable[Task],
    *,
    source: CandidateSource,
    sandbox: Sandbox,
    ledger: Ledger,
    concurrency: int,
    draws: int = rules.MAX_DRAWS,
    full_pool: bool = False,
    history: History | None = None,
    on_decision: Callable[[Decision], None] = lambda decision: None,
) -> None:
    """Decide every task, `concurrency` at a time; tasks are taken from the stream as needed.

    Where the budget of the source is spent, those that could not be decided within it are left.
    """
    known = history or History()

    async def work(stream: Iterator[Task]) -> None:
        for task in stream:
            try:
                decision = await run_task(
                    task,
                    source=source,
                    sandbox=sandbox,
                    ledger=ledger,
                    draws=draws,
                    full_pool=full_pool,
                    history=known.task(task.id),
                )
            except BudgetSpent:
                return
            on_decision(decision)

    stream = iter(tasks)
    async with anyio.create_task_group() as group:
        for _ in range(concurrency):
            group.start_soon(work, stream)
