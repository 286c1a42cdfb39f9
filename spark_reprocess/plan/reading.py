"""Reads plan.yaml and reports all of its faults at once, each with its line. Pure.

An unknown key or value is a fault, never ignored: a misspelt ``action`` must not become "leave".
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from spark_reprocess.editing.edit import Edit, Patch, name_fault, patch_faults
from spark_reprocess.errors import InputError
from spark_reprocess.plan.located_yaml import (
    Fault,
    LocatedYaml,
    Path,
    faults_text,
    is_newer,
    json_at,
    read_yaml,
    version_fault,
)
from spark_reprocess.plan.plan import PLAN_VERSION, Action, Plan, PlannedGroup, Snapshot

_MOST_ATTRIBUTES = 10
"""SQS's limit for a message, so more could never be set."""

ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
"""Ids of plans, groups and drains."""

_DIGEST = re.compile(r"[0-9a-f]{64}")
_PLAN_KEYS = {"version", "plan_id", "archive", "snapshot", "groups"}
_SNAPSHOT_KEYS = {"drain_ids", "messages", "sha256", "where", "policy_sha256"}
_GROUP_KEYS = {"id", "title", "count", "action", "edit", "set_attributes", "note"}


@dataclass(frozen=True, slots=True)
class SqlFaults:
    """Checks Spark SQL over the archive's columns.

    Attributes:
        in_condition: what is wrong with a condition, None if nothing is.
        in_expression: the same for an expression of ``set_attributes``.
    """

    in_condition: Callable[[str], str | None]
    in_expression: Callable[[str], str | None]


@dataclass(frozen=True, slots=True)
class _EditReader:
    """Reads the edits of a plan's groups.

    Attributes:
        located: the plan's YAML.
        expression_fault: see ``SqlFaults.in_expression``.
    """

    located: LocatedYaml
    expression_fault: Callable[[str], str | None] | None

    def faults(self, group: Mapping[Any, Any], path: Path) -> Iterator[Fault]:
        """Find what is wrong with the edit of the *group* at *path*."""
        if "edit" in group:
            yield from self._patch_faults((*path, "edit"))
        if "set_attributes" in group:
            yield from self._attribute_faults((*path, "set_attributes"), group["set_attributes"])

    def edit(self, group: Mapping[Any, Any], path: Path) -> Edit | None:
        """Return the edit of a group that has no faults, None where there is none."""
        patch = None
        if "edit" in group:
            patch = Patch.of(json_at(self.located.root, (*path, "edit"))[0])
        expressions = group.get("set_attributes", {})
        return Edit(patch, tuple(expressions.items())) if patch or expressions else None

    def _patch_faults(self, path: Path) -> Iterator[Fault]:
        operations, found = json_at(self.located.root, path)
        if found:
            yield from ((place, f"edit: {fault}") for place, fault in found)
            return
        for index, fault in patch_faults(operations):
            if index is None:
                yield path, f"edit {fault}"
            else:
                yield (*path, index), f"edit, operation {index + 1}: {fault}"

    def _attribute_faults(self, path: Path, raw: object) -> Iterator[Fault]:
        if not isinstance(raw, dict) or not raw:
            yield path, "set_attributes: must be a mapping of names to Spark SQL expressions"
            return
        if len(raw) > _MOST_ATTRIBUTES:
            yield (
                path,
                f"set_attributes: SQS takes {_MOST_ATTRIBUTES} attributes, these are more",
            )
        for name, expression in raw.items():
            fault = name_fault(name) or self._expression_fault(expression)
            if fault:
                yield (*path, str(name)), f"set_attributes: {name}: {fault}"

    def _expression_fault(self, expression: object) -> str | None:
        if expression is None:
            return None
        if not isinstance(expression, str):
            return f"{expression!r}: must be Spark SQL as text, e.g. \"'{expression}'\", or null"
        return self.expression_fault and self.expression_fault(expression)


def read_plan(text: str, sql_faults: SqlFaults | None = None) -> Plan:
    """Read a plan. Its SQL is checked where *sql_faults* is given.

    Raises:
        InputError: it has faults; the message lists all of them, each with its line.
    """
    try:
        located = read_yaml(text)
    except ValueError as error:
        raise InputError(f"the plan cannot be read: {error}") from error
    raw = located.value
    expression_fault = sql_faults.in_expression if sql_faults else None
    edits = _EditReader(located, expression_fault)
    faults = list(_faults(raw, edits, sql_faults))
    lines = [(located.line(*path), fault) for path, fault in faults]
    lines += [(line, f"{path[-1]}: is repeated") for path, line in located.repeated]
    if lines:
        raise InputError(faults_text("the plan", lines))
    return _plan(raw, located, edits)


def plan_faults(plan: Plan, faults: Mapping[str, str]) -> str:
    """Format faults of groups, by id, that ``read_plan`` could not find; with the same layout."""
    lines = {group.group_id: group.line for group in plan.groups}
    of_groups = [(lines[one], f"group {one}: {fault}") for one, fault in faults.items()]
    return faults_text("the plan", of_groups)


