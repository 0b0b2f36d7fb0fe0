"""Boxes made ahead of need: single use, refilled in the background.

Theory of operation. Starting a container takes ten times as long as running a small
candidate in it, so it is done before somebody asks. Boxes are kept by kind, because
memory and hash seed are fixed when a box is made. Which kinds are kept ready, and how
many of each, follows from what was taken lately; a kind that nobody takes any more is
let go. A box is used once and never comes back. One that died while it waited was
nobody's fault: it is replaced, and uses up no draw.

All of this is threads and one lock: the engine's client blocks.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from threading import Lock

from gate.backends.boxes import CLOSE_TIMEOUT_S, Box, Boxes, Kind
from gate.errors import SandboxError

LATELY = 48
MAX_AGE_S = 300.0


class Pool:
    """Boxes that wait for their candidate.

    Args:
        boxes: Makes and ends them.
        size: How many wait in all; 0: each is made when it is asked for.
        starters: How many are started at once.
    """

    def __init__(self, boxes: Boxes, *, size: int, starters: int) -> None:
        self._boxes = boxes
        self._size = size
        self._lock = Lock()
        self._waiting: dict[Kind, deque[Future[Box]]] = {}
        self._lately: deque[Kind] = deque(maxlen=LATELY)
        self._held = False
        self._starts = ThreadPoolExecutor(max_workers=starters, thread_name_prefix="start")

    def take(self, kind: Kind) -> Box:
        """A box of that kind, ready; the next ones are on their way when this returns.

        Raises:
            SandboxError: The engine could not make one.
        """
        with self._lock:
            self._lately.append(kind)
            ahead = self._next(kind)
            future = ahead or self._starts.submit(self._boxes.open, kind)
            self._refill()
        while ahead is not None:
            box = self._fit(ahead)
            if box is not None:
                return box
            # Not filled up again before this has ended: without an engine it would not.
            with self._lock:
                ahead = self._next(kind)
                future = ahead or self._starts.submit(self._boxes.open, kind)
        return future.result()

    def _next(self, kind: Kind) -> Future[Box] | None:
        """The one of that kind that has waited longest, ready or not."""
        waiting = self._waiting.setdefault(kind, deque())
        return waiting.popleft() if waiting else None

    def _fit(self, future: Future[Box]) -> Box | None:
        """A box that was made ahead, if it is still fit for use: it was made for nobody in particular."""
        try:
            box = future.result()
        except SandboxError:
            return None
        if box.is_alive() and time.monotonic() - box.born_s < MAX_AGE_S:
            return box
        self._boxes.discard(box)
        return None

    def _refill(self) -> None:
        """Have as many on their way as were wanted lately; let go what is wanted no more."""
        if self._held:
            return
        wanted = shares(self._lately, self._size)
        for kind, waiting in self._waiting.items():
            while len(waiting) > wanted.get(kind, 0) and kind not in wanted:
                waiting.popleft().add_done_callback(self._let_go)
        for kind, number in wanted.items():
            waiting = self._waiting.setdefault(kind, deque())
            while len(waiting) < number:
                waiting.append(self._starts.submit(self._boxes.open, kind))

    def _let_go(self, future: Future[Box]) -> None:
        with suppress(SandboxError):
            if not future.cancelled():
                self._boxes.discard(future.result())

    def hold(self) -> None:
        """Start nothing in the background from now on; returns when nothing is starting any more."""
        with self._lock:
            self._held = True
            going = [future for waiting in self._waiting.values() for future in waiting]
        wait(going)

    def release(self) -> None:
        """Start in the background again."""
        with self._lock:
            self._held = False
            self._refill()

    def close(self) -> None:
        """Let all waiting boxes go; bounded."""
        with self._lock:
            self._held = True
            left = [future for waiting in self._waiting.values() for future in waiting]
            self._waiting.clear()
        for future in left:
            future.cancel()
            future.add_done_callback(self._let_go)
        # One that an engine is slow to start is let go by the thread that waits for it.
        starting = wait(left, timeout=CLOSE_TIMEOUT_S).not_done
        self._starts.shutdown(wait=not starting, cancel_futures=True)


def shares(lately: deque[Kind], size: int) -> dict[Kind, int]:
    """How many of each kind to have ready: in proportion to what was taken, at least one of each while it lasts."""
    counts = Counter(lately)
    total = counts.total()
    found: dict[Kind, int] = {}
    left = size
    for kind, number in counts.most_common():
        share = min(left, max(1, round(size * number / total)))
        if share > 0:
            found[kind] = share
            left -= share
    return found
