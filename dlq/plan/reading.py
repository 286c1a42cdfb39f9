"""Reads plan.yaml and reports all of its faults at once, each with its place. Pure.

An unknown key or value is a fault, never ignored: a misspelt ``action`` must not become "leave".
"""

import re
from collections.abc import Callable, Iterator, Mapping
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
"""Returns what is wrong with an expression of ``set_attributes``, None if nothing is."""


def read_plan(text: str, sql_check: SqlCheck = lambda _: None, name: str = "the plan") -> Plan:
    """Read a plan. The SQL of its edits is checked by *sql_check*.

    Raises:
        InputError: it has faults; the message lists all of them, each with its place, for the file
            *name*.
    """
    raw = read_document(name, text)
    refuse(name, _faults(raw, sql_check))
    return Plan(
        plan_id=raw["plan_id"],
        archive=raw["archive"],
        snapshot=Snapshot(**{**raw["snapshot"], "drain_ids": tuple(raw["snapshot"]["drain_ids"])}),
        groups=tuple(
            PlannedGroup(
                group_id=group["id"],
                title=str(group.get("title", "")),
                count=group.get("count") or 0,
                action=Action(group["action"]),
                edit=_edit(group),
                note=group.get("note") or "",
            )
            for group in raw["groups"]
        ),
    )


def _edit(group: Mapping[str, Any]) -> Edit | None:
    patch = Patch.of(group["edit"]) if "edit" in group else None
    expressions = group.get("set_attributes", {})
    return Edit(patch, tuple(expressions.items())) if patch or expressions else None


def _faults(raw: dict[str, Any], sql: SqlCheck) -> Iterator[Fault]:
    yield from key_faults(raw, (), _PLAN)
    yield from key_faults(raw.get("snapshot"), ("snapshot",), _SNAPSHOT)
    groups = raw.get("groups")
    seen: set[object] = set()
    for index, group in enumerate(groups if isinstance(groups, list) else ()):
        path = ("groups", index)
        if not isinstance(group, dict) or not _is_id(group.get("id")):
            yield path, "must be a mapping with id and action"
            continue
        if group["id"] in seen:
            yield path, f"group {group['id']}: is in the plan twice"
        seen.add(group["id"])
        for place, fault in (*key_faults(group, path, _GROUP), *_edit_faults(group, path, sql)):
            yield place, f"group {group['id']}: {fault}"


def _edit_faults(group: Mapping[str, Any], path: Path, sql: SqlCheck) -> Iterator[Fault]:
    if "edit" in group:
        for index, fault in patch_faults(group["edit"]):
            yield (*path, "edit", *(() if index is None else (index,))), fault
    if "set_attributes" not in group:
        return
    raw, path = group["set_attributes"], (*path, "set_attributes")
    if not isinstance(raw, dict) or not raw:
        yield path, "must be a mapping of names to Spark SQL expressions"
        return
    for name, expression in raw.items():
        wrong = name_fault(name)
        if not wrong and isinstance(expression, str):
            wrong = sql(expression)
        elif not wrong and expression is not None:
            wrong = f"{expression!r}: must be Spark SQL as text, e.g. \"'{expression}'\", or null"
        if wrong:
            yield (*path, name), wrong
