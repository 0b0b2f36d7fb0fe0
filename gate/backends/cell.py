"""The `cell` boundary: a container with a warm interpreter is kept; a candidate is a fork in its own namespaces.

Theory of operation. A cell is a box (see boxes.py) in which a broker and a zygote live
(sandbox/cell.py, sandbox/zygote.py). It takes one candidate at a time, so its control group
is that candidate's: CPU time, memory and kills for memory are read there, as for a container.
The conversation is the same as a container's, in frames; the last frame says that the
candidate's whole pid namespace has ended, and only then is the cell free for the next.

What is not as it should be is never the candidate's and never a verdict: a broken frame, a
zygote that complains or is gone, a candidate that vanished without a word, a kill for memory.
Then the cell is thrown away with its container, and the candidate is judged again in a
container of its own. So a cell answers what a container would have, or not at all.

Where the counters of its control group cannot be read there is no cell: nothing would hold
the limits of CPU time, nor notice a kill for memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, TypeVar

import anyio
import docker
from anyio import to_thread

from gate import wire
from gate.backends import hardening
from gate.backends.boxes import Box, Boxes, Kind
from gate.backends.cgroups import OpenCounters, Reading
from gate.backends.container import ContainerSandbox
from gate.backends.exchange import CHUNK_BYTES, Exchange, Remains, converse, observation, send
from gate.backends.image import Image
from gate.backends.spelling import Spelling
from gate.errors import SandboxError
from gate.model import MAX_TOTAL_WALL_S, Call, Candidate, Exit, Json, Limits, Observation

RECYCLE_AFTER = 2000
GRACE_S = 0.5  # how long a candidate that has said all may take to be gone
KILL_S = 10.0
BACKSTOP_FACTOR = 2

_T = TypeVar("_T")


# A program that stays a while, so that its processes can be looked at.
STAYS = "import time\ndef stay(s):\n    time.sleep(s)\n    return s\n"
STAY_S = (0.3, 2.0, 8.0)
NAMESPACES = ("user", "pid", "mnt", "net", "ipc", "uts", "cgroup")
HELD = {
    **dict.fromkeys(("CapPrm", "CapEff", "CapBnd"), "0000000000000000"),
    "NoNewPrivs": "1",
    "Seccomp": "2",
}
FIRST_TO_GO = 1000


class Surprise(Exception):
    """A cell is not as it should be: it proves nothing about the candidate that was in it."""


@dataclass(slots=True, kw_only=True)
class Cell:
    """One container with its broker and zygote; `used` counts the candidates that were in it."""

    box: Box
    counters: OpenCounters
    oom_kills: int
    used: int = 0

    def is_fit(self) -> bool:
        """Whether it can take another candidate."""
        return self.used < RECYCLE_AFTER and self.box.is_alive()


class CellSandbox:
    """Use as an async context manager.

    Args:
        client: The engine.
        image: What containers are made of.
        seccomp: The system call profile of a container.
        cell_seccomp: What a cell's container is permitted beyond it.
        labels: Whose the containers are.
        runtime: The OCI runtime's name; None for the engine's default.
        concurrency: How many candidates run at once: so many slots, each with a cell or two.
    """

    def __init__(
        self,
        client: docker.APIClient,
        image: Image,
        *,
        seccomp: str,
        cell_seccomp: str,
        labels: dict[str, str],
        runtime: str | None = None,
        concurrency: int = 1,
    ) -> None:
        self._image = image
        self._runtime = runtime
        self._concurrency = concurrency
        self._slots = anyio.CapacityLimiter(concurrency)
        self._threads = anyio.CapacityLimiter(concurrency + 4)
        self._door = anyio.Lock(fast_acquire=True)
        self._idle: list[Cell] = []  # the one used last stands last
        self._spelling = Spelling(2 * concurrency)
        self.boxes = Boxes(
            client,
            image.id,
            seccomp=hardening.cell_profile(seccomp, cell_seccomp),
            labels=labels,
            runtime=runtime,
            removers=concurrency + 1,
            make=lambda **asked: hardening.cell_config(**asked),
        )
        self.container = ContainerSandbox(
            client, image, seccomp=seccomp, labels=labels, runtime=runtime, concurrency=concurrency, pool_size=0
        )

    async def __aenter__(self) -> CellSandbox:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Remove every container that is still there; bounded, also when cancelled."""
        with anyio.CancelScope(shield=True):
            for cell in self._idle:
                self._discard(cell)
            self._idle.clear()
            await self._in_thread(self.boxes.close)
            await self.container.close()

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
        """See `gate.seams.Sandbox`; `where` says which boundary it was, and why where it is not the cell."""
        slots = await self._take_slots(self._concurrency if alone else 1)
        try:
            return await self._observe(candidate, entry_point, calls, limits, seed=seed, alone=alone)
        except Surprise as exc:
            seen = await self.container.observe(candidate, entry_point, calls, limits, seed=seed, alone=alone)
            return replace(seen, where={**seen.where, "instead_of_cell": str(exc)})
        finally:
            self._leave_slots(slots)

    async def find_weaknesses(self) -> list[str]:
        """What does not hold of a candidate's processes, seen from outside; nothing seen is a finding too.

        Raises:
            SandboxError: There is no cell to look at.
        """
        for stay_s in STAY_S:
            candidate = Candidate(task_id="probe", index=0, code=STAYS)
            try:
                _, seen = await self._observe_in_cell(
                    candidate, "stay", [Call(args=(stay_s,))], Limits(), seed=0, alone=False, inspect=True
                )
            except Surprise as exc:
                return [str(exc)]
            if seen:
                return weaknesses(seen)
        return ["the candidate's processes cannot be seen from outside"]

    @property
    def idle(self) -> tuple[Cell, ...]:
        """The cells that wait for a candidate."""
        return tuple(self._idle)

    @property
    def strict(self) -> StrictCells:
        """The same cells without containers behind them: what they cannot answer is an error."""
        return StrictCells(self)

    async def _observe(
        self,
        candidate: Candidate,
        entry_point: str | None,
        calls: Sequence[Call],
        limits: Limits,
        *,
        seed: int,
        alone: bool,
    ) -> Observation:
        found, _ = await self._observe_in_cell(candidate, entry_point, calls, limits, seed=seed, alone=alone)
        return found

    async def _observe_in_cell(
        self,
        candidate: Candidate,
        entry_point: str | None,
        calls: Sequence[Call],
        limits: Limits,
        *,
        seed: int,
        alone: bool,
        inspect: bool = False,
    ) -> tuple[Observation, tuple[Json, ...]]:
        """In a cell or not at all; also what was seen from outside, where it was asked for.

        Raises:
            Surprise: The cell is not as it should be.
            SandboxError: The engine could not make one.
        """
        wall_s = MAX_TOTAL_WALL_S + wire.BACKSTOP_S
        spelled = self._spelling.of(calls)
        header = wire.encode_header(candidate.code_bytes, entry_point, len(calls), limits, wall_s=wall_s)
        request = wire.encode_cell_run(
            header + spelled.lines,
            program=entry_point is None,
            inspect=inspect,
            cpu_s=BACKSTOP_FACTOR * limits.total_cpu_s,
            wall_s=wall_s,
        )
        cell = await self._take(Kind(memory_mb=limits.memory_mb, seed=seed))
        splitter = wire.CellSplitter(cell.box.splitter)
        max_bytes = limits.output_kb * 1024
        exchange = Exchange(
            reader=wire.ReplyReader(
                len(calls), program=entry_point is None, max_bytes=max_bytes, python=cell.box.python
            ),
            tail=wire.Tail(max_bytes),
            splitter=splitter,
        )
        done = False
        cell.counters.begin()
        try:
            await converse(cell.box.socket, cell.counters, exchange, request, limits, len(calls))
            remains, ending = await self._end(cell, exchange, splitter)
            done = True
        finally:
            self._give_back(cell, fit=done)
        where: dict[str, Json] = {
            "isolation": "cell",
            "runtime": self._runtime or "default",
            "image": self._image.content,
            "python": cell.box.python,
            "seed": seed,
            "alone": alone,
            "counters": cell.counters.source,
        }
        return observation(candidate.digest, spelled.digest, exchange, remains, where), ending.seen

    async def _end(
        self, cell: Cell, exchange: Exchange, splitter: wire.CellSplitter
    ) -> tuple[Remains, wire.CellEnding]:
        """Have the candidate gone for good; what the kernel counted of it.

        Raises:
            Surprise: The cell is not as it should be.
        """
        if exchange.unsent:
            raise Surprise("the cell did not take the request")
        if exchange.exit is Exit.FAULT:
            raise Surprise(exchange.detail)
        try:
            gone = splitter.is_over or (exchange.exit is None and await see_off(cell.box, splitter, GRACE_S))
            if not gone:
                await send(cell.box.socket, wire.CELL_KILL)
                if not await see_off(cell.box, splitter, KILL_S):
                    raise Surprise("the candidate could not be killed in time")
            ending = splitter.ending()
        except (EOFError, OSError, ValueError) as exc:
            raise Surprise(f"the cell is gone or confused: {exc}") from exc
        oom_kills = cell.counters.read_oom_kills()
        if oom_kills is None or oom_kills > cell.oom_kills:
            raise Surprise("the kernel killed a process in the cell for memory")
        if exchange.exit is None and exchange.reader.phase is not wire.Phase.ENDED:
            raise Surprise("the candidate's processes vanished without a word")
        counted = Reading(cpu_s=cell.counters.read_cpu_s(), memory_bytes=ending.memory_bytes, oom_kills=0)
        return Remains(reading=counted), ending

    async def _take_slots(self, number: int) -> list[object]:
        """Places to run in: one of them, or all; whoever waits for all lets nobody by."""
        taken: list[object] = []
        try:
            async with self._door:
                for _ in range(number):
                    token = object()
                    try:
                        self._slots.acquire_on_behalf_of_nowait(token)  # without a turn of the event loop
                    except anyio.WouldBlock:
                        await self._slots.acquire_on_behalf_of(token)
                    taken.append(token)
        except BaseException:
            self._leave_slots(taken)
            raise
        return taken

    def _leave_slots(self, taken: list[object]) -> None:
        for token in taken:
            self._slots.release_on_behalf_of(token)

    async def _take(self, kind: Kind) -> Cell:
        """A cell of that kind; the one that has rested least, so that few are kept in use.

        Raises:
            SandboxError: The engine could not make one, or it is none.
        """
        for cell in reversed(self._idle):
            if cell.box.kind == kind:
                self._idle.remove(cell)
                if cell.is_fit():
                    return cell
                self._discard(cell)
                return await self._take(kind)
        while len(self._idle) > 2 * self._concurrency:  # of kinds that nobody asks for any more
            self._discard(self._idle.pop(0))
        return await self._in_thread(self._open, kind)

    def _open(self, kind: Kind) -> Cell:
        box = self.boxes.open(kind)
        try:
            counters = OpenCounters(box.counters)
        except OSError as exc:
            self.boxes.discard(box)
            raise SandboxError(f"A cell's counters cannot be opened: {exc}") from exc
        oom_kills = counters.read_oom_kills()
        if oom_kills is None or counters.read_cpu_s() is None:
            counters.close()
            self.boxes.discard(box)
            raise SandboxError(
                "A cell cannot be used: the counters of its control group cannot be read from here, "
                "so nothing would hold its CPU time: use --isolation container."
            )
        return Cell(box=box, counters=counters, oom_kills=oom_kills)

    def _give_back(self, cell: Cell, *, fit: bool) -> None:
        cell.used += 1
        if fit:
            self._idle.append(cell)
        else:
            self._discard(cell)

    def _discard(self, cell: Cell) -> None:
        cell.counters.close()
        self.boxes.discard(cell.box)

    async def _in_thread(self, function: Callable[..., _T], *args: Any) -> _T:
        return await to_thread.run_sync(function, *args, limiter=self._threads)


