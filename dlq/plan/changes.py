"""Change decisions and edits of groups in the text of a plan. Pure."""

import re
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import replace
from typing import Any

import yaml

from dlq.errors import InputError
from dlq.plan.edit import Edit, Patch
from dlq.plan.plan import Action, PlannedGroup, group_text
from dlq.plan.plan_reading import read_plan

_COMMENTS_AT_THE_END = re.compile(r"(\n *(#.*)?)*\Z")


def decide(text: str, group_ids: Collection[str], action: Action, note: str | None = None) -> str:
    """Return the plan's *text* with one action for these groups.

    The entries of other groups, and comments outside of entries, stay as they are. The *note*
    replaces an earlier one; None keeps it, an empty text removes it.

    Raises:
        InputError: the plan has faults, or no such group, or it is written in a way that only a
            person can change.
    """

    def decided(group: PlannedGroup) -> PlannedGroup:
        new_note = group.note if note is None else note
        return replace(group, action=action, note=new_note)

    return _changed(text, group_ids, decided)


def with_patch(text: str, group_id: str, patch: Patch | None) -> str:
    """Return the plan's *text* with another JSON Patch for one group; None removes it.

    Only the patch changes; the group's ``set_attributes`` stay. Raises as ``decide`` does.
    """

    def edited(group: PlannedGroup) -> PlannedGroup:
        attributes = group.edit.set_attributes if group.edit else ()
        edit = Edit(patch, attributes) if patch or attributes else None
        return replace(group, edit=edit)

    return _changed(text, [group_id], edited)


def _changed(
    text: str, group_ids: Collection[str], change: Callable[[PlannedGroup], PlannedGroup]
) -> str:
    plan = read_plan(text)
    groups = list(plan.groups)
    root: Any = yaml.compose(text, Loader=yaml.SafeLoader)
    entries = next(value.value for key, value in root.value if key.value == "groups")

    indexes = sorted({plan.index(group_id) for group_id in group_ids})
    new = text
    # From the end, so that the positions of earlier entries stay right.
    for index in reversed(indexes):
        groups[index] = change(groups[index])
        start = entries[index].start_mark
        end = entries[index].end_mark
        entry = _COMMENTS_AT_THE_END.sub("", text[start.index : end.index])
        new_entry = group_text(groups[index], " " * start.column).strip(" \n")
        new = f"{new[: start.index]}{new_entry}{new[start.index + len(entry) :]}"

    with suppress(InputError):
        if read_plan(new) == replace(plan, groups=tuple(groups)):
            return new
    raise InputError(
        f"groups[{indexes[0]}]: is written in an unusual way; change it by hand in the plan"
    )
