"""Exact figures, against an independent implementation and at the edges."""

from __future__ import annotations

import math
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, binomtest

from gate import stats
from gate.stats import Z_95, holm, mcnemar, pass_at_k, pooled, smallest_shown_pp, tango, wilson

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


# k = min(b, c), m = b + c; R 4: binom.test(k, m)$p.value and 2 * pbinom(k, m, .5) - dbinom(k, m, .5),
# printed with options(digits = 17).
MCNEMAR = [
    (13, 5, 0.096252441406250014, 0.063568115234374972),
    (31, 8, 0.00029407687543425709, 0.00018216582975583162),
    (25, 10, 0.016673847800120739, 0.011330984183587169),
    (14, 0, 0.00012207031249999999, 6.1035156249999959e-05),
    (1, 7, 0.070312500000000028, 0.039062500000000014),
    (501, 500, 1.0, 0.97480015649047991),
    (700, 600, 0.0060157938610449655, 0.0055435587095012586),
    (501_000, 499_000, 0.045608299865382104, 0.045500317887363188),
    (510_000, 490_000, 5.5443632876992246e-89, 5.435385263769474e-89),
    (500_500, 499_500, 0.31779469136330574, 0.31731074983361057),
]
# mpmath 1.4, 40 digits: twice the sum of binomial(m, i) / 2**m for i up to k.
FAR_OUT = (515_000, 485_000, 9.4524062525715838605e-198, 9.1767973886823050286e-198)
# statsmodels 0.15: mcnemar([[n - b - c, b], [c, 0]], exact=True).pvalue
STATSMODELS = [(31, 8, 0.0002940768754342571), (25, 10, 0.016673847800120715), (13, 5, 0.09625244140625)]
# R 4: uniroot over d of (b - c - n d)^2 / (n (2 q + d (1 - d))) - qnorm(.975)^2, where q maximises
# b log(q + d) + c log(q) + (n - b - c) log(1 - d - 2 q) by optimize: no closed form anywhere.
TANGO = [
    (7, 1, 21, 0.0260030307941, 0.517232275822),
    (13, 5, 179, -0.0019468423001, 0.0966414622952),
    (31, 8, 120, 0.0946018811119, 0.289585980568),
    (25, 10, 189, 0.0189466127383, 0.143159967589),
    (24, 9, 371, 0.0106892633873, 0.0732707070779),
    (3, 3, 50, -0.114198660958, 0.114198661379),
]
pairs = st.integers(1, 3000).flatmap(
    lambda n: st.integers(0, n).flatmap(lambda m: st.tuples(st.integers(0, m), st.just(m), st.just(n)))
)


@pytest.mark.parametrize(("b", "c", "p", "mid"), [*MCNEMAR, FAR_OUT])
def test_mcnemar_agrees_with_r(b: int, c: int, p: float, mid: float) -> None:
    """Exact p and mid-p are R's to twelve digits, from a handful of pairs to a million."""
    result = mcnemar(b=b, c=c, n=2_000_000)
    assert result.p_exact == pytest.approx(p, rel=1e-12, abs=0)
    assert result.p_mid == pytest.approx(mid, rel=1e-12, abs=0)


@pytest.mark.parametrize(("b", "c", "p"), STATSMODELS)
def test_mcnemar_agrees_with_statsmodels(b: int, c: int, p: float) -> None:
    """The exact p is that of a second library, too."""
    assert mcnemar(b=b, c=c, n=400).p_exact == pytest.approx(p, rel=1e-13, abs=0)


@given(pairs)
def test_mcnemar_is_symmetric(counts: tuple[int, int, int]) -> None:
    """Swapping the two turns the difference around and keeps every p."""
    b, m, n = counts
    one, other = mcnemar(b=b, c=m - b, n=n), mcnemar(b=m - b, c=b, n=n)
    assert (one.p_exact, one.p_mid, one.delta_pp) == (other.p_exact, other.p_mid, -other.delta_pp)
    assert one.ci95_pp == (-other.ci95_pp[1], -other.ci95_pp[0])


@given(pairs)
def test_what_holds_for_any_counts(counts: tuple[int, int, int]) -> None:
    """mid-p ≤ p ≤ 1, the interval holds the difference and stays within ±100."""
    b, m, n = counts
    result = mcnemar(b=b, c=m - b, n=n)
    assert 0 <= result.p_mid <= result.p_exact <= 1
    low, high = result.ci95_pp
    assert -100 <= low <= result.delta_pp + 1e-9 and result.delta_pp - 1e-9 <= high <= 100
    assert low < high


@given(st.integers(0, 60), st.integers(0, 60))
def test_small_counts_are_exact_fractions(b: int, c: int) -> None:
    """p is the fraction itself, rounded once."""
    tail = Fraction(sum(math.comb(b + c, i) for i in range(min(b, c) + 1)), 2 ** (b + c))
    assert mcnemar(b=b, c=c, n=b + c + 1).p_exact == float(min(Fraction(1), 2 * tail))


