"""How much a difference of two shares tells, and whether chance explains it. Pure; numpy.

Two questions, two numbers. *Is it chance?* The G-test (S. S. Wilks, "The Large-Sample Distribution
of the Likelihood Ratio for Testing Composite Hypotheses", 1938; for counts in texts T. Dunning,
"Accurate Methods for the Statistics of Surprise and Coincidence", 1993): the log of how much better
two shares explain the counts than a single one. If there is no difference, a value above x comes up
with a probability of at most about exp(-x), so that among m looks none is above ln(m / alpha) but
with probability alpha (Bonferroni). Looks that could not reach that however their counts fell are
not counted (R. E. Tarone, "A Modified Bonferroni Method for Discrete Data", 1990): most values are
too rare. *How much does it tell?* The Kullback-Leibler divergence of the
two shares in bits, between the ends of their confidence intervals (E. B. Wilson, "Probable
Inference, the Law of Succession, and Statistical Inference", 1927) that are nearest to each other:
what is known with few messages counts for little.
"""

import math

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

ALPHA = 0.01
"""The chance that a whole report shows a lead where there is none."""

_Z = 1.96
"""Of the intervals: 95 %."""


def threshold(greatest: Floats, families: int) -> float:
    """What ``evidence`` must reach.

    Args:
        greatest: ``greatest_evidence`` of each look of one family.
        families: how many such families of looks there are.
    """
    descending = np.sort(greatest)[::-1]
    counted = np.arange(1, len(descending) + 1)
    needed = np.log(counted * families / ALPHA)
    following = np.append(descending[1:], -np.inf)
    return float(needed[np.argmax(following < needed)]) if len(needed) else math.inf


def greatest_evidence(together: Floats, count_1: Floats, count_2: Floats) -> Floats:
    """What ``evidence`` would be if of those *together* as many as can be were in the first."""
    first = np.minimum(together, count_1)
    second = np.maximum(together - first, 0.0)
    share_1, share_2 = first / np.maximum(count_1, 1e-9), second / np.maximum(count_2, 1e-9)
    return np.where(
        share_1 > share_2, evidence(share_1, count_1, np.minimum(share_2, 1), count_2), 0
    )


def evidence(share_1: Floats, count_1: Floats, share_2: Floats, count_2: Floats) -> Floats:
    """Half the G statistic, in nats, of these shares of so many messages each; 0 without any."""
    total = np.maximum(count_1 + count_2, 1e-9)
    pooled = (share_1 * count_1 + share_2 * count_2) / total
    return count_1 * _divergence(share_1, pooled) + count_2 * _divergence(share_2, pooled)


def bits(share_1: Floats, count_1: Floats, share_2: Floats, count_2: Floats) -> Floats:
    """What the first share being above the second tells, in bits per message; 0 if it may not be.

    From the lower end of the first interval to the upper end of the second.
    """
    low, high = _wilson(share_1, count_1, -1), _wilson(share_2, count_2, +1)
    return np.where(low > high, _divergence(low, high) / math.log(2), 0.0)


def _divergence(share: Floats, other: Floats) -> Floats:
    """Of two yes-or-no distributions, in nats."""
    other = np.clip(other, 1e-12, 1 - 1e-12)
    return _term(share, other) + _term(1 - share, 1 - other)


def _term(share: Floats, other: Floats) -> Floats:
    return np.where(share > 0, share * np.log(np.maximum(share, 1e-300) / other), 0.0)


def _wilson(share: Floats, count: Floats, sign: int) -> Floats:
    count = np.maximum(count, 1e-9)
    centre = share + _Z**2 / (2 * count)
    width = _Z * np.sqrt(share * (1 - share) / count + _Z**2 / (4 * count**2))
    return np.clip((centre + sign * width) / (1 + _Z**2 / count), 0.0, 1.0)
