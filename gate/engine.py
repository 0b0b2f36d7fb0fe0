"""The loop: draw until a candidate passes, or refuse.

Theory of operation. Tasks run side by side, `concurrency` at a time; the draws of one
task run one after another, so "first" means lowest index and nothing is drawn that the
rule would not have asked for. What each seam brings is appended to the ledger before
anything follows from it. A BackendError ends its task as `infra`, with its reason; an
IntegrityError ends the run. Cancellation goes through at any await and leaves a ledger
that tells how far it came.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import anyio

from gate import records, rules
from gate.errors import BackendError
from gate.model import Call, Candidate, Decision, Observation, Outcome, Task, Test, Verdict
from gate.seams import CandidateSource, Ledger, Sandbox

REPEAT_SEED = 1


class TaskRun:
    """One task on its way to a decision, with the seams that it uses."""

    def __init__(self, task: Task, *, source: CandidateSource, sandbox: Sandbox, ledger: Ledger) -> None:
        self.task = task
        self._source = source
        self._sandbox = sandbox
        self._ledger = ledger
        self._known: dict[str, Verdict] = {}

    async def decide(self, *, draws: int = rules.MAX_DRAWS, full_pool: bool = False) -> Decision:
        """Draw until a candidate passes, or refuse; then measure what was delivered.

        Args:
            draws: How many draws at most.
            full_pool: Go on drawing after a pass, so that the pool can be replayed; the
                decision is the same.
        """
        candidates: list[Candidate] = []
        verdicts: list[Verdict] = []
        decision = rules.decide(self.task, candidates, verdicts)
        try:
            for index in range(draws if self.task.suite.tests else 0):
                candidate = await self._draw(index)
                candidates.append(candidate)
                if decision.outcome != "delivered":
                    verdicts.append(await self._judge(candidate))
                    decision = rules.decide(self.task, candidates, verdicts)
                if decision.outcome == "infra" or (decision.outcome == "delivered" and not full_pool):
                    break
        except BackendError as exc:
            decision = Decision(task_id=self.task.id, outcome="infra", reason=str(exc), draws=len(verdicts))
        self._ledger.append("decision", records.decision_record(decision))
        if decision.index is not None and self.task.suite.hidden:
            await self._measure(candidates[decision.index])
        return decision

    async def _draw(self, index: int) -> Candidate:
        candidate = await self._source.draw(self.task, index)
        self._ledger.append("candidate", records.candidate_record(candidate))
        return candidate

    async def _judge(self, candidate: Candidate) -> Verdict:
        """The verdict of the visible tests; equal programs are run once."""
        verdict = rules.screen(candidate) or self._known.get(candidate.digest)
        if verdict is None:
            verdict = await self._run_visible(candidate)
        if verdict.outcome is not Outcome.ERROR:
            self._known[candidate.digest] = verdict
        self._keep_verdict(candidate, "visible", verdict)
        return verdict

    async def _run_visible(self, candidate: Candidate) -> Verdict:
        """Run the visible tests, and run them again under another hash seed if they pass."""
        suite = self.task.suite
        first = await self._run(candidate, "visible", suite.tests, suite.calls, seed=0)
        if first.outcome is not Outcome.PASS:
            return first
        return rules.confirm(first, await self._run(candidate, "visible", suite.tests, suite.calls, seed=REPEAT_SEED))

    async def _measure(self, candidate: Candidate) -> None:
        """Hold what was delivered against the hidden tests. Nothing follows from it."""
        suite = self.task.suite
        try:
            verdict = await self._run(candidate, "hidden", suite.hidden, suite.hidden_calls, seed=0)
        except BackendError as exc:
            verdict = Verdict(outcome=Outcome.ERROR, reason=rules.INFRA, detail=str(exc), total=len(suite.hidden))
        self._keep_verdict(candidate, "hidden", verdict)

    async def _run(
        self, candidate: Candidate, part: str, tests: Sequence[Test], calls: Sequence[Call], *, seed: int
    ) -> Verdict:
        """Observe and grade; a time limit that may be the host's fault is tried once more, alone."""
        seen = await self._observe(candidate, part, calls, seed=seed, alone=False)
        if rules.needs_confirmation(seen, self.task.suite.limits):
            seen = await self._observe(candidate, part, calls, seed=seed, alone=True)
        return rules.grade(tests, seen)

    async def _observe(
        self, candidate: Candidate, part: str, calls: Sequence[Call], *, seed: int, alone: bool
    ) -> Observation:
        suite = self.task.suite
        seen = await self._sandbox.observe(candidate, suite.entry_point, calls, suite.limits, seed=seed, alone=alone)
        self._ledger.append("observation", records.observation_record(self.task.id, candidate.index, part, seen))
        return seen

    def _keep_verdict(self, candidate: Candidate, part: str, verdict: Verdict) -> None:
        self._ledger.append("verdict", records.verdict_record(self.task.id, candidate.index, part, verdict))


async def run_task(
    task: Task,
    *,
    source: CandidateSource,
    sandbox: Sandbox,
    ledger: Ledger,
    draws: int = rules.MAX_DRAWS,
    full_pool: bool = False,
) -> Decision:
    """Draw until a candidate passes, or refuse."""
    run = TaskRun(task, source=source, sandbox=sandbox, ledger=ledger)
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
    on_decision: Callable[[Decision], None] = lambda decision: None,
) -> None:
    """Decide every task, `concurrency` at a time; tasks are taken from the stream as needed."""

    async def work(stream: Iterator[Task]) -> None:
        for task in stream:
            on_decision(
                await run_task(task, source=source, sandbox=sandbox, ledger=ledger, draws=draws, full_pool=full_pool)
            )

    stream = iter(tasks)
    async with anyio.create_task_group() as group:
        for _ in range(concurrency):
            group.start_soon(work, stream)
