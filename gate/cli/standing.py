"""How far a run is: the counts that every kind of progress shows."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

from gate.cli.printing import duration_words
from gate.model import Decision, Json
from gate.money import Account, Price


class Standing:
    """How far a run is: what every kind of progress shows.

    Args:
        total: The tasks that are left to decide.
        cost: What the run has cost so far, in words; empty where it costs nothing.

    Attributes:
        current: The tasks under way, each with the draw that it is at, from 1.
    """

    def __init__(self, total: int, cost: Callable[[], str] = lambda: "") -> None:
        self.total = total
        self.counts: Counter[str] = Counter()
        self.draws = 0
        self.current: dict[str, int] = {}
        self._cost = cost
        self._begun_s = time.monotonic()

    def note(self, kind: str, body: dict[str, Json]) -> None:
        """See `gate.cli.progress.Progress`."""
        if kind in ("asked", "candidate"):
            self.current[body["task"]] = body["index"] + 1
            self.draws += kind == "candidate"
        elif kind == "decision":
            self.current.pop(body["task"], None)

    def advance(self, decision: Decision) -> None:
        """See `gate.cli.progress.Progress`."""
        self.counts[decision.outcome] += 1
        self.current.pop(decision.task_id, None)

    def words(self) -> str:
        """Beside the counts: draws, cost, and about how long it will take."""
        left = [f"about {duration_words(left_s)} left"] if (left_s := self._left_s()) is not None else []
        cost = self._cost()
        return ", ".join([f"{self.draws} draws", *([cost] if cost else []), *left])

    def _left_s(self) -> float | None:
        """Seconds to the end, if it goes on as so far; None while nothing can be said."""
        done = self.counts.total()
        elapsed_s = time.monotonic() - self._begun_s
        return elapsed_s * (self.total - done) / done if done and done < self.total else None


def cost_of(account: Account, price: Price | None) -> Callable[[], str]:
    """Tells what an account has come to, in words; empty where nothing was asked."""

    def words() -> str:
        if not account.requests:
            return ""
        spent = account.spent
        return f"{spent.total} tokens" if price is None else f"${price.cost(spent):.4f}"

    return words
