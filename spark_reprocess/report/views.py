"""The values that the templates print: groups, samples, and arrivals as charts. No I/O.

Texts are as in the findings, but for their length: the template engine escapes each where it is
printed, and passes it through ``visible``.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Any

from markupsafe import escape

from spark_reprocess.figures import cut, duration, epoch, minute, moment
from spark_reprocess.findings import LEAST_GROUP, TOO_FEW, Findings, GroupFinding, Sample
from spark_reprocess.report.texts import (
    indented_json,
    lead_with_option,
    looks_like_json,
    places,
    quoted,
    visible,
)

COLOURS = 6
"""Groups with a colour of their own: not everybody can distinguish more."""

SPARK_HEIGHT = 24
"""Height of an outline in SVG units; its width is one unit per bucket."""

SAMPLE_CHARACTERS = 8_000
"""Of one body at most, white space included."""

VALUE_CHARACTERS = 500
"""Of one attribute's name or value at most."""

SAMPLE_BYTES = 750_000
"""Of all samples together at most: the page must stay small enough for a phone."""

_COUNTS = 12
_GROUPS_WITH_ALL_LEADS = 100
_LEADS_OF_THE_REST = 2

View = dict[str, Any]


def page_view(findings: Findings) -> View:
    """Return the values of the page."""
    samples = shown_samples(findings.groups)
    pairs = enumerate(zip(findings.groups, samples, strict=True), start=1)
    return {
        **head_view(findings),
        "groups": [group_view(findings, group, rank, shown) for rank, (group, shown) in pairs],
        "data": chart_data(findings),
        "path_of_groups": "#",
        "places": places(findings),
    }


def head_view(findings: Findings) -> View:
    """Return the values of the page's head, and of the table below its chart."""
    starts = [group.first_sent_at for group in findings.groups if group.first_sent_at]
    ends = [group.last_sent_at for group in findings.groups if group.last_sent_at]
    return {
        "findings": findings,
        "first_sent": min(starts, default=None),
        "last_sent": max(ends, default=None),
        "table": arrivals_table(findings),
        "without_time": without_time(findings),
    }


def group_view(
    findings: Findings, group: GroupFinding, rank: int, samples: Sequence["ShownSample"]
) -> View:
    """Return the values of one group: its row in the table, and its details.

    *rank* is its place by size, from 1; *samples* are those that are shown.
    """
    anchor = visible(group.group_id)
    leads = group.leads if rank <= _GROUPS_WITH_ALL_LEADS else group.leads[:_LEADS_OF_THE_REST]
    lead, option = lead_with_option(group.leads)
    replays = (("unknown" if n is None else f"{n:,}", count) for n, count in group.replay_counts)
    return {
        "found": group,
        # The element's id. No other element's id starts with "g-".
        "anchor": anchor if anchor.startswith("g-") else f"g-{anchor}",
        "title": group.title.strip() or "(no title)",
        "number": rank,
        # 0 is the grey of all groups without a colour of their own.
        "colour": rank if rank <= COLOURS else 0,
        "outline": outline(group.arrivals),
        "width": max(1, len(findings.bucket_starts)),
        "peak": peak(findings, group),
        "lead": next(iter(leads), None),
        "leads": leads,
        "leads_left_out": len(group.leads) - len(leads),
        "reasons": _tally(group.reasons),
        "sources": _tally(group.sources),
        "replay_counts": _tally(replays),
        "remembered": _remembered(group),
        "samples": samples,
        "samples_left_out": len(group.samples) - len(samples),
        "too_few": TOO_FEW if group.count < LEAST_GROUP else "",
        "quoted_id": quoted(group.group_id),
        "lead_with_option": lead,
        "where_option": option,
    }


def _remembered(group: GroupFinding) -> list[tuple[str, str]]:
    """Return what is remembered of a group as names and values; nothing if nobody said anything."""
    rows = (
        ("Resolved", minute(group.resolved_at) if group.resolved_at else ""),
        ("Decided last", group.last_action or ""),
        ("Note", group.note),
    )
    said = [row for row in rows if row[1]]
    since = [("First listed", minute(group.first_seen_at))] if group.first_seen_at else []
    ends = [("The bucket deletes from", minute(group.expires_at))] if group.expires_at else []
    return [*(since if said else ()), *ends, *said]


