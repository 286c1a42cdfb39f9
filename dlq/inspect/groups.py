"""The groups of a report: findings of the analysis, decisions of the plan, and outcomes since."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from dlq.archive.group_records import read_memory, read_notes
from dlq.archive.ledger.claims import open_run_notes
from dlq.archive.storage.files import Archive
from dlq.errors import InputError
from dlq.explain.findings import (
    LEAST_GROUP,
    NO_QUEUE,
    TOO_FEW,
    Findings,
    GroupFinding,
    QueueFinding,
    count_statuses,
    format_predicate,
)
from dlq.explain.outputs import read_findings
from dlq.explain.triage import GroupMemory, GroupState, Status
from dlq.inspect.outcomes import Outcome, read_outcomes
from dlq.plan.plan import Plan, PlannedGroup
from dlq.plan.plan_file import find_plan


@dataclass(frozen=True, slots=True)
class ListedGroup:
    """A group of a plan, with what the analysis found; title and difference are masked.

    docs/reference.md describes the fields, under "groups".
    """

    group_id: str
    count: int
    action: str
    title: str
    difference: str
    note: str
    is_edited: bool
    status: str = ""
    resolved_at: datetime | None = None
    remembered: str = ""
    pending: int | None = None
    states: Mapping[str, int] | None = None
    returned: int | None = None
    returned_at: datetime | None = None
    halted: str | None = None
    queue: str = ""


@dataclass(frozen=True, slots=True)
class GroupsOfReport:
    """All groups of one report. docs/reference.md describes the fields, under "groups"."""

    plan_id: str
    plan: str
    statuses: Mapping[str, int]
    groups: Sequence[ListedGroup]
    same_failure: Mapping[str, str]
    similar: Mapping[str, str]
    group_by: str
    gone: Sequence[str]
    unreadable: Sequence[str]
    open_runs: Sequence[str]
    queues: Mapping[str, QueueFinding]
    stack: str = ""

    def of_queue(self, queue: str) -> "GroupsOfReport":
        """Return this report with the groups of one source queue, or of ``NO_QUEUE``.

        Raises:
            InputError: no group is of this queue.
        """
        groups = [group for group in self.groups if (group.queue or NO_QUEUE) == queue]
        if not groups:
            names = sorted({group.queue or NO_QUEUE for group in self.groups}) or ["no groups"]
            raise InputError(
                f"--queue {queue!r}: no group of this report is of it; there are {', '.join(names)}"
            )

        statuses = count_statuses((group.status for group in groups), gone=0)
        return replace(self, groups=groups, statuses=statuses, gone=())

    def by_queue(self) -> "GroupsOfReport":
        """Return this report with its groups sorted by queue; those without one come last."""
        groups = sorted(self.groups, key=lambda group: (not group.queue, group.queue))
        return replace(self, groups=groups)


def read_groups(
    archive: Archive, named_plan: str | None, failure_table: str | None
) -> GroupsOfReport:
    """Read the groups of a report, and what became of them.

    Args:
        archive: the archive that has the report.
        named_plan: a plan.yaml, or the id of a report; None for the newest.
        failure_table: the table that counts what fails again; None for none.

    Raises:
        InputError: there is no such plan, or it has faults.
        ArchiveError: the archive cannot be read.
    """
    file = find_plan(archive, named_plan)
    plan = file.plan()
    findings = read_findings(file.summary())
    memory = read_memory(archive)
    notes = read_notes(archive, memory, [group.group_id for group in plan.groups])
    outcomes = read_outcomes(archive, plan, failure_table)

    groups = list_groups(plan, findings, memory, notes, outcomes)
    gone = [group.group_id for group in findings.gone] if findings else []
    return GroupsOfReport(
        plan_id=plan.plan_id,
        plan=file.path,
        statuses=count_statuses((group.status for group in groups), len(gone)),
        groups=groups,
        same_failure=findings.same_failure if findings else {},
        similar=findings.similar if findings else {},
        group_by=findings.group_by if findings else "",
        gone=gone,
        unreadable=memory.unreadable,
        open_runs=open_run_notes(archive),
        queues=findings.queues if findings else {},
        stack=(findings.stack or "") if findings else "",
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
    group_findings = findings_by_id(findings)
    listed = []
    for group in plan.groups:
        finding = group_findings.get(group.group_id)
        state = memory.state(group.group_id)
        listed_group = ListedGroup(
            group_id=group.group_id,
            count=group.count,
            action=group.action.value,
            title=group.title,
            difference=_difference_text(group, finding),
            note=group.note,
            is_edited=group.edit is not None,
            status=_current_status(finding, state),
            resolved_at=state.resolved_at,
            remembered=notes.get(group.group_id, ""),
            halted=state.halted,
            queue=finding.queue if finding else "",
        )

        outcome = outcomes.get(group.group_id)
        if outcome:
            listed_group = _with_outcome(listed_group, outcome)
        listed.append(listed_group)
    return listed


def findings_by_id(findings: Findings | None) -> dict[str, GroupFinding]:
    """Return the findings of each group by its id; empty without *findings*."""
    if findings is None:
        return {}
    return {finding.group_id: finding for finding in findings.groups}


def _difference_text(group: PlannedGroup, finding: GroupFinding | None) -> str:
    if finding and finding.differences:
        return format_predicate(finding.differences[0])
    return TOO_FEW if group.count < LEAST_GROUP else ""


def _current_status(finding: GroupFinding | None, state: GroupState) -> str:
    """Return the group's status in the report, unless somebody has decided since."""
    status = finding.status if finding else ""
    if state.halted is not None:
        return Status.HALTED.value
    if status == Status.HALTED:
        # Somebody has decided since the analysis.
        return Status.KNOWN.value
    return status


def _with_outcome(group: ListedGroup, outcome: Outcome) -> ListedGroup:
    returned_at = None
    if outcome.counted_at is not None:
        returned_at = datetime.fromtimestamp(outcome.counted_at, UTC)
    return replace(
        group,
        pending=outcome.pending,
        states=outcome.counts,
        returned=outcome.known_returned,
        returned_at=returned_at,
    )
