"""Numbers and times as a reader takes them in. Pure; all times are shown in UTC."""

from datetime import UTC, datetime

UNKNOWN = "unknown"
_UNBROKEN = "\N{NO-BREAK SPACE}"

_MINUTE = 60
_TIMES = ((86_400, "d"), (3_600, "h"), (_MINUTE, "min"), (1, "s"))
_MANY = 10
"""From so many of a unit on, the next smaller one does not matter."""
_KIB = 1024
_SIZES = ((1, "B"), (_KIB, "KiB"), (_KIB**2, "MiB"), (_KIB**3, "GiB"))


def counted(number: int, thing: str) -> str:
    """``1 message``, ``12,480 messages``."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def percent(share: float) -> str:
    """A share of 0 to 1, short, and never rounded to all or nothing when it is neither."""
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
    """``2025-11-18 04:10``; a time without a zone counts as UTC."""
    return f"{in_utc(time):%Y-%m-%d %H:%M}" if time else UNKNOWN


def moment(time: datetime | None, apart_seconds: float) -> str:
    """``minute``, but to the second where times that are told apart lie closer together."""
    return minute(time) if time is None or apart_seconds >= _MINUTE else second(time)


def second(time: datetime | None) -> str:
    """``2025-11-18 04:10:30``, empty where there is none."""
    return f"{in_utc(time):%Y-%m-%d %H:%M:%S}" if time else ""


def spoken(time: datetime, now: datetime) -> str:
    """For a sentence: ``18 Nov, 04:10``, on one line; with the year where it is another one."""
    then = in_utc(time)
    year = "" if then.year == in_utc(now).year else f" {then.year}"
    return f"{then.day} {then:%b}{year}, {then:%H:%M}".replace(" ", _UNBROKEN)


def iso(time: datetime) -> str:
    """For machines: a ``time`` element's ``datetime``."""
    return f"{in_utc(time):%Y-%m-%dT%H:%M:%SZ}"


def epoch(time: datetime | None) -> int:
    """Whole seconds since 1970; 0 where unknown, which sorts first."""
    return int(in_utc(time).timestamp()) if time else 0


def in_utc(time: datetime) -> datetime:
    """Return the same moment in UTC; a time without a zone counts as UTC."""
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


def size(count: float | None) -> str:
    """Bytes in the unit that fits: ``812 B``, ``1.2 KiB``."""
    if count is None:
        return UNKNOWN
    scale, unit = next(one for one in reversed(_SIZES) if count >= one[0] or one[0] == 1)
    return f"{_short(count / scale)} {unit}"


def duration(seconds: float | None) -> str:
    """In the unit that fits, with the next smaller one where it still matters: ``3 h 20 min``."""
    if seconds is None:
        return UNKNOWN
    whole = max(0, round(seconds))
    large = next(
        place for place, (length, _) in enumerate(_TIMES) if whole >= length or length == 1
    )
    length, unit = _TIMES[large]
    first, rest = divmod(whole, length)
    if length == 1 or first >= _MANY:
        return f"{round(whole / length):,} {unit}"
    smaller, smaller_unit = _TIMES[large + 1]
    second = rest // smaller
    return f"{first} {unit}" + (f" {second} {smaller_unit}" if second else "")


def rate(per_second: float) -> str:
    """With the digits that matter: ``0.5``, ``12``, ``1,234``."""
    return _short(per_second)


def _short(number: float) -> str:
    return f"{number:,.0f}" if number >= _MANY or number == int(number) else f"{number:.1f}"
