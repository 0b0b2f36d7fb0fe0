"""What one candidate leaves behind, no other candidate sees: after it, or beside it.

Each pair of `leaks.PAIRS` leaks on a plain fork server, inside one container; through a
boundary it does not. Another boundary is one more line in `BOUNDARIES`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import anyio
import docker
import pytest
from leaks import FORK_SERVER, PAIRS, looker, planter

from gate import values
from gate.backends.cell import CellSandbox
from gate.backends.container import ContainerSandbox
from gate.backends.image import Image
from gate.backends.labels import owner_labels
from gate.model import Call, Candidate, Json, Limits
from gate.resources import sandbox_dir
from gate.seams import Sandbox

pytestmark = [pytest.mark.docker, pytest.mark.timeout(300)]

ORDERS = ("after", "beside")
LIMITS = Limits(wall_s=60, memory_mb=128)
STAY_S = 1.0
LONGEST_STAY_S = 32.0

Boundary = Callable[[docker.APIClient, Image], AbstractAsyncContextManager[Sandbox]]


def open_container(engine: docker.APIClient, image: Image) -> AbstractAsyncContextManager[Sandbox]:
    seccomp = (sandbox_dir() / "seccomp.json").read_text()
    return ContainerSandbox(engine, image, seccomp=seccomp, labels=owner_labels(), concurrency=2, pool_size=0)


def open_cells(engine: docker.APIClient, image: Image) -> AbstractAsyncContextManager[Sandbox]:
    return CellSandbox(
        engine,
        image,
        seccomp=(sandbox_dir() / "seccomp.json").read_text(),
        cell_seccomp=(sandbox_dir() / "seccomp-cell.json").read_text(),
        labels=owner_labels(),
        concurrency=2,
    )


BOUNDARIES: dict[str, Boundary] = {"container": open_container, "cell": open_cells}


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What came of all pairs in one order.

    Attributes:
        refused: By pair, why its mark could not be left; empty where it was.
        seen: By pair, whether the second candidate has seen its mark.
        overlap_s: How long the second looked while all marks stood and the first was there.
    """

    refused: dict[str, str]
    seen: dict[str, bool]
    overlap_s: float


Results = dict[str, Found]  # by order


def found(planted: Json, looked: Json) -> Found:
    planted_s, left_s, refused = planted
    begun_s, ended_s, seen = looked
    return Found(refused=refused, seen=seen, overlap_s=min(left_s, ended_s) - max(planted_s, begun_s))


async def values_of(sandbox: Sandbox, code: str, entry_point: str, *calls: tuple[Json, ...]) -> list[Any]:
    """What one candidate returned from some calls."""
    candidate = Candidate(task_id="t", index=0, code=code)
    seen = await sandbox.observe(candidate, entry_point, [Call(args=args) for args in calls], LIMITS)
    assert [reply.kind for reply in seen.replies] == ["returned"] * len(calls), seen
    return [values.decode(reply.value) for reply in seen.replies]


async def together(attempt: Callable[[float], Awaitable[Found]], stay_s: float = STAY_S) -> Found:
    """What came of both at once; tried again, longer, where they missed each other on a busy machine."""
    result = await attempt(stay_s)
    if result.overlap_s > stay_s / 4 or stay_s >= LONGEST_STAY_S:
        return result
    again = await together(attempt, 2 * stay_s)
    return replace(again, seen={name: seen or result.seen[name] for name, seen in again.seen.items()})


async def examine(boundary: AbstractAsyncContextManager[Sandbox]) -> Results:
    """All pairs in both orders through a boundary."""

    async def after() -> Found:
        (planted,) = await values_of(sandbox, planter("after"), "plant", (0.0,))
        (looked,) = await values_of(sandbox, looker("after"), "look", (0.0,))
        return found(planted, looked)

    async def beside(stay_s: float) -> Found:
        said: dict[str, Json] = {}

        async def run(code: str, entry_point: str) -> None:
            (said[entry_point],) = await values_of(sandbox, code, entry_point, (stay_s,))

        async with anyio.create_task_group() as group:
            group.start_soon(run, planter("beside"), "plant")
            group.start_soon(run, looker("beside"), "look")
        return found(said["plant"], said["look"])

    async with boundary as sandbox:
        return {"after": await after(), "beside": await together(beside)}


async def fork(boundary: AbstractAsyncContextManager[Sandbox]) -> Results:
    """All pairs in both orders on a fork server without namespaces; the container around it takes all away again."""

    async def serve(order: str, stay_s: float) -> Found:
        call = (planter(order), looker(order), stay_s, order == "beside")
        (said,) = await values_of(sandbox, FORK_SERVER, "serve", call)
        return found(*said)

    async with boundary as sandbox:
        return {"after": await serve("after", 0.0), "beside": await together(partial(serve, "beside"))}


@pytest.fixture(scope="module", params=BOUNDARIES)
def through(request: pytest.FixtureRequest, engine: docker.APIClient, image: Image) -> Results:
    return anyio.run(examine, BOUNDARIES[request.param](engine, image))


@pytest.fixture(scope="module")
def on_a_fork_server(engine: docker.APIClient, image: Image) -> Results:
    return anyio.run(fork, open_container(engine, image))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", PAIRS)
def test_a_plain_fork_leaks(name: str, order: str, on_a_fork_server: Results) -> None:
    """Without a boundary the second candidate sees what the first has left: the pair can find it."""
    assert on_a_fork_server[order].refused[name] == ""
    assert on_a_fork_server[order].seen[name]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", PAIRS)
def test_nothing_leaks_through_a_boundary(name: str, order: str, through: Results) -> None:
    """Through a boundary the second candidate sees nothing, whether it comes after the first or runs beside it."""
    assert not through[order].seen[name]


def test_beside_is_at_the_same_time(through: Results) -> None:
    """The second candidate has looked while the marks stood and the first one was still there."""
    assert through["beside"].overlap_s > 0


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("through", ["container"], indirect=True)
def test_in_a_container_everything_can_be_left(order: str, through: Results) -> None:
    """The first candidate is not kept from leaving its marks, but in process 1, which nobody may open."""
    refused = dict(through[order].refused)
    assert "PermissionError" in refused.pop("the memory of the parent")
    assert refused == dict.fromkeys(set(PAIRS) - {"the memory of the parent"}, "")
