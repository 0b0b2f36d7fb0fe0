"""Makes the golden run directory, `tests/golden/run`: small, whole, and the same bytes each time.

No engine is asked. The real loop, ledger, run directory and reports work on scripted
programs whose observations are written down here, under a clock that ticks once a record.
Where a format or a report is changed on purpose: `python tests/golden/make.py`.
"""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path

import anyio

from gate import engine, values
from gate.backends.jsonl import FIRST, JsonlLedger
from gate.backends.rundir import RunDir
from gate.backends.scripted import ScriptedSandbox, ScriptedSource
from gate.cli.derive import closing_counts, derive_summary, write_derived
from gate.errors import SandboxError
from gate.history import fold
from gate.model import (
    Call,
    Candidate,
    Exit,
    Json,
    Limits,
    Observation,
    Reply,
    Task,
    Usage,
    digest_bytes,
    digest_json,
)
from gate.suite import suite_from_tree, task_of

RUN = Path(__file__).resolve().parent / "run"
SANDBOX = {"isolation": "container", "runtime": "default", "python": "3.12.1", "image": "py3.12.1-0123456789ab"}
Answer = Observation | BaseException

REVERSE, HALVES, COUNT, SUM = "words/reverse", "numbers/halves", "words/count", "io/sum"
SUITES: tuple[Json, ...] = (
    {
        "version": 1,
        "task": REVERSE,
        "prompt": "Write reverse_words(text): the words of text in reverse order.",
        "entry_point": "reverse_words",
        "tests": [{"args": ["a b"], "expected": "b a"}, {"args": ["é \u2028 x"], "expected": "x é"}],
        "hidden": [{"args": ["a b"], "expected": "b a"}, {"args": [""], "expected": ""}],
    },
    {
        "version": 1,
        "task": HALVES,
        "entry_point": "halves",
        "tests": [
            {"args": [3], "expected": {"$tuple": [1.5, 1.5]}, "compare": "strict"},
            {"args": [0.2], "expected": [0.1, 0.1], "tolerance": {"rel": 1.0e-6}},
        ],
        "hidden": [{"args": [{"$float": "inf"}], "raises": "ValueError"}],
    },
    {
        "version": 1,
        "task": COUNT,
        "entry_point": "count",
        "tests": [{"args": ["a a"], "expected": {"a": 2}}, {"args": [None], "raises": "TypeError"}],
        "hidden": [{"args": [""], "expected": {}}],
    },
    {"version": 1, "task": SUM, "tests": [{"stdin": "1 2\n", "stdout": "3\n"}, {"stdin": "\n", "stdout": "0\n"}]},
)
TASKS: tuple[Task, ...] = tuple(task_of(suite_from_tree(tree)) for tree in SUITES)

REVERSED_TEXT = "def reverse_words(text):\n    return text[::-1]\n"
REVERSED_WORDS = 'def reverse_words(text):\n    return " ".join(text.split()[::-1])  # \u2028 \x1b[31m\r\n'
HALVED = "def halves(number):\n    return (number / 2, number / 2)\n"
RAISING = "def count(text):\n    raise ValueError('\\x1b]0;owned\\x07')\n"
LENGTHS = "def count(text):\n    return {word: len(word) for word in text.split()}\n"
SLEEPING = "import time\ntime.sleep(60)\n"
SUMMED = "print(sum(map(int, input().split())))\n"
POOL = {REVERSE: [REVERSED_TEXT, REVERSED_WORDS], HALVES: [HALVED], COUNT: [RAISING, LENGTHS, LENGTHS, SLEEPING]}


def returned(*found: object) -> list[Reply]:
    """Replies with these values."""
    return [Reply(kind="returned", value=values.encode(value)) for value in found]


def raised(name: str, message: str) -> Reply:
    """A reply with an exception."""
    return Reply(kind="raised", types=(name, "Exception", "BaseException", "object"), message=message)


def printed(text: str) -> Reply:
    """A reply with a program's output."""
    return Reply(kind="printed", value={"$bytes": base64.b64encode(text.encode()).decode()}, status=0)


class BoundSandbox(ScriptedSandbox):
    """A scripted sandbox that binds what it says to code, calls and conditions, as the real one does."""

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
        found = await super().observe(candidate, entry_point, calls, limits, seed=seed, alone=alone)
        where = {**SANDBOX, "seed": seed, "alone": alone, "counters": "cgroup v2"}
        calls_digest = digest_json([call.as_json() for call in calls])
        return replace(found, candidate=candidate.digest, calls=calls_digest, where=where)


def look(*replies: Reply) -> Observation:
    """What is seen of a program that answers every call."""
    usage = Usage(wall_s=0.012, cpu_s=0.004, memory_bytes=9_437_184)
    return Observation(candidate="", calls="", exit=Exit.OK, replies=replies, usage=usage)


def late(*, tail: str = "") -> Observation:
    """What is seen of a program that sleeps: a wall time limit, with CPU time left."""
    detail = "over 10 s of wall time"
    return replace(look(), exit=Exit.TIME_LIMIT, limit="wall", detail=detail, output_tail=tail)


