"""A figure, its values, and its target; how a run prints them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median


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
        """True if the target is met, or there is none."""
        if self.at_least is not None and self.figure < self.at_least:
            return False
        return self.at_most is None or self.figure <= self.at_most

    def cells(self) -> tuple[str, ...]:
        """Return what, median, range, target, product and baseline as text."""
        spread = ""
        if len(self.values) > 1:
            spread = f"{format_figure(min(self.values))} to {format_figure(max(self.values))}"

        target = ""
        if self.at_least is not None:
            target += f"≥ {self.at_least:g}"
        if self.at_most is not None:
            target += f"≤ {self.at_most:g}"
        if not self.is_met:
            target += ", missed"

        sides = ["", ""]
        if self.sides:
            sides = [f"{format_figure(median(side))} {name}" for name, side in self.sides.items()]

        median_with_unit = f"{format_figure(self.figure)} {self.unit}"
        return (self.what, median_with_unit, spread, target, *sides)


def markdown(findings: Sequence[Finding]) -> str:
    """Return the table in Markdown."""
    headings = ("what", "median", "lowest to highest", "target", "product", "baseline")
    lines = [_row(headings), _row(("---",) * len(headings))]
    for finding in findings:
        cells = finding.cells()
        lines.append(_row(cells))
    return "\n".join(lines)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def format_figure(value: float) -> str:
    """Format a value with three digits; from 100 on without decimals."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"  # noqa: PLR2004 - three digits
