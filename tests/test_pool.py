"""Boxes made ahead of need, on boxes that are no containers."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gate.backends import pool as pool_module
from gate.backends.boxes import Kind
from gate.backends.pool import Pool, shares
from gate.errors import SandboxError

SMALL, LARGE = Kind(memory_mb=64, seed=0), Kind(memory_mb=512, seed=0)


@dataclass(eq=False)
class FakeBox:
    kind: Kind
    alive: bool = True
    born_s: float = field(default_factory=time.monotonic)

    def is_alive(self) -> bool:
        return self.alive


class FakeBoxes:
    """Counts what is made and given up; fails as often as it is told to."""

    def __init__(self, *, failures: int = 0, wait_s: float = 0.0) -> None:
        self.made: list[FakeBox] = []
        self.given_up: list[FakeBox] = []
        self.failures = failures
        self.wait_s = wait_s
        self.starting = 0
        self.lock = threading.Lock()

    def open(self, kind: Kind) -> FakeBox:
        with self.lock:
            self.starting += 1
        time.sleep(self.wait_s)
        with self.lock:
            self.starting -= 1
            if self.failures:
                self.failures -= 1
                raise SandboxError("the engine is gone")
            self.made.append(FakeBox(kind))
            return self.made[-1]

    def discard(self, box: FakeBox) -> None:
        self.given_up.append(box)


def make(boxes: FakeBoxes, size: int = 2, starters: int = 2) -> Pool:
    return Pool(boxes, size=size, starters=starters)  # type: ignore[arg-type]


def settle(boxes: FakeBoxes, number: int) -> None:
    deadline_s = time.monotonic() + 5
    while len(boxes.made) < number or boxes.starting:
        assert time.monotonic() < deadline_s, "the pool was not refilled"
        time.sleep(0.002)


def test_the_next_box_is_made_before_it_is_asked_for() -> None:
    """After a box is taken as many are on their way as the pool holds, and the next is one of them."""
    boxes = FakeBoxes()
    pool = make(boxes)
    taken = pool.take(SMALL)
    settle(boxes, 3)
    ready = [box for box in boxes.made if box is not taken]
    assert pool.take(SMALL) in ready
    pool.close()


def test_a_box_is_used_once() -> None:
    """No box is ever given out twice."""
    boxes = FakeBoxes()
    pool = make(boxes, size=4)
    taken = [pool.take(kind) for kind in (SMALL, LARGE) * 10]
    assert len(set(map(id, taken))) == 20
    pool.close()


def test_a_box_is_of_the_kind_that_was_asked_for() -> None:
    """Memory and seed are fixed when a box is made, so another kind is never given out."""
    boxes = FakeBoxes()
    pool = make(boxes, size=3)
    for kind in (SMALL, LARGE, SMALL, SMALL, LARGE):
        assert pool.take(kind).kind == kind
    pool.close()


def test_without_a_size_each_is_made_when_it_is_asked_for() -> None:
    """A pool of size 0 makes nothing ahead."""
    boxes = FakeBoxes()
    pool = make(boxes, size=0)
    for _ in range(3):
        pool.take(SMALL)
    assert len(boxes.made) == 3
    pool.close()


def test_a_box_that_died_while_it_waited_is_replaced() -> None:
    """Nobody is given a dead box, and the dead one is given up."""
    boxes = FakeBoxes()
    pool = make(boxes)
    taken = pool.take(SMALL)
    settle(boxes, 3)
    waiting = [box for box in boxes.made if box is not taken]
    for box in waiting:
        box.alive = False
    assert pool.take(SMALL).is_alive()
    assert set(map(id, boxes.given_up)) == set(map(id, waiting))
    pool.close()


def test_a_box_that_waited_too_long_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """A box older than the limit is given up: its runner would soon end by itself."""
    boxes = FakeBoxes()
    pool = make(boxes)
    taken = pool.take(SMALL)
    settle(boxes, 3)
    old = [box for box in boxes.made if box is not taken]
    for box in old:
        box.born_s -= pool_module.MAX_AGE_S + 1
    assert pool.take(SMALL) not in old
    pool.close()


def test_a_failure_ahead_of_need_is_nobodys() -> None:
    """A box that could not be made in the background is asked for anew; only the asker's own failure is raised."""
    boxes = FakeBoxes()
    pool = make(boxes)
    pool.take(SMALL)
    settle(boxes, 3)
    pool.take(SMALL)
    pool.take(SMALL)
    boxes.failures = 0
    assert pool.take(SMALL).is_alive()
    pool.close()
    broken = FakeBoxes(failures=100)
    pool = make(broken)
    with pytest.raises(SandboxError, match="the engine is gone"):
        pool.take(SMALL)
    pool.close()


def test_held_means_that_nothing_is_starting() -> None:
    """While a candidate must be alone nothing is started; afterwards the pool is filled again."""
    boxes = FakeBoxes(wait_s=0.05)
    pool = make(boxes, size=3, starters=3)
    pool.take(SMALL)
    pool.hold()
    assert boxes.starting == 0
    made = len(boxes.made)
    time.sleep(0.12)
    assert (boxes.starting, len(boxes.made)) == (0, made)
    pool.take(SMALL)
    pool.release()
    settle(boxes, made + 1)
    pool.close()


def test_closing_gives_up_all_that_wait() -> None:
    """What was made and not taken is given up, each once."""
    boxes = FakeBoxes(wait_s=0.01)
    pool = make(boxes, size=4, starters=4)
    taken = [pool.take(SMALL), pool.take(LARGE)]
    pool.close()
    assert {id(box) for box in boxes.given_up} == {id(box) for box in boxes.made if box not in taken}
    assert len(boxes.given_up) == len(set(map(id, boxes.given_up)))


def test_a_kind_that_nobody_takes_any_more_is_let_go() -> None:
    """Boxes of a kind that was not taken lately make room for those that are."""
    boxes = FakeBoxes()
    pool = make(boxes)
    pool.take(SMALL)
    for _ in range(pool_module.LATELY + 1):
        pool.take(LARGE)
    deadline_s = time.monotonic() + 5
    while not any(box.kind == SMALL for box in boxes.given_up):
        assert time.monotonic() < deadline_s
        time.sleep(0.002)
    pool.close()


@given(st.lists(st.sampled_from([SMALL, LARGE, Kind(memory_mb=64, seed=1)]), max_size=48), st.integers(0, 8))
def test_shares_are_within_the_size_and_follow_the_demand(lately: list[Kind], size: int) -> None:
    """Never more than the size in all; the kind that was taken most has the most."""
    found = shares(deque(lately), size)
    assert sum(found.values()) <= size
    assert all(number > 0 and kind in lately for kind, number in found.items())
    if lately and size:
        most = Counter(lately).most_common(1)[0][0]
        assert found[most] == max(found.values())
