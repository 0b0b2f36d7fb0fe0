"""Exact figures for counts."""

from __future__ import annotations

import math

Z_95 = 1.959963984540054  # the 0.975 quantile of the standard normal distribution


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
