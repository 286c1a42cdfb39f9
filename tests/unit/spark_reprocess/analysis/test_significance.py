"""Chance, and how much a difference tells."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_reprocess.analysis.significance import (
    ALPHA,
    Floats,
    bits,
    evidence,
    greatest_evidence,
    threshold,
)

SHARES = st.floats(0, 1)
COUNTS = st.integers(1, 10**6)
SMALL = st.integers(1, 60)


def told(share_1: float, count_1: float, share_2: float, count_2: float) -> float:
    return float(bits(*arrays(share_1, count_1, share_2, count_2))[0])


def weighed(share_1: float, count_1: float, share_2: float, count_2: float) -> float:
    return float(evidence(*arrays(share_1, count_1, share_2, count_2))[0])


def arrays(*numbers: float) -> list[Floats]:
    return [np.array([float(one)]) for one in numbers]


def g_of(table: list[list[int]]) -> float:
    """Textbook: twice the sum of observed times the logarithm of observed by expected."""
    total = sum(map(sum, table))
    rows, columns = (
        [sum(row) for row in table],
        [sum(column) for column in zip(*table, strict=True)],
    )
    return 2 * sum(
        seen * math.log(seen * total / (rows[i] * columns[j]))
        for i, row in enumerate(table)
        for j, seen in enumerate(row)
        if seen
    )


@given(SMALL, SMALL, SMALL, SMALL)
def test_evidence_is_half_of_g(has: int, lacks: int, other_has: int, other_lacks: int) -> None:
    own, others = has + lacks, other_has + other_lacks

    found = weighed(has / own, own, other_has / others, others)

    assert found == pytest.approx(g_of([[has, lacks], [other_has, other_lacks]]) / 2, abs=1e-9)


def test_evidence_of_no_messages_is_none() -> None:
    assert weighed(0, 0, 0, 0) == 0
    assert weighed(1, 5, 0, 5) == pytest.approx(10 * math.log(2))


@given(SHARES, COUNTS, SHARES, COUNTS)
def test_evidence_is_never_negative_and_knows_no_side(
    share_1: float, count_1: int, share_2: float, count_2: int
) -> None:
    here = weighed(share_1, count_1, share_2, count_2)

    assert here >= -1e-6
    assert here == pytest.approx(weighed(share_2, count_2, share_1, count_1), abs=1e-4)
    assert here == pytest.approx(weighed(1 - share_1, count_1, 1 - share_2, count_2), abs=1e-4)


@given(SHARES, SMALL, SHARES, SMALL, st.integers(2, 9))
def test_more_messages_with_the_same_shares_are_more_evidence(
    share_1: float, count_1: int, share_2: float, count_2: int, times: int
) -> None:
    few = weighed(share_1, count_1, share_2, count_2)

    assert weighed(share_1, times * count_1, share_2, times * count_2) == pytest.approx(
        times * few, abs=1e-5
    )


@given(st.data(), SMALL, SMALL)
def test_no_split_of_the_same_messages_has_more_than_the_greatest_evidence(
    data: st.DataObject, count_1: int, count_2: int
) -> None:
    together = data.draw(st.integers(0, count_1 + count_2))
    first = data.draw(st.integers(max(0, together - count_2), min(together, count_1)))
    share_1, share_2 = first / count_1, (together - first) / count_2

    most = float(greatest_evidence(*arrays(together, count_1, count_2))[0])

    if share_1 > share_2:
        assert weighed(share_1, count_1, share_2, count_2) <= most + 1e-9


@given(SHARES, COUNTS, SHARES, COUNTS)
def test_a_share_that_may_not_be_larger_tells_nothing(
    share_1: float, count_1: int, share_2: float, count_2: int
) -> None:
    found = told(share_1, count_1, share_2, count_2)

    assert found >= 0
    if share_1 <= share_2:
        assert found == 0


@given(st.floats(0.5, 1), SMALL, st.floats(0, 0.3), st.integers(20, 500))
def test_what_is_seen_in_more_messages_tells_more(
    share_1: float, count_1: int, share_2: float, count_2: int
) -> None:
    assert (
        told(share_1, 4 * count_1, share_2, 4 * count_2)
        >= told(share_1, count_1, share_2, count_2) - 1e-9
    )


def test_bits_approach_the_divergence_of_the_shares() -> None:
    divergence = 0.9 * math.log2(0.9 / 0.1) + 0.1 * math.log2(0.1 / 0.9)

    assert told(0.9, 10**9, 0.1, 10**9) == pytest.approx(divergence, rel=1e-3)
    assert told(0.9, 30, 0.1, 30) < divergence / 2


def test_a_threshold_counts_the_looks_that_could_pass_it() -> None:
    able, unable = np.full(50, 1000.0), np.full(100_000, 2.0)

    assert threshold(np.concatenate([able, unable]), 1) == pytest.approx(math.log(50 / ALPHA))
    assert threshold(able, 8) == pytest.approx(math.log(8 * 50 / ALPHA))


@given(st.lists(st.floats(0, 30), min_size=1, max_size=60), st.integers(1, 9))
def test_the_threshold_is_tarone_s(greatest: list[float], families: int) -> None:
    """The smallest k for which at most k looks can reach what is needed among k."""
    needed = [math.log(k * families / ALPHA) for k in range(1, len(greatest) + 1)]
    smallest = next(one for k, one in enumerate(needed, 1) if sum(g >= one for g in greatest) <= k)

    assert threshold(np.array(greatest), families) == pytest.approx(smallest)


def test_without_looks_nothing_passes() -> None:
    assert threshold(np.array([]), 3) == math.inf


@given(st.lists(st.floats(0, 1000), max_size=50), st.integers(1, 100))
def test_more_families_and_more_looks_need_more(greatest: list[float], families: int) -> None:
    looks = np.array(greatest)
    needed = threshold(looks, families)

    assert threshold(looks, 2 * families) >= needed
    if greatest:
        assert needed >= math.log(families / ALPHA)
        assert threshold(np.append(looks, 10_000.0), families) >= min(needed, 1e9) - 1e-9


def test_of_equal_shares_the_report_s_level_is_kept() -> None:
    """By simulation: binomial counts with one true share, and how often one passes alone."""
    chance = np.random.default_rng(7)
    needed = threshold(np.full(1, math.inf), 1)
    drawn_1, drawn_2 = chance.binomial(60, 0.3, 200_000), chance.binomial(400, 0.3, 200_000)
    looks = drawn_1 / 60, np.full(200_000, 60.0), drawn_2 / 400, np.full(200_000, 400.0)

    passed = (evidence(*looks) >= needed) & (looks[0] > looks[2])

    assert passed.mean() <= ALPHA
