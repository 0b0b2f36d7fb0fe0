"""The acceptance gate for code that language models write.

A source draws a `Candidate`; the sandbox brings an `Observation`; the rules give a
`Verdict` and in the end a `Decision`; the ledger keeps all of it. The names below are
the public API; they load when they are first used, so that importing one is cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOME = {
    "BackendError": "errors",
    "Call": "model",
    "Candidate": "model",
    "CandidateSource": "seams",
    "Decision": "model",
    "Exit": "model",
    "GateError": "errors",
    "IntegrityError": "errors",
    "Ledger": "seams",
    "Limits": "model",
    "Observation": "model",
    "Outcome": "model",
    "Sandbox": "seams",
    "SandboxError": "errors",
    "SourceError": "errors",
    "SpecError": "errors",
    "SuiteSpec": "model",
    "Task": "model",
    "Test": "model",
    "Verdict": "model",
    "decide": "rules",
    "grade": "rules",
    "load_suite": "suite",
    "run_task": "engine",
    "run_tasks": "engine",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'gate' has no attribute {name!r}")
    return getattr(import_module(f"gate.{home}"), name)


def __dir__() -> list[str]:
    return __all__
