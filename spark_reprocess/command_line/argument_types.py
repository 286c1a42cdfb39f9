"""Types of arguments that several verbs take; each fault names the rule."""

import argparse
import math
from collections.abc import Callable

WHERE = "Spark SQL over the archive's columns, e.g. \"parked_reason = 'too_old'\""
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


def above_zero(text: str) -> float:
    """Read a number above 0."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and number > 0):
        raise argparse.ArgumentTypeError(f"{text!r}: must be a number above 0")
    return number
