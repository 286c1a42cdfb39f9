"""Read plan.yaml, and report all of its faults at once, each with its place. Pure.

An unknown key or value is a fault, never ignored: a misspelt ``action`` must not become "leave".
"""

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Any

from dlq.plan.edit import Edit, Patch, name_fault, patch_faults
from dlq.plan.plan import Action, Plan, PlannedGroup, Snapshot
from dlq.plan.yaml_text import Fault, Keys, Path, key_faults, read_document, refuse

ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
"""Ids of plans, groups and drains."""


def _is_id(value: object) -> bool:
    return isinstance(value, str) and ID.fullmatch(value) is not None


def _is_digest(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(r"[0-9a-f]{64}", value) is not None


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 0


_ID_RULE = "1 to 64 letters, digits, - and _"
_DIGEST_RULE = "64 hex digits, as the analysis wrote them"
_PLAN: Keys = {
    "version": None,
    "plan_id": (_is_id, _ID_RULE),
    "archive": (lambda value: isinstance(value, str), "the archive's path or address"),
    "snapshot": None,
    "groups": (lambda value: isinstance(value, list), "a list"),
}
_SNAPSHOT: Keys = {
    "drain_ids": (
        lambda value: isinstance(value, list) and bool(value) and all(map(_is_id, value)),
        "a list of at least one drain id",
    ),
    "messages": (_is_count, "a whole number of at least 0"),
    "table_sha256": (_is_digest, _DIGEST_RULE),
    "where": (lambda value: isinstance(value, str | None), "the text that the analysis wrote"),
    "policy_sha256": (lambda value: value is None or _is_digest(value), _DIGEST_RULE),
}
_GROUP: Keys = {
    "id": (_is_id, _ID_RULE),
    "title": None,
    "count": (lambda value: value is None or _is_count(value), "a whole number of at least 0"),
    "action": (lambda value: value in list(Action), ", ".join(Action)),
    "note": (lambda value: isinstance(value, str | None), "text"),
    "edit": None,
    "set_attributes": None,
}

SqlCheck = Callable[[str], str | None]
"""Returns the fault of an expression of ``set_attributes``, None if it has none."""


def read_plan(text: str, sql_check: SqlCheck = lambda _: None, name: str = "the plan") -> Plan:
    """Read a plan. The SQL of its edits is checked by *sql_check*.

    Raises:
        InputError: it has faults; the message lists all of them, each with its place, for the file
            *name*.
    """
    raw = read_document(name, text)
    refuse(name, _faults(raw, sql_check))
    drain_ids = tuple(raw["snapshot"]["drain_ids"])
    return Plan(
        plan_id=raw["plan_id"],
        archive=raw["archive"],
        snapshot=Snapshot(**{**raw["snapshot"], "drain_ids": drain_ids}),
        groups=tuple(map(_group, raw["groups"])),
    )


def _group(raw: Mapping[str, Any]) -> PlannedGroup:
    return PlannedGroup(
        group_id=raw["id"],
        title=str(raw.get("title", "")),
        count=raw.get("count") or 0,
        action=Action(raw["action"]),
        edit=_edit(raw),
        note=raw.get("note") or "",
    )


def _edit(raw: Mapping[str, Any]) -> Edit | None:
    patch = Patch.of(raw["edit"]) if "edit" in raw else None
    expressions = raw.get("set_attributes", {})
    if not patch and not expressions:
        return None
    return Edit(patch, tuple(expressions.items()))


def _faults(raw: dict[str, Any], sql: SqlCheck) -> Iterator[Fault]:
    yield from key_faults(raw, (), _PLAN)
    yield from key_faults(raw.get("snapshot"), ("snapshot",), _SNAPSHOT)
    groups = raw.get("groups")
    if isinstance(groups, list):
        yield from _group_faults(groups, sql)


def _group_faults(groups: list[Any], sql: SqlCheck) -> Iterator[Fault]:
    seen_ids: set[object] = set()
    for index, group in enumerate(groups):
        path = ("groups", index)
        if not isinstance(group, dict) or not _is_id(group.get("id")):
            yield path, "must be a mapping with id and action"
            continue

        group_id = group["id"]
        if group_id in seen_ids:
            yield path, f"group {group_id}: is in the plan twice"
        seen_ids.add(group_id)
        faults = chain(key_faults(group, path, _GROUP), _edit_faults(group, path, sql))
        for fault_path, fault in faults:
            yield fault_path, f"group {group_id}: {fault}"


def _edit_faults(group: Mapping[str, Any], path: Path, sql: SqlCheck) -> Iterator[Fault]:
    if "edit" in group:
        edit_path = (*path, "edit")
        for index, fault in patch_faults(group["edit"]):
            yield edit_path if index is None else (*edit_path, index), fault
    if "set_attributes" in group:
        yield from _attribute_faults(group["set_attributes"], (*path, "set_attributes"), sql)


def _attribute_faults(raw: object, path: Path, sql: SqlCheck) -> Iterator[Fault]:
    if not isinstance(raw, dict) or not raw:
        yield path, "must be a mapping of names to Spark SQL expressions"
        return
    for name, expression in raw.items():
        fault = name_fault(name)
        if not fault and isinstance(expression, str):
            fault = sql(expression)
        elif not fault and expression is not None:
            fault = f"{expression!r}: must be Spark SQL as text, e.g. \"'{expression}'\", or null"
        if fault:
            yield (*path, name), fault
