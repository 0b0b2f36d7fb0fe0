"""A price table: a YAML file that says what the tokens of each model cost.

models:
  small-1: {in: 0.15, out: 0.60}     # US dollars for a million tokens of prompts and of answers
"""

from __future__ import annotations

from pathlib import Path

from gate.backends.prompts import read_text
from gate.document import parse_document
from gate.errors import SpecError
from gate.model import Json

MAX_USD = 1e6


def read_prices(path: Path, model: str) -> tuple[float, float]:
    """The price of one model, of prompts and of answers, in US dollars for a million tokens.

    Raises:
        SpecError: The file cannot be read, is no such table, or lacks the model.
    """
    table = parse_document(read_text(path, "--prices").encode(), path.name)
    models = table.get("models") if isinstance(table, dict) else None
    if not isinstance(models, dict):
        raise SpecError(f"--prices {path}: is no price table: write `models: {{NAME: {{in: USD, out: USD}}}}`")
    if model not in models:
        raise SpecError(f"--prices {path}: has no {model!r} (known: {', '.join(sorted(models)) or 'none'})")
    found = models[model]
    if not isinstance(found, dict) or found.keys() != {"in", "out"}:
        raise SpecError(f"--prices {path}: models.{model}: write {{in: USD, out: USD}}, for a million tokens each")
    return _usd(found["in"], f"--prices {path}: models.{model}.in"), _usd(
        found["out"], f"--prices {path}: models.{model}.out"
    )


def _usd(value: Json, where: str) -> float:
    if type(value) not in (int, float):
        raise SpecError(f"{where}: {value!r} is no number of US dollars")
    return checked_usd(value, where)


def checked_usd(value: float, where: str) -> float:
    """A price or a budget in US dollars.

    Raises:
        SpecError: It is negative, no number, or beyond all that could be meant.
    """
    if not 0 <= value <= MAX_USD:
        raise SpecError(f"{where}: {value} is no amount between 0 and {MAX_USD:.0f} US dollars")
    return float(value)
