"""Changes decisions and edits of groups in the text of a plan. Pure."""

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace

import yaml

from spark_reprocess.editing.edit import Edit, Patch
from spark_reprocess.errors import InputError
from spark_reprocess.plan.plan import Action, Plan, PlannedGroup, patch_lines
from spark_reprocess.plan.reading import read_plan
from spark_reprocess.plan.yaml_text import compose, node_at, with_scalars, with_texts


def decide(text: str, group_ids: Collection[str], action: Action, note: str | None = None) -> str:
    """Return the plan's *text* with one action for these groups; every other character stays.

    Args:
        text: of plan.yaml.
        group_ids: of groups in it.
        action: the new action of each.
        note: why, in place of an earlier note; None keeps it, an empty text removes its words.

    Raises:
        InputError: the plan has faults, or no such group, or it is written in a way that only a
            person can change.
    """
    plan = read_plan(text)
    root = compose("the plan", text)
    changes: list[tuple[yaml.Node, str]] = []
    decided: dict[int, PlannedGroup] = {}
    for group_id in dict.fromkeys(group_ids):
        index = plan.index(group_id)
        group = plan.groups[index]
        changes += _values(node_at(root, ("groups", index)), action, note)
        new_note = group.note if note is None else note
        decided[index] = replace(group, action=action, note=new_note)
    return _checked(with_scalars(text, changes), plan, decided)


def with_patch(text: str, group_id: str, patch: Patch | None) -> str:
    """Return the plan's *text* with another JSON Patch for one group; None takes it away.

    The group's ``set_attributes`` stay, and so does all else but the lines of the patch.

    Raises:
        InputError: as for ``decide``.
    """
    plan = read_plan(text)
    index = plan.index(group_id)
    group = plan.groups[index]
    attributes = group.edit.set_attributes if group.edit else ()
    edit = Edit(patch, attributes) if patch or attributes else None
    node = node_at(compose("the plan", text), ("groups", index))
    return _checked(_with_patch(text, node, patch), plan, {index: replace(group, edit=edit)})


def _checked(changed: str, plan: Plan, groups: Mapping[int, PlannedGroup]) -> str:
    """Return the changed text if it reads as *plan* with these groups by index."""
    wanted = tuple(groups.get(index, group) for index, group in enumerate(plan.groups))
    with suppress(InputError):
        if read_plan(changed) == replace(plan, groups=wanted):
            return changed
    index, group = next(iter(groups.items()))
    raise InputError(
        f"group {group.group_id}: its part of the plan is written in an unusual way; edit "
        f"groups[{index}] by hand"
    )


def _values(group: yaml.Node, action: Action, note: str | None) -> list[tuple[yaml.Node, str]]:
    action_node = node_at(group, ("action",))
    if note is None:
        return [(action_node, action.value)]
    # One line, however the text looks.
    value = yaml.safe_dump(note, default_style='"', width=2**31).rstrip("\n")
    keys = {key.value: key for key, _ in group.value}
    if "note" in keys:
        return [(action_node, action.value), (node_at(group, ("note",)), value)]
    if isinstance(group, yaml.MappingNode) and group.flow_style:
        return [(action_node, f"{action.value}, note: {value}")]
    indent = " " * keys["action"].start_mark.column
    return [(action_node, f"{action.value}\n{indent}note: {value}")]


def _with_patch(text: str, group: yaml.Node, patch: Patch | None) -> str:
    keys = {key.value: key for key, _ in group.value}
    indent = " " * keys["action"].start_mark.column
    lines = "" if patch is None else f"\n{patch_lines(patch, indent)}"
    if "edit" in keys:
        start = keys["edit"].start_mark.index
        # With the line break and the indentation before it.
        line = text.rindex("\n", 0, start)
        return with_texts(text, [(line, _end(text, node_at(group, ("edit",))), lines)])
    values = [value for key, value in group.value if key.value in ("action", "note")]
    last = max((_end(text, value) for value in values), default=0)
    return with_texts(text, [(last, last, lines)])


def _end(text: str, node: yaml.Node) -> int:
    """Return where the text of a node ends, without the line break.

    A block's own mark is behind the comments after it.
    """
    if isinstance(node, yaml.SequenceNode) and not node.flow_style and node.value:
        return max(_end(text, one) for one in node.value)
    if isinstance(node, yaml.MappingNode) and not node.flow_style and node.value:
        return max(_end(text, value) for _, value in node.value)
    start, end = node.start_mark.index, node.end_mark.index
    return start + len(text[start:end].rstrip("\n"))
