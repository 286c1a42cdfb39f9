"""Arrivals as what a page draws: outlines for small charts, numbers for the large one. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from spark_reprocess.figures import duration, epoch, moment
from spark_reprocess.findings import Findings, GroupFinding

SPARK_HEIGHT = 24
"""Units of an outline's height; its width is one unit per bucket."""

COLOURS = 6
"""Groups with a colour of their own: more could not be told apart by everybody."""


@dataclass(frozen=True, slots=True)
class ArrivalsRow:
    """One bucket for the table that stands for the chart: each coloured group's, the others'."""

    start: str
    counts: tuple[int, ...]
    others: int

    @property
    def total(self) -> int:
        """Messages of all listed groups."""
        return sum(self.counts) + self.others


def outline(arrivals: Sequence[int]) -> str:
    """Steps over *arrivals* as an SVG path, the highest ``SPARK_HEIGHT`` high.

    A bucket with any message at all is at least a twelfth of the height: one must not look like
    none.
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
    """When most of a group arrived, as a phrase; empty where no time is known."""
    buckets = list(zip(group.arrivals, findings.bucket_starts, strict=False))
    most, start = max(buckets, key=lambda one: one[0], default=(0, None))
    if most <= 0 or start is None:
        return ""
    seconds = findings.bucket_seconds
    return f"{most:,} in {duration(seconds)} from {moment(start, seconds)}"


def chart_data(findings: Findings) -> dict[str, Any]:
    """Numbers for the script that draws; no text."""
    buckets = len(findings.bucket_starts)
    return {
        "starts": [epoch(start) for start in findings.bucket_starts],
        "seconds": findings.bucket_seconds,
        "colours": COLOURS,
        "arrivals": [list(_padded(group, buckets)) for group in findings.groups],
    }


def arrivals_table(findings: Findings) -> list[ArrivalsRow]:
    """The chart's numbers, bucket by bucket; buckets without any message are left out."""
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
    """How many messages of the listed groups stand in no bucket."""
    buckets = len(findings.bucket_starts)
    listed = sum(group.count for group in findings.groups)
    return max(0, listed - sum(sum(_padded(group, buckets)) for group in findings.groups))


def _padded(group: GroupFinding, buckets: int) -> tuple[int, ...]:
    """A group whose times are all unknown may bring no buckets at all."""
    return (*group.arrivals[:buckets], *([0] * (buckets - len(group.arrivals))))
