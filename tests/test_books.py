"""Nothing is asked beyond the budget, and every request is on record before it is sent."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import anyio
import pytest

from gate.backends.books import Books
from gate.backends.scripted import MemoryLedger
from gate.errors import BudgetSpent
from gate.money import Account, Budget, Price, Tokens

WORST = Tokens(prompt=60, completion=40)
USAGE = {"prompt_tokens": 30, "completion_tokens": 20}
PRICE = Price(prompt=Decimal(1), completion=Decimal(1))


def books(tokens: int | None = None, **more: Any) -> tuple[Books, MemoryLedger]:
    ledger = MemoryLedger()
    return Books(ledger, Account(), budget=Budget(tokens=tokens), **more), ledger


def answer(kept: Books, index: int, usage: dict[str, int] = USAGE) -> None:
    kept.append("candidate", {"task": "a", "index": index, "origin": {"usage": usage}})


async def test_a_request_is_recorded_before_it_is_sent() -> None:
    """Once `ask` returns, the ledger has the request with its worst case."""
    kept, ledger = books()
    await kept.ask("a", 0, 1, WORST)
    (record,) = ledger.records
    assert record == {"kind": "asked", "task": "a", "index": 0, "attempt": 1, "worst": WORST.as_json()}


async def test_records_are_shown_once_they_are_kept() -> None:
    """Who watches sees every record, the engine's as well."""
    seen: list[str] = []
    kept, _ = books(watch=lambda kind, body: seen.append(kind))
    await kept.ask("a", 0, 1, WORST)
    kept.fault("a", 0, "no", None)
    kept.append("verdict", {})
    assert seen == ["asked", "fault", "verdict"]


async def test_a_budget_too_small_for_one_request_is_spent_at_once() -> None:
    """Where not even one request fits, nothing is asked, and the sentence says what it would take."""
    kept, ledger = books(99)
    with pytest.raises(BudgetSpent, match=r"--budget-tokens 99: 0 are spent, and the next request may take 100"):
        await kept.ask("a", 0, 1, WORST)
    assert ledger.records == []


async def test_requests_under_way_count_at_their_worst() -> None:
    """A second request waits while the first one may still cost all that is left, then goes."""
    kept, ledger = books(230)
    await kept.ask("a", 0, 1, WORST)
    answer(kept, 0)
    await kept.ask("a", 1, 1, WORST)
    with anyio.move_on_after(0.05) as waiting:
        await kept.ask("a", 2, 1, WORST)
    assert waiting.cancelled_caught
    async with anyio.create_task_group() as group:
        group.start_soon(kept.ask, "a", 2, 1, WORST)
        await anyio.sleep(0.01)
        answer(kept, 1)
    assert [record["index"] for record in ledger.records if record["kind"] == "asked"] == [0, 1, 2]
    answer(kept, 2)
    with pytest.raises(BudgetSpent, match="150 are spent"):
        await kept.ask("a", 3, 1, WORST)
    assert kept.account.at_worst().total <= 230


async def test_the_first_request_goes_alone() -> None:
    """With a budget nothing goes beside the first request: what this server's answers cost is not known yet."""
    kept, _ = books(10_000)
    await kept.ask("a", 0, 1, WORST)
    with anyio.move_on_after(0.05) as waiting:
        await kept.ask("b", 0, 1, WORST)
    assert waiting.cancelled_caught
    free, _ = books()
    await free.ask("a", 0, 1, WORST)
    await free.ask("b", 0, 1, WORST)


async def test_a_usage_beyond_the_worst_case_is_met_once() -> None:
    """A server whose answers cost more than they could is believed, and the next request is counted so."""
    kept, ledger = books(10_000)
    await kept.ask("a", 0, 1, WORST)
    answer(kept, 0, {"prompt_tokens": 500, "completion_tokens": 40})
    await kept.ask("a", 1, 1, WORST)
    assert ledger.records[-1]["worst"] == {"prompt_tokens": 500, "completion_tokens": 40}


async def test_all_who_wait_learn_of_the_end() -> None:
    """When the budget is spent nobody waits for ever, and who comes later is told at once."""
    kept, _ = books(150)
    await kept.ask("a", 0, 1, WORST)
    told = 0

    async def wait(index: int) -> None:
        nonlocal told
        with pytest.raises(BudgetSpent):
            await kept.ask("a", index, 1, WORST)
        told += 1

    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            for index in (1, 2, 3):
                group.start_soon(wait, index)
            await anyio.sleep(0.01)
            kept.fault("a", 0, "no", None)
    await wait(4)
    assert told == 4 and kept.spent_out is not None


async def test_a_budget_in_dollars() -> None:
    """Dollars bind by the price, to the last token."""
    ledger = MemoryLedger()
    usd = Decimal(100) / 1_000_000
    kept = Books(ledger, Account(), budget=Budget(usd=usd), price=PRICE)
    await kept.ask("a", 0, 1, WORST)
    answer(kept, 0)
    with pytest.raises(BudgetSpent, match=r"--budget-usd 0.0001: 0.000050 are spent.* 0.000100"):
        await kept.ask("a", 1, 1, WORST)
