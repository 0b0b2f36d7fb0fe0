"""Secrets in texts of other people's making."""

from __future__ import annotations

import base64
from collections.abc import Callable
from urllib.parse import quote

import pytest

from gate.backends.redaction import Redaction

KEY = "sk-test/K+y=0123456789abcdef"


@pytest.mark.parametrize("key", [KEY, "sk-12345", "key with öäü in it"])
@pytest.mark.parametrize(
    "form",
    [
        lambda key: key,
        lambda key: quote(key, safe=""),
        lambda key: quote(key, safe="").replace("%2B", "%2b"),
        lambda key: base64.b64encode(key.encode()).decode(),
        lambda key: base64.b64encode(b"Bearer " + key.encode()).decode(),
        lambda key: base64.urlsafe_b64encode(b"x" + key.encode() + b"y").decode(),
    ],
    ids=["plain", "URL", "URL, small", "base64", "base64 of a header", "base64 for URLs"],
)
def test_a_key_is_taken_out_in_every_form(key: str, form: Callable[[str], str]) -> None:
    """Whatever form a key is repeated in, neither a sentence nor a record shows it."""
    text = form(key)
    for shown in (Redaction([key]).quote(f"<{text}>"), Redaction([key]).of_json({"a": [f"<{text}>"]})["a"][0]):
        assert text not in shown and "[key]" in shown


def test_a_word_that_is_no_secret_stays() -> None:
    """A stand-in for a key is taken out of errors, and never out of a program that happens to use the word."""
    redaction = Redaction(["ollama"])
    assert redaction.of_json(["import ollama"]) == ["import ollama"]
    assert redaction.quote("key ollama") == "key [key]"
    assert Redaction([None, ""]).quote("as it is") == "as it is"
    nested = {"a": [f"x{KEY}y", 1, None]}
    assert Redaction([KEY]).of_json(nested) == {"a": ["x[key]y", 1, None]}
