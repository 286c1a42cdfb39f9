"""Formats numbers, shares, durations, times and texts for people. No I/O; times are UTC."""

import unicodedata
from datetime import UTC, datetime

UNKNOWN = "unknown"

_MINUTE = 60
_TIMES = ((86_400, "d"), (3_600, "h"), (_MINUTE, "min"), (1, "s"))
_MANY = 10
"""From this number of a unit on, the next smaller unit is left out."""

_KIB = 1024
_SIZES = ((1, "B"), (_KIB, "KiB"), (_KIB**2, "MiB"), (_KIB**3, "GiB"))

_JOINERS = "\u200c\u200d"
_KEPT = "\n\t"
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def counted(number: int, thing: str) -> str:
    """Format a count: ``1 message``, ``12,480 messages``."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def truncate(text: str, characters: int) -> str:
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
    is_near_an_end = rounded < 10 or rounded > 99  # noqa: PLR2004
    return f"{rounded:.1f}%".replace(".0%", "%") if is_near_an_end else f"{rounded:.0f}%"


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
    fitting = [size for size in _SIZES if count >= size[0]]
    scale, unit = fitting[-1] if fitting else _SIZES[0]
    return f"{quantity(count / scale)} {unit}"


def duration(seconds: float | None) -> str:
    """Format a duration in its largest one or two units: ``3 h 20 min``, ``12 h``."""
    if seconds is None:
        return UNKNOWN

    rounded = max(0, round(seconds))
    position = 0
    while rounded < _TIMES[position][0] and position < len(_TIMES) - 1:
        position += 1
    length, unit = _TIMES[position]
    count, rest = divmod(rounded, length)
    if length == 1 or count >= _MANY:
        return f"{round(rounded / length):,} {unit}"

    smaller_length, smaller_unit = _TIMES[position + 1]
    smaller_count = rest // smaller_length
    smaller = f" {smaller_count} {smaller_unit}" if smaller_count else ""
    return f"{count} {unit}{smaller}"


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
    # Each with the character before it; the first one with a blank.
    return "".join(map(_visible, text, f" {text}"))


def _visible(character: str, before: str) -> str:
    is_joiner = character in _JOINERS and before.isprintable() and not before.isascii()
    is_kept = is_joiner or character in _KEPT
    if is_kept or unicodedata.category(character) not in _INVISIBLE:
        return character
    return f"[U+{ord(character):04X}]"
