"""Types of arguments that several verbs take; each fault names the rule."""

import argparse
import math
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

_SHA256 = re.compile(r"[0-9a-fA-F]{64}")
_AGE = re.compile(r"(?P<number>[0-9]{1,6})(?P<unit>[smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}

WHERE = (
    "Spark SQL over the archive's columns, e.g. \"parked_reason = 'too_old'\"; docs/analysis.md "
    "lists what it may contain"
)
"""The help of ``--where``."""


def whole_number(least: int, most: int | None = None) -> Callable[[str], int]:
    """Return the type of whole numbers from *least* to *most*."""
    rule = f"of at least {least}" if most is None else f"from {least} to {most}"

    def read(text: str) -> int:
        is_number = text.isascii() and text.isdecimal()
        if not is_number or not least <= int(text) <= (math.inf if most is None else most):
            raise argparse.ArgumentTypeError(f"{text!r}: must be a whole number {rule}")
        return int(text)

    return read


def sha256_hex(text: str) -> str:
    """Read a SHA-256 in hex."""
    if not _SHA256.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r}: must be a SHA-256: 64 hex digits")
    return text.lower()


def since(text: str) -> datetime:
    """Read a time: one in ISO 8601, in UTC unless it says otherwise, or an age such as 7d."""
    try:
        if age := _AGE.fullmatch(text):
            ago = timedelta(**{_UNITS[age["unit"]]: int(age["number"])})
            return (datetime.now(UTC) - ago).replace(microsecond=0)
        time = datetime.fromisoformat(text)
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise argparse.ArgumentTypeError(
            f"{text!r}: must be an age such as 45m, 12h, 7d or 2w, or a time such as "
            "2026-11-01T09:30:00Z"
        ) from error


def above_zero(text: str) -> float:
    """Read a number above 0."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and number > 0):
        raise argparse.ArgumentTypeError(f"{text!r}: must be a number above 0")
    return number
