"""Build the values of ``findings`` from counts, the messages to show, and the group memory."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from dlq.explain.findings import Difference, GroupFinding, ReplayCount, Sample, Spread
from dlq.explain.triage import GroupMemory

Row = dict[str, Any]

MOST_BUCKETS = 60

_MINUTE = 60
_HOUR = 3600
_DAY = 86_400
_WIDTHS = {
    1: (1, 5, 10, 15, 30),
    _MINUTE: (1, 2, 5, 10, 15, 30),
    _HOUR: (1, 2, 3, 6, 12),
    _DAY: (1, 2, 7, 14, 28, 91, 364, 3640),
}
"""Widths that a time bucket may have, by the seconds of their unit."""

_LEAST_MESSAGES = 10
_LEAST_BUCKETS = 4
_LATELY = 0.25
_CLEARLY = 3.0
_TIMES = 1.5


def buckets_between(first: datetime | None, last: datetime | None) -> range:
    """Return the epoch seconds at which the narrowest time buckets begin of which 60 are enough."""
    if first is None or last is None:
        return range(0)
    start = math.floor(first.timestamp())
    end = math.floor(last.timestamp())

    width = _narrowest_width(start, end)
    return range(start // width * width, end + 1, width)[:MOST_BUCKETS]


def _narrowest_width(start: int, end: int) -> int:
    width = 1
    for unit_seconds, numbers in _WIDTHS.items():
        for number in numbers:
            width = number * unit_seconds
            if end // width - start // width < MOST_BUCKETS:
                return width
    return width


def trend_of(arrivals: Sequence[int]) -> str:
    """Return the trend of a group: ``rising``, ``steady``, ``falling`` or ``ended``.

    ``ended``: the last quarter of the time has no messages. ``rising``, ``falling``: one half has
    at least 1.5 times the messages of the other, and the difference is at least three standard
    deviations. Empty if there are too few messages or buckets.
    """
    total = sum(arrivals)
    if total < _LEAST_MESSAGES or len(arrivals) < _LEAST_BUCKETS:
        return ""

    late_buckets = max(1, int(len(arrivals) * _LATELY))
    if not any(arrivals[-late_buckets:]):
        return "ended"

    half = len(arrivals) // 2
    early = sum(arrivals[:half])
    late = sum(arrivals[len(arrivals) - half :])
    more = max(early, late)
    fewer = min(early, late)
    if more - fewer < _CLEARLY * math.sqrt(early + late) or more < _TIMES * fewer:
        return "steady"
    return "rising" if late > early else "falling"


def group_findings(
    rows: Sequence[Row],
    tallies: Iterable[Row],
    shown: Iterable[Row],
    differences: Mapping[str, tuple[Difference, ...]],
    *,
    buckets: range,
    now: datetime,
    memory: GroupMemory,
) -> tuple[GroupFinding, ...]:
    """Build the finding of each group.

    Args:
        rows: as ``groups.group_rows`` returns them, with ``note``.
        tallies: as ``groups.tallies`` returns them.
        shown: the messages to show, each with its group's title.
        differences: by group, as ``feature_extraction.differences_among`` returns them.
        buckets: see ``buckets_between``.
        now: the time of the analysis.
        memory: the memory after this analysis.
    """
    counts: defaultdict[tuple[str, str], dict[str | None, int]] = defaultdict(dict)
    for tally in tallies:
        counts[tally["group_id"], tally["column"]][tally["value"]] = tally["count"]
    shown_by_group = defaultdict[str, list[Row]](list)
    for message in shown:
        shown_by_group[message["group_id"]].append(message)
    pending = sum(row["count"] for row in rows)

    findings = []
    for row in rows:
        group_id = row["group_id"]
        messages = shown_by_group[group_id]
        arrivals = _arrivals(counts[group_id, "bucket"], len(buckets))
        least_bytes, _, median_bytes, p95_bytes, greatest_bytes = row["body_bytes"]
        state = memory.state(group_id)
        seen = memory.groups[group_id]

        finding = GroupFinding(
            group_id=group_id,
            title=messages[0]["title"] if messages else group_id,
            count=row["count"],
            share=row["count"] / pending,
            first_parked_at=row["first_parked_at"],
            last_parked_at=row["last_parked_at"],
            arrivals=arrivals,
            trend=trend_of(arrivals),
            reasons=_by_count(counts[group_id, "reason"]),
            sources=_by_count(counts[group_id, "source"]),
            replay_counts=_replay_counts(counts[group_id, "replay_count"]),
            body_bytes=Spread(least_bytes, median_bytes, p95_bytes, greatest_bytes),
            age_seconds=_ages(row["failed_at"], now),
            differences=differences.get(group_id, ()),
            samples=_samples(row["shown"], messages),
            status=seen.status.value,
            first_seen_at=seen.first_seen_at,
            resolved_at=state.resolved_at,
            last_action=state.action,
            note=row["note"],
            queue=row["queue"],
        )
        findings.append(finding)
    return tuple(findings)


def _arrivals(by_bucket: Mapping[str | None, int], buckets: int) -> tuple[int, ...]:
    return tuple(by_bucket.get(str(number), 0) for number in range(buckets))


def _by_count(counts: Mapping[str | None, int]) -> dict[str, int]:
    """Return the known values with their counts, the most frequent first."""
    known_counts = {value: count for value, count in counts.items() if value is not None}
    most_frequent_first = sorted(known_counts.items(), key=lambda pair: (-pair[1], pair[0]))
    return dict(most_frequent_first)


def _replay_counts(counts: Mapping[str | None, int]) -> tuple[ReplayCount, ...]:
    """Return the counts in ascending order, the unknown one first."""
    by_replays = {}
    for value, messages in counts.items():
        if value is not None:
            by_replays[int(value)] = messages

    replay_counts = []
    if None in counts:
        replay_counts.append(ReplayCount(None, counts[None]))
    for replays, messages in sorted(by_replays.items()):
        replay_counts.append(ReplayCount(replays, messages))
    return tuple(replay_counts)


def _ages(failed_at: Sequence[float] | None, now: datetime) -> Spread:
    """Return the ages of messages. *failed_at* has the quantiles of ``groups.group_rows``."""
    if failed_at is None:
        return Spread(least=None, median=None, p95=None, greatest=None)

    def age(failed: float) -> float:
        return max(0.0, now.timestamp() - failed)

    # The earliest is the oldest.
    earliest, early, median, _, latest = failed_at
    return Spread(least=age(latest), median=age(median), p95=age(early), greatest=age(earliest))


def _samples(chosen: Sequence[str], messages: Sequence[Row]) -> tuple[Sample, ...]:
    by_id = {row["message_id"]: row for row in messages if row["body"] is not None}

    samples = []
    for message_id in chosen:
        row = by_id.get(message_id)
        if row is None:
            continue
        sample = Sample(
            message_id=message_id,
            sent_at=row["sent_at"],
            body=row["body"],
            attributes=dict(row["attributes"] or ()),
            logged=row["logged"] or "",
        )
        samples.append(sample)
    return tuple(samples)
