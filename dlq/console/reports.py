"""The reports of a console: as they are now, and decisions and edits in their plans. No Spark.

Other people change a plan at the same time. A form carries what its page showed of each group, and
the plan is written only if it is still what was read. So of two people who decide about different
groups, whoever loses the race reads the plan again and applies the decision again: both are in it.
Of two who decide about the same group, the second one is shown what the first one decided, and
confirms or not.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256

from dlq.archive.group_records import add_statement, read_memory
from dlq.archive.ledger.open_set import claimed_of_plan
from dlq.console.site import Console
from dlq.errors import BusyError
from dlq.explain.findings import Findings, GroupFinding
from dlq.explain.outputs import read_findings
from dlq.explain.triage import GroupMemory, Statement, is_group_id
from dlq.inspect.groups import ListedGroup, list_groups
from dlq.inspect.outcomes import read_outcomes
from dlq.plan.plan import Action, Plan, PlannedGroup
from dlq.plan.plan_file import PlanFile, find_plan
from dlq.plan.reading import read_plan

_MOST_TRIES = 30
"""Lost races in a row after which something else is wrong."""


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


def read_report(console: Console, plan_id: str | None) -> Report:
    """Read a report, the newest by default, and what became of its messages by now.

    Raises:
        InputError: there is no such report, or its plan has faults.
    """
    archive = console.archive
    file = find_report(archive, plan_id)
    plan = file.plan()
    newest = find_plan(archive, None).folder.root.rsplit("/", 1)[1] if plan_id else plan.plan_id
    # The plan alone decides; without its summary there are no leads and no samples to show.
    findings = read_findings(file.summary())
    memory = read_memory(archive)
    claimed = claimed_of_plan(archive, plan.plan_id)
    outcomes = read_outcomes(archive, plan, console.failure_table, claimed)
    listed = list_groups(plan, findings, memory, {}, outcomes)
    found = {one.group_id: one for one in findings.groups} if findings else {}
    groups = tuple(
        Group(planned, one, found.get(planned.group_id), rank)
        for rank, (planned, one) in enumerate(zip(plan.groups, listed, strict=True), start=1)
    )
    return Report(plan, findings, memory, groups, "" if newest == plan.plan_id else newest)


@dataclass(eq=False)
class MeanwhileError(Exception):
    """Somebody else changed these *groups* since the page was made. Nothing was written.

    *plan* and *groups* are as they are now.
    """

    plan: Plan
    groups: Sequence[PlannedGroup]


def change_groups(
    console: Console,
    plan_id: str,
    seen: Mapping[str, str],
    change: Callable[[str], str],
    action: Action | None = None,
    note: str | None = None,
) -> None:
    """Change groups of a plan, then write into the archive who decided it, or has edited it.

    *seen* has, by group id, ``entry_digest`` of what the reader saw. *change* makes the new text of
    the plan; *action* and *note* are what it decides, None for what it leaves as it is.

    Raises:
        MeanwhileError: one of the groups is not as the reader saw it.
        InputError: the plan has faults, or lacks one of the groups.
        BusyError: others change the plan all the time.
        ArchiveError: the archive cannot be read or written. If it is the record of who decided
            that cannot be written, the plan has the decision; deciding again writes both.
    """
    plan = _changed(find_report(console.archive, plan_id), seen, change)
    for group_id in filter(is_group_id, seen):
        is_edited = plan.groups[plan.index(group_id)].edit is not None
        if action or is_edited:
            word, at = action and action.value, console.now()
            said = Statement(at, console.who, word, plan.plan_id, note, is_edited=is_edited)
            add_statement(console.archive, group_id, said)


def _changed(file: PlanFile, seen: Mapping[str, str], change: Callable[[str], str]) -> Plan:
    for _ in range(_MOST_TRIES):
        text = file.read()
        plan = read_plan(text, name=file.path)
        new = change(text)
        wanted = read_plan(new)
        different = [
            group
            for group_id, digest in seen.items()
            if entry_digest(group := plan.groups[plan.index(group_id)]) != digest
            # Somebody else said the very same: there is nothing to confirm.
            and group != wanted.groups[plan.index(group_id)]
        ]
        if different:
            raise MeanwhileError(plan, different)
        if new == text or file.replace(text, new):
            return wanted
    raise BusyError(f"{file.path}: others change it all the time; try again")
