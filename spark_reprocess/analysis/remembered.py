"""Adds what the archive remembers of groups to the findings of an analysis."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from spark_reprocess.analysis.mask import Masks
from spark_reprocess.archive.files import Archive
from spark_reprocess.archive.message_index import REPORTS
from spark_reprocess.archive.table_parts import PARQUET_DAMAGE
from spark_reprocess.findings import Findings, GoneGroup
from spark_reprocess.triage.status import FailedOn, GroupMemory, Outcome, SeenGroup

_REPORTS_READ = 3
"""Earlier reports that are opened for the titles of groups that are gone, at most."""

Failures = Mapping[str, tuple[FailedOn, ...]]


def failed_on(rows: Iterable[Mapping[str, Any]]) -> Failures:
    """Return by group id what ``groups.failures_by_version`` found; nothing for other groups."""
    found: defaultdict[str, tuple[FailedOn, ...]] = defaultdict(tuple)
    for row in rows:
        one = FailedOn(row["version"], row["count"], row["last_sent_at"])
        found[row["group_id"]] += (one,)
    return found


def with_memory(
    findings: Findings,
    failures: Failures,
    memory: GroupMemory,
    result: Outcome,
    notes: Mapping[str, str],
    titles: Mapping[str, str],
) -> Findings:
    """Return the findings with the status of each group, and with what people said about it.

    Args:
        findings: of this analysis.
        failures: by group id.
        memory: what was remembered before.
        result: what this analysis makes of the groups.
        notes: texts by group id.
        titles: of groups that are gone, by id.
    """
    groups = []
    for group in findings.groups:
        state, seen = memory.state(group.group_id), result.memory.groups[group.group_id]
        is_snoozed = state.is_snoozed(findings.analyzed_at)
        by_count = sorted(failures[group.group_id], key=lambda one: (-one.count, one.version or ""))
        groups.append(
            replace(
                group,
                versions=tuple((one.version, one.count) for one in by_count),
                status=result.statuses[group.group_id].value,
                first_seen_at=seen.first_seen_at,
                resolved_in=state.resolved_in,
                last_action=state.action,
                snoozed_until=state.snoozed_until if is_snoozed else None,
                owner=state.owner,
                ticket=state.ticket,
                note=notes.get(group.group_id, ""),
            )
        )
    gone = (
        GoneGroup(one, titles.get(one, ""), seen.count, seen.last_seen_at)
        for one in result.gone
        if (seen := memory.groups[one])
    )
    return replace(findings, groups=tuple(groups), gone=tuple(gone), unreadable=memory.unreadable)


def with_expiry(
    findings: Findings, drained_at: Mapping[str, datetime | None], lifetime: timedelta | None
) -> Findings:
    """Return the findings with the time at which the first message of each group is deleted.

    Args:
        findings: of this analysis.
        drained_at: by group id, when its first undecided message was written into the archive.
        lifetime: of a file of the archive; None if nothing deletes it.
    """
    if lifetime is None:
        return findings
    groups = (
        replace(group, expires_at=drained and drained + lifetime)
        for group in findings.groups
        for drained in [drained_at.get(group.group_id)]
    )
    return replace(findings, groups=tuple(groups))


def titles_before(archive: Archive, gone: Sequence[SeenGroup], masks: Masks) -> dict[str, str]:
    """Return the titles of these groups from the reports that list them, by group id.

    What is remembered has no words of messages, so that an erase need not change it. A report that
    an erase removed, or that lies elsewhere, gives none. Nor is there any if this analysis hides
    values or fields: that report may not have hidden them.
    """
    if masks.fields or not masks.shows_values:
        return {}
    wanted = {one.group_id for one in gone}
    titles: dict[str, str] = {}
    for report_id in sorted({one.report_id for one in gone}, reverse=True)[:_REPORTS_READ]:
        content = archive.read(f"{REPORTS}/{report_id}/groups.parquet")
        if content is None:
            continue
        try:
            table = pq.read_table(pa.BufferReader(content), columns=["group_id", "title"])
            rows = table.to_pylist()
        except PARQUET_DAMAGE:
            continue
        titles.update(
            (row["group_id"], masks.text(row["title"] or ""))
            for row in rows
            if row["group_id"] in wanted and row["group_id"] not in titles
        )
    return titles
