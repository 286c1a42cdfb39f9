"""The number of messages of each group that are looked at."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlq.explain.groups import SAMPLED_BYTES, SAMPLED_MESSAGES, sampling_rates

MOST_OF_A_GROUP = 2000
COUNTS = st.lists(st.integers(1, 10**7), min_size=1, max_size=300)


def rates_of(counts: list[int], mean_bytes: int = 1024) -> list[float]:
    named = {f"g-{n}": count for n, count in enumerate(counts)}
    rates = sampling_rates(named, sum(counts) * mean_bytes)
    assert list(rates) == list(named)
    return [*rates.values()]


@given(COUNTS, st.sampled_from([1, 1024, 262_144, 1_048_576]))
def test_the_sample_is_bounded_in_messages_and_in_bytes(counts: list[int], mean_bytes: int) -> None:
    rates = rates_of(counts, mean_bytes)

    size = min(SAMPLED_MESSAGES, SAMPLED_BYTES / mean_bytes)
    expected = sum(rate * count for rate, count in zip(rates, counts, strict=True))
    assert expected <= size * (1 + 1e-9)


@given(COUNTS)
def test_a_smaller_group_is_never_looked_at_less(counts: list[int]) -> None:
    rates = rates_of(counts)

    # From the smallest to the largest; of equal groups, the one with the higher rate first.
    groups = sorted(zip(counts, rates, strict=True), key=lambda group: (group[0], -group[1]))
    assert [rate for _, rate in groups] == sorted(rates, reverse=True)


def test_small_groups_leave_their_part_to_large_ones() -> None:
    rates = rates_of([1_000_000] * 9 + [10] * 91)

    assert rates[-1] == 1.0
    assert rates[0] * 1_000_000 == pytest.approx(MOST_OF_A_GROUP, rel=0.2)


def test_no_group_takes_more_than_its_differences_need() -> None:
    rate = rates_of([50_000, 10**9])[0]

    assert rate * 50_000 == pytest.approx(MOST_OF_A_GROUP)


def test_large_bodies_make_the_sample_small() -> None:
    (rate,) = rates_of([10_000], mean_bytes=1_048_576)

    assert rate * 10_000 == pytest.approx(SAMPLED_BYTES / 1_048_576 / 2)


def test_without_messages_nothing_is_divided_by_none() -> None:
    assert sampling_rates({}, 0) == {}
