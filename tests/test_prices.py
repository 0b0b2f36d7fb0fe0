"""A price table says what the tokens of a model cost, or what is wrong with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gate.backends.prices import checked_usd, read_prices
from gate.errors import SpecError


def test_a_model_has_its_price(tmp_path: Path) -> None:
    """The price of the model that was asked for, of prompts and of answers."""
    (tmp_path / "prices.yaml").write_text("models:\n  a/b-1: {in: 0.15, out: 1}\n  other: {in: 9, out: 9}\n")
    assert read_prices(tmp_path / "prices.yaml", "a/b-1") == (0.15, 1.0)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("models: {m: {in: 1, out: 2}}", "has no 'stub' \\(known: m\\)"),
        ("models: {}", "known: none"),
        ("[]", "is no price table"),
        ("stub: {in: 1, out: 2}", "is no price table"),
        ("models: {stub: 1}", "write {in: USD, out: USD}"),
        ("models: {stub: {in: 1}}", "write {in: USD, out: USD}"),
        ("models: {stub: {in: 1, out: 2, x: 3}}", "write {in: USD, out: USD}"),
        ("models: {stub: {in: '1', out: 2}}", "models.stub.in: '1' is no number"),
        ("models: {stub: {in: 1, out: true}}", "models.stub.out: True is no number"),
        ("models: {stub: {in: 1, out: -2}}", "models.stub.out: -2 is no amount"),
        ("models: {stub: {in: .nan, out: 1}}", "prices.yaml:1: .nan"),
        ("models: {stub: {in: 1, out: 2}\n", "prices.yaml:"),
        ("a: !!python/object:x {}", "prices.yaml:1"),
    ],
)
def test_a_table_that_is_wrong_says_where(tmp_path: Path, text: str, words: str) -> None:
    """A wrong table is a usage error that names the place."""
    (tmp_path / "prices.yaml").write_text(text)
    with pytest.raises(SpecError, match=words):
        read_prices(tmp_path / "prices.yaml", "stub")


def test_a_table_that_is_not_there(tmp_path: Path) -> None:
    """A missing file is a usage error with its name."""
    with pytest.raises(SpecError, match=r"--prices .*none.yaml: cannot be read"):
        read_prices(tmp_path / "none.yaml", "stub")


@pytest.mark.parametrize("value", [-0.01, float("nan"), float("inf"), 1e7])
def test_an_amount_that_is_none(value: float) -> None:
    """A budget or a price that is no amount is refused where it was given."""
    with pytest.raises(SpecError, match=r"--budget-usd: .* is no amount"):
        checked_usd(value, "--budget-usd")
    assert checked_usd(0, "--budget-usd") == 0.0
