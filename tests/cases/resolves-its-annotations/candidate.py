from __future__ import annotations

import typing


class Later:
    pass


def add(a: int, b: Later | int) -> int:
    hints = typing.get_type_hints(add)
    return a + b if hints["b"] == Later | int else None
