"""Reads a report for the console: plan, findings, and what people said. No Spark."""

import json
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from hashlib import sha256

from spark_reprocess.analysis.outputs import read_findings
from spark_reprocess.archive.group_records import read_memory
from spark_reprocess.archive.ledger.open_set import claimed_table, since_plan
from spark_reprocess.archive.storage.files import Archive
from spark_reprocess.command_line.verbs.groups import ListedGroup, list_groups
from spark_reprocess.groups.findings import Findings, GroupFinding
from spark_reprocess.groups.triage import GroupMemory
from spark_reprocess.inspect.outcomes import read_outcomes
from spark_reprocess.plan.plan import Plan, PlannedGroup
from spark_reprocess.plan.plan_file import find_plan


@dataclass(frozen=True, slots=True)
class Group:
    """One group of a plan.

    Attributes:
        planned: what the plan says now.
        listed: with what people said about it, as ``groups`` prints it.
        found: what the analysis found; None where the plan is not beside its report.
        rank: its place by size, from 1.
    """

    planned: PlannedGroup
    listed: ListedGroup
    found: GroupFinding | None
    rank: int

    @property
    def group_id(self) -> str:
        """Its id."""
        return self.planned.group_id

    @property
    def seen(self) -> str:
        """Digest of its entry in the plan: a form carries the one that its page showed."""
        return entry_digest(self.planned)


def entry_digest(group: PlannedGroup) -> str:
    """Return a digest of what a person may change about a group in a plan."""
    said = [group.action.value, group.note, group.edit.text if group.edit else ""]
    return sha256(json.dumps(said).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Report:
    """One report as it is now.

    Attributes:
        findings: of the analysis; None where the plan is not beside its report.
        memory: what people said, without the texts of notes.
        groups: in the plan's order.
        newest: id of the newest report, if this is another one; empty for the newest.
    """

    plan: Plan
    findings: Findings | None
    memory: GroupMemory
    groups: tuple[Group, ...]
    newest: str = ""

    @property
    def place(self) -> str:
        """The plan's id in addresses; empty for the newest."""
        return self.plan.plan_id if self.newest else ""


find_report = partial(find_plan, takes_files=False)
"""Returns the plan of the report of an id, None for the newest. A page names no other file."""


def read_report(
    archive: Archive, plan_id: str | None, now: datetime, failure_table: str | None = None
) -> Report:
    """Read a report, the newest by default, and what became of its messages by *now*.

    Without a *failure_table* what came back is not known.

    Raises:
        InputError: there is no such report, or its plan has faults.
    """
    file = find_report(archive, plan_id)
    plan = file.plan()
    newest = plan_id and find_plan(archive, None).folder.root.rsplit("/", 1)[1]
    # The plan alone decides; without its summary there are no leads and no samples to show.
    findings = read_findings(file.summary())
    memory = read_memory(archive)
    claimed = claimed_table(archive, now.timestamp(), since=since_plan(plan.plan_id))
    outcomes = read_outcomes(archive, plan, failure_table, claimed)
    listed = list_groups(plan, findings, memory, {}, outcomes)
    found = {one.group_id: one for one in findings.groups} if findings else {}
    groups = tuple(
        Group(planned, one, found.get(planned.group_id), rank)
        for rank, (planned, one) in enumerate(zip(plan.groups, listed, strict=True), start=1)
    )
    is_newest = not newest or newest == plan.plan_id
    return Report(plan, findings, memory, groups, "" if is_newest else newest or "")
