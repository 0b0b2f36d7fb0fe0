"""Puts the parts together: which bank, which source, which sandbox."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import anyio
import docker

from gate import seams
from gate.backends.docker_client import connect
from gate.backends.image import Image, find_image
from gate.cli import printing
from gate.errors import SandboxError, SpecError
from gate.model import Call, Candidate, Json, Limits, Observation, digest_bytes
from gate.preflight import check_sandbox
from gate.resources import sandbox_dir

if TYPE_CHECKING:
    from gate.backends.books import Books
    from gate.backends.cell import CellSandbox
    from gate.backends.prompts import Prompts


class PoolSource(seams.CandidateSource, Protocol):
    """A source that knows beforehand what it holds."""

    @property
    def digest(self) -> str:
        """SHA-256 of what it holds."""
        ...

    def task_ids(self) -> Mapping[str, int]:
        """The tasks that it has candidates for, and how many."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """A container engine that answers, with the image that containers are made of."""

    client: docker.APIClient
    image: Image
    version: dict[str, Json]
    seccomp: str


def default_jobs(isolation: str = "container") -> int:
    """Tasks at a time: twice the cores keeps an engine busy; cells have no engine to wait for."""
    cores = os.cpu_count() or 1
    return min(16, cores if isolation == "cell" else 2 * cores)


def tasks_at_a_time(kind: str, max_connections: int | None) -> int:
    """How many tasks are under way: as many as connections, where a task waits for a model most of its time."""
    from gate.backends.openai import MAX_CONNECTIONS

    waiting = (max_connections or MAX_CONNECTIONS) if kind in ("openai", "command") else 0
    return max(default_jobs(), waiting)


# Which options are for which kinds of sources; all are bound to the run that begins with them.
MODEL_OPTIONS = ("model", "base_url", "temperature", "top_p", "max_tokens", "price_in", "price_out", "cache")
PROMPT_OPTIONS = ("seed", "system", "template", "show_tests", "prelude")
BUDGETS = ("budget_usd", "budget_tokens")
_PLACES = {
    **dict.fromkeys((*MODEL_OPTIONS, *BUDGETS), ("openai",)),
    **dict.fromkeys(PROMPT_OPTIONS, ("openai", "command")),
}
KEY_VARIABLE = "OPENAI_API_KEY"
_KNOWN = "known: openai, command:'PROG ARGS', samples:FILE, samples:FOLDER, scripted:FILE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """How draws are made, beside what the run is bound to; None: the source's default.

    Attributes:
        max_connections: Requests or processes at a time.
        request_timeout_s: How long one of them may take.
        books: Where requests are recorded, and what bounds their cost.
    """

    max_connections: int | None = None
    request_timeout_s: float | None = None
    books: Books | None = None

    def given(self) -> dict[str, Any]:
        """What was given, by the names that sources have for it."""
        found = {"max_connections": self.max_connections, "timeout_s": self.request_timeout_s}
        return {name: value for name, value in found.items() if value is not None}


@contextmanager
def open_source(spec: str, options: dict[str, Json], drawing: Drawing | None = None) -> Iterator[PoolSource]:
    """The source that `--source` names.

    Args:
        spec: What `--source` says.
        options: The run's options; some have a place at some kinds of sources only.
        drawing: How draws are made.

    Raises:
        SpecError: There is no such kind, it cannot be opened, or an option has no place there.
    """
    kind, _, where = spec.partition(":")
    refuse_misplaced(kind, options)
    how = drawing or Drawing()
    if kind == "openai" and not where:
        yield open_model(options, how)
    elif kind == "command" and where:
        yield open_command(where, options, how)
    elif kind == "samples" and where:
        from gate.backends.samples import open_samples

        samples = open_samples(Path(where))
        try:
            yield samples
        finally:
            samples.close()
    elif kind == "scripted" and where:
        from gate.backends.scripted import open_scripted

        yield open_scripted(Path(where))
    else:
        raise SpecError(f"--source: unknown {spec!r} ({_KNOWN})")


def refuse_misplaced(kind: str, options: dict[str, Json]) -> None:
    """An option that would do nothing is a mistake.

    Raises:
        SpecError: There is one.
    """
    for name, kinds in _PLACES.items():
        if options.get(name) not in (None, False) and kind not in kinds:
            raise SpecError(f"--{name.replace('_', '-')}: is for --source {' or '.join(kinds)}: leave it out")


def open_model(options: dict[str, Json], drawing: Drawing) -> PoolSource:
    """The source `openai`; the key comes from the environment and goes nowhere but to the server.

    Raises:
        SpecError: No model is named, or an option is out of range.
    """
    from gate.backends.answer_cache import AnswerCache
    from gate.backends.openai import OpenAISource, refuse_credentials

    if not options.get("model"):
        raise SpecError("--model: --source openai needs a model's name, as the server knows it")
    for name, low, high in (("temperature", 0.0, 2.0), ("top_p", 0.0, 1.0)):
        if options.get(name) is not None and not low <= options[name] <= high:
            raise SpecError(f"--{name.replace('_', '-')}: {options[name]} is not between {low} and {high}")
    check_money(options)
    refuse_credentials(options.get("base_url"))
    names = ("model", "base_url", "temperature", "top_p", "max_tokens", "seed", "prelude")
    given = {name: options[name] for name in names if options.get(name) is not None}
    return OpenAISource(
        **{"base_url": None, **given, **drawing.given()},
        prompts=prompts_of(options),
        api_key=os.environ.get(KEY_VARIABLE),
        books=drawing.books,
        cache=None if options.get("cache") is None else AnswerCache(Path(options["cache"])),
    )


def open_command(command: str, options: dict[str, Json], drawing: Drawing) -> PoolSource:
    """The source `command`.

    Raises:
        SpecError: There is no such program, or an option is out of range.
    """
    from gate.backends.command import CommandSource

    given = {name: options[name] for name in ("seed", "prelude") if options.get(name) is not None}
    secrets = (os.environ.get(KEY_VARIABLE),)
    return CommandSource(command, **given, **drawing.given(), prompts=prompts_of(options), secrets=secrets)


def prompts_of(options: dict[str, Json]) -> Prompts:
    """What a model is told, by a run's options."""
    from gate.backends.prompts import Prompts

    given = {name: options[name] for name in ("system", "template") if options.get(name) is not None}
    return Prompts(**given, show_tests=bool(options.get("show_tests")))


