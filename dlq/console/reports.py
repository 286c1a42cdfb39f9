"""The reports of a console: as they are now, and decisions and edits in their plans. No Spark.

Other people change a plan at the same time. A form carries a digest of each group that its page
showed, and the plan is written only if it is unchanged since it was read. If two people decide
about different groups, the one who loses the race reads the plan again and applies the decision
again: both decisions are in it. If two people decide about the same group, the second one is shown
the decision of the first one, and confirms or not.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from hashlib import sha256

from dlq.archive.group_records import add_statement, read_memory
from dlq.archive.ledger.open_set import claimed_of_plan
from dlq.archive.storage.files import Archive
from dlq.console.site import Console
from dlq.errors import BusyError, JobError
from dlq.explain.findings import Findings, GroupFinding
from dlq.explain.outputs import read_findings
from dlq.explain.triage import GroupMemory, Statement, is_group_id
from dlq.inspect.groups import ListedGroup, findings_by_id, list_groups
from dlq.inspect.outcomes import read_outcomes
from dlq.plan.plan import Action, Plan, PlannedGroup
from dlq.plan.plan_file import PlanFile, find_plan
from dlq.plan.plan_reading import read_plan

_MOST_TRIES = 30
"""Lost races in a row after which something else is wrong."""


@dataclass(frozen=True, slots=True)
class Group:
    """One group of a plan.

    Attributes:
        planned: its entry in the plan now.
        listed: as ``groups`` prints it, with the statements of people about it.
        finding: its finding of the analysis; None where the plan is not beside its report.
        rank: its position by size, from 1.
    """

    planned: PlannedGroup
    listed: ListedGroup
    finding: GroupFinding | None
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
    """Return a digest of the values of a group that a person may change in a plan."""
    values = [group.action.value, group.note, group.edit.text if group.edit else ""]
    return sha256(json.dumps(values).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Report:
    """One report as it is now.

    Attributes:
        findings: of the analysis; None where the plan is not beside its report.
        memory: the statements of people, without the texts of notes.
        groups: in the plan's order.
        newest: id of the newest report, if this is another one; empty for the newest.
    """

    plan: Plan
    findings: Findings | None
    memory: GroupMemory
    groups: tuple[Group, ...]
    newest: str = ""

    @property
    def address_plan(self) -> str:
        """The plan's id in addresses; empty for the newest."""
        return self.plan.plan_id if self.newest else ""


_read_plan = lru_cache(maxsize=4)(read_plan)
_read_findings = lru_cache(maxsize=4)(read_findings)
"""Of a thousand groups each takes a fifth of a second. The text is the key: a change is seen."""

find_report = partial(find_plan, takes_files=False)
"""Returns the plan of the report of an id, None for the newest. A page names no other file."""


def read_ahead(archive: Archive) -> None:
    """Read the newest report, so that the first page need not. The page says what is wrong."""
    with suppress(JobError):
        file = find_report(archive, None)
        _read_plan(file.read(), name=file.path)
        _read_findings(file.summary())


def read_report(console: Console, plan_id: str | None) -> Report:
    """Read a report, the newest by default, and the outcomes of its messages by now.

    Raises:
        InputError: there is no such report, or its plan has faults.
    """
    archive = console.archive
    file = find_report(archive, plan_id)
    plan = _read_plan(file.read(), name=file.path)
    newest_id = plan.plan_id
    if plan_id:
        newest_id = find_plan(archive, None).folder.root.rsplit("/", 1)[1]

    # The plan alone decides; without its summary there are no differences and no samples to show.
    findings = _read_findings(file.summary())
    memory = read_memory(archive)
    claimed = claimed_of_plan(archive, plan.plan_id)
    outcomes = read_outcomes(archive, plan, console.failure_table, claimed)

    listed_groups = list_groups(plan, findings, memory, {}, outcomes)
    group_findings = findings_by_id(findings)
    groups: list[Group] = []
    for planned, listed in zip(plan.groups, listed_groups, strict=True):
        group = Group(
            planned=planned,
            listed=listed,
            finding=group_findings.get(planned.group_id),
            rank=len(groups) + 1,
        )
        groups.append(group)

    return Report(
        plan=plan,
        findings=findings,
        memory=memory,
        groups=tuple(groups),
        newest="" if newest_id == plan.plan_id else newest_id,
    )


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
    """Change groups of a plan, then record in the archive who decided it, or has edited it.

    Args:
        console: the console of the user.
        plan_id: the plan.
        seen: by group id, ``entry_digest`` of the entry that the reader saw.
        change: makes the new text of the plan.
        action: the action that it decides; None if it decides none.
        note: the note that it writes; None if it leaves the note as it is.

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
        if not action and not is_edited:
            continue

        statement = Statement(
            time=console.now(),
            who=console.who,
            action=action.value if action else None,
            plan_id=plan.plan_id,
            text=note,
            is_edited=is_edited,
        )
        add_statement(console.archive, group_id, statement)


def _changed(file: PlanFile, seen: Mapping[str, str], change: Callable[[str], str]) -> Plan:
    for _ in range(_MOST_TRIES):
        text = file.read()
        plan = read_plan(text, name=file.path)
        new = change(text)
        wanted = read_plan(new)

        different = []
        for group_id, digest in seen.items():
            position = plan.index(group_id)
            group = plan.groups[position]
            # If somebody else decided the very same, there is nothing to confirm.
            if entry_digest(group) != digest and group != wanted.groups[position]:
                different.append(group)
        if different:
            raise MeanwhileError(plan, different)
        if new == text or file.replace(text, new):
            return wanted
    raise BusyError(f"{file.path}: others change it all the time; try again")
