"""Finds the reports that may quote erased messages, and removes the quotes from their plan.yaml.

Quotes can be in a title, in a lead in the comment above a group, and in the snapshot's condition.
The rest of a plan stays as it is.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import yaml

from spark_reprocess.archive.files import Archive
from spark_reprocess.archive.message_index import REPORTS, TABLE
from spark_reprocess.errors import InputError
from spark_reprocess.plan.plan import Plan
from spark_reprocess.plan.reading import read_plan
from spark_reprocess.plan.yaml_text import with_scalars

_PLAN = "plan.yaml"
_ASIDE = "plan.yaml.aside"

ERASED_TITLE = "(erased)"
LEAD_MARKS = ("# lead:", "# --where")
"""Starts of the comment lines with a group's lead."""


@dataclass(frozen=True, slots=True)
class Report:
    """A report's folder below the archive.

    Attributes:
        files: including those of which only an old version exists.
        plan: None if its plan.yaml is missing or has faults; then it may be about any message.
        has_outdated_plan: whether a versioned bucket keeps an old version of its plan.yaml.
    """

    folder: str
    files: tuple[str, ...]
    plan: Plan | None
    has_outdated_plan: bool = False

    @property
    def is_version_1(self) -> bool:
        """Whether its plan has no table of its own."""
        return self.plan is not None and self.plan.snapshot.table_sha256 is None

    def may_quote(self, drain_ids: Collection[str]) -> bool:
        """Whether it may quote a message of one of these drains."""
        return self.plan is None or not set(drain_ids).isdisjoint(self.plan.snapshot.drain_ids)


def reports_of(archive: Archive) -> list[Report]:
    """Find the archive's own reports; those that were written elsewhere are not known to it.

    The table of a plan holds ids alone and is no part of its report: it stays.
    """
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
            _plan(archive, f"{folder}/{_PLAN}"),
            has_outdated_plan=f"{folder}/{_PLAN}" in outdated,
        )
        for folder, files in sorted(folders.items())
    ]


def strip_report(
    archive: Archive, report: Report, group_ids: Collection[str], where: str | None = None
) -> None:
    """Remove all of a report but its plan, and from the plan the titles and leads of these groups.

    *where* is the plan's new condition, None to keep the old one.

    Raises:
        ArchiveError: some of it may still be there.
    """
    plan_path, aside = f"{report.folder}/{_PLAN}", f"{report.folder}/{_ASIDE}"
    text = archive.read(plan_path) or archive.read(aside)
    if text is not None:
        clean = without_titles(text.decode("utf-8", "replace"), group_ids)
        stripped = (clean if where is None else with_condition(clean, where)).encode()
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


def remove_report(archive: Archive, report: Report) -> None:
    """Remove a whole report, including its plan.

    Raises:
        ArchiveError: some of it may still be there.
    """
    for path in report.files:
        archive.remove(path)


def _plan(archive: Archive, path: str) -> Plan | None:
    text = archive.read(path)
    try:
        return None if text is None else read_plan(text.decode("utf-8", "replace"))
    except InputError:
        return None


def without_titles(text: str, group_ids: Collection[str]) -> str:
    """Replace the titles of these groups, and remove their leads.

    Everything else stays, comments of operators included. A text that is not YAML is returned
    unchanged.
    """
    for group in reversed(list(_groups(_root(text), group_ids))):
        title = _fields(group).get("title")
        text = with_scalars(text, [(title, ERASED_TITLE)] if title else [])
        text = _without_leads(text, group.start_mark.index)
    return text


def with_condition(text: str, where: str) -> str:
    """Replace the snapshot's condition by *where*; a text without one is returned unchanged."""
    found = _fields(_fields(_root(text)).get("snapshot")).get("where")
    if found is None:
        return text
    quoted = yaml.safe_dump(where, default_style='"', width=2**31).rstrip("\n")
    return with_scalars(text, [(found, quoted)])


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
