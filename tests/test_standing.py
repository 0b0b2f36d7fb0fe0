"""How far a run is: draws, cost, time left, tasks under way."""

from __future__ import annotations

import time
from decimal import Decimal

import pytest

from gate.cli.standing import Standing, cost_of
from gate.model import Decision
from gate.money import Account, Price

USAGE = {"prompt_tokens": 1000, "completion_tokens": 500}


def test_tasks_come_and_go() -> None:
    """A task is under way from its first request to its decision."""
    standing = Standing(2)
    standing.note("asked", {"task": "a", "index": 0})
    assert standing.current == {"a": 1}
    standing.note("candidate", {"task": "a", "index": 0})
    standing.note("verdict", {"task": "a", "index": 0})
    assert (standing.current, standing.draws) == ({"a": 1}, 1)
    standing.note("decision", {"task": "a"})
    assert standing.current == {}


def test_the_time_left_goes_by_what_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is said before the first decision nor after the last; else it goes on as so far."""
    now_s = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    standing = Standing(3)
    now_s = 100.0
    assert standing.words() == "0 draws"
    standing.advance(Decision(task_id="a", outcome="delivered", draws=1))
    assert standing.words() == "0 draws, about 3 min left"
    for name in "bc":
        standing.advance(Decision(task_id=name, outcome="refused", draws=1))
    assert standing.words() == "0 draws"


def test_the_cost_in_words() -> None:
    """Dollars where there is a price, else tokens, and nothing where nothing was asked."""
    account = Account()
    assert cost_of(account, None)() == ""
    account.add("asked", {"task": "a", "index": 0, "worst": USAGE})
    account.add("candidate", {"task": "a", "index": 0, "origin": {"usage": USAGE}})
    assert cost_of(account, None)() == "1500 tokens"
    assert cost_of(account, Price(prompt=Decimal(1), completion=Decimal(2)))() == "$0.0020"
