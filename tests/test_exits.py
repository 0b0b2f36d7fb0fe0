"""The exit codes: one table, and what a summary asks for."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from run_here import gate

from gate.cli import exits
from gate.summary import Containment, Summary


def summary(*, delivered: int = 0, refused: int = 0, infra: int = 0, not_run: int = 0, **changes: Any) -> Summary:
    fixed: dict[str, Any] = {
        "tasks": delivered + refused + infra + not_run,
        "delivered": delivered,
        "refused": refused,
        "infra": infra,
        "not_run": not_run,
        "draws": 0,
        "reasons": {},
        "refusals": {},
        "infra_reasons": {},
        "hidden": None,
        "containment": Containment(tasks=0, contained=0),
    }
    return Summary(**{**fixed, **changes})


def test_the_codes_are_the_documented_ones() -> None:
    """Scripts rely on these numbers."""
    codes = (exits.DONE, exits.REFUSED, exits.USAGE, exits.WORLD, exits.INTEGRITY, exits.STOPPED)
    assert codes == (0, 1, 2, 3, 4, 130)


@pytest.mark.parametrize(
    ("found", "budget", "code"),
    [
        (summary(delivered=3), 0.01, 0),
        (summary(delivered=2, refused=1), 0.01, 1),
        (summary(refused=3), 0.01, 1),
        (summary(delivered=99, infra=1), 0.01, 1),
        (summary(delivered=98, infra=1), 0.01, 3),
        (summary(delivered=2, not_run=1), 1.0, 3),
        (summary(infra=1), 0.0, 3),
        (summary(), 1.0, 3),
    ],
)
def test_the_code_says_how_a_run_went(found: Summary, budget: float, code: int) -> None:
    """All delivered is 0, some not is 1, and a run without a headline is 3 whatever was delivered."""
    assert exits.exit_code(found, budget) == code


@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9), st.integers(0, 9), st.floats(0, 1))
def test_only_a_run_that_delivered_everything_is_done(
    delivered: int, refused: int, infra: int, not_run: int, budget: float
) -> None:
    """0 means that each task of at least one was delivered; nothing else does."""
    found = summary(delivered=delivered, refused=refused, infra=infra, not_run=not_run)
    assert (exits.exit_code(found, budget) == exits.DONE) == (delivered == found.tasks > 0)


@pytest.mark.parametrize("verb", [("check", "x.yaml"), ("attack",), ("verify", "run"), ("banks",)])
def test_ctrl_c_is_said(
    verb: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever is interrupted ends with 130 and one sentence, and no traceback."""

    def interrupted(*args: Any, **more: Any) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(importlib.import_module(f"gate.cli.{verb[0]}"), verb[0], interrupted)
    assert gate(*verb) == exits.STOPPED
    assert capsys.readouterr().err == "gate: stopped\n"
