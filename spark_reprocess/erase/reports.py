"""Finds the reports that may quote erased messages, and removes all of them but their plan.yaml.

A plan.yaml quotes messages in titles, in leads in the comments above groups, and in the snapshot's
condition. The rest of a plan stays as it is, and so does its table, which holds no content.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import yaml

from spark_reprocess.archive.files import Archive
from spark_reprocess.archive.message_index import REPORTS, TABLE, read_table_columns
from spark_reprocess.errors import ArchiveError, InputError
from spark_reprocess.plan.reading import read_plan
from spark_reprocess.plan.yaml_text import with_scalars

_PLAN = "plan.yaml"
_ASIDE = "plan.yaml.aside"
_ERASED_TITLE = "(erased)"
_ANY_MESSAGE = '"message_id IS NOT NULL"'
"""In place of a plan's condition: it quotes nothing. The plan's table names its messages."""

_LEAD_MARKS = ("# lead:", "# --where")
"""Starts of the comment lines with a group's lead."""


@dataclass(frozen=True, slots=True)
class Report:
    """A report's folder below the archive.

    Attributes:
        files: including those of which only an old version exists.
        drain_ids: of its plan; None if its plan.yaml is missing or has faults, so that the report
            may be about any message.
        has_outdated_plan: whether a versioned bucket keeps an old version of its plan.yaml.
    """

    folder: str
    files: tuple[str, ...]
    drain_ids: tuple[str, ...] | None
    has_outdated_plan: bool = False

    def may_quote(self, drain_ids: Collection[str]) -> bool:
        """Whether it may quote a message of one of these drains."""
        return self.drain_ids is None or not set(drain_ids).isdisjoint(self.drain_ids)


def reports_of(archive: Archive) -> list[Report]:
    """Find the archive's own reports; those that were written elsewhere are not known to it."""
    folders: dict[str, list[str]] = {}
    outdated = set(archive.outdated(REPORTS))
    for path in sorted({*archive.list(REPORTS), *outdated}):
        parts = path.split("/")
        if TABLE not in parts[2:-1]:
            folders.setdefault("/".join(parts[:2]), []).append(path)
    return [
        Report(
            folder,
            tuple(files),
            _drains_of_plan(archive, f"{folder}/{_PLAN}"),
            has_outdated_plan=f"{folder}/{_PLAN}" in outdated,
        )
        for folder, files in sorted(folders.items())
    ]


def groups_with(
    archive: Archive, reports: Collection[Report], message_ids: Collection[str]
) -> set[str] | None:
    """Return the groups into which these reports put the messages; None if a table is missing."""
    wanted = pa.array(sorted(message_ids), pa.string())
    found = set[str]()
    for report in reports:
        plan_id = report.folder.rsplit("/", 1)[1]
        try:
            table = read_table_columns(archive, plan_id, ("message_id", "group_id"))
        except ArchiveError:
            return None
        matches = table.filter(pc.is_in(table["message_id"], value_set=wanted))
        found.update(map(str, matches["group_id"].to_pylist()))
    return found


def strip_report(archive: Archive, report: Report, group_ids: Collection[str] | None) -> None:
    """Remove all of a report but its plan, and what the plan quotes of these groups.

    *group_ids* is None for all groups.

    Raises:
        ArchiveError: some of it may still be there.
    """
    plan_path, aside = f"{report.folder}/{_PLAN}", f"{report.folder}/{_ASIDE}"
    text = archive.read(plan_path) or archive.read(aside)
    if text is not None:
        stripped = without_quotes(text.decode("utf-8", "replace"), group_ids).encode()
        if stripped != text or aside in report.files or report.has_outdated_plan:
            # Removed, not overwritten: a versioned bucket would keep the old version. Copied
            # first: the process may die here, and the plan is an operator's work.
            archive.write(aside, stripped)
            archive.remove(plan_path)
            archive.write(plan_path, stripped)
    for path in report.files:
        if path != plan_path or text is None:
            archive.remove(path)
    archive.remove(aside)


def without_quotes(text: str, group_ids: Collection[str] | None) -> str:
    """Replace the titles of these groups and the plan's condition, and remove the groups' leads.

    Everything else stays, comments of operators included. A text that is not YAML is returned
    unchanged.
    """
    for group in reversed(list(_groups(_root(text), group_ids))):
        title = _fields(group).get("title")
        text = with_scalars(text, [(title, _ERASED_TITLE)] if title else [])
        text = _without_leads(text, group.start_mark.index)
    where = _fields(_fields(_root(text)).get("snapshot")).get("where")
    return with_scalars(text, [(where, _ANY_MESSAGE)] if where else [])


def _drains_of_plan(archive: Archive, path: str) -> tuple[str, ...] | None:
    try:
        return read_plan((archive.read(path) or b"").decode("utf-8", "replace")).snapshot.drain_ids
    except InputError:
        return None


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


def _groups(root: yaml.Node | None, group_ids: Collection[str] | None) -> Iterator[yaml.Node]:
    groups = _fields(root).get("groups")
    for group in groups.value if isinstance(groups, yaml.SequenceNode) else []:
        fields = _fields(group)
        if "id" in fields and (group_ids is None or fields["id"].value in group_ids):
            yield group


def _fields(node: yaml.Node | None) -> dict[str, yaml.Node]:
    if not isinstance(node, yaml.MappingNode):
        return {}
    return {str(key.value): value for key, value in node.value}
