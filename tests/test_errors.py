"""What we raise: one family, and whose fault it is by type."""

from __future__ import annotations

import inspect

import pytest

from gate import errors
from gate.cli import exits
from gate.errors import (
    BackendError,
    BudgetSpent,
    FatalSourceError,
    GateError,
    IntegrityError,
    JudgeError,
    SandboxError,
    SourceError,
    SpecError,
    UnsoundError,
)

ALL = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, Exception)]


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (SpecError, exits.USAGE),
        (UnsoundError, exits.REFUSED),
        (BackendError, exits.WORLD),
        (SourceError, exits.WORLD),
        (FatalSourceError, exits.WORLD),
        (SandboxError, exits.WORLD),
        (JudgeError, exits.WORLD),
        (IntegrityError, exits.INTEGRITY),
        (BudgetSpent, exits.STOPPED),
        (GateError, exits.WORLD),
    ],
)
def test_an_error_knows_its_exit_code(kind: type[GateError], code: int) -> None:
    """Usage is 2, our world is 3, integrity is 4: by type, not by text."""
    assert kind.exit_code == code


def test_every_error_is_of_the_family() -> None:
    """One `except GateError` at the top sees all that we raise, and each of them has a row above."""
    assert all(issubclass(kind, GateError) for kind in ALL)
    assert len(ALL) == 10


@pytest.mark.parametrize("kind", [SourceError, SandboxError, JudgeError])
def test_a_failing_backend_ends_its_task(kind: type[GateError]) -> None:
    """Failures of a source, a sandbox or a judge are caught as one: they end a task, not the run."""
    assert issubclass(kind, BackendError)


@pytest.mark.parametrize("kind", [SpecError, IntegrityError])
def test_what_ends_the_run_is_no_backend_error(kind: type[GateError]) -> None:
    """A wrong suite or a broken record is never swallowed as one task's infrastructure failure."""
    assert not issubclass(kind, BackendError)


def test_an_error_is_its_sentence() -> None:
    """What is shown is the sentence that was raised."""
    assert str(SpecError("a.yaml:7: tests is empty: write one")) == "a.yaml:7: tests is empty: write one"
