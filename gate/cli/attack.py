"""`gate attack`: each attack against each gauge, all of it inside the sandbox.

Theory of operation. The two gauges that take a suite as code are texts of a checkout; they
run as programs in the sandbox, with the suite and the attacker's program as arguments, and
what they return is what they would have let through. The data gauge is the gate's own path.
What comes of each task is kept, and the table is added up from that alone, so that `gate
verify` can add it up again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import yaml

from gate import attacks, engine
from gate.attacks import GAUGES, ON_SUITES, RESIDUALS, Outcome
from gate.backends.banks import open_bank
from gate.backends.samples import open_samples
from gate.cli import exits, printing, wiring
from gate.cli.attack_record import read_seed, report, write_record
from gate.cli.run import new_run_path
from gate.cli.try_one import judge
from gate.errors import SandboxError, SpecError
from gate.lock import Lock, differences, locked
from gate.model import Call, Candidate, Limits, SuiteSpec, Task, digest_bytes, program_text
from gate.model import Outcome as Result
from gate.resources import checkout_dir, suites_dir
from gate.seams import Sandbox
from gate.strength import strength
from gate.suite import load_suite, suite_from_tree, task_of
from gate.version import gate_version

LIMITS = Limits(wall_s=6, cpu_s=2, memory_mb=512)  # of a gauge that is code, with all that it runs
DRAWS = 5
_CODE_FILES = {"code": "code.py", "code_process": "code_process.py"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A hostile program of the corpus, with the suite that it is held against and its class."""

    id: str
    kind: str
    suite: SuiteSpec
    program: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Arms:
    """What a checkout has for the experiment: the gauges that are code, and the corpus by class."""

    code: dict[str, str]
    cases: tuple[Case, ...]

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes, in their order."""
        return tuple(dict.fromkeys(case.kind for case in self.cases))


def read_arms() -> Arms:
    """What stands in `experiments/attacks` and in the corpus of the tests.

    Raises:
        SpecError: This is no checkout.
    """
    folder, corpus = checkout_dir("experiments"), checkout_dir("tests")
    if folder is None or corpus is None or not (folder / "attacks").is_dir():
        raise SpecError("gate attack: needs experiments/attacks and tests/cases of a checkout: run it from one")
    kinds = yaml.safe_load((folder / "attacks" / "classes.yaml").read_text(encoding="utf-8"))
    return Arms(
        code={gauge: (folder / "attacks" / name).read_text(encoding="utf-8") for gauge, name in _CODE_FILES.items()},
        cases=tuple(_case(corpus / "cases" / name, kind) for kind, names in kinds.items() for name in names),
    )


def _case(folder: Path, kind: str) -> Case:
    return Case(
        id=folder.name,
        kind=kind,
        suite=load_suite((folder / "suite.yaml").read_bytes(), f"tests/cases/{folder.name}/suite.yaml"),
        program=program_text((folder / "candidate.py").read_bytes()),
    )


@dataclass(slots=True, kw_only=True)
class Field:
    """Where attacks are carried out: the sandbox, the gauges that are code, the pool, what is known already."""

    sandbox: Sandbox
    code: dict[str, str]
    pool: Callable[[Task, int], Any] | None
    _delivered: dict[tuple[str, str], str | None] = field(default_factory=dict)

    async def session(self, gauge: str, suite: str, programs: Sequence[str], entry_point: str | None) -> list[bool]:
        """What a gauge that is code says of programs that it judges one after another; nothing said is no pass."""
        harness = Candidate(task_id="gauge", index=0, code=self.code[gauge])
        call = Call(args=(suite, [[program, entry_point] for program in programs]))
        seen = await self.sandbox.observe(harness, "judge", [call], LIMITS)
        said = seen.replies[0].value if seen.replies and seen.replies[0].kind == "returned" else []
        passed = [each is True for each in said] if isinstance(said, list) else []
        return (passed + [False] * len(programs))[: len(programs)]

    async def passes(self, gauge: str, suite: SuiteSpec, program: str, part: str = "visible") -> bool:
        """Whether an honest gauge lets a program through."""
        if gauge == "data" or part == "hidden":
            return (await judge(suite, program, part, sandbox=self.sandbox)).outcome is Result.PASS
        return (await self.session(gauge, attacks.suite_code(suite), [program], suite.entry_point))[0]

    async def first_pass(self, gauge: str, task: Task) -> str | None:
        """The pool's own candidate that an honest gauge delivers."""
        key = gauge, task.id
        if key not in self._delivered:
            self._delivered[key] = None
            for index in range(DRAWS if self.pool is not None else 0):
                assert self.pool is not None
                candidate = await self.pool(task, index)
                if candidate.code.strip() and await self.passes(gauge, task.suite, candidate.code):
                    self._delivered[key] = candidate.code
                    break
        return self._delivered[key]