def check_money(options: dict[str, Json]) -> None:
    """Prices and budgets are amounts, and a budget in dollars has a price.

    Raises:
        SpecError: They are not, or it has none.
    """
    from gate.backends.prices import checked_usd

    for name in ("price_in", "price_out", "budget_usd"):
        if options.get(name) is not None:
            checked_usd(options[name], f"--{name.replace('_', '-')}")
    if (options.get("price_in") is None) is not (options.get("price_out") is None):
        raise SpecError("--price-in, --price-out: a price has both: give the other one, too")
    if options.get("budget_usd") is not None and options.get("price_in") is None:
        raise SpecError("--budget-usd: needs the model's price: give --price-in and --price-out, or --prices FILE")


def resolved(spec: str, options: dict[str, Json]) -> dict[str, Json]:
    """The options as `run.json` keeps them: what a model is asked with stands there, not that it was left out."""
    if spec == "openai":
        from gate.backends.openai import MAX_TOKENS, TEMPERATURE

        defaults: dict[str, Json] = {"temperature": TEMPERATURE, "max_tokens": MAX_TOKENS, "seed": 0}
    else:
        defaults = {"seed": 0} if spec.startswith("command:") else {}
    given = {name: value for name, value in options.items() if value is not None}
    return {**options, **defaults, **given, "show_tests": bool(options.get("show_tests"))}


async def close_source(source: PoolSource) -> None:
    """Close what a source holds open in the event loop; bounded, also when cancelled."""
    close = getattr(source, "aclose", None)
    if close is not None:
        with anyio.move_on_after(2, shield=True):
            await close()


def source_facts(spec: str, options: dict[str, Json]) -> dict[str, Json]:
    """A source as `run.json` keeps it; `spec` is what reports show, without folders."""
    kind, _, where = spec.partition(":")
    if kind == "command":
        from gate.backends.command import command_words

        shown = Path(command_words(where)[0]).name
    else:
        shown = str(options["model"]) if kind == "openai" else Path(where).name
    return {"spec": f"{kind}:{shown}", "kind": kind, "path": where}


def source_spec(facts: dict[str, Json]) -> str:
    """What `--source` would say for a source that `run.json` keeps."""
    return str(facts["kind"]) if facts["kind"] == "openai" else f"{facts['kind']}:{facts['path']}"


def open_engine(runtime: str | None) -> Engine:
    """Connect to the engine and find the image.

    Raises:
        SandboxError: No engine answers, or it has no image of ours, or no such runtime.
    """
    client = connect()
    image = find_image(client)
    if image is None:
        raise SandboxError("The engine has no sandbox image of this version: run `gate image build`.")
    known = client.info().get("Runtimes") or {}
    if runtime is not None and runtime not in known:
        raise SpecError(f"--runtime: the engine has no {runtime!r} (known: {', '.join(sorted(known))})")
    seccomp = (sandbox_dir() / "seccomp.json").read_text(encoding="utf-8")
    return Engine(client=client, image=image, version=client.version(), seccomp=seccomp)


