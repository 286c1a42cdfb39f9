"""A figure, its values, and its target; how a run prints them."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one measurement.

    Attributes:
        what: a short name.
        values: one per turn; ratios if two programs were compared.
        unit: of the values; ``times`` for ratios.
        at_least: lower bound of the median, which is allowed itself; None if there is none.
        at_most: upper bound of the median, in the same way.
        sides: if two programs were compared, the values of product and baseline, by unit and
            program, such as ``messages a second, one by one``.
    """

    what: str
    values: Sequence[float]
    unit: str
    at_least: float | None = None
    at_most: float | None = None
    sides: Mapping[str, Sequence[float]] = field(default_factory=dict)

    @classmethod
    def of_ratio(
        cls, what: str, sides: Mapping[str, Sequence[float]], **target: float
    ) -> "Finding":
        """Divide product by baseline for each turn; *target*: ``at_least`` or ``at_most``."""
        ratios = [product / baseline for product, baseline in zip(*sides.values(), strict=True)]
        return cls(what, ratios, "times", sides=sides, **target)

    @property
    def figure(self) -> float:
        """The median of the values."""
        return median(self.values)

    @property
    def is_met(self) -> bool:
        """Whether the target is met, or there is none."""
        is_too_low = self.at_least is not None and self.figure < self.at_least
        return not is_too_low and (self.at_most is None or self.figure <= self.at_most)

    def to_json(self) -> dict[str, Any]:
        """Return the form for the results: the values of every turn."""
        return {**asdict(self), "median": self.figure, "is_met": self.is_met}

    def cells(self) -> tuple[str, ...]:
        """Return what, median, range, target, product and baseline as text."""
        figures = [format_figure(value) for value in (min(self.values), max(self.values))]
        sides = [f"{format_figure(median(values))} {side}" for side, values in self.sides.items()]
        bounds = (("≥", self.at_least), ("≤", self.at_most))
        target = "".join(f"{sign} {bound:g}" for sign, bound in bounds if bound is not None)
        return (
            self.what,
            f"{format_figure(self.figure)} {self.unit}",
            " to ".join(figures) if len(self.values) > 1 else "",
            target if self.is_met else f"{target}, missed",
            *(sides or ("", "")),
        )


HEADINGS = ("what", "median", "lowest to highest", "target", "product", "baseline")


def markdown(findings: Sequence[Finding]) -> str:
    """Return the table in Markdown."""
    rows = [HEADINGS, ("---",) * len(HEADINGS), *(finding.cells() for finding in findings)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def format_figure(value: float) -> str:
    """Format a value with three digits; from 100 on without decimals."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"  # noqa: PLR2004 - three digits
