"""Exact figures for counts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

Z_95 = 1.959963984540054  # the 0.975 quantile of the standard normal distribution
ALPHA = 0.05
POWER = 0.8
_EXACT_PAIRS = 10_000  # whole numbers up to here take milliseconds


def wilson(successes: int, n: int) -> tuple[float, float]:
    """Wilson's score interval for a proportion, 95 %, as fractions.

    Source: E. B. Wilson, Probable inference, the law of succession, and statistical
    inference, JASA 22 (1927) 209-212.

    Raises:
        ValueError: n is not positive, or successes are not within 0..n.
    """
    if n < 1 or not 0 <= successes <= n:
        raise ValueError(f"no proportion: {successes} of {n}")
    share = successes / n
    spread = Z_95 * math.sqrt(share * (1 - share) / n + Z_95**2 / (4 * n**2))
    centre = share + Z_95**2 / (2 * n)
    scale = 1 + Z_95**2 / n
    low = 0.0 if successes == 0 else (centre - spread) / scale
    high = 1.0 if successes == n else (centre + spread) / scale
    return low, high


@dataclass(frozen=True, slots=True, kw_only=True)
class Paired:
    """Two rules on the same tasks.

    Attributes:
        n: Tasks.
        b: Tasks on which the first alone succeeds.
        c: Tasks on which the second alone succeeds.
        delta_pp: The difference (b - c) / n, in percentage points.
        ci95_pp: Its 95 % interval, in percentage points.
        ci_method: How that was made.
        p_exact: The exact two-sided McNemar p.
        p_mid: Its mid-p.
    """

    n: int
    b: int
    c: int
    delta_pp: float
    ci95_pp: tuple[float, float]
    ci_method: str
    p_exact: float
    p_mid: float


def mcnemar(*, b: int, c: int, n: int) -> Paired:
    """What b and c of n say about two rules on the same tasks.

    Under the null hypothesis each of the b + c discordant tasks falls either way with
    probability 1/2, so the smaller count is binomial; p_exact doubles its lower tail
    (at most 1), p_mid the same with half of the observed count's own probability.
    Without discordant tasks both are 1. A p too small for a float is 0.0.

    Sources: Q. McNemar, Note on the sampling error of the difference between correlated
    proportions or percentages, Psychometrika 12 (1947) 153-157; M. W. Fagerland, S.
    Lydersen, P. Laake, The McNemar test for binary matched-pairs data: mid-p and
    asymptotic are better than exact conditional, BMC Med. Res. Methodol. 13 (2013) 91;
    the interval: `tango`.

    Raises:
        ValueError: The counts are negative, n is not positive, or b + c is above n.
    """
    _check_pairs(b, c, n)
    tail, point = _half_binomial(min(b, c), b + c)
    low, high = tango(b=b, c=c, n=n)
    return Paired(
        n=n,
        b=b,
        c=c,
        delta_pp=100 * (b - c) / n,
        ci95_pp=(100 * low, 100 * high),
        ci_method="tango",
        p_exact=min(1.0, 2 * tail),
        p_mid=1.0 if b == c else 2 * tail - point,
    )


def _check_pairs(b: int, c: int, n: int) -> None:
    if n < 1 or min(b, c) < 0 or b + c > n:
        raise ValueError(f"no paired counts: b = {b}, c = {c} of n = {n}")


def _half_binomial(k: int, n: int) -> tuple[float, float]:
    """P(X <= k) and P(X = k) for X binomial with n trials of 1/2, and k at most n / 2."""
    if n > _EXACT_PAIRS:
        return _half_binomial_of_many(k, n)
    ways = total = 1
    for each in range(k):
        ways = ways * (n - each) // (each + 1)
        total += ways
    return total / 2**n, ways / 2**n  # whole numbers of any size divide with one rounding


def _half_binomial_of_many(k: int, n: int) -> tuple[float, float]:
    """The same to about twelve digits, where whole numbers would take minutes.

    P(X = k) is Stirling's series with its exponent taken apart so that nothing cancels,
    as in C. Loader, Fast and accurate computation of binomial probabilities (2000); the
    terms below it follow by their ratios. scipy.stats.binom.cdf loses a digit more here.
    """
    skew = (n - 2 * k) / n
    if n * skew**2 > 1500:
        return 0.0, 0.0  # below exp(-750), smaller than any float
    exponent = n * math.fsum(skew ** (2 * j) / (2 * j * (2 * j - 1)) for j in range(1, 30))
    exponent += _stirling_rest(k) + _stirling_rest(n - k) - _stirling_rest(n)
    point = math.sqrt(n / (2 * math.pi * k * (n - k))) * math.exp(-exponent)
    return point * math.fsum(_ratios_below(k, n)), point


def _ratios_below(k: int, n: int) -> Iterator[float]:
    """P(X = i) / P(X = k) for i = k, k - 1, … until nothing is added."""
    ratio = 1.0
    while ratio > 1e-18:
        yield ratio
        ratio *= k / (n - k + 1)
        k -= 1


def _stirling_rest(n: int) -> float:
    """ln n! beyond ln sqrt(2 pi n) + n ln n - n, for large n."""
    return 1 / (12 * n) - 1 / (360 * n**3)


def tango(*, b: int, c: int, n: int) -> tuple[float, float]:
    """Tango's score interval for a difference of paired proportions, 95 %, as fractions.

    It holds every difference that a score test at 5 % does not reject. With no
    discordant task, or all of them one way, it still has a width.

    Source: T. Tango, Equivalence test and confidence interval for the difference in
    proportions for the paired-sample design, Statistics in Medicine 17 (1998) 891-908.

    Raises:
        ValueError: As for `mcnemar`.
    """
    _check_pairs(b, c, n)
    return -_tango_upper(c, b, n), _tango_upper(b, c, n)


def _tango_upper(b: int, c: int, n: int) -> float:
    """The largest difference that is not rejected, by bisection down to neighbouring floats."""
    low, high = (b - c) / n, 1.0
    if b == n:
        return 1.0
    while low < (middle := (low + high) / 2) < high:
        if (b - c - n * middle) ** 2 <= Z_95**2 * n * _score_variance(b, c, n, middle):
            low = middle
        else:
            high = middle
    return low


def _score_variance(b: int, c: int, n: int, delta: float) -> float:
    """n times the variance of the difference where it is truly delta: Tango's 2 q + delta (1 - delta).

    q, the likeliest share of second-only tasks under that difference, is the larger root
    of 2 n q² + B q - c delta (1 - delta) = 0 with B = (2 n - b + c) delta - b - c.
    """
    if delta < 0:
        return _score_variance(c, b, n, -delta)
    linear = (2 * n - b + c) * delta - b - c
    constant = c * delta * (1 - delta)
    root = math.sqrt(linear**2 + 8 * n * constant)
    # Whichever form does not subtract two numbers that are nearly equal.
    share = 2 * constant / (linear + root) if linear > 0 else (root - linear) / (4 * n)
    return 2 * share + delta * (1 - delta)


def holm(ps: Sequence[float]) -> tuple[float, ...]:
    """The p values of one family of comparisons, each adjusted for the others, in their order.

    Source: S. Holm, A simple sequentially rejective multiple test procedure,
    Scandinavian Journal of Statistics 6 (1979) 65-70.
    """
    adjusted = [0.0] * len(ps)
    highest = 0.0
    for rank, index in enumerate(sorted(range(len(ps)), key=ps.__getitem__)):
        highest = max(highest, min(1.0, (len(ps) - rank) * ps[index]))
        adjusted[index] = highest
    return tuple(adjusted)


def is_resolved(p: float) -> bool:
    """Whether a p says something; from .05 up it does not, which is not to say that nothing is there."""
    return p < ALPHA


def pooled(parts: Iterable[Paired]) -> Paired:
    """Several banks as one, each a stratum with the weight of its tasks.

    The difference weighted by tasks is that of the sums. So is the exact test: under the
    null hypothesis a discordant task falls either way with probability 1/2 whatever its
    bank. The interval is that of the sums too; where banks differ it is somewhat wide,
    for it takes the difference between banks for chance.

    Raises:
        ValueError: There are none.
    """
    kept = tuple(parts)
    return mcnemar(b=sum(each.b for each in kept), c=sum(each.c for each in kept), n=sum(each.n for each in kept))


def pass_at_k(*, n: int, correct: int, k: int) -> float:
    """The chance that k of n draws hold a correct one, unbiased: 1 - C(n - correct, k) / C(n, k).

    Source: M. Chen et al., Evaluating large language models trained on code,
    arXiv:2107.03374 (2021), equation 1.

    Raises:
        ValueError: k is not within 1..n, or correct not within 0..n.
    """
    if not 1 <= k <= n or not 0 <= correct <= n:
        raise ValueError(f"no pass@{k}: {correct} correct of {n} draws")
    ways = math.comb(n, k)
    return (ways - math.comb(n - correct, k)) / ways


def smallest_shown_pp(*, b: int, c: int, n: int) -> float | None:
    """The smallest difference that n tasks would have shown at 80 % power, in percentage points.

    The power of the exact McNemar test at 5 %, two-sided, by summing over the number of
    discordant tasks. Their share is taken to be the observed one, or the difference
    itself where that is larger. None where no difference at all is shown that surely.

    Source: S. W. Duffy, Asymptotic and exact power for the McNemar test and its analogue
    with R controls per case, Biometrics 40 (1984) 1005-1015.

    Raises:
        ValueError: As for `mcnemar`.
    """
    _check_pairs(b, c, n)
    low, high = 0.0, 1.0
    if _power(high, 1.0, n) < POWER:
        return None
    while high - low > 1e-6:
        middle = (low + high) / 2
        shown = _power(middle, max((b + c) / n, middle), n) >= POWER
        low, high = (low, middle) if shown else (middle, high)
    return 100 * high


def _power(delta: float, discordant: float, n: int) -> float:
    """How often the exact test comes below .05, given the true difference and share of discordant tasks."""
    from scipy.stats import binom

    spread = 9 * math.sqrt(n * discordant * (1 - discordant)) + 1  # beyond nine deviations nothing is left
    first = max(0, math.floor(n * discordant - spread))
    pairs = list(range(first, min(n, math.ceil(n * discordant + spread)) + 1))
    # The largest count whose doubled tail is below .05: one below the quantile; -1 where none is.
    critical = binom.ppf(ALPHA / 2, pairs, 0.5) - 1
    one_way = (discordant + delta) / (2 * discordant)
    rejects = binom.cdf(critical, pairs, 1 - one_way) + binom.cdf(critical, pairs, one_way)
    chances: Any = binom.pmf(pairs, n, discordant)
    return math.fsum(chances * rejects)
