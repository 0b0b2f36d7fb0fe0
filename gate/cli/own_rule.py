"""A rule of the user's own over a pool, `--rule my.module:rule`.

It is code that the user names on the command line, and runs in this process: unlike a
candidate it is trusted. It sees what a rule that decides may see, so the hidden verdicts
are taken out of its rows.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from gate.errors import SpecError
from gate.model import Json
from gate.outcomes import Row
from gate.pools import RULES, Choice, Rule

_FORM = "write my.module:rule, where rule(row, draws) returns a gate.pools.Choice"


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRule:
    """A rule, the name that it was asked for by, and the digest of its file."""

    name: str
    digest: str
    choose: Rule

    def as_json(self) -> dict[str, Json]:
        """As `run.json` keeps it."""
        return {"name": self.name, "digest": self.digest}


def load_rule(name: str) -> OwnRule:
    """Import a rule; modules are found in the working directory too.

    Raises:
        SpecError: It is not there, or no function.
    """
    module_name, _, attribute = name.partition(":")
    if not module_name or not attribute or name in RULES:
        raise SpecError(f"--rule: {name!r} names no rule: {_FORM}")
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        module = importlib.import_module(module_name)
        rule = getattr(module, attribute)
        file = inspect.getsourcefile(module)
        digest = hashlib.sha256(Path(str(file)).read_bytes()).hexdigest()
    except Exception as exc:
        raise SpecError(f"--rule: {name!r} cannot be loaded ({type(exc).__name__}: {exc}): {_FORM}") from exc
    if not callable(rule):
        raise SpecError(f"--rule: {name!r} is no function: {_FORM}")
    return OwnRule(name=name, digest=digest, choose=guarded(name, rule))


def guarded(name: str, rule: Rule) -> Rule:
    """A rule that sees no hidden verdict, and whose failure is a sentence."""

    def choose(row: Row, draws: int) -> Choice:
        try:
            return rule(blind(row), draws)
        except Exception as exc:
            what = f"{type(exc).__name__}: {exc}"
            raise SpecError(f"--rule {name}: failed on task {row.task_id!r} with {draws} draws ({what})") from exc

    return choose


def blind(row: Row) -> Row:
    """A row without what the hidden tests say."""
    return replace(row, cells=tuple(replace(cell, hidden=None) for cell in row.cells))