async def attack_task(task: Task, number: int, wanted: Sequence[tuple[str, str]], on: Field) -> list[Outcome]:
    """Every wanted (attack, gauge) on one task."""
    found = []
    for attack, gauge in wanted:
        if attack in ON_SUITES:
            carry_out = _on_data if gauge == "data" else partial(_on_code, gauge)
            found.append(await carry_out(attack, task, number, on))
        elif attack == "generic_gauged":
            found += await _generic(gauge, task, on)
        elif on.pool is not None and task.suite.hidden:
            found.append(await _weak_oracle(gauge, task, on))
    return found


async def _on_code(gauge: str, attack: str, task: Task, number: int, on: Field) -> Outcome:
    """An attack on a suite that is code, with the check that its owner would make before use."""
    honest, entry_point = attacks.suite_code(task.suite), task.entry_point
    reference = task.suite.reference
    bad = attacks.function(entry_point, "return 'wrong'") if entry_point else "print()"
    first = [reference or bad, bad]
    bogus = attacks.bogus(entry_point)
    changed = {"exec_smuggling": attacks.SMUGGLED, "stateful_gauge": attacks.OPENING}.get(attack, "")
    passed = await on.session(gauge, honest + changed, [*first, bogus], entry_point)
    delivered = passed[2]
    if attack == "swapped_suite":
        delivered = (await on.session(gauge, attacks.SWAPPED, [bogus], entry_point))[0]
    elif attack == "forged_records":
        delivered = (await on.session(gauge, honest, [attacks.forging(entry_point)], entry_point))[0]
    told: dict[str, Any] = {}
    if attack == "stateful_gauge" and on.pool is not None:
        candidate = await on.first_pass(gauge, task)
        programs = [*first, candidate or ""]
        kept = candidate is not None and (await on.session(gauge, honest + attacks.CLOSING, programs, entry_point))[2]
        told = {"honest": candidate is not None, "kept": kept}
    check = None if reference is None else "ok" if passed[:2] == [True, False] else "noticed"
    return Outcome(task=task.id, attack=attack, gauge=gauge, delivered=delivered, self_check=check, **told)


async def _on_data(attack: str, task: Task, number: int, on: Field) -> Outcome:
    """The same on a suite that is data: what does not load, or is not the bound suite, is never drawn for."""
    program = attacks.forging(task.entry_point) if attack == "forged_records" else attacks.bogus(task.entry_point)
    told: dict[str, Any] = {}
    if attack == "stateful_gauge" and on.pool is not None:
        delivers = await on.first_pass("data", task) is not None
        told = {"honest": delivers, "kept": delivers}  # what is data has no state that could take it back
    outcome = partial(Outcome, task=task.id, attack=attack, gauge="data", **told)
    try:
        suite = _attacked(attack, task, number)
    except SpecError:
        return outcome(delivered=False, self_check="noticed")
    if attack == "swapped_suite":
        bound = Lock(gate=gate_version(), bank="bound", suites={task.id: locked(task.suite)})
        if not differences(bound, [task_of(suite)]).none:
            return outcome(delivered=False, self_check="noticed")
    check = None
    if suite.reference is not None:
        sound = await on.passes("data", suite, suite.reference)
        check = "ok" if sound else "noticed"
    delivered = check != "noticed" and await on.passes("data", suite, program)
    return outcome(delivered=delivered, self_check=check)


def _attacked(attack: str, task: Task, number: int) -> SuiteSpec:
    """The suite as the attacker leaves it.

    Raises:
        SpecError: It is no suite any more.
    """
    if attack == "exec_smuggling":
        return suite_from_tree(attacks.smuggled_tree(task.suite, number))
    if attack == "stateful_gauge":
        return suite_from_tree(attacks.stateful_tree(task.suite))
    if attack == "swapped_suite":
        return suite_from_tree(attacks.swapped_tree(task.suite))
    return task.suite


async def _generic(gauge: str, task: Task, on: Field) -> list[Outcome]:
    """Programs that know nothing of the task: whether one of them gets through."""
    programs = attacks.generic_programs(task)
    if gauge == "data":
        delivered = False
        for program in programs:
            delivered = delivered or await on.passes(gauge, task.suite, program)
    else:
        delivered = any(await on.session(gauge, attacks.suite_code(task.suite), programs, task.entry_point))
    check = None if gauge != "data" else "noticed" if strength(task.suite).weak else "ok"
    return [Outcome(task=task.id, attack="generic_gauged", gauge=gauge, delivered=delivered, self_check=check)]


async def _weak_oracle(gauge: str, task: Task, on: Field) -> Outcome:
    """What an honest gauge delivers of a real pool, held against GT: the upper bound of what V lets through."""
    program = await on.first_pass(gauge, task)
    wrong = program is not None and not await on.passes(gauge, task.suite, program, "hidden")
    return Outcome(task=task.id, attack="weak_oracle", gauge=gauge, delivered=wrong)


