"""`run.log`: what happened when, one line each, for people who look for why a run was slow or stopped.

Every text in it is either ours or has passed the source's redaction, so it holds no key.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TextIO

from gate.backends.jsonl import utc_now
from gate.cli import printing
from gate.model import Json


class RunLog:
    """A log file that grows; use as a context manager. One that cannot be written is given up, and that is said once.

    A full disk ends a run by its ledger; that its log is lost, too, must not change how tasks end.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: TextIO | None = None
        try:
            self._file = path.open("a", encoding="utf-8", buffering=1)
        except OSError as exc:
            self._give_up(exc)

    def __enter__(self) -> RunLog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()

    def say(self, text: str) -> None:
        """One line, with the time."""
        line = printing.escape(" ".join(text.split()))
        try:
            if self._file is not None:
                self._file.write(f"{utc_now()} {line}\n")
        except OSError as exc:
            self._give_up(exc)

    def note(self, kind: str, body: dict[str, Json]) -> None:
        """One record of the ledger, if it is worth a line."""
        line = printing.record_line(kind, body)
        if line:
            self.say(line)

    def _give_up(self, exc: OSError) -> None:
        broken, self._file = self._file, None
        if broken is not None:
            with suppress(OSError):  # what it still held cannot be written either
                broken.close()
        printing.say(f"gate: {self._path}: cannot be written ({exc.strerror or exc}): the run goes on without its log")
