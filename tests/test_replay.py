"""The loop of a replay: every draw judged, in order, with whatever happens on the way."""

from __future__ import annotations

import pytest
from echo_sandbox import EchoSandbox, task_line

from gate.backends.scripted import MemoryLedger, ScriptedSource
from gate.errors import SandboxError, SourceError
from gate.model import Call, Candidate, Json, Limits, Observation, Task
from gate.replay import PoolRun, replay_tasks
from gate.suite import suite_from_tree, task_of
from gate.taskpool import TaskPool, fold_pool, is_complete


def the_task(number: int = 0, **more: Json) -> Task:
    return task_of(suite_from_tree(task_line(number, **more)))


def kinds(ledger: MemoryLedger) -> list[str]:
    return [f"{each['kind']} {each.get('part', '')}".strip() for each in ledger.records]


async def test_all_draws_are_judged_after_a_pass() -> None:
    """The first draw passes and the second is judged all the same, on both parts; the decision stands between."""
    ledger = MemoryLedger()
    source = ScriptedSource({"t/0": ["ok", "wrong"]})
    run = PoolRun(the_task(), TaskPool(), source=source, sandbox=EchoSandbox(), ledger=ledger)
    decision = await run.judge(draws=2)
    assert (decision.outcome, decision.index, decision.draws) == ("delivered", 0, 1)
    assert kinds(ledger) == [
        *("candidate", "candidate"),
        *("observation visible", "observation visible", "verdict visible"),
        *("observation visible", "verdict visible"),
        "decision",
        *("observation hidden", "verdict hidden"),
        *("observation hidden", "verdict hidden"),
    ]


async def test_a_draw_that_needs_no_run_is_screened() -> None:
    """An empty program is judged without the sandbox, on both parts."""
    sandbox, ledger = EchoSandbox(), MemoryLedger()
    source = ScriptedSource({"t/0": [" "]})
    await PoolRun(the_task(), TaskPool(), source=source, sandbox=sandbox, ledger=ledger).judge(draws=1)
    assert sandbox.seen == []
    assert [each["reason"] for each in ledger.records if each["kind"] == "verdict"] == ["no_program", "no_program"]


class Failing(EchoSandbox):
    """Fails on programs that begin with `broken`."""

    async def observe(
        self,
        candidate: Candidate,
        entry_point: str | None,
        calls: tuple[Call, ...],  # type: ignore[override]
        limits: Limits,
        *,
        seed: int = 0,
        alone: bool = False,
    ) -> Observation:
        """See `EchoSandbox`."""
        if candidate.code.startswith("broken"):
            raise SandboxError("no engine")
        return await super().observe(candidate, entry_point, calls, limits, seed=seed, alone=alone)


async def test_our_own_failure_ends_one_draw_and_not_the_others() -> None:
    """A draw that could not be run is an error; the next is judged, and the pool is not complete."""
    ledger = MemoryLedger()
    pool = TaskPool()
    source = ScriptedSource({"t/0": ["ok", "broken", "ok 2"]})
    await PoolRun(the_task(), pool, source=source, sandbox=Failing(), ledger=ledger).judge(draws=3)
    outcomes = [(each["index"], each["outcome"]) for each in ledger.records if each["kind"] == "verdict"]
    assert outcomes == [(0, "pass"), (1, "error"), (2, "pass")] * 2
    assert not is_complete(the_task(), pool, 3)


async def test_what_is_judged_is_not_judged_again() -> None:
    """Cut after any record, the rest is done and nothing twice; the end is the same."""
    source = ScriptedSource({"t/0": ["ok", "wrong", "ok", "half"]})
    whole = MemoryLedger()
    await PoolRun(the_task(), TaskPool(), source=source, sandbox=EchoSandbox(), ledger=whole).judge(draws=4)
    for cut in range(len(whole.records)):
        ledger = MemoryLedger()
        ledger.records = whole.records[:cut]
        pool = fold_pool((str(number), record) for number, record in enumerate(ledger.records))
        await PoolRun(the_task(), pool, source=source, sandbox=EchoSandbox(), ledger=ledger).judge(draws=4)
        verdicts = [each for each in ledger.records if each["kind"] == "verdict"]
        assert len(verdicts) == 8
        assert kinds(ledger).count("decision") == 1
        assert is_complete(the_task(), pool, 4)


async def test_a_pool_that_cannot_be_read_any_more_ends_the_replay() -> None:
    """A saved draw that is gone is no verdict on anybody: the replay ends."""

    class Gone(ScriptedSource):
        async def draw(self, task: Task, index: int) -> Candidate:
            raise SourceError("gone")

    with pytest.raises(BaseExceptionGroup) as caught:
        await replay_tasks(
            [the_task()], source=Gone({}), sandbox=EchoSandbox(), ledger=MemoryLedger(), concurrency=1, draws=1
        )
    assert caught.group_contains(SourceError)
