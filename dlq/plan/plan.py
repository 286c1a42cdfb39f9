"""plan.yaml as a value and as a text: an operator's decision for each group. Pure.

``reading`` reads it and reports all of its faults.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from hashlib import sha256
from textwrap import indent
from typing import Any

import yaml

from dlq.errors import InputError
from dlq.plan.edit import Edit
from dlq.plan.json_text import write_json

_NAMED_GROUPS = 10
_NOT_IN_YAML = {code: f"\\u{code:04x}" for code in (*range(0x7F, 0xA0), 0x2028, 0x2029, 0xFEFF)}
"""Escapes of characters that JSON allows and YAML refuses, or reads as the end of a line."""

_HEAD = """\
# What to do with the messages of an analysis, group by group. Edit the actions, then look at what
# would happen (a dry run; nothing is sent without --execute):
#
#   dlq decide GROUP redrive           sets an action here
#   dlq redrive --stack NAME           a dry run of the newest plan
#
# action: leave     do nothing; a later analysis shows the group again
#         redrive   send every message of the group to the queue, with a fresh replay counter
#         discard   record that they are written off; they stay in the archive
# note:   why, for the next reader
#
# Messages that must change before they can succeed: a group may also have, for example,
#
#   edit:                 JSON Patch (RFC 6902) on JSON bodies
#     - {op: replace, path: /customer/zip, value: "10115"}
#   set_attributes:       Spark SQL over the archive's columns; null removes an attribute
#     tenant: get_json_object(body, '$.tenant')
#
# Nothing else is yours to edit. The snapshot freezes which messages the plan is about; titles
# and counts are for the reader. A group that is deleted here is left.
"""


class Action(StrEnum):
    """What a redrive does with a group."""

    LEAVE = "leave"
    REDRIVE = "redrive"
    DISCARD = "discard"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The messages of a plan: those that were pending in these drains and match *where*.

    Attributes:
        messages: how many they are.
        table_sha256: digest of the plan's ``messages.parquet``, which names them, in hex.
        where: the SQL condition of the analysis, for the reader; None for all.
        policy_sha256: of the policy that filled in actions, in hex; None without one.
    """

    drain_ids: tuple[str, ...]
    messages: int
    table_sha256: str
    where: str | None = None
    policy_sha256: str | None = None


@dataclass(frozen=True, slots=True)
class PlannedGroup:
    """One group and its action; title and count are for the reader only.

    Attributes:
        edit: what a redrive changes in each message of the group, None for nothing.
        note: why somebody decided so, for the reader.
    """

    group_id: str
    title: str
    count: int
    action: Action
    edit: Edit | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """A whole plan."""

    plan_id: str
    archive: str
    snapshot: Snapshot
    groups: tuple[PlannedGroup, ...]

    def only(self, group_id: str) -> "Plan":
        """Return a plan that redrives one group, whatever its action was, and leaves the others.

        Raises:
            InputError: there is no such group; the text names those that there are.
        """
        group = self.groups[self.index(group_id)]
        return replace(self, groups=(replace(group, action=Action.REDRIVE),))

    def index(self, group_id: str) -> int:
        """Return the place of a group in ``groups``, from 0; of its id the beginning is enough.

        Raises:
            InputError: there is no such group, or ids of several begin so; the text names those
                that there are.
        """
        names = [group.group_id for group in self.groups]
        if group_id in names:
            return names.index(group_id)
        close = [name for name in names if name.startswith(group_id)]
        if len(close) == 1:
            return names.index(close[0])
        has, named = ("several groups", close) if close else ("no group", names)
        more = ", …" if len(named) > _NAMED_GROUPS else ""
        raise InputError(
            f"plan {self.plan_id} has {has} {group_id}; its groups are "
            f"{', '.join(named[:_NAMED_GROUPS]) or 'none'}{more}"
        )

    def full_id(self, group_id: str) -> str:
        """Return the whole id of a group. Raises as ``index`` does."""
        return self.groups[self.index(group_id)].group_id

    @property
    def edits(self) -> dict[str, Edit]:
        """The edits of the groups to redrive, by group id."""
        return {
            group.group_id: group.edit
            for group in self.groups
            if group.edit is not None and group.action is Action.REDRIVE
        }

    @property
    def decisions_sha256(self) -> str:
        """The digest, in hex, of what the plan does and to which messages.

        It is the same after changes that change nothing of that: of notes, titles and comments.
        """
        decisions = sorted(
            (group.group_id, group.action.value, group.edit.text if group.edit else "")
            for group in self.groups
            if group.action is not Action.LEAVE
        )
        said = [self.plan_id, self.snapshot.table_sha256, decisions]
        return sha256(json.dumps(said).encode()).hexdigest()

    @property
    def actions(self) -> dict[str, Action]:
        """The action by group id; a group without an action is left."""
        return {group.group_id: group.action for group in self.groups}


def plan_text(plan: Plan, notes: Mapping[str, Sequence[str]] | None = None) -> str:
    """Write *plan* so that ``read_plan`` returns an equal one.

    PyYAML writes every value, because titles contain text from messages. *notes* are lines for a
    comment above a group, by its id.
    """
    snapshot = {name: one for name, one in asdict(plan.snapshot).items() if one is not None}
    snapshot["drain_ids"] = list(plan.snapshot.drain_ids)
    head = {"version": 1, "plan_id": plan.plan_id, "archive": plan.archive}
    parts = [_HEAD, _yaml(head), _yaml({"snapshot": snapshot})]
    notes = notes or {}
    groups = "\n".join(_group(group, notes.get(group.group_id, ())) for group in plan.groups)
    return "\n".join([*parts, f"groups:\n{groups}" if groups else "groups: []\n"])


def _group(group: PlannedGroup, notes: Sequence[str]) -> str:
    # A line break in a value would end the comment.
    one_line = ("".join(c if c.isprintable() else " " for c in note) for note in notes)
    comments = "".join(f"  # {note}\n" for note in one_line)
    entry = group_text(group, "    ").strip(" \n")
    return f"{comments}  - {entry}\n"


def group_text(group: PlannedGroup, indentation: str) -> str:
    """Write the entry of a group, each line with this indentation."""
    values = {
        "id": group.group_id,
        "title": group.title,
        "count": group.count,
        "action": group.action.value,
        **({"note": group.note} if group.note else {}),
    }
    text = _yaml(values)
    if group.edit and group.edit.patch:
        # JSON is YAML, and keeps each number's digits.
        operations = [write_json(dict(one), (", ", ": ")) for one in group.edit.patch.operations]
        lines = [f"  - {one}\n" for one in operations]
        text += "".join(["edit:\n", *lines]).translate(_NOT_IN_YAML)
    if group.edit and group.edit.set_attributes:
        text += _yaml({"set_attributes": dict(group.edit.set_attributes)})
    return indent(text, indentation)


def _yaml(values: dict[str, Any]) -> str:
    text = _dump(values, allow_unicode=True)
    # PyYAML writes some line separators as they are and then reads them as spaces.
    is_kept = text.isascii() or yaml.safe_load(text) == values
    return text if is_kept else _dump(values, allow_unicode=False)


def _dump(values: dict[str, Any], *, allow_unicode: bool) -> str:
    # One line per value, however long: a folded title would be hard to read between the groups.
    return yaml.safe_dump(values, sort_keys=False, allow_unicode=allow_unicode, width=2**31)
