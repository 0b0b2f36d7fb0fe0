"""A bank bound by a lock: written by `gate check --lock`, held by `gate run --bind`, found out by `gate verify`.

Theory of operation. A lock is written from the same reading of the bank that was checked,
and a run holds against it the same reading that it keeps: between the two looks at a file
nothing is taken on trust, so a suite that is swapped in that moment is not drawn for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from gate.backends.banks import open_bank
from gate.backends.rundir import RunDir, write_atomically
from gate.cli.replay_text import counted
from gate.document import MAX_BYTES
from gate.errors import SpecError
from gate.lock import SCHEMA, Lock, Locked, differences, lock_text, locked, read_lock
from gate.model import Json, Task, digest_bytes
from gate.resources import suites_dir
from gate.verify import Mismatch
from gate.version import gate_version


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A lock as read from its file.

    Attributes:
        digest: SHA-256 of the file's bytes, as `sha256sum` says it; this is what a run records.
    """

    path: Path
    digest: str
    lock: Lock

    def as_json(self) -> dict[str, Json]:
        """As `run.json` keeps it."""
        return {"digest": self.digest, "bank": self.lock.digest}


def read_bound(path: Path) -> Bound:
    """The lock that `--bind` names.

    Raises:
        SpecError: It cannot be read, or is no lock.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)  # what is longer is refused as too large
    except OSError as exc:
        raise SpecError(f"{path}: cannot be read ({exc.strerror}): name what gate check BANK --lock wrote") from exc
    return Bound(path=path, digest=digest_bytes(data), lock=read_lock(data, str(path)))


def is_lock(path: Path) -> bool:
    """Whether a file says of itself that it is a lock; whether it is a sound one is for `read_bound` to see."""
    try:
        if not path.is_file():  # a pipe would wait for somebody to write
            return False
        with path.open("rb") as file:
            return SCHEMA.encode() in file.read(4096)
    except OSError:
        return False


def refuse_unbound(bound: Bound, reference: str, tasks: Iterable[Task]) -> None:
    """See that a bank is the one that was bound; the whole of it, whichever tasks are run.

    Raises:
        SpecError: It is not; the tasks that differ are named.
    """
    found = differences(bound.lock, tasks)
    if not found.none:
        raise SpecError(
            f"--bind {bound.path}: {reference} is not the bank that is bound there ({found.words()}): nothing was "
            "drawn; take the bound suites, or check the new ones and bind them by gate check --lock"
        )


def as_bound(tasks: Iterable[Task], bound: Bound | None) -> Iterator[Task]:
    """The same tasks, each with the suite that is bound: for the reading that is kept, after the one that was compared.

    Raises:
        SpecError: One of them changed meanwhile.
    """
    for task in tasks:
        if bound is not None and bound.lock.suites.get(task.id) != locked(task.suite):
            raise SpecError(f"--bind {bound.path}: {task.id} changed while it was read: nothing was drawn")
        yield task


def refuse_other_lock(given: Path | None, where: RunDir, config: dict[str, Json]) -> None:
    """What goes on is bound as it was begun; the lock need not be named again.

    Raises:
        SpecError: Another one is named, or one where there was none.
    """
    if given is None:
        return
    recorded, named = config.get("bind"), read_bound(given)
    if recorded is None:
        raise SpecError(f"--bind {given}: {where.path} was begun without a lock: leave it out, or begin anew")
    if recorded.get("digest") != named.digest:
        raise SpecError(
            f"--bind {given}: is another lock ({named.digest[:12]}) than {where.path} was begun with "
            f"({str(recorded.get('digest'))[:12]}): leave it out, or begin anew"
        )


def verify_bound(bound: Bound, where: RunDir, config: dict[str, Json]) -> Iterator[Mismatch]:
    """Which suites of a run are not those that are bound, and whether it was begun with another lock.

    A run of a part of the bank (`--limit`, `--task`) lacks the others by right.

    Raises:
        IntegrityError: The run's own copy of the suites is damaged.
    """
    recorded = config.get("bind")
    told = recorded.get("digest") if isinstance(recorded, dict) else recorded
    if told is not None and told != bound.digest:
        yield Mismatch(where="run.json: bind", claimed=str(told), derived=bound.digest)
    left = dict(bound.lock.suites)
    for task in where.tasks():
        yield from _difference(f"suites.jsonl.gz: {task.id}", locked(task.suite), left.pop(task.id, None))
    if not is_part(config):
        for task_id in left:
            yield Mismatch(where=f"suites.jsonl.gz: {task_id}", claimed="no such suite", derived=_words(left[task_id]))


def is_part(config: dict[str, Json]) -> bool:
    """Whether a run is about some tasks of its bank only."""
    options = config.get("options")
    return isinstance(options, dict) and bool(options.get("limit") or options.get("tasks"))


def verify_lock(bound: Bound, reference: str) -> Iterator[Mismatch]:
    """Where a bank is not what a lock claims.

    Raises:
        SpecError: The bank cannot be read.
    """
    left = dict(bound.lock.suites)
    order: list[str] = []
    for task in open_bank(reference, suites_dir()).tasks():
        order.append(task.id)
        yield from _difference(f"{bound.path.name}: {task.id}", left.pop(task.id, None), locked(task.suite))
    for task_id, each in left.items():
        yield Mismatch(where=f"{bound.path.name}: {task_id}", claimed=_words(each), derived="no such suite")
    if not left and sorted(order) == sorted(bound.lock.suites) and order != list(bound.lock.suites):
        first = next(number for number, task_id in enumerate(bound.lock.suites) if task_id != order[number])
        claimed = list(bound.lock.suites)[first]
        yield Mismatch(where=f"{bound.path.name}: place {first}", claimed=claimed, derived=order[first])


def _difference(where: str, claimed: Locked | None, derived: Locked | None) -> Iterator[Mismatch]:
    if claimed != derived:
        yield Mismatch(where=where, claimed=_words(claimed), derived=_words(derived))


def _words(each: Locked | None) -> str:
    return "no such suite" if each is None else f"{each.digest}, {each.visible} visible, {each.hidden} hidden"


@dataclass(slots=True)
class Locking:
    """Notes the suites of a bank on their way through a check, and writes them as a lock.

    Args:
        path: The file; one that is there already must be a lock.

    Raises:
        SpecError: It is something else.
    """

    path: Path
    bank: str
    suites: dict[str, Locked] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.path.exists() and not is_lock(self.path):
            raise SpecError(f"--lock {self.path}: is there and is no lock: name another file")
        if not self.path.parent.is_dir():
            raise SpecError(f"--lock {self.path}: there is no such folder: make it first")

    def note(self, read: Iterable[tuple[str, Task | SpecError]]) -> Iterator[tuple[str, Task | SpecError]]:
        """The same readings."""
        for place, task in read:
            if isinstance(task, Task):
                self.suites[task.id] = locked(task.suite)
            yield place, task

    def write(self) -> dict[str, Json]:
        """Write the file in one step; what a check says of it.

        Raises:
            SpecError: It is too large.
            BackendError: It cannot be written.
        """
        data = lock_text(Lock(gate=gate_version(), bank=self.bank, suites=self.suites)).encode("ascii")
        write_atomically(self.path, data)
        return {"file": str(self.path), "digest": digest_bytes(data), "suites": len(self.suites)}


def lock_line(path: Path, written: dict[str, Json] | None) -> str:
    """What became of a lock, in words."""
    if written is None:
        return f"{path}: not written: a suite is invalid"
    return f"{path}: binds {counted(written['suites'], 'suite')}, sha256 {written['digest']}"
