"""`gate doctor`: what works here, and what to do about what does not."""

from __future__ import annotations

import os
import shutil
import statistics
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio

from gate import preflight
from gate.backends.boxes import Boxes, Kind
from gate.backends.docker_client import connect
from gate.backends.image import find_image
from gate.backends.labels import owner_labels
from gate.backends.leftovers import find_leftovers
from gate.cli import exits, printing, wiring
from gate.errors import GateError
from gate.model import Call, Candidate, Exit
from gate.resources import sandbox_dir

LOW_DISK_BYTES = 2 << 30
CLOCK_SKEW = timedelta(seconds=5)
TRIALS = 4
WORTH = 0.9  # a runtime is recommended that needs less than this share of the other's time


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One thing that was looked at; `advice` says what to do where it is not well, or could be better."""

    name: str
    ok: bool
    found: str
    advice: str = ""


def doctor(*, runtime: str | None, as_json: bool) -> int:
    """Look at everything, print a line each; 3 where something does not work."""
    lines = [*engine_lines(runtime), disk_line(), key_line(os.environ)]
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
        found = f"{version.get('Version')}, API {version.get('ApiVersion')}, kernel {info.get('KernelVersion')}"
        lines += [Line(name="engine", ok=True, found=found), clock_line(info.get("SystemTime")), apparmor_line(info)]
        orphans = sum(each.orphaned for each in find_leftovers(client))
        advice = "`gate clean` removes them, the next run does too" if orphans else ""
        lines.append(Line(name="leftovers", ok=True, found=f"{orphans} containers of dead gates", advice=advice))
        image = find_image(client)
        if image is None:
            return [*lines, Line(name="image", ok=False, found="none", advice="run `gate image build`")]
        size = f"{image.size_bytes / 1e6:.1f} MB"
        lines.append(Line(name="image", ok=True, found=f"{image.content}, base {image.base}, {size}"))
        known = wiring.open_engine(runtime)
        lines.append(runtime_line(known, info, runtime))
        lines += anyio.run(_sandbox_lines, known, runtime)
        if all(line.ok for line in lines):
            lines.append(anyio.run(_cell_line, known, runtime))
    except GateError as exc:
        lines.append(Line(name="engine", ok=False, found=str(exc)))
    return lines


def clock_line(system_time: object) -> Line:
    """Whether the engine's clock and ours agree; times in a ledger are ours."""
    try:
        theirs = datetime.fromisoformat(str(system_time)[:26].rstrip("Z")).replace(tzinfo=UTC)
    except ValueError:
        return Line(name="clock", ok=True, found="the engine does not tell its own")
    skew = abs(datetime.now(UTC) - theirs)
    ok = skew < CLOCK_SKEW
    advice = "" if ok else "set one of the clocks: limits hold all the same, but the ledger's times will puzzle you"
    return Line(
        name="clock", ok=True, found=f"{skew.total_seconds():.1f} s between the engine's and ours", advice=advice
    )


def apparmor_line(info: Mapping[str, Any]) -> Line:
    """Whether AppArmor confines containers; that is welcome here."""
    on = any("apparmor" in str(option) for option in info.get("SecurityOptions") or ())
    return Line(name="AppArmor", ok=True, found="on: containers are confined by it, too" if on else "off")


def runtime_line(known: wiring.Engine, info: Mapping[str, Any], runtime: str | None) -> Line:
    """Which OCI runtime is used, and by measurement whether crun would be quicker."""
    used = runtime or str(info.get("DefaultRuntime"))
    names = sorted(info.get("Runtimes") or {})
    found = f"{used} (known: {', '.join(names)})"
    if "crun" not in names:
        advice = "crun may start containers quicker: once the engine has it as a runtime, this line measures it"
        return Line(name="runtime", ok=True, found=found, advice="" if used == "crun" else advice)
    if used == "crun":
        return Line(name="runtime", ok=True, found=found)
    ours_s = start_s(known, runtime)
    try:
        crun_s = start_s(known, "crun")
    except GateError as exc:
        return Line(name="runtime", ok=True, found=f"{found}; crun does not work here ({exc})")
    found += f"; a container takes {1000 * ours_s:.0f} ms, with crun {1000 * crun_s:.0f} ms"
    advice = "use --runtime crun: it is quicker here" if crun_s < WORTH * ours_s else ""
    return Line(name="runtime", ok=True, found=found, advice=advice)


