"""A plan.yaml without what may quote a message, else as somebody wrote it. Pure.

A title, a lead in the comment above a group, and the condition of the snapshot may quote one.
"""

from collections.abc import Collection, Iterator

import yaml

ERASED_TITLE = "(erased)"
LEAD_MARKS = ("# lead:", "# --where")
"""How the lines of a comment begin that tell a group's lead."""


def without_titles(text: str, group_ids: Collection[str]) -> str:
    """Replace the titles of these groups and take their leads away.

    Everything else, comments of others included, stays as it is.

    A text that is no YAML comes back as it is.
    """
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError:
        return text
    for group in reversed(list(_groups(root, group_ids))):
        title = _fields(group).get("title")
        if title:
            start, end = title.start_mark.index, title.end_mark.index
            text = f"{text[:start]}{ERASED_TITLE}{text[end:]}"
        text = _without_leads(text, group.start_mark.index)
    return text


def with_condition(text: str, where: str) -> str:
    """Put *where* in place of the snapshot's condition; a text without one comes back as it is."""
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError:
        return text
    found = _fields(_fields(root).get("snapshot")).get("where")
    if found is None:
        return text
    start, end = found.start_mark.index, found.end_mark.index
    # A block's text reaches to the start of the next line.
    line_end = "\n" if text[start:end].endswith("\n") else ""
    quoted = yaml.safe_dump(where, default_style='"', width=2**31).rstrip("\n")
    return f"{text[:start]}{quoted}{line_end}{text[end:]}"


def _without_leads(text: str, start: int) -> str:
    """Take the lead's lines out of the comment that ends where a group starts."""
    lines = text[:start].splitlines(keepends=True)
    first = len(lines) - 1
    while first > 0 and lines[first - 1].lstrip().startswith("#"):
        first -= 1
    kept = [one for one in lines[first:] if not one.lstrip().startswith(LEAD_MARKS)]
    return "".join([*lines[:first], *kept]) + text[start:]


def _groups(root: yaml.Node | None, group_ids: Collection[str]) -> Iterator[yaml.Node]:
    groups = _fields(root).get("groups")
    for group in groups.value if isinstance(groups, yaml.SequenceNode) else []:
        fields = _fields(group)
        if "id" in fields and fields["id"].value in group_ids:
            yield group


def _fields(node: yaml.Node | None) -> dict[str, yaml.Node]:
    if not isinstance(node, yaml.MappingNode):
        return {}
    return {str(key.value): value for key, value in node.value}
