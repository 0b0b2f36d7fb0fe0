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

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import anyio

from gate import records, rules
from gate.errors import BackendError, BudgetSpent, FatalSourceError
from gate.history import History, Judged, TaskHistory
from gate.model import Candidate, Decision, Observation, Outcome, SuiteSpec, Task, Test, Verdict
from gate.seams import CandidateSource, Ledger, Sandbox

Item = TypeVar("Item")


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
        earlier = self._history.verdicts.get(candidate.index)
        if earlier is not None and earlier.verdict.outcome is not Outcome.ERROR:
            self._known[candidate.digest] = earlier
            return earlier.verdict
        screened = rules.screen(candidate)
        judged = Judged(verdict=screened) if screened else self._known.get(candidate.digest)
        if judged is None:
            judged = await look(self.task, candidate, "visible", sandbox=self._sandbox, ledger=self._ledger)
            if judged.verdict.outcome is not Outcome.ERROR:
                self._known[candidate.digest] = judged
        self._keep(candidate, "visible", judged)
        return judged.verdict

    async def _measure(self, candidate: Candidate) -> None:
        """Hold what was delivered against the hidden tests. Nothing follows from it."""
        try:
            judged = await look(self.task, candidate, "hidden", sandbox=self._sandbox, ledger=self._ledger)
        except BackendError as exc:
            judged = Judged(verdict=rules.unmeasured(self.task.suite, "hidden", str(exc)))
        self._keep(candidate, "hidden", judged)

    def _keep(self, candidate: Candidate, part: str, judged: Judged) -> None:
        keep(self._ledger, self.task, candidate, part, judged)


async def look(task: Task, candidate: Candidate, part: str, *, sandbox: Sandbox, ledger: Ledger) -> Judged:
    """Observe a candidate as often as the rules ask for it, keep what is seen, and say what follows.

    Args:
        part: "visible", the tests that decide, whose pass is repeated; or "hidden".
    """
    tests, repeat = rules.part_of(task.suite, part)
    digests: list[str] = []

    def keep_it(found: Observation) -> None:
        record = records.observation_record(task.id, candidate.index, part, found)
        digests.append(ledger.append("observation", record))

    verdict = await _observed(candidate, task.suite, tests, sandbox=sandbox, repeat=repeat, on_seen=keep_it)
    return Judged(verdict=verdict, seen=tuple(digests))


async def _observed(
    candidate: Candidate,
    suite: SuiteSpec,
    tests: Sequence[Test],
    *,
    sandbox: Sandbox,
    repeat: bool,
    on_seen: Callable[[Observation], None],
) -> Verdict:
    """The verdict, after as many looks as the rules ask for; each is told before anything follows from it."""
    seen: list[Observation] = []
    calls = [test.call for test in tests]
    while True:
        step = rules.next_step(tests, suite.limits, seen, repeat=repeat)
        if isinstance(step, Verdict):
            return step
        found = await sandbox.observe(
            candidate, suite.entry_point, calls, suite.limits, seed=step.seed, alone=step.alone
        )
        seen.append(found)
        on_seen(found)


def keep(ledger: Ledger, task: Task, candidate: Candidate, part: str, judged: Judged) -> None:
    """Keep a verdict, with the observations that it rests on."""
    record = records.verdict_record(task.id, candidate.index, part, judged.verdict, suite=task.suite.digest)
    ledger.append("verdict", {**record, "seen": list(judged.seen)})


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

    async def work(task: Task) -> None:
        decision = await run_task(
            task,
            source=source,
            sandbox=sandbox,
            ledger=ledger,
            draws=draws,
            full_pool=full_pool,
            history=known.task(task.id),
        )
        on_decision(decision)

    await side_by_side(tasks, work, concurrency=concurrency)


async def side_by_side(items: Iterable[Item], work: Callable[[Item], Awaitable[None]], *, concurrency: int) -> None:
    """Do some work for every item, `concurrency` at a time; items are taken from the stream as needed.

    Once the budget is spent, what goes on is finished and nothing more is taken.
    """

    async def take(stream: Iterator[Item]) -> None:
        for item in stream:
            try:
                await work(item)
            except BudgetSpent:
                return

    stream = iter(items)
    async with anyio.create_task_group() as group:
        for _ in range(concurrency):
            group.start_soon(take, stream)


async def verdict_on(
    candidate: Candidate,
    suite: SuiteSpec,
    tests: Sequence[Test],
    *,
    sandbox: Sandbox,
    repeat: bool = False,
    on_seen: Callable[[Observation], None] = lambda found: None,
) -> Verdict:
    """Hold one program against some tests of a suite, outside of any run: nothing is recorded or decided.

    Args:
        tests: The suite's visible tests, its hidden ones, or some of both.
        repeat: Whether a pass is repeated under another hash seed, as for tests that decide.
        on_seen: Is told each observation, before anything follows from it.

    Raises:
        BackendError: Our world failed.
    """
    screened = rules.screen(candidate)
    if screened is not None:
        return screened
    return await _observed(candidate, suite, tests, sandbox=sandbox, repeat=repeat, on_seen=on_seen)