@asynccontextmanager
async def open_sandbox(
    engine: Engine, *, runtime: str | None, concurrency: int, checked: bool = True, isolation: str = "container"
) -> AsyncIterator[seams.Sandbox]:
    """The sandbox, ready for use; checked means that the canaries and the probe went right.

    One that is used for a program or two (not checked) keeps no containers ready. Cells are
    checked always: only the probe shows that this engine permits all that they promise.

    Args:
        isolation: `container` or `cell`.

    Raises:
        SandboxError: It does not hold.
    """
    if isolation == "cell":
        async with _open_cells(engine, runtime, concurrency) as cells:
            yield cells
        return
    from gate.backends.container import ContainerSandbox
    from gate.backends.labels import owner_labels

    async with ContainerSandbox(
        engine.client,
        engine.image,
        seccomp=engine.seccomp,
        labels=owner_labels(),
        runtime=runtime,
        concurrency=concurrency,
        pool_size=None if checked else 0,
    ) as sandbox:
        if checked:
            await check_sandbox(sandbox, (sandbox_dir() / "probe.py").read_text(encoding="utf-8"))
        yield sandbox


@asynccontextmanager
async def _open_cells(engine: Engine, runtime: str | None, concurrency: int) -> AsyncIterator[CellSandbox]:
    """Cells that hold, by what was seen from inside and from outside, with containers behind them that hold as well."""
    from gate.backends.cell import CellSandbox
    from gate.backends.labels import owner_labels

    folder = sandbox_dir()
    async with CellSandbox(
        engine.client,
        engine.image,
        seccomp=engine.seccomp,
        cell_seccomp=(folder / "seccomp-cell.json").read_text(encoding="utf-8"),
        labels=owner_labels(),
        runtime=runtime,
        concurrency=concurrency,
    ) as cells:
        try:
            findings = await cells.find_weaknesses()
            if findings:
                raise SandboxError("; ".join(findings))
            await check_sandbox(cells.strict, (folder / "cell_probe.py").read_text(encoding="utf-8"))
        except SandboxError as exc:
            raise SandboxError(f"No cell on this engine: {str(exc).rstrip('.')}: use --isolation container.") from exc
        await check_sandbox(cells.container, (folder / "probe.py").read_text(encoding="utf-8"))
        yield cells


def engine_facts(engine: Engine, runtime: str | None) -> dict[str, Json]:
    """What `run.json` says of the engine, the image and the filter."""
    info = engine.client.info()
    return {
        "engine": {
            "name": str((engine.version.get("Platform") or {}).get("Name") or "Docker Engine"),
            "version": engine.version.get("Version"),
            "api": engine.version.get("ApiVersion"),
            "runtime": runtime or info.get("DefaultRuntime"),
            "cgroup": info.get("CgroupVersion", "1"),
            "kernel": info.get("KernelVersion"),
        },
        "image": {
            "id": engine.image.id,
            "content": engine.image.content,
            "python": engine.image.python,
            "base": engine.image.base,
        },
        "seccomp_digest": digest_bytes(engine.seccomp.encode()),
    }


def replay_isolation(engine: Engine, runtime: str | None) -> str:
    """The boundary that a replay uses where none is named: cells where they hold; asked once, when it begins."""

    async def try_cells() -> None:
        async with open_sandbox(engine, runtime=runtime, concurrency=1, isolation="cell"):
            pass

    try:
        anyio.run(try_cells)
    except SandboxError as exc:
        printing.say(f"gate: each candidate gets a container of its own: {exc}")
        return "container"
    return "cell"


class OpenWhenNeeded:
    """A sandbox that is opened for the first observation: what is known already needs none.

    One task of its own opens it, keeps it and closes it; see `open_when_needed`.
    """

    def __init__(self) -> None:
        self.needed = anyio.Event()
        self.opened = anyio.Event()
        self.sandbox: seams.Sandbox | None = None

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
        self.needed.set()
        await self.opened.wait()
        if self.sandbox is None:
            raise SandboxError("The sandbox was closed: start again.")
        return await self.sandbox.observe(candidate, entry_point, calls, limits, seed=seed, alone=alone)


@asynccontextmanager
async def open_when_needed(
    engine: Engine, *, isolation: str, runtime: str | None, concurrency: int
) -> AsyncIterator[seams.Sandbox]:
    """As `open_sandbox`, which is called when the first candidate is to run.

    Raises:
        SandboxError: from the block, where it does not hold.
    """
    waiting, finished = OpenWhenNeeded(), anyio.Event()

    async def keep_open() -> None:
        await waiting.needed.wait()
        async with open_sandbox(engine, runtime=runtime, concurrency=concurrency, isolation=isolation) as sandbox:
            waiting.sandbox = sandbox
            waiting.opened.set()
            await finished.wait()

    async with anyio.create_task_group() as group:
        group.start_soon(keep_open)
        yield waiting
        if waiting.opened.is_set():
            finished.set()
        else:
            group.cancel_scope.cancel()