def _plan(raw: Mapping[str, Any], located: LocatedYaml, edits: _EditReader) -> Plan:
    snapshot = raw["snapshot"]
    return Plan(
        plan_id=raw["plan_id"],
        archive=str(raw["archive"]),
        snapshot=Snapshot(
            drain_ids=tuple(snapshot["drain_ids"]),
            messages=snapshot["messages"],
            sha256=snapshot["sha256"],
            where=snapshot.get("where"),
            policy_sha256=snapshot.get("policy_sha256"),
            table_sha256=snapshot.get("table_sha256"),
        ),
        groups=tuple(
            PlannedGroup(
                group_id=group["id"],
                title=str(group.get("title", "")),
                count=group.get("count", 0),
                action=Action(group["action"]),
                edit=edits.edit(group, ("groups", index)),
                note=group.get("note", ""),
                line=located.line("groups", index),
            )
            for index, group in enumerate(raw["groups"])
        ),
    )


def _faults(raw: object, edits: _EditReader, sql_faults: SqlFaults | None) -> Iterator[Fault]:
    if not isinstance(raw, dict):
        yield (), "must be a mapping with version, plan_id, archive, snapshot and groups"
        return
    if fault := version_fault(raw.get("version"), PLAN_VERSION):
        yield ("version",), fault
    if is_newer(raw.get("version"), PLAN_VERSION):
        # Its other keys belong to a format that this program does not know.
        return
    yield from _key_faults("plan", (), raw, _PLAN_KEYS)
    if not _matches(ID, raw.get("plan_id")):
        fault = f"plan_id: {raw.get('plan_id')!r}: must be 1 to 64 letters, digits, - and _"
        yield ("plan_id",), fault
    yield from _snapshot_faults(raw.get("snapshot"), raw.get("version"), sql_faults)
    yield from _groups_faults(raw.get("groups"), edits)


def _snapshot_faults(raw: object, version: object, sql_faults: SqlFaults | None) -> Iterator[Fault]:
    top = ("snapshot",)
    if not isinstance(raw, dict):
        yield top, "snapshot: must be a mapping with drain_ids, messages and sha256"
        return
    known_keys = _SNAPSHOT_KEYS if version == 1 else {*_SNAPSHOT_KEYS, "table_sha256"}
    yield from _key_faults("snapshot", top, raw, known_keys)
    ids = raw.get("drain_ids")
    if not isinstance(ids, list) or not ids or not all(_matches(ID, one) for one in ids):
        fault = "snapshot.drain_ids: must be a list of at least one drain id"
        yield (*top, "drain_ids"), fault
    if not _is_count(raw.get("messages")):
        fault = f"snapshot.messages: {raw.get('messages')!r}: must be a whole number of at least 0"
        yield (*top, "messages"), fault
    if not _matches(_DIGEST, raw.get("sha256")):
        yield (*top, "sha256"), "snapshot.sha256: must be 64 hex digits, as analyze wrote them"
    where = raw.get("where")
    if not isinstance(where, str | None):
        yield (*top, "where"), "snapshot.where: must be the text that analyze wrote"
    elif where is not None and sql_faults and (wrong := sql_faults.in_condition(where)):
        yield (*top, "where"), wrong
    for name, is_needed in (("policy_sha256", False), ("table_sha256", version != 1)):
        if (is_needed or name in raw) and not _matches(_DIGEST, raw.get(name)):
            yield (*top, name), f"snapshot.{name}: must be 64 hex digits, as analyze wrote them"


def _groups_faults(raw: object, edits: _EditReader) -> Iterator[Fault]:
    if not isinstance(raw, list):
        yield ("groups",), "groups: must be a list"
        return
    seen: set[object] = set()
    for index, group in enumerate(raw):
        path: Path = ("groups", index)
        if not isinstance(group, dict) or not _matches(ID, group.get("id")):
            yield path, f"groups: entry {index + 1}: must be a mapping with id and action"
            continue
        name = f"group {group['id']}"
        if group["id"] in seen:
            yield path, f"{name}: is in the plan twice"
        seen.add(group["id"])
        yield from _group_faults(name, path, group, edits)


def _group_faults(
    name: str, path: Path, group: Mapping[Any, Any], edits: _EditReader
) -> Iterator[Fault]:
    yield from _key_faults(name, path, group, _GROUP_KEYS)
    if group.get("action") not in list(Action):
        fault = f"{name}: action {group.get('action')!r}: must be {', '.join(Action)}"
        yield (*path, "action"), fault
    if not _is_count(group.get("count", 0)):
        yield (*path, "count"), f"{name}: count {group.get('count')!r}: must be a whole number"
    if not isinstance(group.get("note", ""), str):
        yield (*path, "note"), f"{name}: note {group['note']!r}: must be text"
    for place, fault in edits.faults(group, path):
        yield place, f"{name}: {fault}"


def _key_faults(name: str, path: Path, raw: Mapping[Any, Any], known: set[str]) -> Iterator[Fault]:
    for key in raw:
        if key not in known:
            yield (*path, str(key)), f"{name}: {key!r} is not known in this version; remove it"


def _matches(pattern: re.Pattern[str], value: object) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 0
