"""Secrets taken out of texts, in any form that software likes to repeat them in."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence

from gate.model import Json

MAX_QUOTE_CHARS = 200
MIN_SECRET_CHARS = 8  # a shorter key ("none", "ollama") is no secret, and may stand in a program


class Redaction:
    """Takes secrets out of texts: as they are, URL-encoded, and in base64 at any alignment."""

    def __init__(self, secrets: Sequence[str | None]) -> None:
        known = [secret for secret in secrets if secret]
        self._any = _pattern(known)
        self._long = _pattern([secret for secret in known if len(secret) >= MIN_SECRET_CHARS])

    def quote(self, text: str) -> str:
        """Somebody else's text for a sentence of ours: no secrets, one line, printable, short."""
        clean = self._any.sub("[key]", text) if self._any else text
        words = "".join(char if char.isprintable() else " " for char in clean).split()
        line = " ".join(words)
        return line if len(line) <= MAX_QUOTE_CHARS else line[: MAX_QUOTE_CHARS - 1] + "…"

    def of_json(self, value: Json) -> Json:
        """A JSON value without secrets in its texts; what is too short to be one stays."""
        if self._long is None:
            return value
        if isinstance(value, str):
            return self._long.sub("[key]", value)
        if isinstance(value, list):
            return [self.of_json(item) for item in value]
        if isinstance(value, dict):
            return {key: self.of_json(item) for key, item in value.items()}
        return value


def _pattern(secrets: list[str]) -> re.Pattern[str] | None:
    """Finds any form of any secret, the longest secret first; None where there is no secret."""
    longest_first = sorted(secrets, key=len, reverse=True)
    forms = [
        form for secret in longest_first for form in (_url_form(secret), *map(re.escape, sorted(_base64_forms(secret))))
    ]
    return re.compile("|".join(forms)) if forms else None


def _url_form(secret: str) -> str:
    """A pattern for a secret with any of its characters URL-encoded: libraries differ in which they spare."""
    return "".join(f"(?:{re.escape(char)}|(?i:{''.join(f'%{byte:02x}' for byte in char.encode())}))" for char in secret)


def _base64_forms(secret: str) -> set[str]:
    """The characters that depend on nothing but the secret, wherever it stands in a text in base64."""
    forms: set[str] = set()
    for offset in range(3):
        padded = bytes(offset) + secret.encode()
        first, last = (8 * offset + 5) // 6, 8 * len(padded) // 6
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            forms.add(encode(padded).decode()[first:last])
    return forms - {""}
