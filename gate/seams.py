"""The seams to the outside world. They bring facts; only the rules hold opinions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gate.model import Call, Candidate, Json, Limits, Observation, Task


class CandidateSource(Protocol):
    """Where candidates come from."""

    async def draw(self, task: Task, index: int) -> Candidate:
        """The candidate number `index` (from 0) of a task.

        A source that has none to give returns an empty program: that draw is used up.

        Raises:
            SourceError: Our world failed; nothing is used up.
        """
        ...


class Sandbox(Protocol):
    """Where candidates run. It takes calls, not tests: expected values cannot get in."""

    async def observe(
        self,
        candidate: Candidate,
        entry_point: str | None,
        calls: Sequence[Call],
        limits: Limits,
        *,
        seed: int = 0,
        alone: bool = False,
    ) -> Observation:
        """Run a candidate under some calls and say what was seen.

        Args:
            candidate: The program.
            entry_point: What to call; None for a program on stdin and stdout.
            calls: The calls, in order.
            limits: What it may use.
            seed: The hash seed of its interpreter.
            alone: Run it while nothing else of ours runs.

        Returns:
            What happened. What the candidate does is data; where the engine failed
            after it was started, `exit` is FAULT.

        Raises:
            SandboxError: Nothing could be run.
        """
        ...


class Ledger(Protocol):
    """Where everything is kept: append-only, one record a line."""

    def append(self, kind: str, body: dict[str, Json]) -> str:
        """Keep one record, and say by which digest later records may refer to it.

        What something is going to follow from is on the disk when this returns.

        Raises:
            GateError: It could not be kept; nothing may follow from it.
        """
        ...
