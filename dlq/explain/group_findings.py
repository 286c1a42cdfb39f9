"""Build the values of ``findings`` from what was counted, what was read, and what is remembered."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from dlq.explain.findings import GroupFinding, Lead, ReplayCount, Sample, Spread
from dlq.explain.triage import GroupMemory

Row = dict[str, Any]

MOST_BUCKETS = 60

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
_WIDTHS = (
    *(1, 5, 10, 15, 30),
    *(minutes * _MINUTE for minutes in (1, 2, 5, 10, 15, 30)),
    *(hours * _HOUR for hours in (1, 2, 3, 6, 12)),
    *(days * _DAY for days in (1, 2, 7, 14, 28, 91, 364, 3640)),
)
_LEAST_MESSAGES = 10
_LEAST_BUCKETS = 4
_LATELY = 0.25
_CLEARLY = 3.0
_TIMES = 1.5


def buckets_between(first: datetime | None, last: datetime | None) -> range:
    """Return the epoch seconds at which the narrowest time buckets begin of which 60 are enough."""
    if first is None or last is None:
        return range(0)
    start, end = math.floor(first.timestamp()), math.floor(last.timestamp())
    enough = (one for one in _WIDTHS if end // one - start // one < MOST_BUCKETS)
    width = next(enough, _WIDTHS[-1])
    return range(start // width * width, end + 1, width)[:MOST_BUCKETS]


def trend_of(arrivals: Sequence[int]) -> str:
    """Return the trend of a group: ``rising``, ``steady``, ``falling`` or ``ended``.

    ``ended``: the last quarter of the time has no messages. ``rising``, ``falling``: one half has
    at least 1.5 times the messages of the other, and the difference is at least three standard
    deviations. Empty if there are too few messages or buckets.
    """
    total = sum(arrivals)
    if total < _LEAST_MESSAGES or len(arrivals) < _LEAST_BUCKETS:
        return ""
    if not any(arrivals[-max(1, int(len(arrivals) * _LATELY)) :]):
        return "ended"
    half = len(arrivals) // 2
    early, late = sum(arrivals[:half]), sum(arrivals[len(arrivals) - half :])
    more, fewer = max(early, late), min(early, late)
    if more - fewer < _CLEARLY * math.sqrt(early + late) or more < _TIMES * fewer:
        return "steady"
    return "rising" if late > early else "falling"


def group_findings(
    rows: Sequence[Row],
    tallies: Iterable[Row],
    shown: Iterable[Row],
    leads: Mapping[str, tuple[Lead, ...]],
    *,
    buckets: range,
    now: datetime,
    memory: GroupMemory,
) -> tuple[GroupFinding, ...]:
    """Build the finding of each group.

    *rows* are as ``groups.group_rows`` returns them, with ``note``, *tallies* as
    ``groups.tallies`` does, and *leads*, by group, as ``feature_extraction.leads_among``. *shown*
    are the messages to show, each with its group's title. *memory* is what is remembered from now
    on.
    """
    counts: defaultdict[tuple[str, str], dict[str | None, int]] = defaultdict(dict)
    for row in tallies:
        counts[row["group_id"], row["column"]][row["value"]] = row["count"]
    shown_of = defaultdict[str, list[Row]](list)
    for row in shown:
        shown_of[row["group_id"]].append(row)
    pending = sum(row["count"] for row in rows)
    findings = []
    for row in rows:
        group_id = row["group_id"]
        messages, in_buckets = shown_of[group_id], counts[group_id, "bucket"]
        arrivals = tuple(in_buckets.get(str(place), 0) for place in range(len(buckets)))
        # The earliest is the oldest.
        failed_at = row["failed_at"] or [None] * 5
        ages = [None if one is None else max(0.0, now.timestamp() - one) for one in failed_at[::-1]]
        replays = counts[group_id, "replay_count"]
        known = sorted((int(value), n) for value, n in replays.items() if value is not None)
        unknown = [(None, replays[None])] if None in replays else []
        state, seen = memory.state(group_id), memory.groups[group_id]
        least, _, median, p95, greatest = row["body_bytes"]
        finding = GroupFinding(
            group_id=group_id,
            title=messages[0]["title"] if messages else group_id,
            count=row["count"],
            share=row["count"] / pending,
            first_sent_at=row["first_sent_at"],
            last_sent_at=row["last_sent_at"],
            arrivals=arrivals,
            trend=trend_of(arrivals),
            reasons=_by_count(counts[group_id, "reason"]),
            sources=_by_count(counts[group_id, "source"]),
            replay_counts=tuple(ReplayCount(*pair) for pair in (*unknown, *known)),
            body_bytes=Spread(least, median, p95, greatest),
            age_seconds=Spread(ages[0], ages[2], ages[3], ages[4]),
            leads=leads.get(group_id, ()),
            samples=_samples(row["shown"], messages),
            status=seen.status.value,
            first_seen_at=seen.first_seen_at,
            resolved_at=state.resolved_at,
            last_action=state.action,
            note=row["note"],
        )
        findings.append(finding)
    return tuple(findings)


def _by_count(counts: Mapping[str | None, int]) -> dict[str, int]:
    known = [(value, count) for value, count in counts.items() if value is not None]
    return dict(sorted(known, key=lambda pair: (-pair[1], pair[0])))


def _samples(chosen: Sequence[str], messages: Sequence[Row]) -> tuple[Sample, ...]:
    by_id = {row["message_id"]: row for row in messages if row["body"] is not None}
    return tuple(
        Sample(one, row["sent_at"], row["body"], dict(row["attributes"] or ()), row["logged"] or "")
        for one in chosen
        if (row := by_id.get(one))
    )
