"""The values that the templates print: groups, samples, and arrivals as charts. No I/O."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby, islice
from shlex import quote
from typing import Any

from dlq.archive.messages.message_index import REPORTS
from dlq.explain.findings import (
    LEAST_GROUP,
    TOO_FEW,
    Difference,
    Findings,
    GroupFinding,
    Sample,
    in_rows,
    merged,
)
from dlq.figures import epoch, truncate, visible
from dlq.plan.json_text import indented_json

COLOURS = 6
"""Number of groups with a colour of their own: not everybody can distinguish more."""

SPARK_HEIGHT = 24
"""Height of an outline in SVG units; its width is one unit per bucket."""

SAMPLE_CHARACTERS = 8_000
"""Characters of one body that are shown at most, white space included."""

_COUNTS = 12
_LARGEST_GROUPS = 100
"""Smaller groups are shown without samples: a page must stay small."""

_SPECIAL = re.compile(r'[\\$"`]')
_WITH_BACKSLASH = r"\\\g<0>"
_CONDITION_CHARACTERS = 2_000

PARKED = "parked"

View = dict[str, Any]


def page_view(findings: Findings) -> View:
    """Return the values of the page. Similar groups are one row, with each of them in ``parts``."""
    rows = [(merged(row), row) for row in in_rows(findings.groups, findings.similar)]
    rows.sort(key=lambda row: -row[0].count)
    arrival = arrival_word(findings)

    row_views = []
    for rank, (whole, groups) in enumerate(rows, start=1):
        has_samples = rank <= _LARGEST_GROUPS
        parts = []
        for group in groups:
            parts.append(group_view(group, rank, has_samples=has_samples, arrival=arrival))
        view = group_view(whole, rank, arrival=arrival) if len(groups) > 1 else parts.pop()
        row_views.append({**view, "parts": parts})

    findings_by_row = replace(findings, groups=tuple(whole for whole, _ in rows))
    return {
        **head_view(findings_by_row),
        "findings": findings,
        "queues": findings.queues,
        "groups": row_views,
        "places": places(findings),
    }


def arrival_word(findings: Findings) -> str:
    """Return what happened at a message's time: a look sees when its producer sent it."""
    return "sent" if findings.queue else PARKED


def head_view(findings: Findings) -> View:
    """Return the values of the page's head and of its chart."""
    starts = filter(None, (group.first_parked_at for group in findings.groups))
    ends = filter(None, (group.last_parked_at for group in findings.groups))
    return {
        "findings": findings,
        "arrival": arrival_word(findings),
        "queues": findings.queues,
        "first_parked": min(starts, default=None),
        "last_parked": max(ends, default=None),
        "data": chart_data(findings),
    }


def group_view(
    group: GroupFinding, rank: int, *, has_samples: bool = True, arrival: str = PARKED
) -> View:
    """Return the values of the group at this place, from 1: its row, and its details.

    *arrival* as ``arrival_word`` says.
    """
    anchor = visible(group.group_id)
    difference, option = difference_with_option(group.differences)
    replays: dict[str, int] = {}
    for count in group.replay_counts:
        name = "unknown" if count.replay_count is None else f"{count.replay_count:,}"
        replays[name] = count.messages

    return {
        "finding": group,
        "arrival": arrival,
        "parts": [],
        # The element's id. No other element's id starts with "g-".
        "anchor": anchor if anchor.startswith("g-") else f"g-{anchor}",
        "number": rank,
        # 0 is the grey of all groups without a colour of their own.
        "colour": rank if rank <= COLOURS else 0,
        "outline": outline(group.arrivals),
        "difference": next(iter(group.differences), None),
        "replay_counts": replays,
        "samples": list(map(shown_sample, group.samples)) if has_samples else [],
        "too_few": TOO_FEW if group.count < LEAST_GROUP else "",
        "difference_with_option": difference,
        "where_option": option,
    }


def tally(counts: Mapping[str, int]) -> View:
    """Return the first rows of a table of counts with their shares, and the sums of the others."""
    total = sum(counts.values())
    more_count = total
    rows = []
    for name, count in islice(counts.items(), _COUNTS):
        more_count -= count
        rows.append((name, count, count / total if total else 0.0))
    return {"rows": rows, "more": len(counts) - len(rows), "more_count": more_count}


def shown_sample(sample: Sample) -> View:
    """Return a sample, its ``body`` indented, its ``kind`` (JSON, text, empty), and ``is_cut``."""
    indented = indented_json(sample.body)
    body = sample.body if indented is None else indented
    kind = "empty"
    if indented:
        kind = "JSON"
    elif body.strip():
        kind = "text"
    return {
        "message": sample,
        "kind": kind,
        "body": truncate(body, SAMPLE_CHARACTERS),
        "is_cut": len(body) > SAMPLE_CHARACTERS,
    }


def outline(arrivals: Sequence[int]) -> str:
    """Return *arrivals* as an SVG path of steps, the highest ``SPARK_HEIGHT`` high, any visible."""
    highest = max(arrivals, default=0)
    if highest <= 0:
        return ""

    def height(count: int) -> int:
        return max(2, round(SPARK_HEIGHT * count / highest)) if count > 0 else 0

    path = f"M0 {SPARK_HEIGHT}"
    for step, buckets in groupby(map(height, arrivals)):
        path += f"V{SPARK_HEIGHT - step}h{len([*buckets])}"
    return f"{path}V{SPARK_HEIGHT}z"


def chart_data(findings: Findings) -> View:
    """Return the numbers for the page's script. They contain no text of a message."""
    return {
        "starts": [epoch(start) for start in findings.bucket_starts],
        "seconds": findings.bucket_seconds,
        "colours": COLOURS,
        "arrivals": [group.arrivals for group in findings.groups],
    }


def places(findings: Findings) -> str:
    """Format the options that name the archive and the plan."""
    is_in_archive = findings.plan_path.startswith(f"{findings.archive}/{REPORTS}/")
    plan = findings.plan_id if is_in_archive else findings.plan_path
    return f"--archive {quoted(findings.archive)} --plan {quoted(plan)}"


def difference_with_option(differences: Sequence[Difference]) -> tuple[Difference | None, str]:
    """Return the strongest difference with a condition, and the option that selects its messages.

    Conditions that cannot be seen, or as long as a page, are left out. None and "" without any.
    """
    for difference in differences:
        if (
            0 < len(difference.condition) <= _CONDITION_CHARACTERS
            and difference.condition.isprintable()
        ):
            return difference, f"--where {quoted(difference.condition)}"
    return None, ""


def quoted(text: str) -> str:
    """Quote *text* as one shell word, in double quotes if that is easier to read.

    Never with ``!`` in double quotes, which an interactive shell expands.
    """
    if "'" in text and "!" not in text:
        return f'"{_SPECIAL.sub(_WITH_BACKSLASH, text)}"'
    return quote(text)
