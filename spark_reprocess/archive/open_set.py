"""What is pending, found without reading what is decided: ``ledger/open.parquet``, a cache.

It has a row for each message that is not decided by the runs that it covers: its id, the path of
its file, and the ``Entry`` that holds. Its metadata name what it covers: the drains, each with a
digest of the names of its files and the numbers of its decided messages by state; and the result
files, each with the time of its last result. A run with a claim without a result is not covered,
since the result may come; the messages of such claims keep their rows.

An analysis replaces it. A reader takes its rows of the drains that have the same files as then,
reads the ids of the other drains, and adds what the runs say that it does not cover. So an older
one is as right as a newer one, an erasure need not touch it, and without it, or where it is
damaged, all ids and results are read. It has ids and paths, and no content.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_reprocess.archive.disposition import CLAIM_TTL_SECONDS, DECIDED
from spark_reprocess.archive.files import Archive
from spark_reprocess.archive.ledger import LEDGER
from spark_reprocess.archive.ledgers import ledger_files, open_files
from spark_reprocess.archive.message_state import (
    claimed_in,
    claimed_rows,
    entry_texts,
    states_in,
)
from spark_reprocess.archive.message_store import (
    drain_of,
    first_rows,
    message_files,
    rows_by_file,
    with_drains,
)
from spark_reprocess.archive.records import DAMAGE, record_bytes, record_of
from spark_reprocess.archive.table_parts import PARQUET_DAMAGE, parquet_bytes

OPEN_SET = f"{LEDGER}/open.parquet"
_COVERS = b"covers"
_PATHS = pa.dictionary(pa.int32(), pa.string())
_ROWS = pa.schema([("message_id", pa.string()), ("file", _PATHS), ("entry", pa.string())])
_SAID = pa.schema([("message_id", pa.string()), ("entry", pa.string()), ("drain_id", pa.string())])

_REDELIVERY = timedelta(days=15)
"""SQS keeps a message for 14 days. A drain brings nothing again that was decided before that."""


@dataclass(frozen=True, slots=True)
class CoveredDrain:
    """A drain as it was read.

    Attributes:
        files: digest of the names of its files.
        decided: its messages that have no row, by state.
    """

    files: str
    decided: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _Covers:
    """What an open set covers; see ``OpenSet``."""

    drains: Mapping[str, CoveredDrain]
    runs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class OpenSet:
    """What is not decided by the runs that it covers.

    Attributes:
        rows: see ``_ROWS``; *entry* is null where no run has claimed the message.
        drains: by id.
        runs: by path of the result file, when its last result was written; ISO 8601, UTC.
    """

    rows: pa.Table
    drains: Mapping[str, CoveredDrain]
    runs: Mapping[str, str]

    def write(self, archive: Archive) -> None:
        """Replace the stored one. Raises ArchiveError."""
        covers = record_bytes(_Covers(self.drains, self.runs))
        rows = self.rows.replace_schema_metadata({_COVERS: covers})
        archive.write(OPEN_SET, parquet_bytes(rows))


@dataclass(frozen=True, slots=True)
class Messages:
    """All messages of an archive.

    Attributes:
        open_set: covers all that it can.
        states: of each of its rows now, by all runs.
    """

    open_set: OpenSet
    states: Any

    def pending(self) -> pa.Table:
        """Return ``message_id, file, state`` of what is pending, in doubt or busy."""
        rows = self.open_set.rows.select(["message_id", "file"])
        is_pending = pc.invert(is_decided(self.states))
        return rows.append_column("state", self.states).filter(is_pending)

    def counts(self) -> dict[tuple[str, str], int]:
        """Count all messages by drain and state. A message of two drains counts in one.

        A decided message that was erased, and that a drain then brought again, does not count.
        """
        counts = Counter[tuple[str, str]]()
        for drain_id, drain in self.open_set.drains.items():
            counts.update({(drain_id, state): n for state, n in drain.decided.items()})
        counts.update(dict(_counted(drains_of(self.open_set.rows), self.states)))
        return counts


def read_messages(
    archive: Archive, now_seconds: float, claim_ttl_seconds: float = CLAIM_TTL_SECONDS
) -> Messages:
    """Read which messages are pending now, of all drains.

    Raises:
        ArchiveError: a file of the archive cannot be read.
    """
    results, attempts = ledger_files(archive)
    base = _stored(archive)
    runs = {path: base.runs[path] for path in results if path in base.runs}
    covered, unsure = [_SAID.empty_table()], [_SAID.empty_table()]
    for file in open_files(archive, [path for path in results if path not in runs]):
        claimed, is_whole = claimed_in(file, now_seconds, claim_ttl_seconds)
        (covered if is_whole else unsure).append(_said(claimed))
        if is_whole:
            runs[file.path] = pc.max(claimed["time"]).as_py() or ""
    batch = claimed_rows(attempts, now_seconds, claim_ttl_seconds)
    unsure.append(_said(pa.Table.from_batches([batch])))

    files = defaultdict[str, list[str]](list)
    for path in message_files(archive):
        files[drain_of(path)].append(path)
    digests = {one: sha256("\n".join(paths).encode()).hexdigest() for one, paths in files.items()}
    drains = {one: kept for one, kept in base.drains.items() if digests.get(one) == kept.files}
    rows = base.rows.filter(_is_in(drains_of(base.rows), list(drains)))
    # Somebody says something new of a message without a row: its drain is read again.
    newer = pa.concat_tables([*covered, *unsure])
    is_new = pc.invert(_is_in(newer["message_id"], rows["message_id"]))
    reopened = set(pc.unique(newer["drain_id"].filter(is_new)).to_pylist())
    is_known = all(reopened)
    drains = {one: kept for one, kept in drains.items() if is_known and one not in reopened}
    rows = rows.filter(_is_in(drains_of(rows), list(drains)))
    unread = sorted(files.keys() - drains.keys())
    fresh = _first_rows(archive, unread)
    fresh = fresh.filter(pc.invert(_is_in(fresh["message_id"], rows["message_id"])))
    older = [one for one in runs if one in base.runs and base.runs[one] >= _since(unread)]
    for file in open_files(archive, older if fresh.num_rows else []):
        said = _said(claimed_in(file, now_seconds, claim_ttl_seconds)[0])
        covered.append(said.filter(_is_in(said["message_id"], fresh["message_id"])))
    rows = pa.concat_tables([rows, fresh]).unify_dictionaries()

    known, others = _holding(covered), _holding(unsure)
    entries = pc.max_element_wise(rows["entry"], _found(known, "entry", rows))
    now = pc.max_element_wise(entries, _found(others, "entry", rows))
    states, of_drains = states_in(entries), drains_of(rows)
    is_kept = pc.or_(
        pc.invert(is_decided(states)), _is_in(rows["message_id"], others["message_id"])
    )
    # What a drain brought again counts where it was decided.
    decided_in = _found(known, "drain_id", rows)
    is_again = pc.and_(_is_in(decided_in, list(drains)), pc.not_equal(decided_in, of_drains))
    counts = {one: Counter(kept.decided) for one, kept in drains.items()}
    leaves = pc.and_not(pc.invert(is_kept), pc.fill_null(is_again, False))  # noqa: FBT003 - a value
    for (drain_id, state), number in _counted(of_drains.filter(leaves), states.filter(leaves)):
        counts.setdefault(drain_id, Counter())[state] += number
    covers = {one: CoveredDrain(digests[one], dict(counts.get(one, {}))) for one in sorted(files)}
    kept = rows.set_column(2, "entry", entries).filter(is_kept)
    return Messages(OpenSet(kept, covers, runs), states_in(now.filter(is_kept)))


def _stored(archive: Archive) -> OpenSet:
    """Read the stored one; an empty one where there is none, or a damaged one."""
    content = archive.read(OPEN_SET)
    try:
        rows = pq.read_table(pa.BufferReader(content or b""))
        covers = record_of(_Covers, json.loads(rows.schema.metadata[_COVERS]))
        return OpenSet(rows.cast(_ROWS), covers.drains, covers.runs)
    except (*PARQUET_DAMAGE, *DAMAGE):
        return OpenSet(_ROWS.empty_table(), {}, {})


def _first_rows(archive: Archive, drain_ids: Sequence[str]) -> pa.Table:
    """Read one row of each message of these drains: that which was drained first."""
    columns = ("message_id", "drained_at", "receive_count")
    found = with_drains(rows_by_file(archive, message_files(archive, drain_ids), columns), columns)
    if pc.count_distinct(found["message_id"]).as_py() < found.num_rows:
        found = found.append_column("path", found["file"].cast(pa.string()))
        order = ("drained_at", "drain_id", "receive_count", "path")
        found = found.take(first_rows(found, "message_id", *order))
    entries = pa.nulls(found.num_rows, pa.string())
    return pa.table([found["message_id"], found["file"], entries], schema=_ROWS)


def _since(drain_ids: Sequence[str]) -> str:
    """Return the time before which nothing was decided that these drains brought; ISO 8601, UTC.

    Empty where the id of one does not say when it began.
    """
    try:
        began = [datetime.strptime(f"{one[:15]}+0000", "%Y%m%dT%H%M%S%z") for one in drain_ids]
    except ValueError:
        return ""
    return min(one - _REDELIVERY for one in began).isoformat() if began else ""


def _said(claimed: pa.Table) -> pa.Table:
    columns = [claimed["message_id"], entry_texts(claimed), claimed["drain_id"]]
    return pa.table(columns, schema=_SAID)


def _holding(said: Sequence[pa.Table]) -> pa.Table:
    """Return one row for each message: the greatest entry, and one of the drains."""
    grouped = pa.concat_tables(said).group_by("message_id")
    found = grouped.aggregate([("entry", "max"), ("drain_id", "min")])
    return found.select(["message_id", "entry_max", "drain_id_min"]).rename_columns(_SAID.names)


def _found(said: pa.Table, column: str, rows: pa.Table) -> Any:  # noqa: ANN401 - an Arrow column
    """Return a column of *said* for each of *rows*, null where it has not the message."""
    places = pc.index_in(rows["message_id"], value_set=said["message_id"].combine_chunks())
    return said[column].take(places)


def drains_of(rows: pa.Table) -> Any:  # noqa: ANN401 - an Arrow column
    """Return the drain of each of *rows*, which have ``file``."""
    files: Any = rows["file"].combine_chunks()
    drains = pa.array([drain_of(path) for path in files.dictionary.to_pylist()], pa.string())
    return drains.take(files.indices)


def is_decided(states: Any) -> Any:  # noqa: ANN401 - Arrow's columns
    """Return of each state whether it needs no decision any more."""
    return _is_in(states, [str(one) for one in DECIDED])


def _is_in(column: Any, values: Any) -> Any:  # noqa: ANN401 - Arrow's columns
    values = pa.array(values, pa.string()) if isinstance(values, list) else values.combine_chunks()
    return pc.is_in(column, value_set=values)


def _counted(drains: Any, states: Any) -> Iterator[tuple[tuple[str, str], int]]:  # noqa: ANN401 - Arrow's columns
    sums = pa.table({"drain_id": drains, "state": states}).group_by(["drain_id", "state"])
    for row in sums.aggregate([([], "count_all")]).to_pylist():
        yield (row["drain_id"], row["state"]), row["count_all"]
