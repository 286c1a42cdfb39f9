"""The memory of an archive about its groups: ``groups/``, see docs/archive.md.

A person's statement about a group is a file, which also has the state of the group after it. Its
number is created if absent: of two people at the same moment, neither overwrites the other. The
file of an analysis has the states of all groups, without texts of notes: each note is in one file.

So a reader opens the newest file of an analysis, and the newest statement of each group that has
one since. Of two analyses at the same time, the one with the later id counts: the next one may call
a group new again that only the other one saw.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar

from dlq.archive.storage.files import Archive
from dlq.archive.storage.records import DAMAGE, damage_named, record_bytes, record_of
from dlq.explain.grouping import (
    Grouping,
    Pattern,
    TableGroup,
    group_pattern,
    grouped,
    in_queue,
    queue_and_key,
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
class _StatementRecord:
    """A statement, and the state of the group after it."""

    statement: Statement
    state: GroupState


@dataclass(frozen=True, slots=True)
class _Table:
    """The table of groups.

    Attributes:
        queue: the first source queue, whose keys are bare; empty if none is known yet.
        is_shared: whether the archive has had messages of other source queues, too.
    """

    groups: tuple[TableGroup, ...] = ()
    group_by: str = ""
    queue: str = ""
    is_shared: bool = False

    def with_queues(self, counts: Mapping[str, int]) -> "_Table":
        """Return the table with the queues of these keys: the first is the one with most messages.

        *counts* has the messages of each key.
        """
        messages = Counter[str]()
        for key, count in counts.items():
            messages[queue_and_key(key)[0]] += count
        del messages[""]

        largest = min(messages, key=lambda queue: (-messages[queue], queue), default="")
        first = self.queue or largest
        is_shared = self.is_shared or bool(messages.keys() - {first})
        return replace(self, queue=first, is_shared=is_shared)

    def own_key(self, key: str) -> str:
        """Return the key under which the table has the failure of *key*.

        Messages without a known queue are in the groups of the first one, as long as it is the only
        one. After that they are in groups of their own.
        """
        queue, bare_key = queue_and_key(key)
        if queue == self.queue or not (queue or self.is_shared):
            return bare_key
        return in_queue(bare_key, queue)


def add_statement(archive: Archive, group_id: str, statement: Statement) -> GroupState:
    """Write a statement about a group, durably; return the state of the group after it.

    To write it again after an ArchiveError is harmless.
    """
    while True:
        paths = _statement_paths(archive, group_id)
        before, _ = _last_state(archive, paths)
        # The next number is also behind damaged files.
        last_number = _number(paths[-1]) if paths else 0
        state = replace(before, number=last_number).after(statement)

        content = record_bytes(_StatementRecord(statement, state))
        if archive.create(_path(group_id, state.number), content):
            return state


def read_statements(archive: Archive, group_id: str, most: int) -> list[Statement]:
    """Return the statements of people about a group, the newest first, up to *most*."""
    paths = _statement_paths(archive, group_id)
    newest_first = paths[: -most - 1 : -1]
    return [record.statement for record in _read_all(archive, newest_first) if record]


def read_memory(archive: Archive) -> GroupMemory:
    """Read the memory, without the texts of notes. A damaged file is only named."""
    paths = archive.list(GROUPS)
    memory, unreadable = _last_seen(archive, paths)

    paths_since = dict[str, list[str]]()
    for group_id, statement_paths in _by_group(paths).items():
        last_number = memory.state(group_id).number
        since = [path for path in statement_paths if _number(path) > last_number]
        if since:
            paths_since[group_id] = since

    def read(group_id: str) -> tuple[GroupState, list[str]]:
        return _last_state(archive, paths_since[group_id], memory.state(group_id))

    states = dict(memory.states)
    with ThreadPoolExecutor(_CONCURRENT_READS) as executor:
        results = executor.map(read, paths_since)
        for group_id, (state, damaged) in zip(paths_since, results, strict=True):
            states[group_id] = state
            unreadable += damaged
    return replace(memory, states=states, unreadable=tuple(unreadable))


def _last_seen(archive: Archive, paths: Iterable[str]) -> tuple[GroupMemory, list[str]]:
    """Read the newest file of an analysis that can be read; also return those that cannot."""
    unreadable = list[str]()
    seen_paths = (path for path in paths if path.startswith(f"{SEEN}/"))
    for path in sorted(seen_paths, reverse=True):
        memory = _attempt(archive, path, GroupMemory)
        if memory is not None:
            return memory, unreadable
        unreadable.append(path)
    return GroupMemory(), unreadable


def read_notes(
    archive: Archive, memory: GroupMemory, group_ids: Iterable[str]
) -> Mapping[str, str]:
    """Return the notes of these groups by id. Opens one file for each."""
    paths = dict[str, str]()
    for group_id in group_ids:
        number = memory.state(group_id).note_in
        if number is not None:
            paths[group_id] = _path(group_id, number)

    notes = dict[str, str]()
    records = _read_all(archive, list(paths.values()))
    for group_id, record in zip(paths, records, strict=True):
        if record and record.statement.text:
            notes[group_id] = record.statement.text
    return notes


def write_seen(archive: Archive, report_id: str, memory: GroupMemory) -> None:
    """Write the memory after an analysis, durably, once its report is there.

    The daily notice reads the statuses of its groups.
    """
    content = record_bytes(replace(memory, unreadable=()))
    archive.create(f"{SEEN}/{report_id}{_JSON}", content)


def assign_groups(
    archive: Archive,
    counts: Mapping[str, int],
    kept_ids: Collection[str],
    group_by: str | None = None,
) -> Grouping:
    """Assign each key to its group, as ``grouping.grouped`` does; add new groups to the table.

    A key with a queue is as ``in_queue`` returns it. *group_by* is stored for the next time; with
    None the stored one is used. All is durable when this returns. Of two analyses at once the
    second goes on from the table of the first.
    """
    while True:
        before = archive.read(_TABLE)
        with damage_named(archive, _TABLE):
            table = record_of(_Table, json.loads(before or b"{}"))

        pattern = table.group_by if group_by is None else group_by
        with_queues = table.with_queues(counts)
        own_keys = {key: with_queues.own_key(key) for key in counts}
        own_counts = Counter[str]()
        for key, own_key in own_keys.items():
            own_counts[own_key] += counts[key]

        groups, grouping = grouped(table.groups, own_counts, kept_ids, pattern)
        ids = {key: grouping.ids[own_key] for key, own_key in own_keys.items()}
        grouping = replace(grouping, ids=ids)
        after = replace(with_queues, groups=groups, group_by=pattern)
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
        table = record_of(_Table, json.loads(content or b"{}"))
        return group_pattern(table.groups, group_id)


def _statement_paths(archive: Archive, group_id: str) -> list[str]:
    """Return the paths of the statements about a group, ascending."""
    return _by_group(archive.list(f"{GROUPS}/{group_id}")).get(group_id, [])


def _by_group(paths: Iterable[str]) -> dict[str, list[str]]:
    """Return the paths of statements by group id, ascending."""
    by_group = defaultdict[str, list[str]](list)
    for path in sorted(paths):
        if _number(path) and not path.startswith(f"{SEEN}/"):
            group_id = path.split("/")[1]
            by_group[group_id].append(path)
    return by_group


def _last_state(
    archive: Archive, paths: list[str], otherwise: GroupState = _NOTHING
) -> tuple[GroupState, list[str]]:
    """Return the state in the last of these *paths* that can be read, and those that cannot."""
    unreadable: list[str] = []
    for path in reversed(paths):
        record = _attempt(archive, path, _StatementRecord)
        if record is not None:
            return record.state, unreadable
        unreadable.append(path)
    return otherwise, unreadable


def _read_all(archive: Archive, paths: list[str]) -> list[_StatementRecord | None]:
    """Read these statements; None for one that is gone or damaged."""

    def read(path: str) -> _StatementRecord | None:
        return _attempt(archive, path, _StatementRecord)

    with ThreadPoolExecutor(_CONCURRENT_READS) as executor:
        return list(executor.map(read, paths))


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
