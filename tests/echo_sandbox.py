"""A sandbox without an engine for replays: the first word of a program says what comes back.

Run as a program it is the command line with this sandbox behind it:
`python tests/echo_sandbox.py replay …`. The task is always f(x) = x; visible arguments are
below 10, hidden ones are not.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from gate.backends import leftovers
from gate.backends.image import Image
from gate.cli import wiring
from gate.model import Call, Candidate, Exit, Json, Limits, Observation, Reply, Usage, digest_json

BIG = "x" * 100_000
RETURNS: dict[str, Callable[[int], Json]] = {
    "ok": lambda x: x,
    "half": lambda x: x if x < 10 else -1,
    "hard": lambda x: x if x >= 10 else -1,
    "wrong": lambda x: -1,
    "odd": lambda x: -2,
    "big": lambda x: BIG,
}
EXITS = {"crash": Exit.CRASHED, "fault": Exit.FAULT, "slow": Exit.TIME_LIMIT}


class EchoSandbox:
    """Answers by the first word of the program.

    Args:
        delay_s: How long each observation takes.

    Attributes:
        seen: What was observed: program, calls, seed, alone.
    """

    def __init__(self, delay_s: float = 0.0, *, keep: bool = True) -> None:
        self.seen: list[tuple[str, int, int, bool]] = []
        self._delay_s = delay_s
        self._keep = keep

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
        """See `gate.seams.Sandbox`."""
        await anyio.sleep(self._delay_s)
        if self._keep:
            self.seen.append((candidate.code, len(calls), seed, alone))
        word = candidate.code.split()[0]
        exit_ = EXITS.get(word, Exit.OK)
        if word == "flaky" and not alone:
            exit_ = Exit.TIME_LIMIT
        answer = RETURNS.get(word, RETURNS["ok"])
        replies = [Reply(kind="returned", value=answer(call.args[0])) for call in calls]
        return Observation(
            candidate=candidate.digest,
            calls=digest_json([call.as_json() for call in calls]),
            exit=exit_,
            replies=tuple(replies) if exit_ is Exit.OK else (),
            limit="wall" if exit_ is Exit.TIME_LIMIT else None,
            detail="" if exit_ is Exit.OK else word,
            usage=Usage(wall_s=0.01, cpu_s=0.01, memory_bytes=1),
            where={"isolation": "container", "seed": seed, "alone": alone},
        )


def task_line(number: int, **more: Json) -> dict[str, Json]:
    """One task: f(x) = x."""
    return {
        "version": 1,
        "task": f"t/{number}",
        "prompt": "f(x) = x",
        "entry_point": "f",
        "tests": [{"args": [1], "expected": 1}, {"args": [2], "expected": 2}],
        "hidden": [{"args": [10], "expected": 10}, {"args": [11], "expected": 11}],
        **more,
    }


def write_bank(path: Path, lines: Sequence[dict[str, Json]]) -> Path:
    """A bank of some tasks."""
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def write_pool(path: Path, pools: dict[str, Sequence[str]]) -> Path:
    """A samples file: the programs of each task, in draw order."""
    rows = [{"task_id": task_id, "solution": text} for task_id, texts in pools.items() for text in texts]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def install(sandbox: EchoSandbox, put: Callable[[object, str, object], None] = setattr) -> None:
    """Put the sandbox where the engine would be."""
    image = Image(id="sha256:0", content="echo-image", python="3.12.0", base="local", size_bytes=1)
    known = wiring.Engine(client=None, image=image, version={}, seccomp="{}")  # type: ignore[arg-type]

    @asynccontextmanager
    async def open_sandbox(*args: Any, **more: Any) -> AsyncIterator[EchoSandbox]:
        yield sandbox

    def engine_facts(*args: Any) -> dict[str, Json]:
        engine = {"name": "echo", "version": "1", "api": "1", "runtime": "runc", "cgroup": "2", "kernel": "x"}
        shown = {"id": image.id, "content": image.content, "python": image.python, "base": image.base}
        return {"engine": engine, "image": shown, "seccomp_digest": "0"}

    put(wiring, "open_engine", lambda runtime: known)
    put(wiring, "open_sandbox", open_sandbox)
    put(wiring, "engine_facts", engine_facts)
    put(leftovers, "reap", lambda client: 0)


if __name__ == "__main__":
    from gate.cli.app import run

    install(EchoSandbox(float(os.environ.get("ECHO_DELAY_S", "0")), keep=False))
    sys.argv[0] = "gate"
    run()
