"""A pool replayed: every saved draw judged on the visible and on the hidden tests.

Theory of operation. As in `engine`, tasks run side by side; what each seam brings is
appended to the ledger, and a verdict names the observations that it rests on. Unlike a run,
a replay goes on after a pass: all draws are taken, all are judged on the visible tests, then
the gate's own decision is recorded, and only then the hidden tests measure, so they cannot
have decided. No draw waits for another's verdict, so the draws of a task are judged side by
side, too, and one task whose draws all loop does not hold up the end. Equal
programs of one task are run once. Where our own world fails on a draw, that draw is an error
and the others are judged all the same. What a ledger says of a task already is not done again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import anyio

from gate import engine, records, rules
from gate.errors import SandboxError
from gate.history import Judged
from gate.model import Candidate, Decision, Outcome, Task
from gate.seams import CandidateSource, Ledger, Sandbox
from gate.taskpool import TaskPool, decide_pool, is_complete


class PoolRun:
    """The pool of one task on its way to being judged, with the seams that it uses.

    Args:
        task: What was asked.
        pool: What an earlier replay has drawn and judged of it; goes on from there.
        slots: How many draws may be judged at once, of this task and of others that share them.
    """

    def __init__(
        self,
        task: Task,
        pool: TaskPool,
        *,
        source: CandidateSource,
        sandbox: Sandbox,
        ledger: Ledger,
        slots: anyio.CapacityLimiter,
    ) -> None:
        self.task = task
        self.pool = pool
        self._source = source
        self._sandbox = sandbox
        self._ledger = ledger
        self._slots = slots

    async def judge(self, *, draws: int) -> Decision:
        """Judge all draws; what the gate's rule makes of them."""
        for index in range(len(self.pool.candidates), draws):
            candidate = await self._source.draw(self.task, index)
            self._ledger.append("candidate", records.candidate_record(candidate))
            self.pool.candidates.append(candidate)
        await self._judge_part("visible")
        decision = self._decide()
        await self._judge_part("hidden")
        return decision

    async def _judge_part(self, part: str) -> None:
        """A verdict for every draw that has none that stands; equal programs are run once."""
        if not rules.part_of(self.task.suite, part)[0]:
            return
        equal: dict[str, list[Candidate]] = {}
        known: dict[str, Judged] = {}
        for candidate in self.pool.candidates:
            judged = self.pool.final(part, candidate.index)
            if judged is None:
                equal.setdefault(candidate.digest, []).append(candidate)
            elif judged.seen:
                known[candidate.digest] = judged
        async with anyio.create_task_group() as group:
            for digest, candidates in equal.items():
                group.start_soon(self._judge_equal, candidates, part, known.get(digest))

    async def _judge_equal(self, candidates: Sequence[Candidate], part: str, known: Judged | None) -> None:
        """The same verdict for equal programs, run once; where our own world failed, the next is run again."""
        for candidate in candidates:
            if known is None or not known.seen or known.verdict.outcome is Outcome.ERROR:
                known = await self._judge(candidate, part)
            engine.keep(self._ledger, self.task, candidate, part, known)
            self.pool.verdicts[part][candidate.index] = known

    async def _judge(self, candidate: Candidate, part: str) -> Judged:
        screened = rules.screen(candidate)
        if screened is not None:
            return Judged(verdict=screened)
        try:
            async with self._slots:
                return await engine.look(self.task, candidate, part, sandbox=self._sandbox, ledger=self._ledger)
        except SandboxError as exc:
            return Judged(verdict=rules.unmeasured(self.task.suite, part, str(exc)))

    def _decide(self) -> Decision:
        """The gate's decision on this pool; recorded once it stands."""
        before = self.pool.decision
        if before is not None and before.outcome != "infra":
            return before
        visible = self.pool.verdicts["visible"]
        decision = decide_pool(self.task, self.pool.candidates, [visible[index].verdict for index in sorted(visible)])
        self._ledger.append("decision", records.decision_record(decision))
        self.pool.decision = decision
        return decision


async def replay_tasks(
    tasks: Iterable[Task],
    *,
    source: CandidateSource,
    sandbox: Sandbox,
    ledger: Ledger,
    concurrency: int,
    draws: int,
    pool_of: Callable[[Task], TaskPool] = lambda task: TaskPool(),
    on_decision: Callable[[Decision], None] = lambda decision: None,
) -> None:
    """Judge every task's pool; tasks are taken from the stream as needed.

    Args:
        concurrency: How many draws are judged at once, of one task or of several.
        draws: How many draws of each task.
        pool_of: What an earlier replay has judged of a task; asked when its turn comes.

    Raises:
        SourceError: A saved draw can no longer be read: it would not be the same pool.
    """

    slots = anyio.CapacityLimiter(concurrency)

    async def work(task: Task) -> None:
        pool = pool_of(task)
        if is_complete(task, pool, draws):
            return
        run = PoolRun(task, pool, source=source, sandbox=sandbox, ledger=ledger, slots=slots)
        on_decision(await run.judge(draws=draws))

    await engine.side_by_side(tasks, work, concurrency=concurrency)
