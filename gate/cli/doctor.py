"""`gate doctor`: what works here, and what to do about what does not."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass

import anyio

from gate.backends.docker_client import connect
from gate.backends.image import find_image
from gate.cli import exits, printing, wiring
from gate.errors import GateError
from gate.preflight import check_sandbox, find_weaknesses
from gate.resources import sandbox_dir

LOW_DISK_BYTES = 2 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One thing that was looked at; `advice` says what to do where it is not well."""

    name: str
    ok: bool
    found: str
    advice: str = ""


def doctor(*, runtime: str | None, as_json: bool) -> int:
    """Look at everything, print a line each; 3 where something does not work."""
    lines = [*engine_lines(runtime), disk_line()]
    if as_json:
        printing.print_json({"schema": "gate.doctor/1", "lines": [asdict(line) for line in lines]})
    else:
        for line in lines:
            mark = "ok  " if line.ok else "FAIL"
            print(
                f"{mark} {line.name}: {printing.escape(line.found)}" + (f"\n     {line.advice}" if line.advice else "")
            )
    return exits.DONE if all(line.ok for line in lines) else exits.WORLD


def engine_lines(runtime: str | None) -> list[Line]:
    """The engine, its image, and what a probe sees from inside; the first failure ends it."""
    lines: list[Line] = []
    try:
        client = connect()
        version, info = client.version(), client.info()
        found = f"{version.get('Version')}, API {version.get('ApiVersion')}, cgroup v{info.get('CgroupVersion', '1')}"
        lines.append(Line(name="engine", ok=True, found=found))
        image = find_image(client)
        if image is None:
            return [*lines, Line(name="image", ok=False, found="none", advice="run `gate image build`")]
        size = f"{image.size_bytes / 1e6:.1f} MB"
        lines.append(Line(name="image", ok=True, found=f"{image.content}, base {image.base}, {size}"))
        known = wiring.open_engine(runtime)
        lines.append(runtime_line(info, runtime))
        lines += anyio.run(_sandbox_lines, known, runtime)
    except GateError as exc:
        lines.append(Line(name="engine", ok=False, found=str(exc)))
    return lines


def runtime_line(info: dict[str, object], runtime: str | None) -> Line:
    """Which OCI runtime is used, and which there are."""
    names = info.get("Runtimes")
    known = ", ".join(sorted(names)) if isinstance(names, dict) else ""
    return Line(name="runtime", ok=True, found=f"{runtime or info.get('DefaultRuntime')} (known: {known})")


async def _sandbox_lines(known: wiring.Engine, runtime: str | None) -> list[Line]:
    probe = (sandbox_dir() / "probe.py").read_text(encoding="utf-8")
    async with wiring.open_sandbox(known, runtime=runtime, concurrency=1, checked=False) as sandbox:
        findings = await find_weaknesses(sandbox, probe)
        found = "; ".join(findings) or "user, capabilities, filter, network, files, limits: as they should be"
        advice = "the engine does not honour a limit: use another engine or runtime" if findings else ""
        lines = [Line(name="probe", ok=not findings, found=found, advice=advice)]
        if not findings:
            lines.append(await _line_of("canaries", lambda: check_sandbox(sandbox, probe), "right passes, wrong fails"))
    return lines


async def _line_of(name: str, check: Callable[[], object], found: str) -> Line:
    try:
        await check()  # type: ignore[misc]
    except GateError as exc:
        return Line(name=name, ok=False, found=str(exc))
    return Line(name=name, ok=True, found=found)


def disk_line() -> Line:
    """Whether there is room for a run's ledger here."""
    free_bytes = shutil.disk_usage(os.getcwd()).free
    ok = free_bytes >= LOW_DISK_BYTES
    advice = "" if ok else "free some space, or use --out on another disk"
    return Line(name="disk", ok=ok, found=f"{free_bytes / 1e9:.1f} GB free here", advice=advice)
