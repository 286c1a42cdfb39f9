from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlq.figures import (
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
from tests.support.golden import assert_stored, stored_texts

FORMATS: dict[str, Any] = {
    "percent": percent,
    "duration": duration,
    "size": size,
    "quantity": quantity,
}
MOMENT = datetime(2025, 11, 8, 4, 10, 30, tzinfo=UTC)


@pytest.mark.parametrize("figure", stored_texts("figures"))
def test_a_figure_is_short_and_in_the_unit_that_matters(figure: str) -> None:
    """A share is never all or nothing where it is neither."""
    name, value = figure.split()

    formatted = FORMATS[name](None if value == "None" else float(value))
    assert_stored("figures", figure, formatted)


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
    assert counted(0, "message") == "0 messages"
    assert counted(1, "message") == "1 message"
    assert counted(12_480, "message") == "12,480 messages"