def start_s(known: wiring.Engine, runtime: str | None) -> float:
    """Seconds to make a container ready and to end it; the median of a few."""
    boxes = Boxes(
        known.client, known.image.id, seccomp=known.seccomp, labels=owner_labels(), runtime=runtime, removers=1
    )
    took_s = []
    for seed in range(TRIALS):
        begun_s = time.monotonic()
        boxes.end(boxes.open(Kind(memory_mb=preflight.LIMITS.memory_mb, seed=seed)))
        took_s.append(time.monotonic() - begun_s)
    boxes.close()
    return statistics.median(took_s)


async def _sandbox_lines(known: wiring.Engine, runtime: str | None) -> list[Line]:
    """Where the counters come from, each finding of the probe, and the canaries."""
    probe = (sandbox_dir() / "probe.py").read_text(encoding="utf-8")
    async with wiring.open_sandbox(known, runtime=runtime, concurrency=1, checked=False) as sandbox:
        candidate = Candidate(task_id="doctor", index=0, code=preflight.GOOD)
        seen = await sandbox.observe(candidate, "double", [Call(args=(2,))], preflight.LIMITS)
        lines = [counters_line(str(seen.where.get("counters")), seen.exit)]
        findings = await preflight.find_weaknesses(sandbox, probe)
        advice = "the engine does not honour a limit: use another engine or runtime"
        lines += [Line(name="probe", ok=False, found=finding, advice=advice) for finding in findings]
        if findings:
            return lines
        lines.append(Line(name="probe", ok=True, found="user, capabilities, filter, network, files, limits hold"))
        try:
            await preflight.check_sandbox(sandbox, probe)
        except GateError as exc:
            return [*lines, Line(name="canaries", ok=False, found=str(exc))]
        return [*lines, Line(name="canaries", ok=True, found="the right program passes, the wrong one fails")]


async def _cell_line(known: wiring.Engine, runtime: str | None) -> Line:
    """Whether the second boundary holds here; where it does not, the first is there all the same."""
    try:
        async with wiring.open_sandbox(known, runtime=runtime, concurrency=1, isolation="cell"):
            return Line(name="cell", ok=True, found="holds: many candidates are judged sooner with --isolation cell")
    except GateError as exc:
        return Line(name="cell", ok=True, found=str(exc), advice='see "The cell" in sandbox/README.md')


def counters_line(source: str, exit_: Exit) -> Line:
    """Where CPU time and memory are read."""
    if source == "none":
        advice = "the engine's host cannot be seen from here: CPU time is not limited, wall time is"
        return Line(name="counters", ok=exit_ is Exit.OK, found="none", advice=advice)
    return Line(name="counters", ok=exit_ is Exit.OK, found=f"{source}, read on the host")


def disk_line() -> Line:
    """Whether there is room for a run's ledger here."""
    free_bytes = shutil.disk_usage(os.getcwd()).free
    ok = free_bytes >= LOW_DISK_BYTES
    advice = "" if ok else "free some space, or use --out on another disk"
    return Line(name="disk", ok=ok, found=f"{free_bytes / 1e9:.1f} GB free here", advice=advice)


def key_line(environment: Mapping[str, str]) -> Line:
    """Whether there is a key for --source openai; the key itself is not shown."""
    if environment.get(wiring.KEY_VARIABLE):
        return Line(name="API key", ok=True, found=f"{wiring.KEY_VARIABLE} is set")
    advice = f"set {wiring.KEY_VARIABLE} where --source openai is to ask a server that wants one"
    return Line(name="API key", ok=True, found=f"{wiring.KEY_VARIABLE} is not set", advice=advice)
