"""Fakes that ship: seams whose answers are written down beforehand.

Tests, the demo and the documentation use the same ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from gate import values
from gate.backends.samples import absent
from gate.errors import SpecError
from gate.model import Call, Candidate, Json, Limits, Observation, Task, digest_json

MAX_SCRIPT_BYTES = 64 << 20


class ScriptedSource:
    """Draws the programs that it was given; the index-th text of a task is draw `index`.

    Attributes:
        draws: The draws asked for so far, in order: task id and index.
    """

    def __init__(self, candidates: Mapping[str, Sequence[str]]) -> None:
        self._candidates = {task_id: tuple(texts) for task_id, texts in candidates.items()}
        self.draws: list[tuple[str, int]] = []

    @property
    def digest(self) -> str:
        """SHA-256 of the script's canonical JSON, in hex."""
        return digest_json({task_id: list(texts) for task_id, texts in self._candidates.items()})

    def task_ids(self) -> Mapping[str, int]:
        """The tasks that have programs, and how many each has."""
        return {task_id: len(texts) for task_id, texts in self._candidates.items()}

    async def draw(self, task: Task, index: int) -> Candidate:
        """The program of that index; an empty candidate where there is none."""
        self.draws.append((task.id, index))
        texts = self._candidates.get(task.id, ())
        if not 0 <= index < len(texts):
            return absent(task, index)
        return Candidate(task_id=task.id, index=index, code=texts[index], origin={"scripted": True})


class MemoryLedger:
    """Keeps records in a list.

    Attributes:
        records: All of them, in order, as a ledger file would hold them.
    """

    def __init__(self) -> None:
        self.records: list[dict[str, Json]] = []

    def append(self, kind: str, body: dict[str, Json]) -> str:
        """See `gate.seams.Ledger`."""
        self.records.append({"kind": kind, **body})
        return digest_json([len(self.records), kind, body])


class ScriptedSandbox:
    """Answers with observations that were written down beforehand, by program text.

    A text stands for itself: every call returns what `answers` says for it. What is more
    than that (limits, crashes) is scripted as a whole observation.

    Attributes:
        seen: What was observed so far, in order: program, seed, and whether alone.
    """

    def __init__(self, answers: Mapping[str, Sequence[Observation | BaseException]]) -> None:
        self._answers = {text: list(observations) for text, observations in answers.items()}
        self.seen: list[tuple[str, int, bool]] = []

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
        """The next observation of that program; the last one again when they run out."""
        self.seen.append((candidate.code, seed, alone))
        script = self._answers[candidate.code]
        answer = script.pop(0) if len(script) > 1 else script[0]
        if isinstance(answer, BaseException):
            raise answer
        return answer


def open_scripted(path: Path) -> ScriptedSource:
    """The source `scripted:FILE`: one JSON object, from task id to a list of programs.

    Raises:
        SpecError: The file cannot be read, is too long, or says something else.
    """
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_SCRIPT_BYTES + 1)
    except OSError as exc:
        raise SpecError(f"{path}: cannot be read ({exc.strerror or exc}): name a JSON file") from exc
    if len(data) > MAX_SCRIPT_BYTES:
        raise SpecError(f"{path}: is longer than {MAX_SCRIPT_BYTES} bytes: use samples:FILE instead")
    try:
        script = values.loads(data)
    except values.CodecError as exc:
        raise SpecError(f"{path}: no JSON ({exc}): write an object from task id to a list of programs") from exc
    return ScriptedSource(_programs(script, path))


def _programs(script: Json, path: Path) -> dict[str, list[str]]:
    if not isinstance(script, dict):
        raise SpecError(f"{path}: no JSON object: write an object from task id to a list of programs")
    for task_id, texts in script.items():
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise SpecError(f'{path}: {task_id!r}: no list of program texts: write ["def …", …]')
    return script
