"""How many requests are under way: halved by a 429, brought back by answers."""

from __future__ import annotations

from itertools import pairwise

import anyio

from gate.backends.pace import Pace


def test_a_burst_of_refusals_lowers_once() -> None:
    """Thirty requests that were sent under one limit and refused halve it once; the next one again."""
    pace = Pace(32)
    for _ in range(30):
        pace.lower(0)
    assert pace.limit == 16
    pace.lower(1)
    assert pace.limit == 8


def test_it_never_stops() -> None:
    """However often it is lowered, one request may be under way."""
    pace = Pace(4)
    for word in range(20):
        pace.lower(word)
    assert pace.limit == 1


def test_recovery_is_gradual_and_bounded() -> None:
    """Every so many answers as may be under way allow one more, and never more than was asked for."""
    pace = Pace(8)
    pace.lower(0)
    steps = []
    for _ in range(60):
        steps.append(pace.limit)
        pace.recover()
    assert steps[:4] == [4, 4, 4, 4] and steps[5] == 5
    assert all(after - before in (0, 1) for before, after in pairwise(steps))
    assert pace.limit == 8


async def test_places_are_bounded_by_the_limit() -> None:
    """No more hold a place at a time than the limit says, also after it was lowered under them."""
    pace, most, now = Pace(4), 0, 0

    async def work() -> None:
        nonlocal most, now
        async with pace.place():
            now += 1
            most = max(most, now)
            await anyio.sleep(0.01)
            now -= 1

    async with anyio.create_task_group() as group:
        for _ in range(10):
            group.start_soon(work)
    assert most == 4
    pace.lower(0)
    most = 0
    async with anyio.create_task_group() as group:
        for _ in range(10):
            group.start_soon(work)
    assert most == 2


async def test_a_place_brings_the_word_of_its_time() -> None:
    """A refusal of what was sent before the limit was lowered says nothing new."""
    pace = Pace(8)
    async with pace.place() as word:
        pace.lower(word)
        pace.lower(word)
    async with pace.place() as later:
        assert (word, later) == (0, 1)
    assert pace.limit == 4
