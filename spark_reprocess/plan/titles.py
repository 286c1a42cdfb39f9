"""A plan.yaml without the titles of some groups, and otherwise as somebody wrote it. Pure.

A title may quote what a message said.
"""

from collections.abc import Collection, Iterator

import yaml

ERASED_TITLE = "(erased)"


def without_titles(text: str, group_ids: Collection[str]) -> str:
    """Replace the titles of these groups; comments, actions and edits stay where they are.

    A text that is no YAML comes back as it is.
    """
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError:
        return text
    for title in reversed(list(_titles(root, group_ids))):
        start, end = title.start_mark.index, title.end_mark.index
        text = f"{text[:start]}{ERASED_TITLE}{text[end:]}"
    return text


def _titles(root: yaml.Node | None, group_ids: Collection[str]) -> Iterator[yaml.Node]:
    groups = _fields(root).get("groups")
    for group in groups.value if isinstance(groups, yaml.SequenceNode) else []:
        fields = _fields(group)
        if "id" in fields and fields["id"].value in group_ids and "title" in fields:
            yield fields["title"]


def _fields(node: yaml.Node | None) -> dict[str, yaml.Node]:
    if not isinstance(node, yaml.MappingNode):
        return {}
    return {str(key.value): value for key, value in node.value}
