"""Saved pools: files, folders and runs, one after another, and only whole ones."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import anyio
import pytest
from echo_sandbox import task_line, write_pool
from golden import make

from gate.backends.jsonl import JsonlLedger
from gate.backends.poolfiles import JoinedPools, open_pools
from gate.errors import IntegrityError, SourceError, SpecError
from gate.model import Candidate, Json
from gate.records import candidate_record
from gate.suite import suite_from_tree, task_of

TASK = task_of(suite_from_tree(task_line(0)))


def drawn(pools: JoinedPools, number: int) -> list[str]:
    """The texts of the first draws of the task."""

    async def draw() -> list[str]:
        return [(await pools.draw(TASK, index)).code for index in range(number)]

    return anyio.run(draw)


def write_run(path: Path, texts: list[str], *, closed: bool = True, **options: Json) -> Path:
    """The parts of a run directory that make a pool."""
    path.mkdir()
    config = {"options": {"full_pool": True, **options}}
    (path / "run.json").write_text(json.dumps(config), encoding="utf-8")
    with JsonlLedger(path / "ledger.jsonl") as ledger:
        for index, text in enumerate(texts):
            origin = {"model": "m"} if text else {"missing": "no sample"}
            candidate = Candidate(task_id="t/0", index=index, code=text, origin=origin)
            ledger.append("candidate", candidate_record(candidate))
        if closed:
            ledger.append("closed", {})
    return path


def test_draws_follow_each_other_over_all_pools(tmp_path: Path) -> None:
    """File, folder and run are one pool; beyond its end a draw is empty; indexes are those of the one pool."""
    (tmp_path / "folder" / "t/0").mkdir(parents=True)
    (tmp_path / "folder" / "t/0" / "0.py").write_text("c", encoding="utf-8")
    pools = open_pools(
        [
            write_pool(tmp_path / "file.jsonl", {"t/0": ["a", "b"], "t/1": ["z"]}),
            tmp_path / "folder",
            write_run(tmp_path / "run", ["d", "e"]),
        ]
    )
    assert drawn(pools, 6) == ["a", "b", "c", "d", "e", ""]
    assert dict(pools.task_ids()) == {"t/0": 5, "t/1": 1}
    fourth = anyio.run(pools.draw, TASK, 3)
    assert (fourth.index, fourth.origin) == (3, {"model": "m", "draw": 0})
    pools.close()


def test_a_draw_that_a_run_could_not_have_is_missing(tmp_path: Path) -> None:
    """What the source of the run did not give is no program of the pool."""
    pools = open_pools([write_run(tmp_path / "run", ["a", "", "b"])])
    assert drawn(pools, 3) == ["a", "", "b"]
    assert "missing" in anyio.run(pools.draw, TASK, 1).origin
    pools.close()


def test_the_order_of_pools_is_in_the_digest(tmp_path: Path) -> None:
    """The same pools the other way round are another pool."""
    one = write_pool(tmp_path / "1.jsonl", {"t/0": ["a"]})
    two = write_pool(tmp_path / "2.jsonl", {"t/0": ["b"]})
    digests = set()
    for paths in ([one], [two], [one, two], [two, one]):
        pools = open_pools(paths)
        digests.add(pools.digest)
        pools.close()
    assert len(digests) == 4


def test_a_run_that_stopped_at_the_first_pass_is_no_pool(tmp_path: Path) -> None:
    """Without --full-pool the later draws were never made: what the others would choose from is not there."""
    with pytest.raises(SpecError, match="without --full-pool"):
        open_pools([write_run(tmp_path / "run", ["a"], full_pool=False)])
    golden = Path(shutil.copytree(make.RUN, tmp_path / "golden"))
    with pytest.raises(SpecError, match="without --full-pool"):
        open_pools([golden])


def test_a_run_that_is_not_at_its_end_is_no_pool(tmp_path: Path) -> None:
    """An open run may lack tasks; a damaged one is not read."""
    with pytest.raises(SpecError, match="not closed"):
        open_pools([write_run(tmp_path / "open", ["a"], closed=False)])
    with pytest.raises(SpecError, match="no candidate"):
        open_pools([write_run(tmp_path / "none", [])])
    run = write_run(tmp_path / "damaged", ["a", "b"])
    lines = (run / "ledger.jsonl").read_bytes()
    (run / "ledger.jsonl").write_bytes(lines.replace(b'"code":"a"', b'"code":"x"'))
    with pytest.raises(IntegrityError):
        open_pools([run])


def test_a_run_that_changes_meanwhile_is_noticed(tmp_path: Path) -> None:
    """A candidate is what it was when the pool was opened, or it is not drawn."""
    run = write_run(tmp_path / "run", ["a"])
    pools = open_pools([run])
    lines = (run / "ledger.jsonl").read_bytes()
    (run / "ledger.jsonl").write_bytes(lines.replace(b'"code":"a"', b'"code":"x"'))
    with pytest.raises(SourceError, match="changed since"):
        drawn(pools, 1)
    pools.close()
