"""What one candidate leaves behind, no other candidate sees: after it, or beside it.

Each pair of `leaks.PAIRS` leaks on a plain fork server, inside one container; through a
boundary it does not. Another boundary is one more line in `BOUNDARIES`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

import anyio
import docker
import pytest
from leaks import FORK_SERVER, PAIRS, Pair

from gate import values
from gate.backends.container import ContainerSandbox
from gate.backends.image import Image
from gate.backends.labels import owner_labels
from gate.model import Call, Candidate, Json, Limits
from gate.resources import sandbox_dir
from gate.seams import Sandbox

pytestmark = pytest.mark.docker

ORDERS = ("after", "beside")
RUNS = [(name, order) for name in PAIRS for order in ORDERS]
LIMITS = Limits(wall_s=60, memory_mb=128)
PAIRS_AT_A_TIME = 2
STAY_S = 0.5
LONGEST_STAY_S = 8.0
OVERLAP_S = 0.05

Boundary = Callable[[docker.APIClient, Image], AbstractAsyncContextManager[Sandbox]]


def open_container(engine: docker.APIClient, image: Image) -> AbstractAsyncContextManager[Sandbox]:
    seccomp = (sandbox_dir() / "seccomp.json").read_text()
    return ContainerSandbox(
        engine, image, seccomp=seccomp, labels=owner_labels(), concurrency=2 * PAIRS_AT_A_TIME, pool_size=4
    )


BOUNDARIES: dict[str, Boundary] = {"container": open_container}


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What came of one pair, times by the kernel's monotonic clock.

    Attributes:
        refused: Why the mark could not be left, where it could not.
        seen: Whether the second candidate has seen it.
        overlap_s: How long the second has looked while the mark stood and the first was there.
    """

    refused: str
    seen: bool
    overlap_s: float


Results = dict[tuple[str, str], Found]  # by pair and order


def found(planted: Json, looked: Json) -> Found:
    planted_s, left_s, refused = planted
    begun_s, ended_s, seen = looked
    return Found(refused=refused, seen=seen, overlap_s=min(left_s, ended_s) - max(planted_s, begun_s))


async def value_of(sandbox: Sandbox, code: str, entry_point: str, *args: Json) -> Any:
    """What one candidate returned."""
    (value,) = await values_of(sandbox, code, entry_point, [Call(args=args)])
    return value


async def values_of(sandbox: Sandbox, code: str, entry_point: str, calls: list[Call]) -> list[Any]:
    candidate = Candidate(task_id="t", index=0, code=code)
    seen = await sandbox.observe(candidate, entry_point, calls, LIMITS)
    assert [reply.kind for reply in seen.replies] == ["returned"] * len(calls), seen
    return [values.decode(reply.value) for reply in seen.replies]


async def examine(sandbox: Sandbox, pair: Pair, mark: str, order: str) -> Found:
    """Run a pair through a boundary; beside each other, until they have been there at the same time."""
    planter, looker = pair.planter(mark), pair.looker(mark)
    if order == "after":
        planted = await value_of(sandbox, planter, "plant", 0.0)
        return found(planted, await value_of(sandbox, looker, "look", 0.0))
    said: dict[str, Json] = {}

    async def run(code: str, entry_point: str, span_s: float) -> None:
        said[entry_point] = await value_of(sandbox, code, entry_point, span_s)

    stay_s = STAY_S
    while True:
        async with anyio.create_task_group() as group:
            group.start_soon(run, planter, "plant", stay_s)
            group.start_soon(run, looker, "look", stay_s)
        result = found(said["plant"], said["look"])
        if result.seen or result.overlap_s > OVERLAP_S or stay_s >= LONGEST_STAY_S:
            return result
        stay_s *= 2


async def examine_all(boundary: AbstractAsyncContextManager[Sandbox]) -> Results:
    """Run all pairs in both orders through a boundary."""
    results: Results = {}
    places = anyio.CapacityLimiter(PAIRS_AT_A_TIME)

    async def run(sandbox: Sandbox, name: str, order: str) -> None:
        async with places:
            results[name, order] = await examine(sandbox, PAIRS[name], f"{name} {order}", order)

    async with boundary as sandbox, anyio.create_task_group() as group:
        for name, order in RUNS:
            group.start_soon(run, sandbox, name, order)
    return results


async def fork_all(boundary: AbstractAsyncContextManager[Sandbox]) -> Results:
    """Run all pairs in both orders on one fork server without namespaces, within a container that takes all away."""
    calls = []
    for name, order in RUNS:
        pair, mark = PAIRS[name], f"{name} {order}"
        spans = (0.0, 0.0) if order == "after" else (STAY_S / 4, LONGEST_STAY_S)
        calls.append(Call(args=(pair.planter(mark), pair.looker(mark), *spans, order == "beside")))
    async with boundary as sandbox:
        said = await values_of(sandbox, FORK_SERVER, "serve", calls)
    return {run: found(*each) for run, each in zip(RUNS, said, strict=True)}


@pytest.fixture(scope="module", params=BOUNDARIES)
def through(request: pytest.FixtureRequest, engine: docker.APIClient, image: Image) -> Results:
    return anyio.run(examine_all, BOUNDARIES[request.param](engine, image))


@pytest.fixture(scope="module")
def on_a_fork_server(engine: docker.APIClient, image: Image) -> Results:
    return anyio.run(fork_all, open_container(engine, image))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", PAIRS)
def test_a_plain_fork_leaks(name: str, order: str, on_a_fork_server: Results) -> None:
    """Without a boundary the second candidate sees what the first has left: the pair can find it."""
    result = on_a_fork_server[name, order]
    assert result.refused == ""
    assert result.seen


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", PAIRS)
def test_nothing_leaks_through_a_boundary(name: str, order: str, through: Results) -> None:
    """Through a boundary the second candidate sees nothing, whether it comes after the first or runs beside it."""
    result = through[name, order]
    assert not result.seen
    assert order == "after" or result.overlap_s > OVERLAP_S, "they were not there at the same time"


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("through", ["container"], indirect=True)
def test_in_a_container_everything_can_be_left(name: str, order: str, through: Results) -> None:
    """The first candidate is not kept from leaving its mark: it is the boundary that keeps the second from it."""
    assert through[name, order].refused == ""
