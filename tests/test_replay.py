"""The loop of a replay: every draw judged, in order, with whatever happens on the way."""

from __future__ import annotations

from typing import Any

import anyio
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


def pool_run(
    source: ScriptedSource,
    ledger: MemoryLedger,
    *,
    pool: TaskPool | None = None,
    sandbox: EchoSandbox | None = None,
    at_once: int = 1,
) -> PoolRun:
    return PoolRun(
        the_task(),
        pool or TaskPool(),
        source=source,
        sandbox=sandbox or EchoSandbox(),
        ledger=ledger,
        slots=anyio.CapacityLimiter(at_once),
    )


def kinds(ledger: MemoryLedger) -> list[str]:
    return [f"{each['kind']} {each.get('part', '')}".strip() for each in ledger.records]


async def test_all_draws_are_judged_after_a_pass() -> None:
    """The first draw passes and the second is judged all the same, on both parts; the decision stands between."""
    ledger = MemoryLedger()
    source = ScriptedSource({"t/0": ["ok", "wrong"]})
    run = pool_run(source, ledger)
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
    await pool_run(source, ledger, sandbox=sandbox).judge(draws=1)
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
    await pool_run(source, ledger, pool=pool, sandbox=Failing()).judge(draws=3)
    outcomes = [(each["index"], each["outcome"]) for each in ledger.records if each["kind"] == "verdict"]
    assert sorted(outcomes[:3]) == sorted(outcomes[3:]) == [(0, "pass"), (1, "error"), (2, "pass")]
    assert not is_complete(the_task(), pool, 3)


async def test_the_draws_of_a_task_are_judged_side_by_side() -> None:
    """One that takes long holds up no other, and the hidden tests wait for all: the decision stands before them."""
    waiting = anyio.Event()

    class Slow(EchoSandbox):
        async def observe(self, candidate: Candidate, *args: Any, **more: Any) -> Observation:
            if candidate.code == "ok":
                await waiting.wait()
            elif candidate.code == "half":
                waiting.set()
            return await super().observe(candidate, *args, **more)

    ledger = MemoryLedger()
    source = ScriptedSource({"t/0": ["ok", "wrong", "half", "ok"]})
    with anyio.fail_after(5):
        await pool_run(source, ledger, sandbox=Slow(), at_once=4).judge(draws=4)
    order = [(each["part"], each["index"]) for each in ledger.records if each["kind"] == "verdict"]
    assert [index for part, index in order if part == "visible"][-2:] == [0, 3]
    decided = kinds(ledger).index("decision")
    assert {part for part in kinds(ledger)[:decided] if part.endswith("hidden")} == set()


async def test_equal_programs_are_run_once_and_each_screened_one_says_why() -> None:
    """Equal programs share a verdict and what it rests on; two without a program have each its own reason."""
    sandbox, ledger = EchoSandbox(), MemoryLedger()
    source = ScriptedSource({"t/0": ["wrong", "wrong", "", ""]})
    await pool_run(source, ledger, sandbox=sandbox).judge(draws=4)
    assert len(sandbox.seen) == 2
    verdicts = [each for each in ledger.records if each["kind"] == "verdict"]
    assert [len(each["seen"]) for each in sorted(verdicts[:4], key=lambda each: each["index"])] == [1, 1, 0, 0]


async def test_what_is_judged_is_not_judged_again() -> None:
    """Cut after any record, the rest is done and nothing twice; the end is the same."""
    source = ScriptedSource({"t/0": ["ok", "wrong", "ok", "half"]})
    whole = MemoryLedger()
    await pool_run(source, whole).judge(draws=4)
    for cut in range(len(whole.records)):
        ledger = MemoryLedger()
        ledger.records = whole.records[:cut]
        pool = fold_pool((str(number), record) for number, record in enumerate(ledger.records))
        await pool_run(source, ledger, pool=pool).judge(draws=4)
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
