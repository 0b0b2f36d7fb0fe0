"""The loop, on scripted seams."""

from __future__ import annotations

from collections import Counter

import anyio
import pytest

from gate import engine
from gate.backends.scripted import MemoryLedger, ScriptedSandbox, ScriptedSource
from gate.errors import IntegrityError, SandboxError, SourceError
from gate.model import (
    Call,
    Candidate,
    Decision,
    Exit,
    Expect,
    Limits,
    Observation,
    Reply,
    SuiteSpec,
    Task,
    Test,
    Usage,
)

TEST = Test(call=Call(args=(1,)), expect=Expect(kind="value", values=(1,)))


def task(task_id: str = "t", *, tests: tuple[Test, ...] = (TEST,), hidden: tuple[Test, ...] = ()) -> Task:
    suite = SuiteSpec(
        task_id=task_id,
        prompt="",
        entry_point="f",
        limits=Limits(cpu_s=5.0),
        tests=tests,
        hidden=hidden,
        reference=None,
        must_fail=(),
        digest="d",
        source=None,
    )
    return Task(id=task_id, prompt="", entry_point="f", suite=suite)


def seen(value: object, exit_: Exit = Exit.OK, **more: object) -> Observation:
    replies = (Reply(kind="returned", value=value),) if exit_ is Exit.OK else ()
    return Observation(candidate="c", calls="k", exit=exit_, replies=replies, **more)  # type: ignore[arg-type]


ANSWERS = {
    "right": [seen(1)],
    "wrong": [seen(2)],
    "also wrong": [seen(3)],
    "flaky": [seen(1), seen(2)],
    "broken world": [SandboxError("the engine went away")],
    "fault": [seen(None, Exit.FAULT, detail="lost")],
    "slow": [seen(None, Exit.TIME_LIMIT, limit="wall", usage=Usage(cpu_s=0.1)), seen(1)],
    "sleeps": [seen(None, Exit.TIME_LIMIT, limit="wall", usage=Usage(cpu_s=0.1))],
    "spins": [seen(None, Exit.TIME_LIMIT, limit="cpu", usage=Usage(cpu_s=5.0))],
    "overfitted": [seen(1), seen(1), seen(2)],
}


class Bench:
    """A loop over one task with everything that it touched."""

    def __init__(self, *programs: str) -> None:
        self.source = ScriptedSource({"t": programs})
        self.sandbox = ScriptedSandbox(ANSWERS)
        self.ledger = MemoryLedger()

    async def decide(self, asked: Task | None = None, *, full_pool: bool = False) -> Decision:
        return await engine.run_task(
            asked or task(), source=self.source, sandbox=self.sandbox, ledger=self.ledger, full_pool=full_pool
        )

    def kinds(self) -> list[str]:
        return [record["kind"] for record in self.ledger.records]


async def test_drawing_stops_at_the_first_pass() -> None:
    """The first candidate that passes is delivered and nothing more is drawn."""
    bench = Bench("wrong", "right", "right")
    decision = await bench.decide()
    assert (decision.outcome, decision.index, decision.draws) == ("delivered", 1, 2)
    assert bench.source.draws == [("t", 0), ("t", 1)]


async def test_at_most_five_then_refused() -> None:
    """Five failures are a refusal, and a sixth candidate is never drawn."""
    bench = Bench("wrong", "also wrong", "wrong", "also wrong", "wrong", "right")
    decision = await bench.decide()
    assert (decision.outcome, decision.reason, decision.draws) == ("refused", "none_passed", 5)
    assert len(bench.source.draws) == 5


async def test_a_draw_that_cannot_be_given_counts() -> None:
    """A source that runs out uses up draws: `no_program`, without a run."""
    bench = Bench("wrong")
    decision = await bench.decide()
    assert (decision.outcome, decision.draws) == ("refused", 5)
    assert [code for code, _, _ in bench.sandbox.seen] == ["wrong"]
    reasons = [record["reason"] for record in bench.ledger.records if record["kind"] == "verdict"]
    assert reasons == ["wrong_answer", *["no_program"] * 4]


async def test_equal_programs_run_once_and_count_each() -> None:
    """Five equal drafts are run once, use five draws, and get five verdicts."""
    bench = Bench(*["wrong"] * 5)
    decision = await bench.decide()
    assert (decision.draws, len(bench.sandbox.seen)) == (5, 1)
    assert Counter(bench.kinds())["verdict"] == 5


async def test_everything_is_kept_before_anything_follows() -> None:
    """The ledger has candidate, observation, verdict and decision in the order of their making."""
    bench = Bench("wrong", "right")
    await bench.decide()
    draw = ["candidate", "observation", "verdict"]
    assert bench.kinds() == [*draw, "candidate", "observation", "observation", "verdict", "decision"]


async def test_a_pass_is_repeated_under_another_hash_seed() -> None:
    """A pass counts when it repeats under another seed; one that does not is not delivered."""
    bench = Bench("flaky", "right")
    decision = await bench.decide()
    assert decision.index == 1
    assert [seed for _, seed, _ in bench.sandbox.seen] == [0, 1, 0, 1]


