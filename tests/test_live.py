"""The live view: which tasks are under way, in a line that fits."""

from __future__ import annotations

from gate.cli.live import MAX_TASKS, current_line


def test_the_tasks_under_way() -> None:
    """Each has the draw that it is at, and many are counted."""
    assert current_line({}) == ""
    assert current_line({"a": 1, "b\x1b": 3}) == "now: a (draw 1), b\\x1b (draw 3)"
    many = current_line({f"t{number}": 1 for number in range(MAX_TASKS + 2)})
    assert many.endswith(f"t{MAX_TASKS - 1} (draw 1), and 2 more")