def _tally(counts: Iterable[tuple[str, int]]) -> View:
    """Return the first rows of a list, each with its share, and the sum of the others."""
    pairs = list(counts)
    total = sum(count for _, count in pairs)
    return {
        "rows": [(name, count, count / total if total else 0.0) for name, count in pairs[:_COUNTS]],
        "more": len(pairs[_COUNTS:]),
        "more_count": sum(count for _, count in pairs[_COUNTS:]),
    }


@dataclass(frozen=True, slots=True)
class ShownSample:
    """A sample as the page shows it.

    Attributes:
        kind: ``JSON``, ``text`` or ``empty``.
        body: indented if it is JSON.
        is_cut: whether the body was cut here. One that the analysis cut ends in an ellipsis, too.
    """

    message_id: str
    sent_at: datetime | None
    kind: str
    body: str
    is_cut: bool
    attributes: tuple[tuple[str, str], ...]
    logged: str

    @property
    def page_bytes(self) -> int:
        """Size of its texts in the page, escaped and encoded."""
        texts = (self.message_id, self.body, self.logged, *chain.from_iterable(self.attributes))
        return sum(len(escape(text).encode()) for text in texts)


def shown_samples(groups: Sequence[GroupFinding]) -> list[list[ShownSample]]:
    """Choose the samples to show, for each of the *groups*.

    Every group gets its first sample before any gets a second, until ``SAMPLE_BYTES`` are used.
    """
    shown: list[list[ShownSample]] = [[] for _ in groups]
    left = SAMPLE_BYTES
    for turn in range(max((len(group.samples) for group in groups), default=0)):
        for group, kept in zip(groups, shown, strict=True):
            if len(kept) == turn < len(group.samples):
                sample = shown_sample(group.samples[turn])
                if sample.page_bytes <= left:
                    left -= sample.page_bytes
                    kept.append(sample)
    return shown


def shown_sample(sample: Sample) -> ShownSample:
    """Format one sample, and cut what is too long."""
    head = sample.body[: SAMPLE_CHARACTERS + 1]
    kind = "empty" if not head.strip() else "JSON" if looks_like_json(head) else "text"
    body = visible(indented_json(head) if kind == "JSON" else head)
    return ShownSample(
        message_id=_value(sample.message_id),
        sent_at=sample.sent_at,
        kind=kind,
        body=cut(body, SAMPLE_CHARACTERS),
        is_cut=len(body) > SAMPLE_CHARACTERS or len(sample.body) > SAMPLE_CHARACTERS,
        attributes=tuple((_value(name), _value(value)) for name, value in sample.attributes),
        logged=visible(sample.logged),
    )


def _value(text: str) -> str:
    return cut(visible(text[: VALUE_CHARACTERS + 1]), VALUE_CHARACTERS)


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


def chart_data(findings: Findings) -> View:
    """Return the numbers for the page's script; no text of a message."""
    return {
        "starts": [epoch(start) for start in findings.bucket_starts],
        "seconds": findings.bucket_seconds,
        "colours": COLOURS,
        "arrivals": _columns(findings),
    }


def arrivals_table(findings: Findings) -> list[View]:
    """Return the chart's numbers by bucket; buckets without a message are left out.

    Each row has its ``start``, the ``counts`` of the coloured groups, the sum of the ``others``,
    and the ``total``.
    """
    rows = []
    for start, *counts in zip(findings.bucket_starts, *_columns(findings), strict=True):
        if total := sum(counts):
            coloured = counts[:COLOURS]
            others = total - sum(coloured)
            name = moment(start, findings.bucket_seconds)
            rows.append({"start": name, "counts": coloured, "others": others, "total": total})
    return rows


def without_time(findings: Findings) -> int:
    """Return how many messages of the listed groups are in no bucket."""
    listed = sum(group.count for group in findings.groups)
    return max(0, listed - sum(map(sum, _columns(findings))))


def _columns(findings: Findings) -> list[list[int]]:
    """Return each group's arrivals by bucket; a group whose times are all unknown may have none."""
    buckets = len(findings.bucket_starts)
    arrivals = (group.arrivals[:buckets] for group in findings.groups)
    return [[*one, *[0] * (buckets - len(one))] for one in arrivals]
