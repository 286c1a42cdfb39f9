"""So many messages, or so many percent of them. Pure."""

import math
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Self

_NUMBER = re.compile(r"[0-9]{1,9}")
_PERCENT = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,6})?)%")
_WHOLE = 100


@dataclass(frozen=True, slots=True)
class Share:
    """A number of messages of at least 0, or a percentage from 0 to 100."""

    number: Decimal
    is_percent: bool

    @classmethod
    def of(cls, text: str) -> Self:
        """Read ``20`` or ``2.5%``.

        Raises:
            ValueError: it is neither; the message says what is wanted.
        """
        if _NUMBER.fullmatch(text):
            return cls(Decimal(text), is_percent=False)
        match = _PERCENT.fullmatch(text)
        if match is None or Decimal(match[1]) > _WHOLE:
            raise ValueError("must be a whole number, or a percentage from 0% to 100%")
        return cls(Decimal(match[1]), is_percent=True)

    def at_least(self, total: int) -> int:
        """How many of *total* that is, rounded up; never more than *total*."""
        return min(total, math.ceil(self._exactly(total)))

    def at_most(self, total: int) -> int:
        """How many of *total* that is, rounded down; never more than *total*."""
        return min(total, math.floor(self._exactly(total)))

    def _exactly(self, total: int) -> Decimal:
        return self.number * total / _WHOLE if self.is_percent else self.number

    def __str__(self) -> str:
        return f"{self.number}%" if self.is_percent else str(self.number)


NONE = Share(Decimal(0), is_percent=False)
