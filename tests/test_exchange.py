"""Wall time without the time in which the host had no CPU for the candidate; the rest is tested with real ones."""

from __future__ import annotations

import socket
from collections.abc import Callable

import anyio
import pytest

from gate import wire
from gate.backends import exchange as exchange_module
from gate.backends.exchange import Exchange, Waiting, converse
from gate.model import Exit, Limits


class Waits:
    """Counters of a container whose threads wait as told."""

    def __init__(self, waits_s: Callable[[], dict[str, float]]) -> None:
        self.read_waits_s = waits_s

    def read_cpu_s(self) -> float | None:
        return None


def waiting(*readings: dict[str, float]) -> Waiting:
    """What is read at the start, at 100 s, and at each look after it."""
    left = iter(readings)
    return Waiting(Waits(lambda: next(left)), 100.0)  # type: ignore[arg-type]


def test_the_thread_that_waited_longest_counts() -> None:
    """Threads that wait at the same time, as for each other, do not add up."""
    found = waiting({"1": 5.0, "2": 1.0}, {"1": 5.5, "2": 1.25, "3": 0.125})
    found.look(101.0, exchange_module.TICK_S)
    assert (found.in_step_s, found.in_all_s) == (0.5, 0.5)


def test_no_more_than_the_time_that_has_gone_by() -> None:
    """Whatever the counters say, waiting is part of the time since the last look."""
    found = waiting({}, {"1": 50.0})
    found.look(102.0, exchange_module.TICK_S)
    assert (found.in_step_s, found.in_all_s) == (2.0, 2.0)


def test_a_thread_that_ends_takes_nothing_back() -> None:
    """A wait that is not told any more was waited all the same, and another thread's is no growth."""
    found = waiting({"1": 5.0}, {"1": 6.0}, {"2": 0.0}, {})
    for now_s in (102.0, 104.0, 106.0):
        found.look(now_s, exchange_module.TICK_S)
    assert (found.in_step_s, found.in_all_s) == (1.0, 1.0)


def test_a_new_step_begins_with_nothing() -> None:
    """What was waited for before a reply belongs to the step before it, and to the whole."""
    found = waiting({"1": 0.0}, {"1": 1.5}, {"1": 4.5})
    found.look(102.0, exchange_module.TICK_S)
    found.step(103.0)
    found.look(104.0, exchange_module.TICK_S)
    assert (found.in_step_s, found.in_all_s) == (1.0, 3.5)


def test_looks_that_follow_at_once_read_nothing() -> None:
    """A flood on stderr wakes the loop again and again; the counters are read once a tick."""
    found = waiting({"1": 0.0})
    found.look(100.0 + exchange_module.TICK_S / 4, exchange_module.TICK_S / 2)
    assert found.in_all_s == 0.0


def test_a_limit_is_noticed_when_it_is_due() -> None:
    """What is left of the nearest limit is how long to wait: never past it, never longer than a tick, never a spin."""
    tick_s, soon_s = exchange_module.TICK_S, exchange_module.SOON_S
    assert exchange_module.next_look_s([60.0, 0.03, 5.0]) == 0.03
    assert exchange_module.next_look_s([60.0, 30.0, 5.0]) == tick_s
    assert exchange_module.next_look_s([60.0, 0.0001, 5.0]) == soon_s


async def ended_by(waits_s: Callable[[], dict[str, float]]) -> tuple[Exchange, float]:
    """A conversation with somebody who says nothing, and how long it took."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    told = Exchange(
        reader=wire.ReplyReader(1, program=False, max_bytes=1000),
        tail=wire.Tail(1000),
        splitter=wire.StreamSplitter(),
    )
    begun_s = anyio.current_time()
    with ours, theirs:
        await converse(ours, Waits(waits_s), told, b"{}\n", Limits(wall_s=0.4), 1)  # type: ignore[arg-type]
    return told, anyio.current_time() - begun_s


async def test_a_candidate_that_gets_no_cpu_is_waited_for() -> None:
    """While it is ready to run and has no CPU, its wall time stands still; then it goes on."""
    begun_s = anyio.current_time()
    told, took_s = await ended_by(lambda: {"1": min(anyio.current_time() - begun_s, 1.0)})
    assert (told.exit, told.limit) == (Exit.TIME_LIMIT, "wall")
    assert took_s >= 1.2


async def test_one_that_sleeps_is_not() -> None:
    """Without waiting the limit is the limit."""
    told, took_s = await ended_by(dict)
    assert (told.exit, told.limit) == (Exit.TIME_LIMIT, "wall")
    assert took_s >= 0.4


async def test_nobody_is_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that has no CPU for it at all ends an observation by the bound of the whole."""
    monkeypatch.setattr(exchange_module, "MAX_TOTAL_WALL_S", 1.0)
    begun_s = anyio.current_time()
    told, _ = await ended_by(lambda: {"1": anyio.current_time() - begun_s})
    assert (told.exit, told.limit, told.detail) == (Exit.TIME_LIMIT, "total_wall", "over 1 s of total wall time")
