"""What an archive remembers of its groups: ``groups/``, see docs/archive.md.

A statement has what all until then say together. Its number is created if absent: of two people at
the same moment, neither overwrites the other. What an analysis remembers has no text of a note,
which stays in one file.

So a reader opens the newest file of an analysis, and the newest statement of each group of which
somebody said something since. Of two analyses at the same time, the one with the later id counts:
the next one may call a group new again that only the other one saw.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TypeVar

from dlq.archive.storage.files import Archive
from dlq.archive.storage.records import DAMAGE, damage_named, record_bytes, record_of
from dlq.explain.grouping import (
    Grouping,
    Pattern,
    TableGroup,
    group_pattern,
    grouped,
)
from dlq.explain.triage import GroupMemory, GroupState, Statement

GROUPS = "groups"
SEEN = f"{GROUPS}/seen"
_TABLE = f"{GROUPS}/table.json"

_CONCURRENT_READS = 16
_JSON = ".json"
_NOTHING = GroupState()

_Record = TypeVar("_Record")


@dataclass(frozen=True, slots=True)
class _Said:
    """A statement, and what all of them say together then."""

    statement: Statement
    state: GroupState


@dataclass(frozen=True, slots=True)
class _Table:
    groups: tuple[TableGroup, ...] = ()
    group_by: str = ""


def add_statement(archive: Archive, group_id: str, said: Statement) -> GroupState:
    """Write down durably what somebody says about a group; return what all say together now.

    To say it again after an ArchiveError is harmless.
    """
    while True:
        paths = _statements(archive.list(f"{GROUPS}/{group_id}")).get(group_id, [])
        before, _ = _last_state(archive, paths)
        # Behind damaged files, too.
        before = replace(before, number=_number(paths[-1]) if paths else 0)
        state = before.after(said)
        if archive.create(_path(group_id, state.number), record_bytes(_Said(said, state))):
            return state


def read_statements(archive: Archive, group_id: str, most: int) -> list[Statement]:
    """Return what people said about a group, the newest first, up to *most*."""
    paths = _statements(archive.list(f"{GROUPS}/{group_id}")).get(group_id, [])
    found = _read_all(archive, paths[: -most - 1 : -1])
    return [one.statement for one in found if one]


def read_memory(archive: Archive) -> GroupMemory:
    """Read what is remembered, without the texts of notes. A damaged file is only named."""
    paths = archive.list(GROUPS)
    memory, unreadable = GroupMemory(), []
    for path in sorted((one for one in paths if one.startswith(f"{SEEN}/")), reverse=True):
        found = _attempt(archive, path, GroupMemory)
        if found is not None:
            memory = found
            break
        unreadable.append(path)
    new = {
        group_id: later
        for group_id, of_group in _statements(paths).items()
        if (later := [one for one in of_group if _number(one) > memory.state(group_id).number])
    }
    with ThreadPoolExecutor(_CONCURRENT_READS) as executor:
        read = list(
            executor.map(lambda one: _last_state(archive, new[one], memory.state(one)), new)
        )
    said = dict(memory.said)
    for group_id, (state, damaged) in zip(new, read, strict=True):
        said[group_id] = state
        unreadable += damaged
    return replace(memory, said=said, unreadable=tuple(unreadable))


def read_notes(
    archive: Archive, memory: GroupMemory, group_ids: Iterable[str]
) -> Mapping[str, str]:
    """Return the notes of these groups by id. Opens one file for each."""
    numbers = {one: memory.state(one).note_in for one in group_ids}
    paths = {one: _path(one, number) for one, number in numbers.items() if number is not None}
    found = _read_all(archive, list(paths.values()))
    texts = {one: said.statement.text for one, said in zip(paths, found, strict=True) if said}
    return {one: text for one, text in texts.items() if text}


def write_seen(archive: Archive, report_id: str, memory: GroupMemory) -> None:
    """Write down what is remembered after an analysis, durably, once its report is there.

    The daily notice reads the statuses of its groups.
    """
    content = record_bytes(replace(memory, unreadable=()))
    archive.create(f"{SEEN}/{report_id}{_JSON}", content)


def assign_groups(
    archive: Archive,
    counts: Mapping[str, int],
    kept: Collection[str],
    group_by: str | None = None,
) -> Grouping:
    """Assign each key to its group, as ``grouping.grouped`` says; write what is new to the table.

    *group_by* is remembered from now on; None for what is remembered. All is durable when this
    returns. Of two analyses at once the second goes on from what the first wrote.
    """
    while True:
        before = archive.read(_TABLE)
        with damage_named(archive, _TABLE):
            table = record_of(_Table, json.loads(before or b"{}"))
        pattern = table.group_by if group_by is None else group_by
        groups, grouping = grouped(table.groups, counts, kept, pattern)
        after = _Table(groups, pattern)
        if after == table:
            return grouping
        content = record_bytes(after)
        if before is None:
            is_written = archive.create(_TABLE, content)
        else:
            is_written = archive.replace(_TABLE, before, content)
        if is_written:
            return grouping


def read_pattern(archive: Archive, group_id: str) -> Pattern | None:
    """Return the pattern that fits all texts of a group; None for a group without one."""
    content = archive.read(_TABLE)
    with damage_named(archive, _TABLE):
        return group_pattern(record_of(_Table, json.loads(content or b"{}")).groups, group_id)


def _statements(paths: Iterable[str]) -> dict[str, list[str]]:
    """Return the paths of statements by group id, ascending."""
    named = (path for path in sorted(paths) if _number(path) and not path.startswith(f"{SEEN}/"))
    return {group_id: list(of) for group_id, of in groupby(named, lambda one: one.split("/")[1])}


def _last_state(
    archive: Archive, paths: list[str], otherwise: GroupState = _NOTHING
) -> tuple[GroupState, list[str]]:
    """Return the state in the last of these *paths* that can be read, and those that cannot."""
    unreadable: list[str] = []
    for path in reversed(paths):
        found = _attempt(archive, path, _Said)
        if found is not None:
            return found.state, unreadable
        unreadable.append(path)
    return otherwise, unreadable


def _read_all(archive: Archive, paths: list[str]) -> list["_Said | None"]:
    with ThreadPoolExecutor(_CONCURRENT_READS) as executor:
        return list(executor.map(lambda path: _attempt(archive, path, _Said), paths))


def _attempt(archive: Archive, path: str, kind: type[_Record]) -> _Record | None:
    """Read the record at *path*; None where it is gone or damaged."""
    content = archive.read(path)
    if content is None:
        return None
    try:
        return record_of(kind, json.loads(content))
    except DAMAGE:
        return None


def _path(group_id: str, number: int) -> str:
    return f"{GROUPS}/{group_id}/{number:06d}{_JSON}"


def _number(path: str) -> int:
    name = path.rsplit("/", 1)[1].removesuffix(_JSON)
    return int(name) if name.isascii() and name.isdecimal() else 0
