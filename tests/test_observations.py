"""Observations kept across runs: keyed by all they depend on, never wrong, never a fault of ours."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from echo_sandbox import EchoSandbox

from gate.backends.observations import HELD_BACK, CachedSandbox, ObservationCache
from gate.errors import BackendError, SpecError
from gate.model import Call, Candidate, Limits

CONDITIONS = {"image": "i", "isolation": "container", "runtime": "runc"}
ASKED: dict[str, Any] = {
    "code": "ok",
    "entry_point": "f",
    "calls": (Call(args=(1,)),),
    "limits": Limits(),
    "seed": 0,
    "conditions": CONDITIONS,
}


async def ask(cache: ObservationCache, sandbox: EchoSandbox, **changed: Any) -> bool:
    """Observe through the cache; whether it ran."""
    asked = {**ASKED, **changed}
    cached = CachedSandbox(sandbox, cache, asked["conditions"])
    candidate = Candidate(task_id="t", index=0, code=asked["code"])
    await cached.observe(candidate, asked["entry_point"], asked["calls"], asked["limits"], seed=asked["seed"])
    return cached.ran == 1


@pytest.mark.parametrize(
    "changed",
    [
        {"code": "wrong"},
        {"entry_point": "g"},
        {"entry_point": None},
        {"calls": (Call(args=(2,)),)},
        {"calls": (Call(args=(1,)), Call(args=(1,)))},
        {"limits": replace(Limits(), wall_s=9.0)},
        {"limits": replace(Limits(), cpu_s=9.0)},
        {"limits": replace(Limits(), memory_mb=64)},
        {"limits": replace(Limits(), output_kb=9)},
        {"limits": replace(Limits(), total_cpu_s=9.0)},
        {"seed": 1},
        *({"conditions": {**CONDITIONS, name: "other"}} for name in CONDITIONS),
    ],
)
async def test_whatever_an_observation_depends_on_is_in_its_key(tmp_path: Path, changed: dict[str, Any]) -> None:
    """The same again does not run; with any one thing changed it does."""
    sandbox = EchoSandbox()
    with ObservationCache(tmp_path / "o.sqlite") as cache:
        assert await ask(cache, sandbox)
        assert not await ask(cache, sandbox)
        assert await ask(cache, sandbox, **changed)
        assert not await ask(cache, sandbox)


async def test_what_is_kept_comes_back_whole(tmp_path: Path) -> None:
    """The observation from the file is the one that was made, also in another process's eyes."""
    sandbox = EchoSandbox()
    candidate = Candidate(task_id="t", index=0, code="big")
    seen = []
    for _ in range(2):
        with ObservationCache(tmp_path / "o.sqlite") as cache:
            cached = CachedSandbox(sandbox, cache, CONDITIONS)
            seen.append(await cached.observe(candidate, "f", (Call(args=(1,)),), Limits()))
    assert seen[0] == seen[1]
    assert len(sandbox.seen) == 1


@pytest.mark.parametrize(("word", "alone", "kept"), [("fault", False, 0), ("slow", False, 0), ("crash", False, 1)])
async def test_what_says_nothing_of_the_candidate_is_not_kept(
    tmp_path: Path, word: str, alone: bool, kept: int
) -> None:
    """A fault of ours and a time limit that nobody confirmed are made anew; a crash is the candidate's."""
    sandbox = EchoSandbox()
    with ObservationCache(tmp_path / "o.sqlite") as cache:
        for _ in range(2):
            await ask(cache, sandbox, code=word)
    assert len(sandbox.seen) == 2 - kept


async def test_both_looks_are_kept_when_the_second_has_come(tmp_path: Path) -> None:
    """A time limit that was looked at again, alone, is an answer: neither look is made again."""
    sandbox = EchoSandbox()
    candidate = Candidate(task_id="t", index=0, code="slow")
    with ObservationCache(tmp_path / "o.sqlite") as cache:
        for _ in range(2):
            cached = CachedSandbox(sandbox, cache, CONDITIONS)
            for alone in (False, True):
                await cached.observe(candidate, "f", (Call(args=(1,)),), Limits(), alone=alone)
    assert [alone for *_, alone in sandbox.seen] == [False, True]


def rows(path: Path) -> int:
    """How many observations another process would find."""
    with contextlib.closing(sqlite3.connect(path)) as base:
        number: int = base.execute("SELECT COUNT(*) FROM observations").fetchone()[0]
    return number


async def test_rows_are_written_by_the_dozen(tmp_path: Path) -> None:
    """What is held back is known at once, in the file once there is enough of it, and all of it at the end."""
    path, more = tmp_path / "o.sqlite", 3
    with ObservationCache(path) as cache:
        for number in range(HELD_BACK + more):
            assert await ask(cache, EchoSandbox(), code=f"ok {number}")
            assert not await ask(cache, EchoSandbox(), code=f"ok {number}")
        assert rows(path) == HELD_BACK
    assert rows(path) == HELD_BACK + more


async def test_what_went_wrong_first_is_told(tmp_path: Path) -> None:
    """A disk that fails at the end is told, but never in the place of what ended the replay before."""
    for failure in (None, KeyError("first")):
        with pytest.raises(KeyError if failure else BackendError), ObservationCache(tmp_path / "o.sqlite") as cache:
            await ask(cache, EchoSandbox(), code=f"ok {failure}")
            cache._base.execute("PRAGMA query_only = ON")
            if failure:
                raise failure


def test_a_file_of_another_version_is_refused(tmp_path: Path) -> None:
    """A file with another format is a sentence, not a guess."""
    with ObservationCache(tmp_path / "o.sqlite") as cache:
        cache._base.execute("PRAGMA user_version = 99")
    with pytest.raises(BackendError, match="another version"):
        ObservationCache(tmp_path / "o.sqlite")


def test_a_file_that_is_not_ours_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What another user wrote may be made up; a link is not followed."""
    (tmp_path / "link.sqlite").symlink_to(tmp_path / "target")
    with pytest.raises(BackendError, match="cannot be used"):
        ObservationCache(tmp_path / "link.sqlite")
    owner = os.geteuid()
    ObservationCache(tmp_path / "o.sqlite").__exit__(None, None, None)
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    with pytest.raises(SpecError, match="belongs to another user"):
        ObservationCache(tmp_path / "o.sqlite")
