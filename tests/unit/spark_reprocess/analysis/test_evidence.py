"""The G-test: whether chance explains the difference of two shares."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_reprocess.analysis.leads.contrast import evidence
from spark_reprocess.analysis.leads.leads import ALPHA

SMALL = st.integers(1, 60)


def evidence_of(share_1: float, count_1: float, share_2: float, count_2: float) -> float:
    numbers = (share_1, count_1, share_2, count_2)
    return float(evidence(*(np.array([float(one)]) for one in numbers))[0])


def g_statistic(table: list[list[int]]) -> float:
    """The textbook formula: 2 * sum(observed * log(observed / expected))."""
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

    found = evidence_of(has / own, own, other_has / others, others)

    assert found == pytest.approx(
        g_statistic([[has, lacks], [other_has, other_lacks]]) / 2, abs=1e-9
    )


def test_equal_shares_pass_no_more_often_than_the_level() -> None:
    """By simulation: binomial counts with one true share, and how often one passes alone."""
    chance = np.random.default_rng(7)
    needed = math.log(1 / ALPHA)
    drawn_1, drawn_2 = chance.binomial(60, 0.3, 200_000), chance.binomial(400, 0.3, 200_000)
    looks = drawn_1 / 60, np.full(200_000, 60.0), drawn_2 / 400, np.full(200_000, 400.0)

    passed = (evidence(*looks) >= needed) & (looks[0] > looks[2])

    assert passed.mean() <= ALPHA
