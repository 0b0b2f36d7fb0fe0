"""Answers kept by everything that shapes them; what is damaged is no answer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gate.backends.answer_cache import AnswerCache
from gate.errors import BackendError, SpecError
from gate.model import Json

KEY: dict[str, Json] = {"base_url": "http://host/v1", "index": 0, "request": {"model": "m", "seed": 1}}
ANSWER: dict[str, Json] = {"text": "x\ud800", "finish_reason": "stop", "refusal": "", "facts": {}, "usage": {}}


def test_what_is_kept_is_found(tmp_path: Path) -> None:
    """The same key brings the same answer, also to another process; another key brings none."""
    AnswerCache(tmp_path / "new/cache").keep(KEY, ANSWER)
    cache = AnswerCache(tmp_path / "new/cache")
    assert cache.find(KEY) == ANSWER
    assert cache.find({**KEY, "index": 1}) is None
    assert cache.find({**KEY, "request": {"model": "m", "seed": 2}}) is None


def test_a_second_answer_takes_the_place_of_the_first(tmp_path: Path) -> None:
    """Two runs that share a folder do not break each other's files."""
    cache = AnswerCache(tmp_path)
    cache.keep(KEY, ANSWER)
    cache.keep(KEY, {**ANSWER, "text": "y"})
    found = cache.find(KEY)
    assert found is not None and found["text"] == "y"
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == 1


@pytest.mark.parametrize(
    "damage",
    [
        lambda held: b"",
        lambda held: held[: len(held) // 2],
        lambda held: held.replace(b'"stop"', b'"else"'),
        lambda held: held.replace(b'"http://host/v1"', b'"http://other/v"'),
        lambda held: held.replace(b"gate.answer/1", b"gate.answer/9"),
        lambda held: json.dumps({**json.loads(held), "answer": None}).encode(),
        lambda held: json.dumps({**json.loads(held), "answer": {"text": "x"}}).encode(),
        lambda held: b"[" * 100_000,
    ],
)
def test_a_damaged_file_is_no_answer(tmp_path: Path, damage: object) -> None:
    """A torn, changed or foreign file is passed over, and written anew."""
    cache = AnswerCache(tmp_path)
    cache.keep(KEY, ANSWER)
    (file,) = tmp_path.rglob("*.json")
    file.write_bytes(damage(file.read_bytes()))  # type: ignore[operator]
    assert cache.find(KEY) is None
    cache.keep(KEY, ANSWER)
    assert cache.find(KEY) == ANSWER


def test_a_folder_that_cannot_be_one(tmp_path: Path) -> None:
    """A file in the folder's place is a usage error; one that vanishes is our world failing."""
    (tmp_path / "file").write_text("")
    with pytest.raises(SpecError, match=r"--cache .*file"):
        AnswerCache(tmp_path / "file")
    cache = AnswerCache(tmp_path / "cache")
    (tmp_path / "cache").rmdir()
    with pytest.raises(BackendError, match="cannot be written"):
        cache.keep(KEY, ANSWER)
