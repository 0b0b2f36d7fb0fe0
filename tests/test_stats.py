"""Exact figures, against an independent implementation and at the edges."""

from __future__ import annotations

import math
from statistics import NormalDist

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from gate.stats import Z_95, wilson

proportions = st.integers(1, 100_000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@pytest.mark.parametrize("n", [1, 2, 3, 10, 157, 378, 1000, 1_000_000])
def test_wilson_agrees_with_scipy(n: int) -> None:
    """The interval is scipy's own to twelve digits, over a grid from none to all."""
    for successes in sorted({0, 1, n // 7, n // 3, n // 2, n - 1, n}):
        reference = binomtest(successes, n).proportion_ci(method="wilson")
        assert wilson(successes, n) == pytest.approx((reference.low, reference.high), rel=1e-12, abs=1e-15)


def test_the_quantile_is_that_of_95_percent() -> None:
    """The constant is the 0.975 quantile of the standard normal distribution."""
    assert pytest.approx(NormalDist().inv_cdf(0.975), rel=1e-14) == Z_95


@given(proportions)
def test_the_interval_holds_the_share_and_stays_a_share(count: tuple[int, int]) -> None:
    """0 ≤ low ≤ share ≤ high ≤ 1, without rounding over an edge."""
    successes, n = count
    low, high = wilson(successes, n)
    assert 0 <= low <= successes / n <= high <= 1
    assert low < high


@given(proportions)
def test_failures_have_the_mirrored_interval(count: tuple[int, int]) -> None:
    """Counting failures in place of successes turns the interval around."""
    successes, n = count
    low, high = wilson(successes, n)
    assert wilson(n - successes, n) == pytest.approx((1 - high, 1 - low), abs=1e-12)


@pytest.mark.parametrize("n", [1, 5, 164])
def test_none_and_all_are_exact_at_their_edge(n: int) -> None:
    """None of n begins at exactly 0, all of n ends at exactly 1."""
    assert wilson(0, n)[0] == 0.0
    assert wilson(n, n)[1] == 1.0
    assert wilson(0, n)[1] == pytest.approx(Z_95**2 / (n + Z_95**2))


def test_more_tasks_narrow_the_interval() -> None:
    """The width goes with one over the root of n."""
    small, large = wilson(50, 100), wilson(5000, 10_000)
    assert math.isclose((small[1] - small[0]) / (large[1] - large[0]), 10, rel_tol=0.02)


@pytest.mark.parametrize(("successes", "n"), [(0, 0), (1, 0), (0, -1), (-1, 5), (6, 5)])
def test_no_proportion_is_refused(successes: int, n: int) -> None:
    """Of no tasks, or of fewer than succeeded, there is no share to give an interval for."""
    with pytest.raises(ValueError, match="no proportion"):
        wilson(successes, n)
