"""A figure, its values, and its target; how a run prints them."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, slots=True)
class Target:
    """A bound.

    Attributes:
        is_floor: True for a lower bound, False for an upper bound. The bound itself is allowed.
    """

    bound: float
    is_floor: bool

    def is_met_by(self, figure: float) -> bool:
        """Return whether *figure* is within the bound."""
        return figure >= self.bound if self.is_floor else figure <= self.bound

    def __str__(self) -> str:
        """Return text such as ``≥ 25`` or ``≤ 0.11``."""
        return f"{'≥' if self.is_floor else '≤'} {self.bound:g}"


def at_least(bound: float) -> Target:
    """Return a lower bound."""
    return Target(bound, is_floor=True)


def at_most(bound: float) -> Target:
    """Return an upper bound."""
    return Target(bound, is_floor=False)


@dataclass(frozen=True, slots=True)
class Side:
    """One of two compared programs.

    Attributes:
        what: program and unit, such as ``messages a second, one by one``.
        values: one per turn.
    """

    what: str
    values: Sequence[float]

    @property
    def median(self) -> float:
        """The median of the values."""
        return median(self.values)


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one measurement.

    Attributes:
        what: a short name.
        values: one per turn; ratios if two programs were compared.
        unit: of the values; ``times`` for ratios.
        target: bound for the median; None if there is none.
        sides: product and baseline, if two programs were compared.
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
        """Divide product by baseline for each turn."""
        ratios = [p / b for p, b in zip(product.values, baseline.values, strict=True)]
        return cls(what, ratios, "times", target, (product, baseline))

    @property
    def figure(self) -> float:
        """The median of the values."""
        return median(self.values)

    @property
    def is_met(self) -> bool:
        """Whether the target is met, or there is none."""
        return self.target is None or self.target.is_met_by(self.figure)

    def to_json(self) -> dict[str, Any]:
        """Return the form for the results: the values of every turn."""
        return {
            "what": self.what,
            "median": self.figure,
            "unit": self.unit,
            "values": list(self.values),
            "target": self.target and str(self.target),
            "is_met": self.is_met,
            "sides": [{"what": one.what, "values": list(one.values)} for one in self.sides or ()],
        }

    def cells(self) -> tuple[str, ...]:
        """Return what, median, range, target, product and baseline as text."""
        figures = [format_figure(value) for value in (min(self.values), max(self.values))]
        sides = [f"{format_figure(side.median)} {side.what}" for side in self.sides or ()]
        return (
            self.what,
            f"{format_figure(self.figure)} {self.unit}",
            " to ".join(figures) if len(self.values) > 1 else "",
            "" if self.target is None else f"{self.target}{'' if self.is_met else ', missed'}",
            *(sides or ("", "")),
        )


HEADINGS = ("what", "median", "lowest to highest", "target", "product", "baseline")


def print_table(findings: Sequence[Finding]) -> None:
    """Print the table: with lines in a terminal, as aligned plain text in a pipe."""
    console = Console()
    table = Table(*HEADINGS, box=box.SIMPLE_HEAD if console.is_terminal else None)
    for finding in findings:
        table.add_row(*finding.cells(), style=None if finding.is_met else "bold red")
    (console if console.is_terminal else Console(width=200)).print(table)


def markdown(findings: Sequence[Finding]) -> str:
    """Return the table in Markdown."""
    rows = [HEADINGS, ("---",) * len(HEADINGS), *(finding.cells() for finding in findings)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def format_figure(value: float) -> str:
    """Format a value with three digits; from 100 on without decimals."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"  # noqa: PLR2004 - three digits
