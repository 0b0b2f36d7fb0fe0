"""The `container` boundary: a fresh, hardened container for each candidate.

Theory of operation. A box is taken from the pool, where it waits ready and unused. The
conversation runs on its attached stream, the one transport. Then the counters are read
while the container lives, it is killed, waited for and inspected, and removed in the
background. Nothing is reused but the read-only image.

Blame by channel. Until a box is ready nothing of a candidate is inside, so whatever
fails is ours (SandboxError); one that fails before the request is on its way as a whole is
replaced. Once it is, what comes up the pipes is the candidate's doing; only the engine's
own failure, or a container that it no longer knows, is a FAULT.

A blocking call in a thread cannot be cancelled and its result would be lost with the
task, so boxes are registered before they are started and `close` removes all that is
left.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, TypeVar

import anyio
import docker
from anyio import to_thread

from gate import wire
from gate.backends.boxes import START_ATTEMPTS, Box, Boxes, Kind
from gate.backends.exchange import Exchange, Remains, converse, observation
from gate.backends.image import Image
from gate.backends.pool import Pool
from gate.backends.spelling import Spelling
from gate.model import MAX_TOTAL_WALL_S, Call, Candidate, Json, Limits, Observation

_T = TypeVar("_T")


class ContainerSandbox:
    """Use as an async context manager.

    Args:
        client: The engine.
        image: What containers are made of.
        seccomp: The system call profile's content.
        labels: Whose the containers are.
        runtime: The OCI runtime's name; None for the engine's default.
        concurrency: How many candidates run at once.
        pool_size: How many containers wait ready; 0 for none, None to choose.
    """

    def __init__(
        self,
        client: docker.APIClient,
        image: Image,
        *,
        seccomp: str,
        labels: dict[str, str],
        runtime: str | None = None,
        concurrency: int = 1,
        pool_size: int | None = None,
    ) -> None:
        self._image = image
        self._runtime = runtime
        self._concurrency = concurrency
        self._slots = anyio.CapacityLimiter(concurrency)
        self._threads = anyio.CapacityLimiter(2 * concurrency + 4)
        self._door = anyio.Lock()
        self._spelling = Spelling(2 * concurrency)
        self.boxes = Boxes(client, image.id, seccomp=seccomp, labels=labels, runtime=runtime, removers=concurrency + 1)
        size = 2 * concurrency + 2 if pool_size is None else pool_size
        self._pool = Pool(self.boxes, size=size, starters=concurrency + 1)

    async def __aenter__(self) -> ContainerSandbox:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Remove every container that is still there; bounded, also when cancelled."""
        with anyio.CancelScope(shield=True):
            await self._in_thread(self._pool.close)
            await self._in_thread(self.boxes.close)

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
        async with self._slot(alone):
            wall_s = MAX_TOTAL_WALL_S + wire.BACKSTOP_S
            spelled = self._spelling.of(calls)
            header = wire.encode_header(candidate.code_bytes, entry_point, len(calls), limits, wall_s=wall_s)
            request = header + spelled.lines
            for _ in range(START_ATTEMPTS):
                box = await self._take(Kind(memory_mb=limits.memory_mb, seed=seed))
                exchange = begin(box, calls, limits, program=entry_point is None)
                try:
                    await converse(box.socket, box.counters, exchange, request, limits, len(calls))
                finally:
                    remains = await self._end(box)
                if not exchange.unsent:
                    break
        where: dict[str, Json] = {
            "isolation": "container",
            "runtime": self._runtime or "default",
            "image": self._image.content,
            "python": box.python,
            "seed": seed,
            "alone": alone,
            "counters": box.counters.source,
        }
        return observation(candidate.digest, spelled.digest, exchange, remains, where)

    @asynccontextmanager
    async def _slot(self, alone: bool) -> AsyncIterator[None]:
        """A place to run in; or all of them, and nothing starting in the background meanwhile."""
        tokens = [object() for _ in range(self._concurrency if alone else 1)]
        taken: list[object] = []
        try:
            async with self._door:
                for token in tokens:
                    await self._slots.acquire_on_behalf_of(token)
                    taken.append(token)
            if alone:
                await self._in_thread(self._pool.hold)
            yield
        finally:
            if alone:
                self._pool.release()
            for token in taken:
                self._slots.release_on_behalf_of(token)

    async def _take(self, kind: Kind) -> Box:
        """A ready box; cancelled on the way, it is left to `close`."""
        return await self._in_thread(self._pool.take, kind)

    async def _end(self, box: Box) -> Remains:
        with anyio.CancelScope(shield=True):
            remains = await self._in_thread(self.boxes.end, box)
        return remains

    async def _in_thread(self, function: Callable[..., _T], *args: Any) -> _T:
        return await to_thread.run_sync(function, *args, limiter=self._threads)


def begin(box: Box, calls: Sequence[Call], limits: Limits, *, program: bool) -> Exchange:
    """A conversation that takes up where the box's stream is."""
    max_bytes = limits.output_kb * 1024
    return Exchange(
        reader=wire.ReplyReader(len(calls), program=program, max_bytes=max_bytes, python=box.python),
        tail=wire.Tail(max_bytes),
        splitter=box.splitter,
    )
