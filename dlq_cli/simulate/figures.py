"""Figures as people write and read them: ``1h30m``, ``36,000``, ``<$0.01``. Pure."""

import re

_UNITS = {"d": 86_400, "h": 3600, "m": 60, "s": 1}
_FORM = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s?)?")


def read_seconds(text: str) -> int:
    """Read a duration; a bare number is seconds.

    Raises:
        ValueError: the text has another form.
    """
    match = _FORM.fullmatch(text.strip())
    if not text.strip() or match is None:
        raise ValueError("must be a duration such as 90, 30s, 1h30m or 2d")
    return sum(int(n or 0) * s for n, s in zip(match.groups(), _UNITS.values(), strict=True))


def spell_seconds(seconds: int) -> str:
    """Spell a duration with its largest unit and the next: ``15 min 26 s``, ``2 d 3 h``."""
    names = {"d": "d", "h": "h", "m": "min", "s": "s"}
    parts: list[str] = []
    for unit, size in _UNITS.items():
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(f"{count} {names[unit]}")
        elif parts:
            break
    return " ".join(parts[:2]) or "0 s"


def spell_count(number: float) -> str:
    """Spell a number of messages or the like; below ten, where it is an average, with a decimal."""
    if number >= 10 or number == round(number):  # noqa: PLR2004 - a decimal more below ten
        return f"{number:,.0f}"
    return f"{number:.1f}" if number >= 0.05 else "<0.1"  # noqa: PLR2004 - what rounds to 0.1


def spell_share(share: float) -> str:
    """Spell a share as a percentage with two digits."""
    if share < 1e-6:  # noqa: PLR2004 - a digit more says nothing
        return "0 %" if share < 1e-12 else "<0.0001 %"  # noqa: PLR2004 - what rounding leaves
    return f"{float(f'{100 * share:.2g}'):g} %"


def spell_dollars(amount: float) -> str:
    """Spell an amount to the cent."""
    return f"${amount:,.2f}" if amount >= 0.01 else "<$0.01"  # noqa: PLR2004 - a cent
