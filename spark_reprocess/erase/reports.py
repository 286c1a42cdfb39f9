"""Finds the reports that may quote erased messages, and removes all of them but their plan.yaml.

A plan.yaml quotes messages in titles, in leads in the comments above groups, and in the snapshot's
condition. The rest of a plan stays as it is, and so does its table, which holds no content.
"""

from collections.abc import Collection, Sequence

import yaml

from spark_reprocess.archive.messages.message_index import REPORTS, TABLE
from spark_reprocess.archive.storage.files import Archive
from spark_reprocess.errors import InputError
from spark_reprocess.plan.reading import read_plan
from spark_reprocess.plan.yaml_text import with_scalars

_PLAN = "plan.yaml"
_ERASED_TITLE = "(erased)"
_ANY_MESSAGE = '"message_id IS NOT NULL"'
"""In place of a plan's condition: it quotes nothing. The plan's table names its messages."""

_LEAD_MARKS = ("# lead:", "# --where")
"""Starts of the comment lines with a group's lead."""


def reports_quoting(archive: Archive, drain_ids: Collection[str]) -> dict[str, list[str]]:
    """Find the archive's own reports that may quote a message of one of these drains.

    Returns:
        By folder of the report, its files, with those of which only an old version exists.
    """
    folders: dict[str, list[str]] = {}
    for path in sorted({*archive.list(REPORTS), *archive.outdated(REPORTS)}):
        parts = path.split("/")
        if TABLE not in parts[2:-1]:
            folders.setdefault("/".join(parts[:2]), []).append(path)
    return {one: folders[one] for one in sorted(folders) if _may_quote(archive, one, drain_ids)}


def strip_report(archive: Archive, folder: str, files: Sequence[str]) -> None:
    """Remove all of a report but its plan, and what the plan quotes of messages."""
    plan_path = f"{folder}/{_PLAN}"
    text = archive.read(plan_path)
    if text is not None:
        stripped = without_quotes(text.decode("utf-8", "replace")).encode()
        if stripped != text:
            archive.write(plan_path, stripped)
        # A versioned bucket keeps what was overwritten.
        archive.remove(plan_path, keeps_current=True)
    for path in files:
        if path != plan_path or text is None:
            archive.remove(path)


def without_quotes(text: str) -> str:
    """Replace the titles of groups and the plan's condition, and remove the groups' leads.

    Everything else stays, comments of operators included. A text that is not YAML is returned
    unchanged.
    """
    groups = _fields(_root(text)).get("groups")
    found = groups.value if isinstance(groups, yaml.SequenceNode) else []
    for group in reversed([group for group in found if "id" in _fields(group)]):
        title = _fields(group).get("title")
        text = with_scalars(text, [(title, _ERASED_TITLE)] if title else [])
        text = _without_leads(text, group.start_mark.index)
    where = _fields(_fields(_root(text)).get("snapshot")).get("where")
    return with_scalars(text, [(where, _ANY_MESSAGE)] if where else [])


def _may_quote(archive: Archive, folder: str, drain_ids: Collection[str]) -> bool:
    """Without a plan, or if that has faults, the report may be about any message."""
    content = archive.read(f"{folder}/{_PLAN}") or b""
    try:
        plan = read_plan(content.decode("utf-8", "replace"))
    except InputError:
        return bool(drain_ids)
    return not set(drain_ids).isdisjoint(plan.snapshot.drain_ids)


def _root(text: str) -> yaml.Node | None:
    try:
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError:
        return None


def _without_leads(text: str, start: int) -> str:
    """Remove the lines of the lead from the comment above a group."""
    lines = text[:start].splitlines(keepends=True)
    first = len(lines) - 1
    while first > 0 and lines[first - 1].lstrip().startswith("#"):
        first -= 1
    kept = [line for line in lines[first:] if not line.lstrip().startswith(_LEAD_MARKS)]
    return "".join([*lines[:first], *kept]) + text[start:]


def _fields(node: yaml.Node | None) -> dict[str, yaml.Node]:
    if not isinstance(node, yaml.MappingNode):
        return {}
    return {str(key.value): value for key, value in node.value}
