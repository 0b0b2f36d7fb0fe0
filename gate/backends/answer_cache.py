"""Answers of a model kept for later runs, by everything that shapes them.

Theory of operation. One file an answer, named by the SHA-256 of its key: the server's address,
the whole request (model, sampling, seed, messages) and the index of the draw. It holds the key
itself and what is kept of the answer, so neither reasoning nor a secret. Files are written
beside and renamed, so several runs may share a folder. A file that does not hold what its name
says is no answer: the model is asked again, and the file is written anew.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from gate import values
from gate.errors import BackendError, SpecError
from gate.model import Json, canonical_json, digest_json

FORMAT = "gate.answer/1"
_FIELDS = {"text": str, "finish_reason": str, "refusal": str, "facts": dict, "usage": dict}
_MAX_DEPTH = 100


class AnswerCache:
    """A folder of answers.

    Args:
        path: The folder; made if it is not there.

    Raises:
        SpecError: It cannot be made.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as exc:
            raise SpecError(f"--cache {path}: cannot be made ({exc.strerror}): name another folder") from exc

    def find(self, key: Json) -> Json:
        """What is kept of the answer to a key; None where there is none, or none that is whole."""
        try:
            found = values.loads(self._file(key).read_bytes(), max_depth=_MAX_DEPTH)
        except (OSError, values.CodecError):
            return None
        if not isinstance(found, dict) or found.get("format") != FORMAT or found.get("key") != key:
            return None
        answer = found.get("answer")
        whole = isinstance(answer, dict) and all(type(answer.get(name)) is kind for name, kind in _FIELDS.items())
        return answer if whole and found.get("digest") == digest_json(answer) else None

    def keep(self, key: Json, answer: Json) -> None:
        """Keep an answer.

        Raises:
            BackendError: It cannot be written.
        """
        file = self._file(key)
        held = {"format": FORMAT, "key": key, "answer": answer, "digest": digest_json(answer)}
        try:
            file.parent.mkdir(exist_ok=True)
            handle, beside = tempfile.mkstemp(dir=file.parent, prefix=f".{file.stem}.")
            with os.fdopen(handle, "wb") as out:
                out.write(canonical_json(held).encode("ascii") + b"\n")
            os.replace(beside, file)
        except OSError as exc:
            raise BackendError(f"{file}: cannot be written ({exc.strerror}): see to the disk") from exc

    def _file(self, key: Json) -> Path:
        name = digest_json(key)
        return self._path / name[:2] / f"{name}.json"