class StrictCells:
    """A sandbox that has cells alone: a probe must not be answered by the container behind them."""

    def __init__(self, cells: CellSandbox) -> None:
        self._cells = cells

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
        try:
            return await self._cells._observe(candidate, entry_point, calls, limits, seed=seed, alone=alone)
        except Surprise as exc:
            raise SandboxError(f"The cell does not hold: {exc}; use --isolation container.") from exc


def weaknesses(seen: Sequence[Json]) -> list[str]:
    """What a candidate's processes are not held to, one line each."""
    found = []
    if [process["is_init"] for process in seen].count(False) != 1:
        found.append("a candidate's process is not where it was looked for")
    for process in seen:
        if process["is_init"]:  # it runs nothing of the candidate's, and sleeps
            continue
        found += [f"its {name} namespace is shared" for name in NAMESPACES if name not in process["apart"]]
        found += [
            f"{name} is {process['status'][name]}" for name, held in HELD.items() if process["status"][name] != held
        ]
        if process["oom_score_adj"] != FIRST_TO_GO:
            found.append(f"oom_score_adj is {process['oom_score_adj']}")
    return sorted(set(found))


async def see_off(box: Box, splitter: wire.CellSplitter, wait_s: float) -> bool:
    """Read until the candidate is gone, and past what it still says; whether it went in time.

    Raises:
        EOFError: The cell is gone.
        OSError, ValueError: See `exchange.receive`.
    """
    with anyio.move_on_after(wait_s):
        while not splitter.is_over:
            await anyio.wait_readable(box.socket)
            with suppress(BlockingIOError):
                data = box.socket.recv(CHUNK_BYTES)
                if not data:
                    raise EOFError("its stream has ended")
                splitter.feed(data)
    return splitter.is_over
