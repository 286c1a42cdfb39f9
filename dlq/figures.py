"""Formats numbers, shares, durations, times and texts for people. No I/O; times are UTC."""

import unicodedata
from datetime import UTC, datetime

UNKNOWN = "unknown"

_MINUTE = 60
_TIMES = ((86_400, "d"), (3_600, "h"), (_MINUTE, "min"), (1, "s"))
_MANY = 10
"""From so many of a unit on, the next smaller unit is left out."""
_KIB = 1024
_SIZES = ((1, "B"), (_KIB, "KiB"), (_KIB**2, "MiB"), (_KIB**3, "GiB"))

_JOINERS = "\u200c\u200d"
_KEPT = "\n\t"
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def counted(number: int, thing: str) -> str:
    """Format a count: ``1 message``, ``12,480 messages``."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def cut(text: str, characters: int) -> str:
    """Cut *text* to a number of characters; the last one is an ellipsis if it was cut."""
    return text if len(text) <= characters else f"{text[: characters - 1]}…"


def percent(share: float) -> str:
    """Format a share of 0 to 1. Only 0 gives ``0%``, and only 1 gives ``100%``."""
    if share <= 0 or share >= 1:
        return "0%" if share <= 0 else "100%"
    rounded = round(share * 100, 1)
    if rounded < 0.1:  # noqa: PLR2004 - the finest that is shown
        return "<0.1%"
    if rounded >= 100:  # noqa: PLR2004 - not all of it
        return ">99.9%"
    near_an_end = rounded < 10 or rounded > 99  # noqa: PLR2004
    return f"{rounded:.1f}%".replace(".0%", "%") if near_an_end else f"{rounded:.0f}%"


def minute(time: datetime | None) -> str:
    """Format a time: ``2025-11-18 04:10``. One without a zone counts as UTC."""
    return f"{in_utc(time):%Y-%m-%d %H:%M}" if time else UNKNOWN


def moment(time: datetime | None, apart_seconds: float) -> str:
    """Format as ``minute`` does, with seconds if times are less than a minute apart."""
    return minute(time) if time is None or apart_seconds >= _MINUTE else second(time)


def second(time: datetime | None) -> str:
    """Format a time: ``2025-11-18 04:10:30``; empty for None."""
    return f"{in_utc(time):%Y-%m-%d %H:%M:%S}" if time else ""


def iso(time: datetime) -> str:
    """Format a time in ISO 8601, for a ``time`` element's ``datetime``."""
    return f"{in_utc(time):%Y-%m-%dT%H:%M:%SZ}"


def epoch(time: datetime | None) -> int:
    """Return whole seconds since 1970; 0 for None, which sorts first."""
    return int(in_utc(time).timestamp()) if time else 0


def in_utc(time: datetime) -> datetime:
    """Convert a time to UTC; one without a zone counts as UTC."""
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


def size(count: float | None) -> str:
    """Format a number of bytes: ``812 B``, ``1.2 KiB``."""
    if count is None:
        return UNKNOWN
    scale, unit = next(one for one in reversed(_SIZES) if count >= one[0] or one[0] == 1)
    return f"{quantity(count / scale)} {unit}"


def duration(seconds: float | None) -> str:
    """Format a duration in its largest one or two units: ``3 h 20 min``, ``12 h``."""
    if seconds is None:
        return UNKNOWN
    rounded = max(0, round(seconds))
    large = next(
        place for place, (length, _) in enumerate(_TIMES) if rounded >= length or length == 1
    )
    length, unit = _TIMES[large]
    first, rest = divmod(rounded, length)
    if length == 1 or first >= _MANY:
        return f"{round(rounded / length):,} {unit}"
    smaller, smaller_unit = _TIMES[large + 1]
    second = rest // smaller
    return f"{first} {unit}" + (f" {second} {smaller_unit}" if second else "")


def quantity(number: float) -> str:
    """Format a number that may be an average or a rate: ``<0.1``, ``0.5``, ``12``, ``1,234``."""
    if 0 < number < 0.05:  # noqa: PLR2004 - would round to 0.0
        return "<0.1"
    return f"{number:,.0f}" if number >= _MANY or number == int(number) else f"{number:.1f}"


def visible(text: str) -> str:
    """Replace each character that is invisible or that reorders its neighbours: ``[U+202E]``.

    Line feeds and tabs stay, and joiners inside emoji and in scripts that need them. The result can
    be encoded as UTF-8, and applying this function again does not change it.
    """
    if text.replace("\n", "").isprintable():
        return text
    return "".join(_visible(one, before) for before, one in zip(f" {text}", text, strict=False))


def _visible(one: str, before: str) -> str:
    is_joiner = one in _JOINERS and before.isprintable() and not before.isascii()
    if is_joiner or one in _KEPT or unicodedata.category(one) not in _INVISIBLE:
        return one
    return f"[U+{ord(one):04X}]"
