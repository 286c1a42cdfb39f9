"""Arrivals as drawn: SVG paths for small charts, numbers for the large one. No I/O."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from spark_reprocess.figures import duration, epoch, moment
from spark_reprocess.findings import Findings, GroupFinding

SPARK_HEIGHT = 24
"""Height of an outline in SVG units; its width is one unit per bucket."""

COLOURS = 6
"""Groups with a colour of their own: not everybody can distinguish more."""


@dataclass(frozen=True, slots=True)
class ArrivalsRow:
    """One bucket in the table of the chart: counts of the coloured groups, and of the rest."""

    start: str
    counts: tuple[int, ...]
    others: int

    @property
    def total(self) -> int:
        """Messages of all listed groups."""
        return sum(self.counts) + self.others


def outline(arrivals: Sequence[int]) -> str:
    """Return *arrivals* as an SVG path of steps, the highest ``SPARK_HEIGHT`` high.

    A bucket with any message is at least a twelfth as high, so that one message is visible.
    """
    highest = max(arrivals, default=0)
    if highest <= 0:
        return ""
    parts = [f"M0 {SPARK_HEIGHT}"]
    level, reached = 0, 0
    for position, count in enumerate(arrivals):
        height = max(2, round(SPARK_HEIGHT * count / highest)) if count > 0 else 0
        if height != level:
            parts.append(f"{f'H{position}' if position > reached else ''}V{SPARK_HEIGHT - height}")
            level, reached = height, position
    return f"{''.join(parts)}H{len(arrivals)}V{SPARK_HEIGHT}z"


def peak(findings: Findings, group: GroupFinding) -> str:
    """Format when most of a group arrived; empty if no time is known."""
    buckets = list(zip(group.arrivals, findings.bucket_starts, strict=False))
    most, start = max(buckets, key=lambda one: one[0], default=(0, None))
    if most <= 0 or start is None:
        return ""
    seconds = findings.bucket_seconds
    return f"{most:,} in {duration(seconds)} from {moment(start, seconds)}"


def chart_data(findings: Findings) -> dict[str, Any]:
    """Return the numbers for the page's script; no text of a message."""
    buckets = len(findings.bucket_starts)
    return {
        "starts": [epoch(start) for start in findings.bucket_starts],
        "seconds": findings.bucket_seconds,
        "colours": COLOURS,
        "arrivals": [list(_padded(group, buckets)) for group in findings.groups],
    }


def arrivals_table(findings: Findings) -> list[ArrivalsRow]:
    """Return the chart's numbers by bucket; buckets without a message are left out."""
    buckets = len(findings.bucket_starts)
    columns = [_padded(group, buckets) for group in findings.groups]
    rows = [
        ArrivalsRow(
            start=moment(start, findings.bucket_seconds),
            counts=tuple(column[position] for column in columns[:COLOURS]),
            others=sum(column[position] for column in columns[COLOURS:]),
        )
        for position, start in enumerate(findings.bucket_starts)
    ]
    return [row for row in rows if row.total]


def without_time(findings: Findings) -> int:
    """Return how many messages of the listed groups are in no bucket."""
    buckets = len(findings.bucket_starts)
    listed = sum(group.count for group in findings.groups)
    return max(0, listed - sum(sum(_padded(group, buckets)) for group in findings.groups))


def _padded(group: GroupFinding, buckets: int) -> tuple[int, ...]:
    """A group whose times are all unknown may have no buckets."""
    return (*group.arrivals[:buckets], *([0] * (buckets - len(group.arrivals))))
