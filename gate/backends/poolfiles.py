"""Saved pools for a replay: samples files, folders of samples, and run directories, one after another.

Theory of operation. A samples file or folder is opened as for a run. A run directory is
read from its ledger, with the chain checked, and only where it holds whole pools: a run
that stopped at the first pass has drawn no others, so what the other rules would have
chosen from is not there. As with samples, what is kept of a candidate is where it stands
and a check sum. Several pools are one: the draws of the second follow those of the first.
"""

from __future__ import annotations

import json
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO

from gate.backends.jsonl import read_lines
from gate.backends.rundir import RunDir
from gate.backends.samples import SamplesSource, absent, open_samples
from gate.errors import IntegrityError, SourceError, SpecError
from gate.model import Candidate, Json, Task, digest_bytes, digest_json


class JoinedPools:
    """Several pools as one: the draws of the second follow those of the first."""

    def __init__(self, pools: Sequence[SamplesSource]) -> None:
        self._pools = tuple(pools)

    @property
    def digest(self) -> str:
        """SHA-256 of what the one pool holds; of several, over theirs in order."""
        digests = [pool.digest for pool in self._pools]
        return digests[0] if len(digests) == 1 else digest_json(digests)

    def task_ids(self) -> Mapping[str, int]:
        """The tasks that have samples, and how many each has."""
        total: Counter[str] = Counter()
        for pool in self._pools:
            total.update(pool.task_ids())
        return total

    async def draw(self, task: Task, index: int) -> Candidate:
        """The sample of that index over all pools; an empty candidate where there is none.

        Raises:
            SourceError: The samples changed, or cannot be read any more.
        """
        first = 0
        for pool in self._pools:
            held = pool.count(task.id)
            if first <= index < first + held:
                found = await pool.draw(task, index - first)
                return Candidate(task_id=task.id, index=index, code=found.code, origin=found.origin)
            first += held
        return absent(task, index)

    def close(self) -> None:
        """Give back the open files."""
        for pool in self._pools:
            pool.close()


def open_pools(paths: Iterable[Path]) -> JoinedPools:
    """Open saved pools.

    Raises:
        SpecError: One cannot be opened, or holds no pool.
        SourceError: There is no room to unpack one.
        IntegrityError: A run's ledger is damaged.
    """
    with ExitStack() as opened:
        pools = []
        for path in paths:
            pool = open_pool(path)
            opened.callback(pool.close)
            pools.append(pool)
        opened.pop_all()
    return JoinedPools(pools)


def open_pool(path: Path) -> SamplesSource:
    """One pool: a samples file, a folder of samples, or a run directory."""
    where = RunDir(path)
    if where.run_json.is_file() or where.ledger.is_file():
        return SamplesSource(_RunPool(where))
    return open_samples(path)


class _RunPool:
    """The candidates of a run directory, by the offsets of their lines in its ledger."""

    def __init__(self, where: RunDir) -> None:
        refuse_part_of_a_pool(where)
        self._path = where.ledger
        self._places: dict[str, array[int]] = {}
        closed = False
        for line in read_lines(where.ledger):
            closed = line.record["kind"] == "closed"
            self.digest = line.digest
            if line.record["kind"] == "candidate":
                check = int(line.digest[:16], 16)
                self._places.setdefault(line.record["task"], array("Q")).extend((line.offset, check))
        if not closed:
            raise SpecError(f"{where.path}: is not closed, so its pools have no end: resume it first")
        if not self._places:
            raise SpecError(f"{where.path}: has drawn no candidate: name another pool")
        self._stream: IO[bytes] = self._path.open("rb")

    def count(self, task_id: str) -> int:
        return len(self._places.get(task_id, ())) // 2

    def counts(self) -> dict[str, int]:
        return {task_id: len(places) // 2 for task_id, places in self._places.items()}

    def sample(self, task_id: str, index: int) -> tuple[dict[str, Json], dict[str, Json]] | None:
        places = self._places.get(task_id, array("Q"))
        if not 0 <= index < len(places) // 2:
            return None
        offset, check = places[2 * index : 2 * index + 2]
        try:
            self._stream.seek(offset)
            line = self._stream.readline().removesuffix(b"\n")
        except OSError as exc:
            raise SourceError(f"{self._path}: {exc.strerror or exc}: see that the file is still there") from exc
        if int(digest_bytes(line)[:16], 16) != check:
            raise SourceError(f"{self._path}: changed since it was opened: start again")
        record = json.loads(line)
        if "missing" in record["origin"]:
            return None
        return {**record["origin"], "task_id": task_id, "solution": record["code"]}, {"draw": index}

    def close(self) -> None:
        self._stream.close()


def refuse_part_of_a_pool(where: RunDir) -> None:
    """A run is a pool only if it went on drawing after a pass.

    Raises:
        SpecError: It did not.
        IntegrityError: Its configuration is damaged.
    """
    config = where.read_config()
    options = config.get("options")
    if not isinstance(options, dict):
        raise IntegrityError(f"{where.run_json}: names no options")
    if config.get("kind") != "replay" and options.get("full_pool") is not True:
        raise SpecError(
            f"{where.path}: was run without --full-pool, so its pools end at the first pass: run it again with it"
        )
