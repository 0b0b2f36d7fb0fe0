"""The ledger of a run that costs money: every record goes to the account too, and nothing is asked beyond the budget.

Theory of operation. A request is recorded before it is sent, with the most that it may cost,
and on the disk by then: a process that is killed in between leaves a request that counts.
Where its worst case does not fit beside those under way, it waits until one of them has ended,
which sets free what that one did not need; where none is under way, the budget is used up for
good. Until a first answer has shown what this server's answers cost, a run with a budget sends
one request at a time: so a usage beyond any worst case is met once, and counts from then on.
"""

from __future__ import annotations

from collections.abc import Callable

import anyio

from gate.errors import BudgetSpent
from gate.model import Json
from gate.money import FREE, Account, Budget, Price, Tokens
from gate.seams import Ledger

Watch = Callable[[str, dict[str, Json]], None]


class Books:
    """A ledger that keeps account of what draws cost.

    Args:
        ledger: Where records go.
        account: What was spent so far; nothing is under way in it.
        budget: The most that the run may cost.
        price: What tokens cost; None where nobody said.
        watch: Is shown every record, once it is kept.

    Attributes:
        spent_out: Why the budget allows no more, once it does not.
    """

    def __init__(
        self,
        ledger: Ledger,
        account: Account,
        *,
        budget: Budget | None = None,
        price: Price | None = None,
        watch: Watch = lambda kind, body: None,
    ) -> None:
        self._ledger = ledger
        self._budget = budget or Budget()
        self._watch = watch
        self._changed = anyio.Event()
        self.account = account
        self.price = price
        self.spent_out: str | None = None

    def append(self, kind: str, body: dict[str, Json]) -> str:
        """See `gate.seams.Ledger`."""
        digest = self._ledger.append(kind, body)
        self.account.add(kind, body)
        self._watch(kind, body)
        self._changed.set()
        self._changed = anyio.Event()
        return digest

    async def ask(self, task_id: str, index: int, attempt: int, worst: Tokens) -> None:
        """Record a request that is about to be sent; wait for room in the budget first.

        Raises:
            BudgetSpent: There is none, and none will come.
        """
        while not self._has_room(worst + self.account.overrun):
            if self.spent_out is not None or not self.account.open:
                self.spent_out = self.spent_out or self._why(worst + self.account.overrun)
                raise BudgetSpent(self.spent_out)
            await self._changed.wait()
        most = worst + self.account.overrun
        self.append("asked", {"task": task_id, "index": index, "attempt": attempt, "worst": most.as_json()})

    def fault(self, task_id: str, index: int, what: str, billed: Tokens | None) -> None:
        """Record that a request failed; `billed` is None where nobody knows what it cost."""
        known = None if billed is None else billed.as_json()
        self.append("fault", {"task": task_id, "index": index, "what": what, "billed": known})

    def _has_room(self, worst: Tokens) -> bool:
        if self._budget == Budget():
            return True
        if self.spent_out is not None or (self.account.open and not self.account.answers):
            return False
        return self._budget.allows(self.account.at_worst() + worst, self.price)

    def _why(self, worst: Tokens) -> str:
        """The end of the budget in a sentence."""
        spent = self.account.spent
        if self._budget.tokens is not None and (spent + worst).total > self._budget.tokens:
            return (
                f"--budget-tokens {self._budget.tokens}: {spent.total} are spent, and the next request may take"
                f" {worst.total}: give more to go on"
            )
        cost = (self.price or FREE).cost
        return (
            f"--budget-usd {self._budget.usd}: {cost(spent):.6f} are spent, and the next request may cost"
            f" {cost(worst):.6f}: give more to go on"
        )
