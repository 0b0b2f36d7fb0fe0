"""A share that a report states beside its counts is theirs, or is found without any record."""

from __future__ import annotations

import pytest

from gate.report.markdown import interval, share
from gate.report.shares import wrong_shares


@pytest.mark.parametrize(("part", "whole"), [(0, 1), (1, 1), (116, 157), (460, 554), (999_999, 1_000_000)])
def test_what_reports_write_is_right(part: int, whole: int) -> None:
    """The words of the renderers themselves give nothing to find, in a sentence and in a table's row."""
    row = f"| gate | {part} / {whole} | {interval(part, whole)} |"
    assert not list(wrong_shares(f"{share(part, whole)} tasks delivered\n{row}\n{row.replace(' | ', ' ')}"))


@pytest.mark.parametrize(
    ("claimed", "derived"),
    [
        ("123 of 157 (79.3 %)", "123 of 157 (78.3 %)"),
        ("122 of 157 (78.3 %)", "122 of 157 (77.7 %)"),
        ("107 / 157 | 68.15 % [61.51, 74.93]", "107 / 157 | 68.15 % [60.51, 74.93]"),
        ("107 / 157 68.25 % [60.51, 74.99]", "107 / 157 68.15 % [60.51, 74.93]"),
        ("158 of 157 (100.6 %)", "a part of a whole"),
        ("0 of 0 (0.0 %)", "a part of a whole"),
    ],
)
def test_a_changed_share_is_found(claimed: str, derived: str) -> None:
    """Whichever of its figures was changed, what the counts give is said beside it."""
    assert list(wrong_shares(f"so {claimed} of them")) == [(claimed, derived)]


@pytest.mark.parametrize("text", ["8 / 80 | 45.86 %", "1.5 of 3 (12.0 %)", f"{'9' * 5000} of 3 (12.0 %)", "3 of 4"])
def test_what_is_no_share_is_left_alone(text: str) -> None:
    """A percentage in the next column may be another count's, and a number too long to be one is none."""
    assert not list(wrong_shares(text))
