"""The values that the templates print. No I/O.

Texts are as in the findings, but for their length: the template engine escapes each where it is
printed, and passes it through ``visible``.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from spark_reprocess.findings import Findings, GroupFinding, Lead
from spark_reprocess.report import charts
from spark_reprocess.report.commands import (
    GroupCommands,
    PlanCommands,
    group_commands,
    plan_commands,
)
from spark_reprocess.report.samples import ShownSample, shown_samples
from spark_reprocess.report.texts import visible

_COUNTS = 12
_WHOLE_GROUPS = 100
_LEADS_OF_THE_REST = 2


@dataclass(frozen=True, slots=True)
class Tally:
    """The first names and counts of a list, and the sum of the rest.

    Attributes:
        rows: name, count, and share of all, 0 to 1.
        more: number of names that are not in *rows*.
        more_count: number of their messages.
    """

    rows: tuple[tuple[str, int, float], ...]
    more: int
    more_count: int


@dataclass(frozen=True, slots=True)
class GroupView:
    """One group: its row in the table, and its details.

    Attributes:
        anchor: the element's id. It starts with ``g-``, as no other element's does.
        title: never empty.
        number: its rank by size, from 1.
        colour: its colour in the chart, from 1; 0 for the groups that share grey.
        outline: its arrivals as an SVG path; empty if no time is known.
        width: of that outline, one unit per bucket of the analysis; at least 1.
        peak: when most arrived; empty if no time is known.
        leads: its leads; for smaller groups only the strongest.
        leads_left_out: how many more it has.
        samples_left_out: number of its samples that do not fit into the page.
    """

    found: GroupFinding
    anchor: str
    title: str
    number: int
    colour: int
    outline: str
    width: int
    peak: str
    leads: tuple[Lead, ...]
    leads_left_out: int
    reasons: Tally
    sources: Tally
    replay_counts: Tally
    samples: tuple[ShownSample, ...]
    samples_left_out: int
    commands: GroupCommands

    @property
    def lead(self) -> Lead | None:
        """The strongest lead."""
        return self.leads[0] if self.leads else None


@dataclass(frozen=True, slots=True)
class PageView:
    """All values of the page; the templates say where each is printed."""

    findings: Findings
    groups: tuple[GroupView, ...]
    first_sent: datetime | None
    last_sent: datetime | None
    table: list[charts.ArrivalsRow]
    without_time: int
    data: dict[str, Any]
    commands: PlanCommands


def page_view(findings: Findings) -> PageView:
    """Make the page's values of *findings*."""
    starts = [group.first_sent_at for group in findings.groups if group.first_sent_at]
    ends = [group.last_sent_at for group in findings.groups if group.last_sent_at]
    has_chart = bool(findings.bucket_starts) and any(sum(g.arrivals) for g in findings.groups)
    return PageView(
        findings=findings,
        groups=_group_views(findings),
        first_sent=min(starts, default=None),
        last_sent=max(ends, default=None),
        table=charts.arrivals_table(findings) if has_chart else [],
        without_time=charts.without_time(findings),
        data=charts.chart_data(findings),
        commands=plan_commands(findings),
    )


def _group_views(findings: Findings) -> tuple[GroupView, ...]:
    samples = shown_samples(findings.groups)
    return tuple(
        _group_view(findings, group, number, shown)
        for number, (group, shown) in enumerate(zip(findings.groups, samples, strict=True), start=1)
    )


def _group_view(
    findings: Findings, group: GroupFinding, number: int, samples: tuple[ShownSample, ...]
) -> GroupView:
    replay_counts = tuple(
        ("unknown" if times is None else f"{times:,}", count)
        for times, count in group.replay_counts
    )
    leads = group.leads if number <= _WHOLE_GROUPS else group.leads[:_LEADS_OF_THE_REST]
    return GroupView(
        found=group,
        anchor=_anchor(group.group_id),
        title=group.title.strip() or "(no title)",
        number=number,
        colour=number if number <= charts.COLOURS else 0,
        outline=charts.outline(group.arrivals),
        width=max(1, len(findings.bucket_starts)),
        peak=charts.peak(findings, group),
        leads=leads,
        leads_left_out=len(group.leads) - len(leads),
        reasons=_tally(group.reasons),
        sources=_tally(group.sources),
        replay_counts=_tally(replay_counts),
        samples=samples,
        samples_left_out=len(group.samples) - len(samples),
        commands=group_commands(findings, group),
    )


def _anchor(group_id: str) -> str:
    anchor = visible(group_id)
    return anchor if anchor.startswith("g-") else f"g-{anchor}"


def _tally(counts: tuple[tuple[str, int], ...]) -> Tally:
    total = sum(count for _, count in counts)
    shown, rest = counts[:_COUNTS], counts[_COUNTS:]
    return Tally(
        rows=tuple((name, count, count / total if total else 0.0) for name, count in shown),
        more=len(rest),
        more_count=sum(count for _, count in rest),
    )
