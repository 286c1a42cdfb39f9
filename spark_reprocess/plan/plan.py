"""plan.yaml as a value: an operator's decision for each group. Pure.

``plan_text`` writes the file with comments; ``reading`` reads it and reports all of its faults.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from spark_reprocess.editing.edit import Edit

PLAN_VERSION = 2
"""The newest. A plan of version 1 names no table."""


class Action(StrEnum):
    """What a redrive does with a group."""

    LEAVE = "leave"
    REDRIVE = "redrive"
    DISCARD = "discard"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The messages of a plan: all messages of these drains that match *where*.

    Attributes:
        drain_ids: which drains of the archive.
        messages: how many distinct messages they hold.
        sha256: ``message_store.digest`` of their ids.
        where: the SQL condition of the analysis, None for all.
        policy_sha256: of the policy that filled in actions, in hex; None without one.
        table_sha256: digest of the plan's ``messages.parquet``, in hex; None in version 1.
    """

    drain_ids: tuple[str, ...]
    messages: int
    sha256: str
    where: str | None = None
    policy_sha256: str | None = None
    table_sha256: str | None = None


@dataclass(frozen=True, slots=True)
class PlannedGroup:
    """One group and its action; title and count are for the reader only.

    Attributes:
        edit: what a redrive changes in each message of the group, None for nothing.
        line: its line in plan.yaml, from 1; 0 for a group that was not read from a file.
    """

    group_id: str
    title: str
    count: int
    action: Action
    edit: Edit | None = None
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Plan:
    """A whole plan."""

    plan_id: str
    archive: str
    snapshot: Snapshot
    groups: tuple[PlannedGroup, ...]

    @property
    def version(self) -> int:
        """The version of plan.yaml that says all of this."""
        return 1 if self.snapshot.table_sha256 is None else PLAN_VERSION

    @property
    def edits(self) -> dict[str, Edit]:
        """The edits of the groups to redrive, by group id."""
        return {
            group.group_id: group.edit
            for group in self.groups
            if group.edit is not None and group.action is Action.REDRIVE
        }

    @property
    def actions(self) -> dict[str, Action]:
        """The action by group id; a group without an action is left."""
        return {group.group_id: group.action for group in self.groups}
