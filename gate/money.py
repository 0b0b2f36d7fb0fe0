"""What a run costs: tokens, prices, and the account that a ledger's records add up to.

Theory of operation. A ledger tells of money in three kinds of records. `asked` stands before
every request, with the most that it may cost (`worst`). It ends in one of two ways: a
`candidate`, whose origin has the usage that the server reported, or a `fault`, which says what
was billed. A request without an end (the process was killed, or stopped, while it was under
way) and one whose server reported no usage count at their worst case, and are told apart as
`assumed`. Whoever folds the same records gets the same account: the run that must stop before
its budget is passed, the one that resumes it, the report, and whoever verifies it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import TypeGuard

from gate.model import Json

MILLION = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """Tokens of prompts and of answers, reasoning among the latter."""

    prompt: int = 0
    completion: int = 0

    def __add__(self, other: Tokens) -> Tokens:
        return Tokens(prompt=self.prompt + other.prompt, completion=self.completion + other.completion)

    @property
    def total(self) -> int:
        """Both together."""
        return self.prompt + self.completion

    def beyond(self, other: Tokens) -> Tokens:
        """By how much these are more than others, each kind on its own."""
        return Tokens(prompt=max(0, self.prompt - other.prompt), completion=max(0, self.completion - other.completion))

    def __sub__(self, other: Tokens) -> Tokens:
        return Tokens(prompt=self.prompt - other.prompt, completion=self.completion - other.completion)

    def as_json(self) -> dict[str, Json]:
        """As records spell them."""
        return {"prompt_tokens": self.prompt, "completion_tokens": self.completion}


def read_tokens(usage: Json) -> Tokens | None:
    """The tokens that a usage names; None where it does not name both.

    Some servers leave reasoning out of `completion_tokens`; it shows in the total.
    """
    known = usage if isinstance(usage, dict) else {}
    prompt, completion, total = (known.get(name) for name in ("prompt_tokens", "completion_tokens", "total_tokens"))
    if not is_count(prompt) or not is_count(completion):
        return None
    return Tokens(prompt=prompt, completion=max(completion, total - prompt if is_count(total) else 0))


def is_count(value: Json) -> TypeGuard[int]:
    """Whether a JSON value is a whole number, not negative, within 63 bits."""
    return type(value) is int and 0 <= value < 1 << 63


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """US dollars for a million tokens, of prompts and of answers."""

    prompt: Decimal
    completion: Decimal

    def cost(self, tokens: Tokens) -> Decimal:
        """What some tokens cost in US dollars, exactly."""
        return (tokens.prompt * self.prompt + tokens.completion * self.completion) / MILLION


FREE = Price(prompt=Decimal(0), completion=Decimal(0))


def price_of(options: dict[str, Json]) -> Price | None:
    """The price that a run's options name; None where they name none."""
    told = options.get("price_in"), options.get("price_out")
    if None in told:
        return None
    return Price(prompt=Decimal(str(told[0])), completion=Decimal(str(told[1])))


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The most that a run may cost, over all its sessions; None for no limit of that kind."""

    usd: Decimal | None = None
    tokens: int | None = None

    def allows(self, tokens: Tokens, price: Price | None) -> bool:
        """Whether so many tokens stay within it.

        Raises:
            ValueError: It is in dollars, and there is no price.
        """
        if self.usd is not None and price is None:
            raise ValueError("a budget in dollars needs a price")
        within_usd = self.usd is None or price is None or price.cost(tokens) <= self.usd
        return within_usd and (self.tokens is None or tokens.total <= self.tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spend:
    """What a run has cost.

    Attributes:
        tokens: Those that servers have billed for, as far as they said.
        requests: Requests that were sent.
        faults: Requests that failed.
        answers: Draws that a server answered, or the cache did.
        hits: Draws that came from the cache, and cost nothing.
        assumed: Requests of which nobody said what they cost.
        assumed_tokens: What these may have taken at most; a budget counts it as spent.
    """

    tokens: Tokens
    requests: int
    faults: int
    answers: int
    hits: int
    assumed: int
    assumed_tokens: Tokens = Tokens()

    @property
    def at_most(self) -> Tokens:
        """All tokens, with those that are assumed."""
        return self.tokens + self.assumed_tokens


@dataclass(slots=True)
class Account:
    """Folds the records of a ledger, in order; what it holds is one entry for each request under way.

    Attributes:
        spent: What has ended, what is assumed of it included.
        assumed_tokens: What is assumed.
        open: The worst case of each request under way, by draw.
        overrun: By how much answers have passed their worst case so far.
    """

    spent: Tokens = Tokens()
    requests: int = 0
    faults: int = 0
    answers: int = 0
    hits: int = 0
    assumed: int = 0
    assumed_tokens: Tokens = Tokens()
    overrun: Tokens = Tokens()
    open: dict[tuple[str, int], Tokens] = field(default_factory=dict)

    def add(self, kind: str, body: dict[str, Json]) -> None:
        """Take in one record; kinds that say nothing of money change nothing."""
        if kind == "asked":
            draw = (body["task"], body["index"])
            self._assume(draw)
            self.requests += 1
            self.open[draw] = read_tokens(body["worst"]) or Tokens()
        elif kind == "fault":
            self.faults += 1
            self._settle((body["task"], body["index"]), read_tokens(body["billed"]))
        elif kind == "candidate":
            hit = body["origin"].get("cache") == "hit"
            draw = (body["task"], body["index"])
            self.hits += hit
            self.answers += hit or draw in self.open
            self._settle(draw, read_tokens(body["origin"].get("usage")))

    def at_worst(self) -> Tokens:
        """What has been spent, if every request under way costs the most that it may."""
        return sum(self.open.values(), self.spent)

    def abandon(self) -> None:
        """Nothing is under way any more: whoever asked is gone."""
        for draw in list(self.open):
            self._assume(draw)

    def spend(self) -> Spend | None:
        """The account as a value, what is under way assumed; None where nothing was asked of a model."""
        if not self.requests and not self.hits:
            return None
        return Spend(
            tokens=self.spent - self.assumed_tokens,
            requests=self.requests,
            faults=self.faults,
            answers=self.answers,
            hits=self.hits,
            assumed=self.assumed + len(self.open),
            assumed_tokens=sum(self.open.values(), self.assumed_tokens),
        )

    def _assume(self, draw: tuple[str, int]) -> None:
        if draw in self.open:
            worst = self.open.pop(draw)
            self.assumed += 1
            self.assumed_tokens += worst
            self.spent += worst

    def _settle(self, draw: tuple[str, int], billed: Tokens | None) -> None:
        if billed is None or draw not in self.open:
            self._assume(draw)
            return
        worst = self.open.pop(draw)
        self.overrun += billed.beyond(worst)
        self.spent += billed
