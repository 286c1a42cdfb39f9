"""plan.yaml: what a human decides, group by group. Pure.

Written with comments that teach; read as a whole, every fault named at once. What is not understood
is a fault, never ignored: a misspelt ``action`` must not become "leave".
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import Any

import yaml

from spark_reprocess.errors import InputError

PLAN_VERSION = 1

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_PLAN_KEYS = {"version", "plan_id", "archive", "snapshot", "groups"}
_SNAPSHOT_KEYS = {"drain_ids", "messages", "sha256", "where"}
_GROUP_KEYS = {"id", "title", "count", "action"}


class Action(StrEnum):
    """What a redrive does with a group."""

    LEAVE = "leave"
    REDRIVE = "redrive"
    DISCARD = "discard"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The messages that a plan is about, frozen: all of these drains that match *where*.

    Attributes:
        drain_ids: which drains of the archive.
        messages: how many distinct messages they hold.
        sha256: ``digest`` of their ids.
        where: the SQL condition of the analysis, None for all.
    """

    drain_ids: tuple[str, ...]
    messages: int
    sha256: str
    where: str | None = None


@dataclass(frozen=True, slots=True)
class PlannedGroup:
    """One group and its action; title and count are there for the reader."""

    group_id: str
    title: str
    count: int
    action: Action


@dataclass(frozen=True, slots=True)
class Plan:
    """A whole plan."""

    plan_id: str
    archive: str
    snapshot: Snapshot
    groups: tuple[PlannedGroup, ...]

    @property
    def actions(self) -> dict[str, Action]:
        """The action by group id; a group that is not named is left."""
        return {group.group_id: group.action for group in self.groups}


def digest(message_ids: Iterable[str]) -> str:
    """SHA-256 over the sorted ids, one per line: the same for the same set."""
    return sha256("\n".join(sorted(message_ids)).encode()).hexdigest()


def read_plan(text: str) -> Plan:
    """Read a plan.

    Raises:
        InputError: it has faults; the message lists all of them.
    """
    try:
        raw = yaml.safe_load(text)
    except yaml.YAMLError as error:
        where = getattr(error, "problem_mark", None)
        line = f" in line {where.line + 1}" if where else ""
        raise InputError(f"the plan is no YAML{line}: {getattr(error, 'problem', None)}") from error
    faults = list(_faults(raw))
    if faults:
        raise InputError("the plan has faults:\n" + "\n".join(f"  {fault}" for fault in faults))
    snapshot = raw["snapshot"]
    return Plan(
        plan_id=raw["plan_id"],
        archive=str(raw["archive"]),
        snapshot=Snapshot(
            drain_ids=tuple(snapshot["drain_ids"]),
            messages=snapshot["messages"],
            sha256=snapshot["sha256"],
            where=snapshot.get("where"),
        ),
        groups=tuple(
            PlannedGroup(
                group_id=group["id"],
                title=str(group.get("title", "")),
                count=group.get("count", 0),
                action=Action(group["action"]),
            )
            for group in raw["groups"]
        ),
    )


def _faults(raw: object) -> Iterable[str]:
    if not isinstance(raw, dict):
        yield "must be a mapping with version, plan_id, archive, snapshot and groups"
        return
    yield from _key_faults("plan", raw, _PLAN_KEYS)
    if raw.get("version") != PLAN_VERSION:
        yield f"version: {raw.get('version')!r}: must be {PLAN_VERSION}"
    if not _matches(_ID, raw.get("plan_id")):
        yield f"plan_id: {raw.get('plan_id')!r}: must be 1 to 64 letters, digits, - and _"
    yield from _snapshot_faults(raw.get("snapshot"))
    yield from _groups_faults(raw.get("groups"))


def _snapshot_faults(raw: object) -> Iterable[str]:
    if not isinstance(raw, dict):
        yield "snapshot: must be a mapping with drain_ids, messages and sha256"
        return
    yield from _key_faults("snapshot", raw, _SNAPSHOT_KEYS)
    ids = raw.get("drain_ids")
    if not isinstance(ids, list) or not ids or not all(_matches(_ID, one) for one in ids):
        yield "snapshot.drain_ids: must be a list of at least one drain id"
    if not _is_count(raw.get("messages")):
        yield f"snapshot.messages: {raw.get('messages')!r}: must be a whole number of at least 0"
    if not _matches(_DIGEST, raw.get("sha256")):
        yield "snapshot.sha256: must be 64 hex digits, as analyze wrote them"
    if not isinstance(raw.get("where"), str | None):
        yield "snapshot.where: must be the text that analyze wrote"


def _groups_faults(raw: object) -> Iterable[str]:
    if not isinstance(raw, list):
        yield "groups: must be a list"
        return
    seen: set[object] = set()
    for number, group in enumerate(raw, start=1):
        if not isinstance(group, dict) or not _matches(_ID, group.get("id")):
            yield f"groups: entry {number}: must be a mapping with id and action"
            continue
        name = f"group {group['id']}"
        yield from _key_faults(name, group, _GROUP_KEYS)
        if group["id"] in seen:
            yield f"{name}: stands in the plan twice"
        seen.add(group["id"])
        if group.get("action") not in list(Action):
            yield f"{name}: action {group.get('action')!r}: must be {', '.join(Action)}"
        if not _is_count(group.get("count", 0)):
            yield f"{name}: count {group.get('count')!r}: must be a whole number"


def _key_faults(name: str, raw: Mapping[Any, Any], known: set[str]) -> Iterable[str]:
    for key in raw:
        if key not in known:
            yield f"{name}: {key!r} is not known in this version; remove it"


def _matches(pattern: re.Pattern[str], value: object) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 0
