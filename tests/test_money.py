"""Tokens, prices, budgets, and the account that a ledger's records add up to."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gate.money import Account, Budget, Price, Spend, Tokens, price_of, read_tokens

WORST = {"prompt_tokens": 100, "completion_tokens": 50}
USAGE = {"prompt_tokens": 9, "completion_tokens": 7, "total_tokens": 16}
PRICE = Price(prompt=Decimal("0.15"), completion=Decimal("0.60"))


def asked(index: int = 0, worst: dict[str, int] = WORST) -> tuple[str, dict[str, Any]]:
    return "asked", {"task": "a", "index": index, "attempt": 1, "worst": worst}


def fault(billed: dict[str, int] | None, index: int = 0) -> tuple[str, dict[str, Any]]:
    return "fault", {"task": "a", "index": index, "what": "no", "billed": billed}


def answer(usage: dict[str, Any], index: int = 0, **origin: Any) -> tuple[str, dict[str, Any]]:
    return "candidate", {"task": "a", "index": index, "origin": {"usage": usage, **origin}}


def account(*records: tuple[str, dict[str, Any]]) -> Account:
    found = Account()
    for kind, body in records:
        found.add(kind, body)
    return found


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        (USAGE, Tokens(prompt=9, completion=7)),
        ({"prompt_tokens": 9, "completion_tokens": 7}, Tokens(prompt=9, completion=7)),
        ({"prompt_tokens": 9, "completion_tokens": 7, "total_tokens": 100}, Tokens(prompt=9, completion=91)),
        ({"prompt_tokens": 9, "completion_tokens": 7, "total_tokens": 3}, Tokens(prompt=9, completion=7)),
        ({"prompt_tokens": 9}, None),
        ({"prompt_tokens": True, "completion_tokens": 7}, None),
        ({"prompt_tokens": -1, "completion_tokens": 7}, None),
        ({"prompt_tokens": 1 << 64, "completion_tokens": 7}, None),
        ({}, None),
        (None, None),
        ([9, 7], None),
    ],
)
def test_a_usage_is_believed_where_it_is_one(usage: Any, tokens: Tokens | None) -> None:
    """Both counts make a usage; reasoning that only the total has counts as answer."""
    assert read_tokens(usage) == tokens


def test_a_price_is_for_a_million_tokens() -> None:
    """The cost is exact: no float has a part in it."""
    assert PRICE.cost(Tokens(prompt=1_000_000, completion=2_000_000)) == Decimal("1.35")
    assert PRICE.cost(Tokens(prompt=1)) == Decimal("0.00000015")
    assert price_of({"price_in": 0.15, "price_out": 0.6}) == PRICE
    assert price_of({"price_in": 0.15, "price_out": None}) is None and price_of({}) is None


def test_a_request_counts_at_its_worst_until_it_ends() -> None:
    """Under way it counts at the most that it may cost, then at what it did cost."""
    under_way = account(asked())
    assert (under_way.spent, under_way.at_worst()) == (Tokens(), Tokens(prompt=100, completion=50))
    ended = account(asked(), answer(USAGE))
    assert ended.at_worst() == ended.spent == Tokens(prompt=9, completion=7)
    assert ended.spend() == Spend(
        tokens=Tokens(prompt=9, completion=7), requests=1, faults=0, answers=1, hits=0, assumed=0
    )


@pytest.mark.parametrize(
    "records",
    [
        (asked(),),
        (asked(), fault(None)),
        (asked(), answer({})),
        (asked(), answer({"total_tokens": 3})),
    ],
    ids=["never ended", "a fault of unknown cost", "no usage", "half a usage"],
)
def test_what_nobody_knows_counts_at_its_worst(records: tuple[Any, ...]) -> None:
    """A request of which nobody said what it cost is not free, and the report says how many there are."""
    spend = account(*records).spend()
    assert spend is not None
    assert (spend.at_most, spend.tokens, spend.assumed) == (Tokens(prompt=100, completion=50), Tokens(), 1)


def test_a_request_that_is_asked_again_counts_twice() -> None:
    """After a kill the same draw is asked for again, and both requests count."""
    spend = account(asked(), asked(), answer(USAGE)).spend()
    assert spend is not None
    assert (spend.requests, spend.assumed, spend.at_most) == (2, 1, Tokens(prompt=109, completion=57))
    assert spend.tokens == Tokens(prompt=9, completion=7)


def test_a_hit_costs_nothing() -> None:
    """What came from the cache counts as an answer, and its usage is not billed again."""
    spend = account(answer(USAGE, cache="hit")).spend()
    assert spend == Spend(tokens=Tokens(), requests=0, faults=0, answers=1, hits=1, assumed=0)
    assert account(answer(USAGE)).spend() is None


def test_an_answer_beyond_its_worst_case_is_learnt_from() -> None:
    """By how much a usage has passed its worst case is known from then on."""
    found = account(asked(), answer({"prompt_tokens": 150, "completion_tokens": 20}))
    assert found.overrun == Tokens(prompt=50)


@pytest.mark.parametrize(
    ("budget", "tokens", "allowed"),
    [
        (Budget(), Tokens(prompt=10**9), True),
        (Budget(tokens=10), Tokens(prompt=4, completion=6), True),
        (Budget(tokens=10), Tokens(prompt=4, completion=7), False),
        (Budget(usd=Decimal("1.35")), Tokens(prompt=1_000_000, completion=2_000_000), True),
        (Budget(usd=Decimal("1.35")), Tokens(prompt=1_000_001, completion=2_000_000), False),
        (Budget(usd=Decimal("99"), tokens=10), Tokens(prompt=11), False),
    ],
)
def test_a_budget_allows_up_to_its_limit(budget: Budget, tokens: Tokens, allowed: bool) -> None:
    """The limit itself is allowed, one token more is not; both limits hold."""
    assert budget.allows(tokens, PRICE) is allowed


def test_a_budget_in_dollars_needs_a_price() -> None:
    """Without a price nobody could tell, so it is no budget."""
    with pytest.raises(ValueError, match="price"):
        Budget(usd=Decimal(1)).allows(Tokens(), None)


RECORDS = st.lists(
    st.one_of(
        st.integers(0, 3).map(asked),
        st.tuples(st.sampled_from([None, WORST, USAGE]), st.integers(0, 3)).map(lambda made: fault(*made)),
        st.tuples(st.sampled_from([{}, USAGE]), st.integers(0, 3)).map(lambda made: answer(*made)),
    ),
    max_size=30,
)


@given(RECORDS)
def test_nothing_is_ever_given_back(records: list[tuple[str, dict[str, Any]]]) -> None:
    """With every record what is spent for good grows or stays, and giving up what is under way changes no total."""
    found, before = Account(), Tokens()
    for kind, body in records:
        found.add(kind, body)
        assert found.spent.prompt >= before.prompt and found.spent.completion >= before.completion
        before = found.spent
    total = found.spend()
    found.abandon()
    assert found.spend() == total and found.open == {}
