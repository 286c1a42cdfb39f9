"""Writes plan.yaml, with comments for the operator. Pure."""

from collections.abc import Mapping, Sequence
from textwrap import indent
from typing import Any

import yaml

from spark_reprocess.editing.edit import Edit
from spark_reprocess.editing.json_text import Style
from spark_reprocess.plan.plan import Plan, PlannedGroup

_NOT_IN_YAML = (*range(0x7F, 0xA0), 0x2028, 0x2029, 0xFEFF)
"""Characters that JSON allows and YAML refuses, or reads as the end of a line."""

_JSON_IN_YAML = Style(", ", ": ", escapes={code: f"\\u{code:04x}" for code in _NOT_IN_YAML})

_HEAD = """\
# What to do with the messages of an analysis, group by group. Edit the actions, then look at what
# would happen (a dry run; nothing is sent without --execute):
#
#   dlq decide GROUP redrive           sets an action here
#   dlq redrive --stack NAME           a dry run of the newest plan
#
# action: leave     do nothing; a later analysis shows the group again
#         redrive   send every message of the group to the queue, with a fresh replay counter
#         discard   record that nobody wants them back; they stay in the archive
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


def plan_text(plan: Plan, notes: Mapping[str, Sequence[str]] | None = None) -> str:
    """Write *plan* so that ``read_plan`` returns an equal one.

    PyYAML writes every value, because titles contain text from messages.

    Args:
        plan: the plan.
        notes: by group id, lines for a comment above the group.
    """
    snapshot: dict[str, Any] = {
        "drain_ids": list(plan.snapshot.drain_ids),
        "messages": plan.snapshot.messages,
        "sha256": plan.snapshot.sha256,
    }
    if plan.snapshot.table_sha256 is not None:
        snapshot["table_sha256"] = plan.snapshot.table_sha256
    if plan.snapshot.where is not None:
        snapshot["where"] = plan.snapshot.where
    if plan.snapshot.policy_sha256 is not None:
        snapshot["policy_sha256"] = plan.snapshot.policy_sha256
    head = {"version": plan.version, "plan_id": plan.plan_id, "archive": plan.archive}
    parts = [_HEAD, _yaml(head), _yaml({"snapshot": snapshot})]
    known = notes or {}
    groups = "\n".join(_group(group, known.get(group.group_id, ())) for group in plan.groups)
    return "\n".join([*parts, f"groups:\n{groups}" if groups else "groups: []\n"])


def _group(group: PlannedGroup, notes: Sequence[str]) -> str:
    values = {
        "id": group.group_id,
        "title": group.title,
        "count": group.count,
        "action": group.action.value,
        **({"note": group.note} if group.note else {}),
    }
    lines = indent(_yaml(values) + _edit(group.edit), "    ")
    comments = "".join(f"  # {_comment(note)}\n" for note in notes)
    return f"{comments}  - {lines[4:]}"


def _comment(note: str) -> str:
    """One line of printable characters: a line break in a value would end the comment."""
    return "".join(c if c.isprintable() else " " for c in note)


def _edit(edit: Edit | None) -> str:
    if edit is None:
        return ""
    # JSON is YAML, and keeps each number's digits.
    operations = edit.patch.operations if edit.patch else []
    lines = [f"  - {_JSON_IN_YAML.write(dict(one))}\n" for one in operations]
    attributes = dict(edit.set_attributes)
    return ("edit:\n" + "".join(lines) if lines else "") + (
        _yaml({"set_attributes": attributes}) if attributes else ""
    )


def _yaml(values: dict[str, Any]) -> str:
    text = _dump(values, allow_unicode=True)
    # PyYAML writes some line separators as they are and then reads them as spaces.
    return text if yaml.safe_load(text) == values else _dump(values, allow_unicode=False)


def _dump(values: dict[str, Any], *, allow_unicode: bool) -> str:
    # One line per value, however long: a folded title would be hard to read between the groups.
    return yaml.safe_dump(values, sort_keys=False, allow_unicode=allow_unicode, width=2**31)
