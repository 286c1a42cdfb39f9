from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_reprocess.analysis.group_findings import MOST_BUCKETS, Buckets, buckets_between, trend_of

MOMENTS = st.integers(86_400, 4_000_000_000).map(lambda one: datetime.fromtimestamp(one, UTC))


@given(MOMENTS, st.timedeltas(timedelta(), timedelta(days=36_000)))
def test_buckets_cover_all_of_the_time_and_are_few(first: datetime, length: timedelta) -> None:
    last = first + length

    buckets = buckets_between(first, last)

    starts = [one.timestamp() for one in buckets.starts]
    assert 1 <= len(starts) <= MOST_BUCKETS
    assert starts[0] <= first.timestamp()
    assert last.timestamp() < starts[-1] + buckets.width_seconds
    assert all(start % buckets.width_seconds == 0 for start in starts)


def test_without_time_there_are_no_buckets() -> None:
    assert buckets_between(None, None) == Buckets(0, 1, 0)
    assert buckets_between(None, None).starts == ()


def test_buckets_are_as_wide_as_people_think() -> None:
    first = datetime(2026, 11, 21, 3, 7, 12, tzinfo=UTC)

    widths = [
        buckets_between(first, first + timedelta(**length)).width_seconds
        for length in ({"seconds": 30}, {"minutes": 40}, {"hours": 20}, {"days": 14})
    ]

    assert widths == [1, 60, 1800, 6 * 3600]


@pytest.mark.parametrize(
    ("arrivals", "word"),
    [
        ((), ""),
        ((9, 0, 0, 0), ""),
        ((5, 5, 5), ""),
        ((20, 20, 0, 0, 0, 0, 0, 0), "over"),
        ((1, 2, 20, 40), "rising"),
        ((40, 20, 2, 1), "falling"),
        ((10, 10, 10, 10), "steady"),
        ((4, 4, 6, 6), "steady"),
        ((100, 100, 140, 140), "steady"),
    ],
)
def test_a_trend_is_a_word_where_enough_is_known(arrivals: tuple[int, ...], word: str) -> None:
    assert trend_of(arrivals) == word


@given(st.lists(st.integers(0, 1000), max_size=MOST_BUCKETS))
def test_what_rises_falls_when_time_runs_backwards(arrivals: list[int]) -> None:
    opposite = {"rising": ("falling", "over"), "falling": ("rising", "over")}
    word, back = trend_of(arrivals), trend_of(arrivals[::-1])

    if word in opposite:
        assert back in opposite[word]
