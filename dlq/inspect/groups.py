"""The groups of a report: what was found, what the plan does, and what became of them since."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from dlq.archive.group_records import read_memory, read_notes
from dlq.archive.ledger.claims import open_run_notes
from dlq.archive.storage.files import Archive
from dlq.explain.findings import (
    LEAST_GROUP,
    TOO_FEW,
    Findings,
    count_statuses,
    format_predicate,
)
from dlq.explain.outputs import read_findings
from dlq.explain.triage import GroupMemory, Status
from dlq.inspect.outcomes import Outcome, read_outcomes
from dlq.plan.plan import Plan
from dlq.plan.plan_file import find_plan


@dataclass(frozen=True, slots=True)
class ListedGroup:
    """A group of a plan, with what the analysis found; title and lead are masked.

    docs/reference.md describes the fields, under "groups".
    """

    group_id: str
    count: int
    action: str
    title: str
    lead: str
    note: str
    is_edited: bool
    status: str = ""
    resolved_at: datetime | None = None
    remembered: str = ""
    pending: int | None = None
    states: Mapping[str, int] | None = None
    returned: int | None = None
    returned_at: datetime | None = None
    stopped: str | None = None


@dataclass(frozen=True, slots=True)
class GroupsOfReport:
    """All groups of one report. docs/reference.md describes the fields, under "groups"."""

    plan_id: str
    plan: str
    statuses: Mapping[str, int]
    groups: Sequence[ListedGroup]
    families: Mapping[str, str]
    similar: Mapping[str, str]
    group_by: str
    gone: Sequence[str]
    unreadable: Sequence[str]
    open_runs: Sequence[str]


def read_groups(archive: Archive, plan: str | None, failure_table: str | None) -> GroupsOfReport:
    """Read the groups of a report, and what became of them.

    Args:
        archive: the archive that has the report.
        plan: a plan.yaml, or the id of a report; None for the newest.
        failure_table: the table that counts what comes back; None for none.

    Raises:
        InputError: there is no such plan, or it has faults.
        ArchiveError: the archive cannot be read.
    """
    file = find_plan(archive, plan)
    of_plan = file.plan()
    findings = read_findings(file.summary())
    memory = read_memory(archive)
    notes = read_notes(archive, memory, [group.group_id for group in of_plan.groups])
    outcomes = read_outcomes(archive, of_plan, failure_table)

    groups = list_groups(of_plan, findings, memory, notes, outcomes)
    gone = [group.group_id for group in findings.gone] if findings else []
    return GroupsOfReport(
        plan_id=of_plan.plan_id,
        plan=file.path,
        statuses=count_statuses((group.status for group in groups), len(gone)),
        groups=groups,
        families=findings.families if findings else {},
        similar=findings.similar if findings else {},
        group_by=findings.group_by if findings else "",
        gone=gone,
        unreadable=memory.unreadable,
        open_runs=open_run_notes(archive),
    )


def list_groups(
    plan: Plan,
    findings: Findings | None,
    memory: GroupMemory,
    notes: Mapping[str, str],
    outcomes: Mapping[str, Outcome],
) -> list[ListedGroup]:
    """Combine the groups of a plan with its report's *findings*, and with what is remembered.

    *notes* are texts by group id; *outcomes* as ``read_outcomes`` returns them.
    """
    found = {group.group_id: group for group in findings.groups} if findings else {}
    listed = []
    for group in plan.groups:
        of_report = found.get(group.group_id)
        state = memory.state(group.group_id)
        outcome = outcomes.get(group.group_id)
        status = of_report.status if of_report else ""
        lead = TOO_FEW if group.count < LEAST_GROUP else ""
        if of_report and of_report.leads:
            lead = format_predicate(of_report.leads[0])
        if state.stopped is not None:
            status = Status.STOPPED.value
        elif status == Status.STOPPED:
            # Somebody has decided since the analysis.
            status = Status.KNOWN.value
        listed.append(
            ListedGroup(
                group_id=group.group_id,
                count=group.count,
                action=group.action.value,
                title=group.title,
                lead=lead,
                note=group.note,
                is_edited=group.edit is not None,
                status=status,
                resolved_at=state.resolved_at,
                remembered=notes.get(group.group_id, ""),
                pending=outcome.pending if outcome else None,
                states=outcome.counts if outcome else None,
                returned=outcome.known_returned if outcome else None,
                returned_at=_time_of_count(outcome) if outcome else None,
                stopped=state.stopped,
            )
        )
    return listed


def _time_of_count(outcome: Outcome) -> datetime | None:
    return None if outcome.counted_at is None else datetime.fromtimestamp(outcome.counted_at, UTC)
