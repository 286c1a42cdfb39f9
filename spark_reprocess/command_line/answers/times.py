"""Times as people read them: UTC, and how long ago."""

from datetime import datetime


def minute(time: datetime | None) -> str:
    """Spell a time to the minute."""
    return f"{time:%Y-%m-%d %H:%M}" if time else "unknown"


def second(time: datetime | None) -> str:
    """Spell a time to the second, empty where there is none."""
    return f"{time:%Y-%m-%d %H:%M:%S}" if time else ""


def age(seconds: float) -> str:
    """Spell a duration in its largest unit or two."""
    minutes = int(max(0, seconds)) // 60
    hours, days = minutes // 60, minutes // 1440
    if days:
        return f"{days} d {hours % 24} h"
    return f"{hours} h {minutes % 60} min" if hours else f"{minutes} min"