@pytest.mark.parametrize("k", [5000, 4990, 4700, 4000, 3300])
def test_the_two_ways_meet(k: int) -> None:
    """Whole numbers and the series give one answer where the first hands over to the second."""
    whole, series = stats._half_binomial(k, 10_000), stats._half_binomial_of_many(k, 10_000)
    assert series == pytest.approx(whole, rel=1e-12, abs=0)
    assert series == pytest.approx((binom.cdf(k, 10_000, 0.5), binom.pmf(k, 10_000, 0.5)), rel=1e-10, abs=0)


@pytest.mark.parametrize(("b", "c"), [(1_000_000, 0), (0, 1_000_000), (900_000, 100_000), (500_000, 500_000)])
def test_a_million_pairs_neither_overflow_nor_wait(b: int, c: int) -> None:
    """A million discordant pairs give 0 where p is below any float, and 1 where they are even."""
    result = mcnemar(b=b, c=c, n=1_000_000)
    assert result.p_exact == result.p_mid == (1.0 if b == c else 0.0)


@pytest.mark.parametrize("n", [1, 50, 371])
def test_no_discordant_task_has_p_1_and_a_width(n: int) -> None:
    """b + c = 0: p = mid-p = 1, no difference seen, and an interval of z² / (n + z²) either way."""
    result = mcnemar(b=0, c=0, n=n)
    assert (result.delta_pp, result.p_exact, result.p_mid) == (0, 1, 1)
    edge = 100 * Z_95**2 / (n + Z_95**2)
    assert result.ci95_pp == pytest.approx((-edge, edge))


@pytest.mark.parametrize(("b", "c", "n"), [(-1, 0, 5), (0, -1, 5), (3, 3, 5), (0, 0, 0)])
def test_counts_that_cannot_be_are_refused(b: int, c: int, n: int) -> None:
    """Negative counts, more discordant tasks than tasks, or no task at all: no comparison."""
    for figure in (mcnemar, tango, smallest_shown_pp):
        with pytest.raises(ValueError, match="no paired counts"):
            figure(b=b, c=c, n=n)


@pytest.mark.parametrize(("b", "c", "n", "low", "high"), TANGO)
def test_tango_agrees_with_r(b: int, c: int, n: int, low: float, high: float) -> None:
    """The score interval is that of a likelihood maximised numerically."""
    assert tango(b=b, c=c, n=n) == pytest.approx((low, high), abs=1e-7)


def test_tango_agrees_with_print() -> None:
    """Airway reactivity of 21 children, b = 7, c = 1 (Fagerland, Lydersen and Laake 2014): 0.026 to 0.517."""
    assert [round(edge, 3) for edge in tango(b=7, c=1, n=21)] == [0.026, 0.517]


def test_all_one_way_reaches_the_end() -> None:
    """b = n ends at exactly 100 points, c = n at -100; both have a width."""
    assert tango(b=50, c=0, n=50)[1] == 1.0
    assert tango(b=0, c=50, n=50)[0] == -1.0
    assert tango(b=50, c=0, n=50)[0] == pytest.approx(50 / (50 + Z_95**2) * 2 - 1)


SHARES = [(0.1, 0.1), (0.2, 0.1), (0.3, 0.05), (0.25, 0.25), (0.2, 0.02), (0.4, 0.1)]


def coverage(n: int, first: float, second: float, *, samples: int, seed: int) -> float:
    """How often the interval holds the true difference."""
    drawn = np.random.default_rng(seed).multinomial(n, [first, second, 1 - first - second], size=samples)
    counts, times = np.unique(drawn, axis=0, return_counts=True)
    held = 0
    for (b, c, _), weight in zip(counts.tolist(), times.tolist(), strict=True):
        low, high = tango(b=b, c=c, n=n)
        held += weight * (low <= first - second <= high)
    return held / samples


@pytest.mark.parametrize("n", [50, 100, 200, 400])
def test_the_interval_covers(n: int) -> None:
    """In 3,000 samples the 95 % interval holds the truth at least 94 times in a hundred."""
    for first, second in SHARES:
        assert coverage(n, first, second, samples=3000, seed=n) >= 0.94, (first, second)


@pytest.mark.soak
def test_the_interval_covers_over_many_truths() -> None:
    """Over many truths: 94 % at each with twenty discordant tasks or more, 93 % from eight up, 95 % on the whole."""
    chance = np.random.default_rng(11)
    shares = []
    for trial in range(300):
        n = int(chance.integers(50, 401))
        first, second = sorted(chance.uniform(0, 0.3, size=2), reverse=True)
        if n * (first + second) >= 8:
            shares.append((n * (first + second), coverage(n, first, second, samples=20_000, seed=trial)))
    assert len(shares) > 150
    assert min(share for _, share in shares) >= 0.93
    assert min(share for expected, share in shares if expected >= 20) >= 0.94
    assert np.mean([share for _, share in shares]) >= 0.949