async def attack_case(case: Case, gauges: Iterable[str], on: Field) -> list[Outcome]:
    """A hostile program of the corpus against each gauge."""
    return [
        Outcome(task=case.id, attack=case.kind, gauge=gauge, delivered=await on.passes(gauge, case.suite, case.program))
        for gauge in gauges
    ]


def attack(
    bank: str,
    *,
    pool: Path | None,
    limit: int | None,
    chosen: Sequence[str],
    gauges: Sequence[str],
    out: Path | None,
    jobs: int | None,
    runtime: str | None,
    as_json: bool,
) -> int:
    """Carry out, add up, print and record.

    Raises:
        SpecError: An attack or a gauge is unknown, or there is no checkout.
        SandboxError: Our own world failed.
    """
    arms = read_arms()
    known = (*ON_SUITES, *RESIDUALS, *arms.classes)
    for name, names, what in ((chosen, known, "--attack"), (gauges, GAUGES, "--gauge")):
        if unknown := [each for each in name if each not in names]:
            raise SpecError(f"{what} {unknown[0]}: is unknown (known: {', '.join(names)})")
    tasks = [task for task in open_bank(bank, suites_dir()).tasks() if task.suite.tests][:limit]
    pairs = [(each, gauge) for each in (chosen or known) for gauge in (gauges or GAUGES)]
    where = _folder(out or new_run_path(f"attack-{bank}"))
    outcomes, left_out = anyio.run(_carry_out, arms, tasks, pairs, pool or bundled_pool(bank), jobs, runtime)
    outcomes.sort(key=lambda each: (known.index(each.attack), GAUGES.index(each.gauge)))
    record = {
        "schema": attacks.SCHEMA,
        "bank": bank,
        "tasks": len(tasks) - len(left_out),
        "left_out": left_out,
        "gate": gate_version(),
        "gauges": {gauge: digest_bytes(text.encode()) for gauge, text in arms.code.items()},
        "rows": [row.as_json() for row in attacks.rows(outcomes)],
        "outcomes": [outcome.as_json() for outcome in outcomes],
    }
    text = report(bank, attacks.rows(outcomes), read_seed(), left_out)
    write_record(where, record, text)
    printing.say(f"gate: {where}/ATTACK.md")
    if as_json:
        printing.print_json({name: value for name, value in record.items() if name != "outcomes"})
    else:
        print(text, end="")
    return exits.DONE


def _folder(path: Path) -> Path:
    """A folder for the record, made where it is not there.

    Raises:
        SpecError: It cannot be made.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise SpecError(f"--out {path}: cannot be made ({exc.strerror}): name a folder that can") from exc
    return path


def bundled_pool(bank: str) -> Path | None:
    """The samples that come with a bundled bank, where there are some."""
    folder = suites_dir() / bank / "samples"
    return next(iter(sorted(folder.glob("*.jsonl.gz"))), None) if folder.is_dir() else None


async def _carry_out(
    arms: Arms,
    tasks: Sequence[Task],
    pairs: Sequence[tuple[str, str]],
    pool: Path | None,
    jobs: int | None,
    runtime: str | None,
) -> tuple[list[Outcome], list[str]]:
    """What came of everything, and the tasks that no gauge can be asked about."""
    known = wiring.open_engine(runtime)
    found: list[Outcome] = []
    left_out: list[str] = []
    isolation = "cell" if await _holds(known, runtime) else "container"
    concurrency = jobs or wiring.default_jobs()
    source = None if pool is None else open_samples(pool)
    try:
        async with wiring.open_sandbox(known, runtime=runtime, concurrency=concurrency, isolation=isolation) as sandbox:
            on = Field(sandbox=sandbox, code=arms.code, pool=None if source is None else source.draw)
            on_tasks = [pair for pair in pairs if pair[0] in (*ON_SUITES, *RESIDUALS)]

            async def on_task(item: tuple[int, Task]) -> None:
                number, task = item
                if task.suite.reference is None or await on.passes("data", task.suite, task.suite.reference):
                    found.extend(await attack_task(task, number, on_tasks, on))
                else:
                    left_out.append(task.id)

            async def on_case(case: Case) -> None:
                found.extend(await attack_case(case, [gauge for name, gauge in pairs if name == case.kind], on))

            await engine.side_by_side(enumerate(tasks if on_tasks else ()), on_task, concurrency=concurrency)
            await engine.side_by_side(arms.cases, on_case, concurrency=concurrency)
    finally:
        if source is not None:
            source.close()
    return found, sorted(left_out)


async def _holds(known: wiring.Engine, runtime: str | None) -> bool:
    """Whether cells hold on this engine; else each program gets a container of its own."""
    try:
        async with wiring.open_sandbox(known, runtime=runtime, concurrency=1, isolation="cell"):
            return True
    except SandboxError as exc:
        printing.say(f"gate: each program gets a container of its own: {exc}")
        return False
