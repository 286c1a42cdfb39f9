"""Arrivals over time: buckets of a width that humans think in, and a word for the trend. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

MOST_BUCKETS = 60

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
_WIDTHS = (
    *(1, 5, 10, 15, 30),
    *(minutes * _MINUTE for minutes in (1, 2, 5, 10, 15, 30)),
    *(hours * _HOUR for hours in (1, 2, 3, 6, 12)),
    *(days * _DAY for days in (1, 2, 7, 14, 28, 91, 364, 3640)),
)
_LEAST_MESSAGES = 10
_LEAST_BUCKETS = 4
_LATELY = 0.25
_CLEARLY = 3.0
_TIMES = 1.5


@dataclass(frozen=True, slots=True)
class Buckets:
    """Stretches of time that all groups share, from the first message to the last.

    Attributes:
        first: epoch seconds at which the first begins, a multiple of the width.
        width_seconds: how long each is.
        number: how many there are, at most 60.
    """

    first: int
    width_seconds: int
    number: int

    @property
    def starts(self) -> tuple[datetime, ...]:
        """When each begins."""
        epoch = datetime(1970, 1, 1, tzinfo=UTC)
        seconds = (self.first + place * self.width_seconds for place in range(self.number))
        return tuple(epoch + timedelta(seconds=one) for one in seconds)


def buckets_between(first: datetime | None, last: datetime | None) -> Buckets:
    """Choose the narrowest width that needs at most 60 buckets; none where there is no time."""
    if first is None or last is None:
        return Buckets(0, 1, 0)
    start, end = math.floor(first.timestamp()), math.floor(last.timestamp())
    for width in _WIDTHS:
        number = end // width - start // width + 1
        if number <= MOST_BUCKETS:
            break
    return Buckets(start // width * width, width, min(number, MOST_BUCKETS))


def trend_of(arrivals: Sequence[int]) -> str:
    """Say in a word how a group goes on: ``rising``, ``steady``, ``falling`` or ``over``.

    ``over`` where the last quarter of the time has none. Else the later half against the earlier:
    half as many again, and more than chance makes of it (three standard deviations of a fair coin's
    tosses). Empty where there are too few messages or too little time to tell.
    """
    total = sum(arrivals)
    if total < _LEAST_MESSAGES or len(arrivals) < _LEAST_BUCKETS:
        return ""
    if not any(arrivals[-max(1, int(len(arrivals) * _LATELY)) :]):
        return "over"
    half = len(arrivals) // 2
    early, late = sum(arrivals[:half]), sum(arrivals[len(arrivals) - half :])
    more, fewer = max(early, late), min(early, late)
    if more - fewer < _CLEARLY * math.sqrt(early + late) or more < _TIMES * fewer:
        return "steady"
    return "rising" if late > early else "falling"