def test_holm_agrees_with_r() -> None:
    """R 4: p.adjust(c(.01, .04, .03, .005), "holm") and p.adjust(c(.0135, .0241, .0414, .0963), "holm")."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx((0.03, 0.06, 0.06, 0.02))
    assert holm([0.0135, 0.0241, 0.0414, 0.0963]) == pytest.approx((0.054, 0.0723, 0.0828, 0.0963))
    assert holm([]) == ()


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_only_raises_and_keeps_the_order(ps: list[float]) -> None:
    """No adjusted p is below its own, above 1, or out of order."""
    adjusted = holm(ps)
    assert all(p <= raised <= 1 for p, raised in zip(ps, adjusted, strict=True))
    ranked = [adjusted[index] for index in sorted(range(len(ps)), key=ps.__getitem__)]
    assert ranked == sorted(ranked)


def test_05_is_unresolved() -> None:
    """A p of exactly .05 resolves nothing, one just below does."""
    assert not stats.is_resolved(0.05)
    assert stats.is_resolved(math.nextafter(0.05, 0))


@given(st.lists(pairs, min_size=1, max_size=4))
def test_pooling_adds_tasks(parts: list[tuple[int, int, int]]) -> None:
    """Several banks together: the difference is the mean weighted by tasks, the test that of the sums."""
    each = [mcnemar(b=b, c=m - b, n=n) for b, m, n in parts]
    whole = pooled(each)
    weighted = sum(part.delta_pp * part.n for part in each) / sum(part.n for part in each)
    assert whole.delta_pp == pytest.approx(weighted, abs=1e-9)
    assert (whole.b, whole.c, whole.n) == tuple(sum(getattr(part, name) for part in each) for name in "bcn")


def test_pass_at_k_agrees_with_the_product() -> None:
    """1 - prod(1 - k / i for i from n - c + 1 to n), as the paper's own listing computes it."""
    for n, correct, k in [(5, 2, 1), (5, 2, 3), (200, 7, 100), (100, 0, 10), (10, 10, 1), (5, 4, 2)]:
        product = math.prod(1 - k / i for i in range(n - correct + 1, n + 1)) if n - correct >= k else 0.0
        assert pass_at_k(n=n, correct=correct, k=k) == pytest.approx(1 - product, abs=1e-12)


@pytest.mark.parametrize(("n", "correct", "k"), [(5, 2, 0), (5, 2, 6), (5, 6, 1), (5, -1, 1)])
def test_pass_at_k_wants_k_of_n(n: int, correct: int, k: int) -> None:
    """More draws than there are, or more right ones, have no estimate."""
    with pytest.raises(ValueError, match="no pass@"):
        pass_at_k(n=n, correct=correct, k=k)


@pytest.mark.parametrize(("b", "c", "n"), [(13, 5, 179), (24, 9, 371), (0, 0, 100)])
def test_the_smallest_difference_is_shown_four_times_in_five(b: int, c: int, n: int) -> None:
    """Samples with that true difference come below .05 in 80 % of cases, and no oftener with a tenth less."""
    delta = (smallest_shown_pp(b=b, c=c, n=n) or 0) / 100
    assert shown(delta, max((b + c) / n, delta), n) == pytest.approx(0.80, abs=0.02)
    assert shown(0.9 * delta, max((b + c) / n, 0.9 * delta), n) < 0.78


def shown(delta: float, discordant: float, n: int) -> float:
    """How often 5,000 samples come below .05."""
    first, second = (discordant + delta) / 2, (discordant - delta) / 2
    drawn = np.random.default_rng(7).multinomial(n, [first, second, 1 - discordant], size=5000)
    counts, times = np.unique(drawn[:, :2], axis=0, return_counts=True)
    below = [stats.is_resolved(mcnemar(b=b, c=c, n=n).p_exact) for b, c in counts.tolist()]
    return float(np.dot(below, times) / 5000)


def test_too_few_tasks_show_nothing() -> None:
    """Five tasks, all one way, have p = .0625: no difference is ever shown; six can show one."""
    assert smallest_shown_pp(b=0, c=0, n=5) is None
    assert smallest_shown_pp(b=0, c=0, n=6) == pytest.approx(100 * 0.8 ** (1 / 6), abs=0.01)


def test_more_tasks_show_less() -> None:
    """The smallest difference falls as tasks are added at one share of discordant ones."""
    shown_pp = [smallest_shown_pp(b=n // 10, c=n // 20, n=n) or 100 for n in (40, 160, 640, 200_000)]
    assert shown_pp == sorted(shown_pp, reverse=True)
    assert shown_pp[-1] < 0.3
