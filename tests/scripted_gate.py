"""The command `gate`, with a sandbox that only pretends: for runs of hundreds of tasks that are about drawing.

    python tests/scripted_gate.py run BANK --source openai …

The programs, which are the tests' own, run right here, in this process: never take this for a
sandbox. Everything else is the command itself: its options, ledger, signals, exit codes.
"""

from __future__ import annotations

import random
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio

from gate.backends import leftovers
from gate.cli import main, wiring
from gate.model import Call, Candidate, Exit, Limits, LoadFailure, Observation, Reply, digest_json


class PretendedSandbox:
    """Observes what a program returns."""

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
        await anyio.sleep(random.uniform(0, 0.01))
        replies, load = run(candidate.code, str(entry_point), calls)
        return Observation(
            candidate=candidate.digest,
            calls=digest_json([call.as_json() for call in calls]),
            exit=Exit.OK,
            replies=replies,
            load=load,
            where={"seed": seed, "alone": alone, "isolation": "pretended"},
        )


def run(code: str, entry_point: str, calls: Sequence[Call]) -> tuple[tuple[Reply, ...], LoadFailure | None]:
    """What a program returns for each call, or why it did not load."""
    names: dict[str, Any] = {}
    try:
        exec(code.removeprefix("\ufeff"), names)
    except (SyntaxError, UnicodeError) as exc:
        return (), LoadFailure(kind="syntax_error", message=str(exc))
    if entry_point not in names:
        return (), LoadFailure(kind="missing_entry_point", message=entry_point)
    return tuple(Reply(kind="returned", value=names[entry_point](*call.args)) for call in calls), None


class PretendedEngine:
    """What the command asks of an engine before it begins."""

    def info(self) -> dict[str, Any]:
        return {"DefaultRuntime": "pretended", "Runtimes": {}}


def open_engine(runtime: str | None) -> Any:
    image = wiring.Image(id="sha256:0", content="pretended", python="3", base="none", size_bytes=0)
    return wiring.Engine(client=PretendedEngine(), image=image, version={}, seccomp="{}")  # type: ignore[arg-type]


@asynccontextmanager
async def open_sandbox(*args: Any, **options: Any) -> AsyncIterator[PretendedSandbox]:
    yield PretendedSandbox()


if __name__ == "__main__":
    wiring.open_engine = open_engine
    wiring.open_sandbox = open_sandbox  # type: ignore[assignment]
    leftovers.reap = lambda client: None  # type: ignore[assignment,misc,return-value]
    sys.exit(main())