def honest_answers() -> dict[str, list[Answer]]:
    """What the sandbox sees of each program, in the order of its looks."""
    right = look(*returned("b a", "x é"))
    halves = look(*returned((1.5, 1.5), (0.1, 0.1)))
    sums = look(printed("3\n"), printed("0\n"))
    return {
        REVERSED_TEXT: [look(*returned("b a", "x \u2028 é"))],
        REVERSED_WORDS: [right, right, look(*returned("b a", ""))],
        HALVED: [halves, halves, look(*returned((float("inf"), float("inf"))))],
        RAISING: [look(*[raised("ValueError", "\x1b]0;owned\x07\n  verdict: pass")] * 2)],
        LENGTHS: [look(*returned({"a": 1}), raised("AttributeError", "no split"))],
        SLEEPING: [late(), late(tail="it printed\n\x1b[2Jthis\n")],
        SUMMED: [SandboxError("the engine went away"), sums, sums],
    }


def ticks() -> Callable[[], str]:
    """A clock that is a second later each time."""
    seconds = count()
    return lambda: f"2026-01-02T{3 + (now := next(seconds)) // 3600:02d}:{now // 60 % 60:02d}:{now % 60:02d}.000000Z"


def configuration(suites_digest: str, tasks: Sequence[Task], source: ScriptedSource) -> dict[str, Json]:
    """What `run.json` would say of such a run."""
    bank = "".join(f"{task.id} {task.suite.digest}\n" for task in tasks)
    return {
        "schema": "gate.config/1",
        "version": "0.1.0",
        "bank": {
            "name": "golden",
            "reference": "golden.jsonl",
            "digest": digest_bytes(bank.encode()),
            "tasks": len(tasks),
        },
        "suites_digest": suites_digest,
        "options": {
            "draws": 5,
            "full_pool": False,
            "isolation": "container",
            "runtime": None,
            "limit": None,
            "tasks": [],
            "infra_budget": 0.01,
        },
        "source": {"spec": "scripted:pool.json", "kind": "scripted", "path": "pool.json", "digest": source.digest},
        "engine": {
            "name": "Docker Engine",
            "version": "27.3.1",
            "api": "1.47",
            "runtime": "runc",
            "cgroup": "2",
            "kernel": "6.8.0",
        },
        "image": {
            "id": "sha256:" + "ab" * 32,
            "content": SANDBOX["image"],
            "python": SANDBOX["python"],
            "base": "local",
        },
        "seccomp_digest": "cd" * 32,
    }


def make(
    path: Path,
    *,
    tasks: Sequence[Task] = TASKS,
    pool: Mapping[str, Sequence[str]] | None = None,
    answers: Mapping[str, Sequence[Answer]] | None = None,
    rounds: int = 2,
    packed: bytes | None = None,
    derived: bool = True,
) -> RunDir:
    """Record a run; each round after the first resumes what the one before left as infra.

    Args:
        path: Where; nothing is there yet.
        tasks: The bank.
        pool: Programs by task; the honest ones by default.
        answers: What is seen of them; the honest looks by default.
        rounds: How often the run is begun, resumed and closed.
        packed: The bytes of the tasks as loaded, where this system's zlib would pack the same text otherwise.
        derived: Whether what derives is written, too.
    """
    source = ScriptedSource({**POOL, SUM: [SUMMED]} if pool is None else pool)
    sandbox = BoundSandbox(honest_answers() if answers is None else answers)
    where = RunDir(path)
    path.mkdir(parents=True)
    digest, _ = where.write_suites(tasks)
    if packed is not None:
        where.suites.write_bytes(packed)
        digest = where.suites_digest()
    config = configuration(digest, tasks, source)
    bound = digest_bytes(where.write_config(config))
    head, now = FIRST, ticks()
    for _ in range(rounds):
        with JsonlLedger(where.ledger, now=now) as ledger:
            if ledger.head == FIRST:
                ledger.append("run", {"run": bound})
            anyio.run(_decide, where, source, sandbox, ledger)
            ledger.append("closed", closing_counts(derive_summary(where)))
            head = ledger.head
    if derived:
        write_derived(where, config, derive_summary(where), head)
    return where


async def _decide(where: RunDir, source: ScriptedSource, sandbox: ScriptedSandbox, ledger: JsonlLedger) -> None:
    history = fold(where.records())
    left = (task for task in where.tasks() if not history.task(task.id).is_decided)
    await engine.run_tasks(left, source=source, sandbox=sandbox, ledger=ledger, concurrency=1, history=history)


Noted = tuple[str | None, dict[str, Json]]


def noted(where: RunDir) -> list[Noted]:
    """All records with the digests of their lines, for somebody who means to change them."""
    lines = where.ledger.read_bytes().removesuffix(b"\n").split(b"\n")
    return [(digest_bytes(line), json.loads(line)) for line in lines]


def rechain(where: RunDir, changed: Sequence[Noted]) -> None:
    """Write a ledger anew with its whole chain, and the digests that verdicts name, recomputed."""
    names: dict[str, str] = {}
    where.ledger.write_bytes(b"".join(_chained(changed, names)))


def _chained(changed: Sequence[Noted], names: dict[str, str]) -> Iterator[bytes]:
    previous = FIRST
    for before, record in changed:
        record = {**record, "prev": previous}
        if "seen" in record:
            record["seen"] = [names.get(digest, digest) for digest in record["seen"]]
        line = json.dumps(record, separators=(",", ":")).encode("ascii")
        previous = digest_bytes(line)
        if before is not None:
            names[before] = previous
        yield line + b"\n"


def derive_again(where: RunDir) -> None:
    """Write all that derives, as `gate report` does."""
    head = noted(where)[-1][0] or FIRST
    write_derived(where, where.read_config(), derive_summary(where), head)


if __name__ == "__main__":
    shutil.rmtree(RUN, ignore_errors=True)
    make(RUN)
