"""A filled curve in a terminal, drawn with braille dots: two by four in each character. Pure."""

from collections.abc import Sequence
from itertools import pairwise

_BLANK = 0x2800
_LEFT_DOTS = (0x40, 0x04, 0x02, 0x01)
_RIGHT_DOTS = (0x80, 0x20, 0x10, 0x08)
"""The bits of the dots of a character, from the bottom up."""


def highest_in_columns(values: Sequence[float], columns: int) -> list[float]:
    """Split *values* into columns and return the highest value of each, so that peaks stay."""
    cuts = [len(values) * column // columns for column in range(columns + 1)]
    return [max(values[first : max(end, first + 1)], default=0.0) for first, end in pairwise(cuts)]


def filled_curve(values: Sequence[float], top: float, width: int, height: int) -> list[str]:
    """Draw *values* in *width* characters and *height* lines; the top of the curve is *top*.

    A value above 0 has at least one dot.
    """
    dots = [_dots(value, top, 4 * height) for value in highest_in_columns(values, 2 * width)]
    return [
        "".join(
            chr(_BLANK + _cell(left - 4 * row, _LEFT_DOTS) + _cell(right - 4 * row, _RIGHT_DOTS))
            for left, right in zip(dots[::2], dots[1::2], strict=True)
        )
        for row in reversed(range(height))
    ]


def _dots(value: float, top: float, most: int) -> int:
    if value <= 0 or top <= 0:
        return 0
    return min(most, max(1, round(value / top * most)))


def _cell(filled: int, bits: Sequence[int]) -> int:
    return sum(bits[: max(0, filled)])
