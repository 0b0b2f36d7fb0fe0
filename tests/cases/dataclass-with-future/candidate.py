from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar


@dataclass(slots=True)
class Pair:
    kinds: ClassVar[list[str]] = []
    a: int = 0
    b: int = field(default=0)


def add(a, b):
    pair = Pair(a, b)
    return pair.a + pair.b
