"""What the draws of a run cost, and what the rule saved by stopping at the first pass.

    saved = 1 - answers / (draws at most × decided tasks with visible tests)

The cost of all draws is an estimate: what was saved is taken at this run's mean cost of an
answer, faults included.
"""

from __future__ import annotations

from decimal import Decimal

from gate.model import Json
from gate.money import Price, Spend, price_of
from gate.summary import Summary


def cost_json(run: dict[str, Json], summary: Summary) -> dict[str, Json] | None:
    """What `summary.json` says of the cost; None where no model was asked."""
    spend, price = summary.spend, price_of(run["options"])
    if spend is None:
        return None
    everything = all_draws(run, summary)
    return {
        "requests": spend.requests,
        "faults": spend.faults,
        "answers": spend.answers,
        "cache_hits": spend.hits,
        **spend.tokens.as_json(),
        "assumed_requests": spend.assumed,
        "tokens_at_most": spend.at_most.total,
        "usd": None if price is None else float(round(price.cost(spend.tokens), 6)),
        "usd_at_most": None if price is None else float(round(price.cost(spend.at_most), 6)),
        "all_draws": everything,
        "all_draws_usd": None if price is None else _all_usd(spend, price, everything),
    }


def section(run: dict[str, Json], summary: Summary) -> str:
    """The part of a report about money; empty where no model was asked."""
    spend, price = summary.spend, price_of(run["options"])
    if spend is None:
        return ""
    lines = [
        f"- {spend.answers} answers in {spend.requests} requests, {spend.faults} of which failed"
        + (f"; {spend.hits} answers came from the cache, without a request" if spend.hits else ""),
        f"- tokens: {spend.tokens.prompt} of prompts, {spend.tokens.completion} of answers",
        "- cost: " + ("unknown, no price was given" if price is None else _cost_words(spend, price)),
    ]
    if spend.assumed:
        most = spend.assumed_tokens
        cost = "" if price is None else f", {usd(price.cost(most))}"
        lines.append(
            f"- not in these figures: {spend.assumed} requests of which nobody said what they cost; at most"
            f" {most.total} tokens{cost}, and so much a budget counts"
        )
    lines += _saving(run, summary, spend, price)
    return "## Cost\n\n" + "".join(f"{line}\n" for line in lines)


def line(run: dict[str, Json], summary: Summary) -> str:
    """The cost in one line; empty where no model was asked."""
    spend, price = summary.spend, price_of(run["options"])
    if spend is None:
        return ""
    shown = (
        f"{spend.tokens.total} tokens"
        if price is None
        else f"{usd(price.cost(spend.tokens))} ({spend.tokens.total} tokens)"
    )
    saved = _saved_share(run, summary, spend)
    return f"cost: {shown}" + ("" if saved is None else f", {saved:.1f} % of all draws saved")


def usd(amount: Decimal) -> str:
    """`$0.012345`."""
    return f"${amount:.6f}"


def all_draws(run: dict[str, Json], summary: Summary) -> int:
    """How many draws the decided tasks would have taken if nothing stopped at a pass."""
    decided = summary.delivered + summary.refused - summary.refusals.get("no_visible_tests", 0)
    return int(run["options"]["draws"]) * decided


def _cost_words(spend: Spend, price: Price) -> str:
    per_million = (
        f"at ${float(price.prompt):g} and ${float(price.completion):g} for a million tokens of prompts and of answers"
    )
    return f"{usd(price.cost(spend.tokens))}, {per_million}"


def _saved_share(run: dict[str, Json], summary: Summary, spend: Spend) -> float | None:
    """Which share of all draws was saved, in per cent; None where none could be."""
    everything = all_draws(run, summary)
    if run["options"]["full_pool"] or not 0 < spend.answers <= everything:
        return None
    return 100 * (1 - spend.answers / everything)


def _all_usd(spend: Spend, price: Price, everything: int) -> float | None:
    """What all draws would have cost, at the mean of those that were made."""
    return None if not spend.answers else float(round(price.cost(spend.tokens) * everything / spend.answers, 6))


def _saving(run: dict[str, Json], summary: Summary, spend: Spend, price: Price | None) -> list[str]:
    share = _saved_share(run, summary, spend)
    if share is None:
        return []
    everything = all_draws(run, summary)
    words = f"- saved by stopping at the first pass: {everything - spend.answers} of {everything} draws ({share:.1f} %)"
    if price is None:
        return [words]
    cost = price.cost(spend.tokens)
    total = cost * everything / spend.answers
    return [f"{words}, about {usd(total - cost)} of the {usd(total)} that all of them would have cost"]
