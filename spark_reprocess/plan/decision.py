"""Changes one group's decision in the text of a plan. Pure."""

from dataclasses import replace

import yaml

from spark_reprocess.errors import InputError
from spark_reprocess.plan.located_yaml import node_at, read_yaml, with_scalars
from spark_reprocess.plan.plan import Action, Plan
from spark_reprocess.plan.reading import read_plan


def decide(text: str, group_id: str, action: Action, note: str | None = None) -> str:
    """Return the plan's *text* with another action for one group; every other character stays.

    Args:
        text: of plan.yaml.
        group_id: of a group in it.
        action: the group's new action.
        note: why, in place of an earlier note; None keeps it, an empty text removes its words.

    Raises:
        InputError: the plan has faults, or no such group, or it is written in a way that only a
            person can change.
    """
    plan = read_plan(text)
    index = plan.index(group_id)
    changed = _with_values(text, index, action, note)
    if not _reads_as(changed, _decided(plan, index, action, note)):
        raise InputError(
            f"group {group_id}: its part of the plan is written in an unusual way; edit line "
            f"{plan.groups[index].line} by hand"
        )
    return changed


def _reads_as(text: str, plan: Plan) -> bool:
    try:
        return read_plan(text) == plan
    except InputError:
        return False


def _decided(plan: Plan, index: int, action: Action, note: str | None) -> Plan:
    group = plan.groups[index]
    decided = replace(group, action=action, note=group.note if note is None else note)
    return replace(plan, groups=(*plan.groups[:index], decided, *plan.groups[index + 1 :]))


def _with_values(text: str, index: int, action: Action, note: str | None) -> str:
    root = read_yaml(text).root
    path = ("groups", index)
    changes = [(node_at(root, (*path, "action")), action.value)]
    if note is not None:
        group = node_at(root, path)
        # One line, however the text looks.
        value = yaml.safe_dump(note, default_style='"', width=2**31).rstrip("\n")
        keys = {key.value: key for key, _ in group.value}
        if "note" in keys:
            changes.append((node_at(root, (*path, "note")), value))
        elif isinstance(group, yaml.MappingNode) and group.flow_style:
            changes[0] = (changes[0][0], f"{action.value}, note: {value}")
        else:
            indent = " " * keys["action"].start_mark.column
            changes[0] = (changes[0][0], f"{action.value}\n{indent}note: {value}")
    return with_scalars(text, changes)
