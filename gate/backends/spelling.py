"""Calls as requests and digests have them, found once for all the candidates of a task.

The candidates of a task come one after the other, each with the same calls; writing those out
and hashing them costs more than all else that a small observation asks of the driver.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gate import wire
from gate.model import Call, digest_json


@dataclass(frozen=True, slots=True, kw_only=True)
class Spelled:
    """Some calls as a request has them, and their digest."""

    calls: tuple[Call, ...]
    lines: bytes
    digest: str


class Spelling:
    """What was spelled lately.

    Args:
        size: How many sequences of calls are kept.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._known: dict[tuple[int, ...], Spelled] = {}  # by the calls' identities: those in it are kept alive

    def of(self, calls: Sequence[Call]) -> Spelled:
        """Some calls spelled; known by identity, so a call must not change."""
        key = tuple(map(id, calls))
        spelled = self._known.get(key)
        if spelled is None:
            if len(self._known) >= self._size:
                del self._known[next(iter(self._known))]
            lines, digest = wire.encode_calls(calls), digest_json([call.as_json() for call in calls])
            spelled = self._known[key] = Spelled(calls=tuple(calls), lines=lines, digest=digest)
        return spelled