async def test_a_wall_limit_is_tried_again_alone_and_the_second_answer_counts() -> None:
    """A candidate that a busy host starved passes on the lone repeat; both observations stay."""
    bench = Bench("slow")
    assert (await bench.decide()).outcome == "delivered"
    assert [alone for _, _, alone in bench.sandbox.seen] == [False, True, False]
    assert Counter(bench.kinds())["observation"] == 3


@pytest.mark.parametrize(("program", "runs"), [("sleeps", 2), ("spins", 1)])
async def test_a_timeout_that_repeats_or_used_its_cpu_is_fail(program: str, runs: int) -> None:
    """A candidate that times out is FAIL, not ERROR: after a lone repeat, or at once by CPU time."""
    bench = Bench(program)
    assert (await bench.decide()).outcome == "refused"
    assert len(bench.sandbox.seen) == runs
    assert next(record["reason"] for record in bench.ledger.records if record["kind"] == "verdict") == "timeout"


@pytest.mark.parametrize("program", ["broken world", "fault"])
async def test_a_broken_world_is_infra_and_stops_the_task(program: str) -> None:
    """Where the engine fails, the task is infra with the reason kept: not refused, not drawn further."""
    bench = Bench("wrong", program, "right")
    decision = await bench.decide()
    assert (decision.outcome, decision.delivered) == ("infra", None)
    assert decision.reason in ("the engine went away", "lost")
    assert len(bench.source.draws) == 2


async def test_a_source_that_fails_uses_up_no_draw() -> None:
    """A transport fault is infra and the draw is not counted."""

    class Broken(ScriptedSource):
        async def draw(self, asked: Task, index: int) -> Candidate:
            raise SourceError("no route")

    bench = Bench()
    bench.source = Broken({})
    decision = await bench.decide()
    assert (decision.outcome, decision.reason, decision.draws) == ("infra", "no route", 0)


async def test_without_visible_tests_nothing_is_drawn() -> None:
    """A task with hidden tests alone is refused with no draw and no run."""
    bench = Bench("right")
    decision = await bench.decide(task(tests=(), hidden=(TEST,)))
    assert (decision.outcome, decision.reason) == ("refused", "no_visible_tests")
    assert bench.source.draws == [] and bench.sandbox.seen == []


async def test_hidden_tests_measure_after_the_decision() -> None:
    """Hidden tests run once on what was delivered, after the decision, and change nothing of it."""
    bench = Bench("overfitted")
    decision = await bench.decide(task(hidden=(TEST,)))
    assert decision.outcome == "delivered"
    kinds = [(record["kind"], record.get("part")) for record in bench.ledger.records]
    assert kinds[-3:] == [("decision", None), ("observation", "hidden"), ("verdict", "hidden")]
    assert bench.ledger.records[-1]["outcome"] == "fail"


async def test_hidden_tests_change_no_byte_of_what_decides() -> None:
    """What decides is the same record for record whether or not there are hidden tests."""
    records = []
    for hidden in ((), (TEST,)):
        bench = Bench("wrong", "right")
        await bench.decide(task(hidden=hidden))
        kept = bench.ledger.records
        records.append(kept[: bench.kinds().index("decision") + 1])
    assert records[0] == records[1]


async def test_a_refused_task_is_not_measured() -> None:
    """Hidden tests say nothing about a refusal: nothing is run for them."""
    bench = Bench("wrong")
    await bench.decide(task(hidden=(TEST,)))
    assert all(record.get("part") != "hidden" for record in bench.ledger.records)


async def test_a_full_pool_is_drawn_after_a_pass_but_decided_the_same() -> None:
    """A full pool draws all five; the decision and what is run are those of the rule."""
    bench = Bench("wrong", "right", "wrong", "right", "wrong")
    decision = await bench.decide(full_pool=True)
    assert (decision.index, decision.draws) == (1, 2)
    assert len(bench.source.draws) == 5
    assert len(bench.sandbox.seen) == 3


async def test_tasks_run_side_by_side_up_to_the_limit() -> None:
    """Concurrency is bounded, every task is decided once, and tasks are taken as needed."""
    running = most = taken = 0

    class Slow(ScriptedSandbox):
        async def observe(self, *args: object, **more: object) -> Observation:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await anyio.sleep(0.001)
            running -= 1
            return seen(1)

    def stream() -> object:
        nonlocal taken
        for number in range(20):
            taken += 1
            assert taken <= len(decisions) + 3
            yield task(f"t{number}")

    decisions: list[Decision] = []
    source = ScriptedSource({f"t{number}": ["right"] for number in range(20)})
    await engine.run_tasks(
        stream(),  # type: ignore[arg-type]
        source=source,
        sandbox=Slow({}),
        ledger=MemoryLedger(),
        concurrency=3,
        on_decision=decisions.append,
    )
    assert most == 3
    assert sorted(decision.task_id for decision in decisions) == sorted(f"t{number}" for number in range(20))


async def test_an_integrity_error_ends_the_run() -> None:
    """An IntegrityError is no task's own failure: it comes out of the run."""

    class Lying(ScriptedSource):
        async def draw(self, asked: Task, index: int) -> Candidate:
            raise IntegrityError("not what was recorded")

    with pytest.raises(BaseExceptionGroup) as raised:
        await engine.run_tasks(
            [task()], source=Lying({}), sandbox=ScriptedSandbox({}), ledger=MemoryLedger(), concurrency=2
        )
    assert raised.group_contains(IntegrityError)
