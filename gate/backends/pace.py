"""How many requests may be under way: what was asked for at most, fewer while a server says it is too much.

Theory of operation. The limit starts at what the user allows. A 429 halves it, once for all
requests that were sent under the limit before: a burst of thirty of them says the same thing
thirty times. Every answer raises it by its own inverse, so by one after as many answers as it
allows, until it is back. Who waits holds no place.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio


class Pace:
    """Bounds the requests under way.

    Args:
        most: How many at most, from 1.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._limit = float(most)
        self._lowered = 0
        self._limiter = anyio.CapacityLimiter(most)

    @property
    def limit(self) -> int:
        """How many requests may be under way now."""
        return int(self._limit)

    @asynccontextmanager
    async def place(self) -> AsyncIterator[int]:
        """A place among the requests under way; it brings the word that `lower` wants."""
        async with self._limiter:
            yield self._lowered

    def lower(self, sent_under: int) -> None:
        """The server said that it is too much, to a request that had this word from `place`."""
        if sent_under == self._lowered:
            self._lowered += 1
            self._set(max(1.0, self._limit / 2))

    def recover(self) -> None:
        """The server has answered."""
        self._set(min(float(self._most), self._limit + 1 / self._limit))

    def _set(self, limit: float) -> None:
        self._limit = limit
        self._limiter.total_tokens = int(limit)
