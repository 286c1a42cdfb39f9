"""plan.yaml as a value and as a text: an operator's decision for each group. Pure.

``plan_reading`` reads it and reports all of its faults.
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
    """The action of a redrive for a group."""

    LEAVE = "leave"
    REDRIVE = "redrive"
    DISCARD = "discard"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The messages of a plan: those that were pending in these drains and match *where*.

    Attributes:
        messages: their number.
        table_sha256: digest of the plan's ``messages.parquet``, which names them, in hex.
        where: the SQL condition of the analysis, for the reader; None for all.
        policy_sha256: digest of the policy that filled in actions, in hex; None without one.
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
        edit: the change of each message of the group in a redrive, None for no change.
        note: the reason of the decision, for the reader.
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
            InputError: there is no such group; the text names the existing ones.
        """
        group = self.groups[self.index(group_id)]
        return replace(self, groups=(replace(group, action=Action.REDRIVE),))

    def index(self, group_id: str) -> int:
        """Return the index of a group in ``groups``; the beginning of its id is enough.

        Raises:
            InputError: there is no such group, or several ids begin like this; the text names the
                groups that may be meant.
        """
        ids = [group.group_id for group in self.groups]
        if group_id in ids:
            return ids.index(group_id)
        matches = [each_id for each_id in ids if each_id.startswith(group_id)]
        if len(matches) == 1:
            return ids.index(matches[0])

        has = "several groups" if matches else "no group"
        candidates = matches or ids
        named = ", ".join(candidates[:_NAMED_GROUPS]) or "none"
        more = ", …" if len(candidates) > _NAMED_GROUPS else ""
        raise InputError(f"plan {self.plan_id} has {has} {group_id}; its groups are {named}{more}")

    def full_id(self, group_id: str) -> str:
        """Return the whole id of a group. Raises as ``index`` does."""
        return self.groups[self.index(group_id)].group_id

    @property
    def edits(self) -> dict[str, Edit]:
        """The edits of the groups to redrive, by group id."""
        edits = {}
        for group in self.groups:
            if group.edit is not None and group.action is Action.REDRIVE:
                edits[group.group_id] = group.edit
        return edits

    @property
    def decisions_sha256(self) -> str:
        """The digest, in hex, of the plan's messages and of what happens to them.

        Notes, titles and comments do not change it.
        """
        decisions = []
        for group in self.groups:
            if group.action is not Action.LEAVE:
                edit_text = group.edit.text if group.edit else ""
                decisions.append((group.group_id, group.action.value, edit_text))
        content = [self.plan_id, self.snapshot.table_sha256, sorted(decisions)]
        return sha256(json.dumps(content).encode()).hexdigest()

    @property
    def actions(self) -> dict[str, Action]:
        """The action by group id; a group without an action is left."""
        return {group.group_id: group.action for group in self.groups}


def plan_text(plan: Plan, notes: Mapping[str, Sequence[str]] | None = None) -> str:
    """Write *plan* so that ``read_plan`` returns an equal one.

    PyYAML writes every value, because titles contain text from messages. *notes* are lines for a
    comment above a group, by its id.
    """
    head = {"version": 1, "plan_id": plan.plan_id, "archive": plan.archive}
    snapshot = {name: value for name, value in asdict(plan.snapshot).items() if value is not None}
    snapshot["drain_ids"] = list(plan.snapshot.drain_ids)
    parts = [_HEAD, _yaml(head), _yaml({"snapshot": snapshot})]

    notes = notes or {}
    if plan.groups:
        entries = [_commented_entry(group, notes.get(group.group_id, ())) for group in plan.groups]
        parts.append("groups:\n" + "\n".join(entries))
    else:
        parts.append("groups: []\n")
    return "\n".join(parts)


def _commented_entry(group: PlannedGroup, notes: Sequence[str]) -> str:
    """Write the entry of a group in the list of groups, below its notes as comments."""
    comments = [f"  # {_printable(note)}\n" for note in notes]
    entry = group_text(group, "    ").strip(" \n")
    return f"{''.join(comments)}  - {entry}\n"


def _printable(note: str) -> str:
    """Return *note* in one line: a line break would end the comment."""
    return "".join(character if character.isprintable() else " " for character in note)


def group_text(group: PlannedGroup, indentation: str) -> str:
    """Write the entry of a group, each line with this indentation."""
    values = {
        "id": group.group_id,
        "title": group.title,
        "count": group.count,
        "action": group.action.value,
    }
    if group.note:
        values["note"] = group.note
    text = _yaml(values)

    if group.edit and group.edit.patch:
        text += "edit:\n"
        for operation in group.edit.patch.operations:
            # JSON is YAML, and keeps each number's digits.
            operation_text = write_json(dict(operation), (", ", ": "))
            text += f"  - {operation_text}\n".translate(_NOT_IN_YAML)
    if group.edit and group.edit.set_attributes:
        text += _yaml({"set_attributes": dict(group.edit.set_attributes)})
    return indent(text, indentation)


def _yaml(values: dict[str, Any]) -> str:
    text = _dump(values, allow_unicode=True)
    # PyYAML writes some line separators as they are and then reads them as spaces.
    if text.isascii() or yaml.safe_load(text) == values:
        return text
    return _dump(values, allow_unicode=False)


def _dump(values: dict[str, Any], *, allow_unicode: bool) -> str:
    # One line per value, however long: a folded title would be hard to read between the groups.
    return yaml.safe_dump(values, sort_keys=False, allow_unicode=allow_unicode, width=2**31)
