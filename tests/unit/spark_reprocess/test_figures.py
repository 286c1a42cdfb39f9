from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_reprocess.figures import (
    counted,
    duration,
    epoch,
    iso,
    minute,
    moment,
    percent,
    quantity,
    second,
    size,
)

MOMENT = datetime(2025, 11, 8, 4, 10, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("spell", "value", "text"),
    [
        *(
            (percent, value, text)
            for value, text in (
                (0.0, "0%"),
                (0.00001, "<0.1%"),
                (0.001, "0.1%"),
                (0.05, "5%"),
                (0.0512, "5.1%"),
                (0.0999, "10%"),
                (0.123, "12%"),
                (0.985, "98%"),
                (0.994, "99.4%"),
                (0.9999, ">99.9%"),
                (1.0, "100%"),
            )
        ),
        *(
            (duration, value, text)
            for value, text in (
                (None, "unknown"),
                (-3, "0 s"),
                (0, "0 s"),
                (59.4, "59 s"),
                (60, "1 min"),
                (90, "1 min 30 s"),
                (1_800, "30 min"),
                (12_000, "3 h 20 min"),
                (50_220, "14 h"),
                (86_400, "1 d"),
                (190_800, "2 d 5 h"),
                (86_400 * 1_234, "1,234 d"),
            )
        ),
        *(
            (size, value, text)
            for value, text in (
                (None, "unknown"),
                (0, "0 B"),
                (812, "812 B"),
                (1_024, "1 KiB"),
                (1_300, "1.3 KiB"),
                (262_144, "256 KiB"),
                (5 * 2**20, "5 MiB"),
                (3 * 2**40, "3,072 GiB"),
            )
        ),
        *(
            (quantity, value, text)
            for value, text in (
                (0, "0"),
                (0.01, "<0.1"),
                (0.5, "0.5"),
                (5.0, "5"),
                (9.94, "9.9"),
                (12.4, "12"),
                (1234.5, "1,234"),
            )
        ),
    ],
)
def test_a_figure_is_short_and_in_the_unit_that_matters(
    spell: Callable[[Any], str], value: float | None, text: str
) -> None:
    """A share is never all or nothing where it is neither."""
    assert spell(value) == text


@given(st.floats(0, 1, exclude_min=True, exclude_max=True))
def test_only_all_is_100_and_only_nothing_is_0(share: float) -> None:
    assert percent(share) not in ("0%", "100%", "0.0%", "100.0%")


def test_times_are_utc_whatever_zone_they_come_in() -> None:
    elsewhere = MOMENT.astimezone(timezone(timedelta(hours=9)))

    for time in (MOMENT, elsewhere, MOMENT.replace(tzinfo=None)):
        assert minute(time) == "2025-11-08 04:10"
        assert iso(time) == "2025-11-08T04:10:30Z"
        assert epoch(time) == int(MOMENT.timestamp())
        assert second(time) == "2025-11-08 04:10:30"
    assert (minute(None), second(None)) == ("unknown", "")
    assert epoch(None) == 0


@pytest.mark.parametrize(
    ("apart_seconds", "expected"),
    [
        (1, "2025-11-08 04:10:30"),
        (59.9, "2025-11-08 04:10:30"),
        (60, "2025-11-08 04:10"),
        (86_400, "2025-11-08 04:10"),
    ],
)
def test_seconds_are_told_where_minutes_would_be_the_same(
    apart_seconds: float, expected: str
) -> None:
    assert moment(MOMENT, apart_seconds) == expected
    assert moment(MOMENT.replace(tzinfo=None), apart_seconds) == expected
    assert moment(None, apart_seconds) == "unknown"


def test_one_is_singular() -> None:
    assert [counted(n, "message") for n in (0, 1, 12_480)] == [
        "0 messages",
        "1 message",
        "12,480 messages",
    ]
