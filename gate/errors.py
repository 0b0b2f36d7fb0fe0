"""What we raise: one sentence that says where, what, and what to do.

What a candidate does is data, never an exception. Foreign exceptions turn into
ours in the backend that met them.
"""

from __future__ import annotations

from typing import ClassVar


class GateError(Exception):
    """An error of ours; its text is one sentence for the person at the terminal."""

    exit_code: ClassVar[int] = 3


class SpecError(GateError):
    """The input or the usage is wrong: a suite, a bank, a samples file, an option."""

    exit_code: ClassVar[int] = 2


class UnsoundError(GateError):
    """A suite is weak or wrong, and a run was to have sound ones only."""

    exit_code: ClassVar[int] = 1


class BackendError(GateError):
    """Our world failed: nothing can be said about the candidate."""


class SourceError(BackendError):
    """A candidate could not be drawn."""


class FatalSourceError(SourceError):
    """No candidate of any task can be drawn: asking again would be refused again; ends the run."""


class SandboxError(BackendError):
    """A candidate could not be observed."""


class JudgeError(BackendError):
    """A judge could not be asked."""


class IntegrityError(GateError):
    """A recorded claim does not derive again; ends the run."""

    exit_code: ClassVar[int] = 4


class BudgetSpent(GateError):
    """The next request might pass the budget: nothing failed, and the run can be resumed with more."""

    exit_code: ClassVar[int] = 130
