"""Writes decisions and edits into a plan that other people change at the same time.

A form carries what its page showed of each group, and the plan is written only if it is still what
was read. So of two people who decide about different groups, whoever loses the race reads the plan
again and applies the decision again: both are in it. Of two who decide about the same group, the
second one is shown what the first one decided, and confirms or not.
"""

from collections.abc import Callable, Mapping, Sequence

from dlq_cli.console.reading import entry_digest, find_report
from dlq_cli.console.site import Console
from spark_reprocess.archive.group_records import add_statement
from spark_reprocess.editing.edit import Patch
from spark_reprocess.errors import BusyError
from spark_reprocess.groups.triage import Statement, is_group_id
from spark_reprocess.plan.decision import decide, with_patch
from spark_reprocess.plan.plan import Action, Plan, PlannedGroup
from spark_reprocess.plan.plan_file import PlanFile
from spark_reprocess.plan.reading import read_plan

_MOST_TRIES = 30
"""Lost races in a row after which something else is wrong."""


class MeanwhileError(Exception):
    """Somebody else changed these *groups* since the page was made. Nothing was written.

    *plan* and *groups* are as they are now.
    """

    def __init__(self, plan: Plan, groups: Sequence[PlannedGroup]) -> None:
        super().__init__(", ".join(one.group_id for one in groups))
        self.plan = plan
        self.groups = groups


def decide_groups(
    console: Console, plan_id: str, seen: Mapping[str, str], action: Action, note: str | None
) -> None:
    """Write one decision about several groups into a plan, then who decided it into the archive.

    *seen* has, by group id, ``entry_digest`` of what the reader saw. Without a *note* each group
    keeps its own.

    Raises:
        MeanwhileError: one of the groups is not as the reader saw it.
        InputError: the plan has faults, or lacks one of the groups.
        BusyError: others change the plan all the time.
        ArchiveError: the archive cannot be read or written. If it is the record of who decided
            that cannot be written, the plan has the decision; deciding again writes both.
    """
    plan = _change(
        find_report(console.archive, plan_id),
        seen,
        lambda text: decide(text, [*seen], action, note),
    )
    for group_id in filter(is_group_id, seen):
        is_edited = plan.groups[plan.index(group_id)].edit is not None
        said = Statement(
            console.now(), console.who, action.value, plan.plan_id, note, is_edited=is_edited
        )
        add_statement(console.archive, group_id, said)


def set_patch(
    console: Console, plan_id: str, group_id: str, seen: str, patch: Patch | None
) -> None:
    """Write a JSON Patch for one group into a plan; None takes it away. Raises as above."""
    file = find_report(console.archive, plan_id)
    plan = _change(file, {group_id: seen}, lambda text: with_patch(text, group_id, patch))
    if patch and is_group_id(group_id):
        said = Statement(console.now(), console.who, plan_id=plan.plan_id, is_edited=True)
        add_statement(console.archive, group_id, said)


def _change(file: PlanFile, seen: Mapping[str, str], change: Callable[[str], str]) -> Plan:
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
