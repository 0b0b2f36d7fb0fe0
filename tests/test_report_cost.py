"""What a report says of money: nothing that does not follow from the ledger."""

from __future__ import annotations

from typing import Any

from gate.money import Spend, Tokens
from gate.report import cost
from gate.summary import Containment, Summary

SPEND = Spend(tokens=Tokens(prompt=1_000_000, completion=500_000), requests=13, faults=3, answers=10, hits=0, assumed=0)


def summary(spend: Spend | None = SPEND, **changes: Any) -> Summary:
    fixed: dict[str, Any] = {
        "tasks": 5,
        "delivered": 3,
        "refused": 1,
        "infra": 0,
        "not_run": 1,
        "draws": 10,
        "reasons": {},
        "refusals": {"none_passed": 1},
        "infra_reasons": {},
        "hidden": None,
        "containment": Containment(tasks=0, contained=0),
    }
    return Summary(**{**fixed, **changes, "spend": spend})


def run(**options: Any) -> dict[str, Any]:
    return {"options": {"draws": 5, "full_pool": False, "price_in": 2.0, "price_out": 4.0, **options}}


def test_cost_and_saving_for_programs() -> None:
    """All figures of the cost, as plain numbers."""
    assert cost.cost_json(run(), summary()) == {
        "requests": 13,
        "faults": 3,
        "answers": 10,
        "cache_hits": 0,
        "prompt_tokens": 1_000_000,
        "completion_tokens": 500_000,
        "assumed_requests": 0,
        "usd": 4.0,
        "all_draws": 20,
        "all_draws_usd": 8.0,
        "tokens_at_most": 1_500_000,
        "usd_at_most": 4.0,
    }


def test_cost_and_saving_for_people() -> None:
    """What was paid, and what stopping at the first pass has saved."""
    text = cost.section(run(), summary())
    assert "- 10 answers in 13 requests, 3 of which failed\n" in text
    assert "- cost: $4.000000, at $2 and $4 for a million tokens of prompts and of answers\n" in text
    assert "10 of 20 draws (50.0 %), about $4.000000 of the $8.000000 that all of them would have cost" in text
    assert cost.line(run(), summary()) == "cost: $4.000000 (1500000 tokens), 50.0 % of all draws saved"


def test_no_model_no_cost() -> None:
    """A run over saved samples says nothing of money."""
    free = summary(None)
    assert (cost.cost_json(run(), free), cost.section(run(), free), cost.line(run(), free)) == (None, "", "")


def test_no_price_no_dollars() -> None:
    """Without a price there are tokens, and no amount is made up."""
    unpriced = run(price_in=None, price_out=None)
    found = cost.cost_json(unpriced, summary())
    assert found is not None and (found["usd"], found["all_draws_usd"]) == (None, None)
    assert "- cost: unknown, no price was given\n" in cost.section(unpriced, summary())
    assert "$" not in cost.section(unpriced, summary()) + cost.line(unpriced, summary())


def test_no_saving_is_claimed_where_there_is_none() -> None:
    """A full pool saves nothing, and neither does a run in which nothing is decided."""
    for found in (cost.section(run(full_pool=True), summary()), cost.section(run(), summary(delivered=0, refused=0))):
        assert "saved" not in found


def test_tasks_without_visible_tests_would_not_have_been_drawn() -> None:
    """What is refused without a draw is no draw saved."""
    assert cost.all_draws(run(), summary(refused=3, refusals={"no_visible_tests": 2, "none_passed": 1})) == 20


def test_assumed_costs_and_hits_are_told() -> None:
    """What is counted at its worst case, and what came for nothing, is said."""
    spend = Spend(
        tokens=Tokens(), requests=2, faults=1, answers=3, hits=2, assumed=1, assumed_tokens=Tokens(prompt=500_000)
    )
    text = cost.section(run(), summary(spend))
    assert "2 answers came from the cache" in text
    assert "- not in these figures: 1 requests of which nobody said what they cost; at most 500000 tokens, $1" in text
    found = cost.cost_json(run(), summary(spend))
    assert found is not None and (found["usd"], found["usd_at_most"]) == (0.0, 1.0)
