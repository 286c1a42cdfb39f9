"""A figure, how it spreads, and the target that it must reach. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True, slots=True)
class Target:
    """A bound.

    Attributes:
        is_floor: whether figures must reach it; else they must not exceed it.
    """

    bound: float
    is_floor: bool

    def is_met_by(self, figure: float) -> bool:
        """Whether *figure* is on the right side of it, or on it."""
        return figure >= self.bound if self.is_floor else figure <= self.bound

    def __str__(self) -> str:
        """``≥ 25`` or ``≤ 0.11``."""
        return f"{'≥' if self.is_floor else '≤'} {self.bound:g}"


def at_least(bound: float) -> Target:
    """A figure that should be large."""
    return Target(bound, is_floor=True)


def at_most(bound: float) -> Target:
    """A figure that should be small."""
    return Target(bound, is_floor=False)


@dataclass(frozen=True, slots=True)
class Side:
    """One of two programs that were compared.

    Attributes:
        what: the program and the unit, ``messages a second, one by one``.
        values: one per turn.
    """

    what: str
    values: Sequence[float]

    @property
    def median(self) -> float:
        """The one in the middle."""
        return median(self.values)


@dataclass(frozen=True, slots=True)
class Finding:
    """What was measured of one thing.

    Attributes:
        what: the thing, in few words.
        values: one per turn; ratios where two programs were compared.
        unit: of the values, ``times`` for ratios.
        target: what their median must reach; None where it is only told.
        sides: product and baseline, where two programs were compared.
    """

    what: str
    values: Sequence[float]
    unit: str
    target: Target | None = None
    sides: tuple[Side, Side] | None = None

    @classmethod
    def of_ratio(
        cls, what: str, product: Side, baseline: Side, target: Target | None = None
    ) -> "Finding":
        """Compare two programs turn by turn: product divided by baseline."""
        ratios = [p / b for p, b in zip(product.values, baseline.values, strict=True)]
        return cls(what, ratios, "times", target, (product, baseline))

    @property
    def figure(self) -> float:
        """The median of the values."""
        return median(self.values)

    @property
    def is_met(self) -> bool:
        """Whether the target is reached, or there is none."""
        return self.target is None or self.target.is_met_by(self.figure)
