"""The open set: which messages are pending, without opening the files of what is decided.

``ledger/open.parquet`` is a cache. It has a row for each message that is not decided by the runs
that it covers: the message's id, the path of its file, and the winning ``StateEntry``. Its
metadata name what it covers:

* the drains, each with a digest of the names of its files;
* how many of their messages are decided, by plan and state;
* which of them share a message: such a message counts for one of them, and which one that is
  follows from clocks, so drains that share are read again together;
* the result files, each with its ``ResultSpan``.

A run with a claim without a result is not covered, since the result may still come. The messages of
such claims keep their rows.

An analysis replaces the open set. A reader takes its rows of the drains that have the same files as
then, reads the ids of the other drains, and adds what the other runs say. So an old open set is as
correct as a new one, and an erasure need not touch it. Where it is missing or damaged, all ids and
results are read. It has ids and paths, and no content.

Nothing here compares times of two machines: their clocks differ, and ids have times of such clocks.
SQS may deliver a message again that was decided long ago, and a drain brings it again. Both copies
have the same SentTimestamp, and each claim says between which SentTimestamps its messages are:
SQS alone wrote these, so they may be compared.

An analysis also stores which result files it has read, and what they say of pending messages:
``ledger/plan_id=PLAN/known.parquet``, in the same form. For the messages of its plan these files
need not be read again.
"""

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dlq.archive.ledger.claims import LEDGER, plan_folder, sent_text
from dlq.archive.ledger.disposition import DECIDED, Disposition
from dlq.archive.ledger.erasures import erasures
from dlq.archive.ledger.message_state import (
    BETWEEN,
    CLAIMED,
    ERASED,
    PENDING,
    SETTLED,
    StateEntry,
    claimed_in,
    claimed_rows,
    entry_texts,
    field_in,
    states_among,
)
from dlq.archive.ledger.run_results import ResultFile, ledger_files, read_results
from dlq.archive.messages.message_store import (
    drain_of,
    drains_of,
    first_rows,
    is_in,
    message_files,
    rows_by_file,
    with_files,
)
from dlq.archive.storage.files import Archive
from dlq.archive.storage.records import DAMAGE, record_bytes, record_of
from dlq.archive.storage.table_parts import PARQUET_DAMAGE, parquet_bytes

OPEN_SET = f"{LEDGER}/open.parquet"
_COVERS = b"covers"
_PATHS = pa.dictionary(pa.int32(), pa.string())
_ROWS = pa.schema([("message_id", pa.string()), ("file", _PATHS), ("entry", pa.string())])
_ENTRIES = pa.schema(
    [("message_id", pa.string()), ("entry", pa.string()), ("drain_id", pa.string())]
)

_ROWS_AT_ONCE = 20_000

Count = tuple[str, str, str]
"""A drain, the plan whose attempt holds, and a state; without an attempt the plan is empty."""

SentSpan = tuple[str, str] | None
"""The SentTimestamp of the first and of the last of some messages, both by the clock of SQS; ISO
8601, UTC. None if that of one of them is not known."""


@dataclass(frozen=True, slots=True)
class ResultSpan:
    """Limits of the messages of a result file, so that a file that lacks a message is not opened.

    Attributes:
        last_time: the greatest time of its results; ISO 8601, UTC.
        sent: the SentTimestamps of its messages.
    """

    last_time: str
    sent: SentSpan

    def may_have(self, sent: SentSpan) -> bool:
        """Return whether a message of *sent* may be among them."""
        if self.sent is None or sent is None:
            return True
        return self.sent[0] <= sent[1] and sent[0] <= self.sent[1]


_Covers: Any = tuple[
    dict[str, str],
    list[tuple[str, str, str, int]],
    dict[str, ResultSpan],
    list[tuple[str, str]],
]
"""*drains*, *decided*, *runs* and *shared* of an ``OpenSet``."""


@dataclass(frozen=True, slots=True)
class OpenSet:
    """The messages that are not decided by the runs that it covers.

    Attributes:
        rows: see ``_ROWS``; *entry* is null where no run has claimed the message.
        drains: by id, the digest of the names of the files that were read.
        decided: the numbers of the messages of these drains that have no row.
        runs: the result files that it covers, by path.
        shared: pairs of drains that brought the same message. Three that did are two pairs.
    """

    rows: pa.Table
    drains: Mapping[str, str]
    decided: Mapping[Count, int]
    runs: Mapping[str, ResultSpan]
    shared: Collection[tuple[str, str]]

    def write(self, archive: Archive, path: str = OPEN_SET) -> None:
        """Replace the stored open set. Raises ArchiveError."""
        decided = [(*key, number) for key, number in sorted(self.decided.items())]
        covers = record_bytes((self.drains, decided, self.runs, sorted(self.shared)))
        rows = self.rows.replace_schema_metadata({_COVERS: covers})
        archive.write(path, parquet_bytes(rows))

    def write_for_plan(self, archive: Archive, plan_id: str) -> None:
        """Store what a plan of the pending messages need not read again. Raises ArchiveError."""
        claimed = self.rows.filter(pc.is_valid(self.rows["entry"]))
        of_plan = OpenSet(rows=claimed, drains={}, decided={}, runs=self.runs, shared=())
        of_plan.write(archive, _known_path(plan_id))

    def files_without(self, sent: SentSpan) -> set[str]:
        """Return the result files that have no message of *sent*."""
        return {path for path, span in self.runs.items() if not span.may_have(sent)}


@dataclass(frozen=True, slots=True)
class Messages:
    """All messages of an archive.

    Attributes:
        open_set: covers every run whose claims all have results.
        entries: of each row of *open_set*, the entry that wins over all runs.
    """

    open_set: OpenSet
    entries: Any

    def pending(self) -> pa.Table:
        """Return ``message_id, file, entry`` of what is pending, unconfirmed or in progress."""
        rows = self.open_set.rows.set_column(2, "entry", self.entries)
        return _without(rows, _is_decided(self.entries))

    def counts(self) -> Counter[Count]:
        """Count all messages. A message of two drains counts in one.

        A decided message that was erased, and that a drain then brought again, does not count.
        """
        return Counter(self.open_set.decided) + _counted(self.open_set.rows, self.entries)


@dataclass(frozen=True, slots=True)
class _Claims:
    """Entries by the claims of runs; each table as ``_ENTRIES``, a message may be in several.

    Attributes:
        final: from result files with a result for each claim. They never change.
        open: from the other result files, and from runs without one. Results may still come.
        runs: the result files that the new open set covers, and that need not be read again.
    """

    final: list[pa.Table]
    open: list[pa.Table]
    runs: dict[str, ResultSpan]


def read_messages(archive: Archive) -> Messages:
    """Read which messages are pending now, of all drains.

    The stored open set is the base. Since it was written, runs may have claimed messages, drains
    may have brought some, an erasure may have removed some, and SQS may have delivered a decided
    one again.

    Example: drain d-1 brought m-1 to m-4. A run sent m-1 and m-2. An analysis stored the open set:
    rows of m-3 and m-4, and the count "two messages of d-1 are sent". The third column says what
    happened since then, the last two what this function returns.

    | message | stored row | since then                    | row now | state       |
    |---------|------------|-------------------------------|---------|-------------|
    | m-1     | no         |                               | no      | sent        |
    | m-2     | no         | delivered again, drained: d-2 | no      | sent        |
    | m-3     | yes        | sent, and its run has ended   | no      | sent        |
    | m-4     | yes        | claimed, its run is open      | yes     | in_progress |
    | m-5     | no         | delivered first, drained: d-2 | yes     | pending     |

    * m-1 is read from no file: it is in the stored count.
    * m-3 leaves the rows and is counted: no result of it can come any more.
    * m-4 keeps its row: its result may come.
    * The files of d-2 are read, since the open set does not have this drain. m-5 gets a row. Of m-2
      the result file of the first run is read again, and says that m-2 is sent. But then m-2 counts
      twice, for d-2 and in the stored count of d-1. So all steps are done a second time without the
      rows and counts of d-1: its files are read, and m-2 counts once.
    """
    base = stored_open_set(archive)
    reopened: set[str] = set()
    while True:
        messages, counted_twice = _read(archive, base, reopened)
        if not counted_twice:
            return messages
        reopened |= counted_twice


def _read(archive: Archive, base: OpenSet, reopened: set[str]) -> tuple[Messages, set[str]]:
    """Read what *base* does not cover, and the drains *reopened*.

    Also return the drains of *base* of which a message may be counted twice, see
    ``_drains_counted_twice``. Without the stored counts of these drains the count is right.
    """
    claims = _read_new_claims(archive, base)

    digests = _drain_digests(archive)
    drains = _covered_drains(base, digests, reopened, claims)
    rows = _rows_of_drains(base.rows, drains)

    unread_drains = sorted(digests.keys() - drains)
    unread, repeated = _read_rows(archive, unread_drains)
    has_row = is_in(unread["message_id"], rows["message_id"])
    again = unread.filter(has_row)
    fresh = _without(unread, has_row)

    # A message has its row where it was read first, and is in the other drains again.
    before = rows.filter(is_in(rows["message_id"], again["message_id"]))
    shared = _still_shared(base, digests) | _shared_drains([before, again, repeated])

    if fresh.num_rows:
        claims.final.extend(_reread_claims(archive, base, claims, fresh))
    rows = _with_fresh(rows, fresh)

    # The new open set gets the final entries alone. The state now follows from all.
    final = _strongest(claims.final)
    unfinished = _strongest(claims.open)
    entries = pc.max_element_wise(rows["entry"], _entries_for(rows, final))
    entries_now = pc.max_element_wise(entries, _entries_for(rows, unfinished))
    rows = rows.set_column(2, "entry", entries).append_column("entry_now", entries_now)

    # A decided message leaves the rows, unless a result about it may still come.
    may_change = is_in(rows["message_id"], unfinished["message_id"])
    leaves = pc.and_not(_is_decided(entries), may_change)
    leaving = rows.filter(leaves)
    staying = _without(rows, leaves)

    decided = Counter[Count]()
    for count, number in base.decided.items():
        if count[0] in drains:
            decided[count] = number
    decided += _counted(leaving, leaving["entry"])

    open_set = OpenSet(
        rows=staying.select(_ROWS.names),
        drains=digests,
        decided=decided,
        runs=claims.runs,
        shared=shared,
    )
    counted_twice = _drains_counted_twice(base, drains, fresh, claims)
    return Messages(open_set, staying["entry_now"]), counted_twice


def _read_new_claims(archive: Archive, base: OpenSet) -> _Claims:
    """Read the claims of all runs that *base* does not cover."""
    claims = _Claims(final=[_ENTRIES.empty_table()], open=[_ENTRIES.empty_table()], runs={})
    paths, open_attempts = ledger_files(archive)
    new_paths = []
    for path in paths:
        if path in base.runs:
            claims.runs[path] = base.runs[path]
        else:
            new_paths.append(path)

    def read(file: ResultFile) -> tuple[pa.Table, bool, ResultSpan]:
        claimed, is_whole = claimed_in(file)
        span = ResultSpan(pc.max(claimed["time"]).as_py() or "", file.sent_span())
        return _entry_table(claimed), is_whole, span

    results = read_results(archive, new_paths, read)
    for path, (entries, is_whole, span) in zip(new_paths, results, strict=True):
        if is_whole:
            claims.final.append(entries)
            claims.runs[path] = span
        else:
            claims.open.append(entries)

    claimed = pa.Table.from_batches([claimed_rows(open_attempts)])
    claims.open.append(_entry_table(claimed))
    return claims


def _drain_digests(archive: Archive) -> dict[str, str]:
    """Return the digest of the names of the files of each drain, by its id."""
    digests = {}
    for drain_id, paths in groupby(message_files(archive), drain_of):
        digests[drain_id] = sha256("\n".join(paths).encode()).hexdigest()
    return digests


def _covered_drains(
    base: OpenSet, digests: Mapping[str, str], reopened: set[str], claims: _Claims
) -> set[str]:
    """Return the drains whose rows and counts in *base* are still right.

    Left out are the *reopened* drains, those whose files changed, those of a message that a new
    claim names and that has no row: the stored counts have it, and the claim may change its state.
    And all that share a message with one of these.
    """
    outdated = set(reopened)
    for drain_id, digest in base.drains.items():
        if digests.get(drain_id) != digest:
            outdated.add(drain_id)
    drains = base.drains.keys() - _with_shared(outdated, base.shared)

    rows = _rows_of_drains(base.rows, drains)
    claimed = pa.concat_tables([*claims.final, *claims.open])
    has_no_row = pc.invert(is_in(claimed["message_id"], rows["message_id"]))
    changed: set[Any] = set(pc.unique(claimed["drain_id"].filter(has_no_row)).to_pylist())
    if not all(changed):
        # A claim does not name its drains: the message may be in any of them.
        return set()
    return drains - _with_shared(changed, base.shared)


def _still_shared(base: OpenSet, digests: Mapping[str, str]) -> set[tuple[str, str]]:
    """Return the pairs of *base* of which both drains are there."""
    return {pair for pair in base.shared if digests.keys() >= set(pair)}


def _with_shared(drains: Collection[str], shared: Collection[tuple[str, str]]) -> set[str]:
    """Return *drains* and all that share a message with one of them, also by way of others."""
    reached = set(drains)
    while True:
        before = len(reached)
        for pair in shared:
            if not reached.isdisjoint(pair):
                reached.update(pair)
        if len(reached) == before:
            return reached


def _shared_drains(tables: Sequence[pa.Table]) -> set[tuple[str, str]]:
    """Return pairs of drains that brought the same message; see ``OpenSet.shared``.

    *tables* have ``message_id`` and ``file``.
    """
    brought = []
    for rows in tables:
        columns = [rows["message_id"], drains_of(rows)]
        brought.append(pa.table(columns, names=["message_id", "drain"]))
    drains = pa.concat_tables(brought)

    smallest = drains.group_by("message_id").aggregate([("drain", "min")])
    ids = smallest["message_id"].combine_chunks()
    of_message = smallest["drain_min"].take(pc.index_in(drains["message_id"], value_set=ids))
    pairs = pa.table([of_message, drains["drain"]], names=["first", "second"])

    shared = set()
    for pair in pairs.group_by(["first", "second"]).aggregate([]).to_pylist():
        if pair["first"] != pair["second"]:
            shared.add((pair["first"], pair["second"]))
    return shared


def _reread_claims(
    archive: Archive, base: OpenSet, claims: _Claims, fresh: pa.Table
) -> Iterator[pa.Table]:
    """Read what the result files that *base* covers say of the *fresh* messages.

    SQS may have delivered them before, and a run may have decided them then.
    """

    def read(file: ResultFile) -> pa.Table:
        claimed, _ = claimed_in(file)
        return _entry_table(claimed.filter(is_in(claimed["message_id"], fresh["message_id"])))

    covered = base.runs.keys() & claims.runs.keys()
    paths = sorted(covered - base.files_without(sent_span(fresh["sent_at"])))
    return read_results(archive, paths, read)


def _with_fresh(rows: pa.Table, fresh: pa.Table) -> pa.Table:
    """Append the *fresh* messages to *rows*, without an entry."""
    unclaimed = pa.nulls(fresh.num_rows, pa.string())
    fresh_rows = pa.table([fresh["message_id"], fresh["file"], unclaimed], schema=_ROWS)
    return pa.concat_tables([rows, fresh_rows]).unify_dictionaries()


def _drains_counted_twice(
    base: OpenSet, drains: set[str], fresh: pa.Table, claims: _Claims
) -> set[str]:
    """Return those of *drains* whose stored counts may have one of the *fresh* messages, too.

    SQS delivered such a message again after it was decided. It has no row in *base*, and a claim
    names one of the drains that had brought it then.
    """
    brought = _without(fresh, is_in(fresh["message_id"], base.rows["message_id"]))
    claimed = pa.concat_tables(claims.final)
    of_brought = claimed.filter(is_in(claimed["message_id"], brought["message_id"]))
    return drains.intersection(of_brought["drain_id"].to_pylist())


def stored_open_set(archive: Archive, path: str = OPEN_SET) -> OpenSet:
    """Read the stored open set; return an empty one where it is missing or damaged."""
    # As a whole: an analysis may replace it between two reads of parts.
    content = archive.read(path)
    try:
        file = pq.ParquetFile(pa.BufferReader(content or b""), page_checksum_verification=True)
        rows = file.read()
        covers = json.loads(rows.schema.metadata[_COVERS])
        drains, decided, runs, shared = record_of(_Covers, covers)
        counts = {(drain, plan, state): number for drain, plan, state, number in decided}
        return OpenSet(rows.cast(_ROWS), drains, counts, runs, shared)
    except (*PARQUET_DAMAGE, *DAMAGE):
        return OpenSet(_ROWS.empty_table(), drains={}, decided={}, runs={}, shared=())


def first_rows_of(archive: Archive, drain_ids: Sequence[str]) -> pa.Table:
    """Read one row of each message of these drains: that which was drained first.

    Its columns are ``message_id``, ``file`` and ``sent_at``.
    """
    first, _ = _read_rows(archive, drain_ids)
    return first


def _read_rows(archive: Archive, drain_ids: Sequence[str]) -> tuple[pa.Table, pa.Table]:
    """Read these drains: the first row of each message, and all rows of messages with several.

    Both have the columns of ``first_rows_of``.
    """
    columns = ("message_id", "sent_at")
    paths = message_files(archive, drain_ids)
    rows = with_files(rows_by_file(archive, paths, columns), columns)
    rows = rows.select(["message_id", "file", "sent_at"])

    repeated_ids = _repeated(rows["message_id"])
    if not len(repeated_ids):
        return rows, rows.slice(0, 0)

    is_repeated = is_in(rows["message_id"], repeated_ids)
    repeated = rows.filter(is_repeated)
    first = _first_of_repeated(archive, repeated, repeated_ids.to_pylist())
    once = _without(rows, is_repeated)
    tables = [once, first.select(rows.column_names)]
    return pa.concat_tables(tables).unify_dictionaries(), repeated


def _first_of_repeated(
    archive: Archive, repeated: pa.Table, message_ids: Collection[str]
) -> pa.Table:
    """Read the row of each of these messages that was drained first; all are in *repeated*."""
    columns = ("message_id", "sent_at", "drained_at", "receive_count")
    paths = sorted(map(str, repeated["file"].unique().to_pylist()))
    rows = with_files(rows_by_file(archive, paths, columns, message_ids), columns)

    rows = rows.append_column("drain_id", drains_of(rows))
    rows = rows.append_column("path", rows["file"].cast(pa.string()))
    order = ("drained_at", "drain_id", "receive_count", "path")
    return rows.take(first_rows(rows, "message_id", *order))


def sent_span(sent_at: Any) -> SentSpan:  # noqa: ANN401 - an Arrow column
    """Return the span of messages with these times; at least one."""
    if sent_at.null_count:
        return None
    return sent_text(pc.min(sent_at).as_py()), sent_text(pc.max(sent_at).as_py())


def _repeated(ids: Any) -> Any:  # noqa: ANN401 - an Arrow column
    """Return the ids that occur twice; sorted hashes take a quarter of a set's memory."""
    chunks = [pa.array(map(hash, chunk.to_pylist()), pa.int64()) for chunk in ids.chunks]
    hashes = pa.chunked_array(chunks, pa.int64()).combine_chunks()

    in_order = hashes.take(pc.sort_indices(hashes))
    later = in_order.slice(1)
    repeated = later.filter(pc.equal(later, in_order.slice(0, len(later))))
    return pc.unique(ids.filter(pc.is_in(hashes, value_set=repeated)))


def claimed_table(
    archive: Archive,
    *,
    by_plan: str = "",
    without: Collection[str] = (),
    wanted: Callable[[pa.Table], Any] | None = None,
) -> pa.Table:
    """Read ``CLAIMED``.

    Args:
        archive: whose ledgers.
        by_plan: only the runs of this plan; empty for all plans.
        without: the paths of result files to leave out.
        wanted: returns which rows to keep.
    """
    paths, open_attempts = ledger_files(archive, by_plan, without)

    def read(file: ResultFile) -> pa.Table:
        claimed, _ = claimed_in(file)
        return _filtered(claimed, wanted)

    claimed = pa.Table.from_batches([claimed_rows(open_attempts)])
    tables = [_filtered(claimed, wanted)]
    tables.extend(read_results(archive, paths, read))
    return pa.concat_tables(tables)


def claimed_of_plan(
    archive: Archive,
    plan_id: str,
    *,
    wanted: Callable[[pa.Table], Any] | None = None,
) -> pa.Table:
    """Read ``CLAIMED`` of the messages of a plan, and maybe of others; as ``claimed_table``.

    What its analysis has read is taken from what it has stored. Where that is missing, or damaged,
    all results are read.
    """
    stored = stored_open_set(archive, _known_path(plan_id))
    rows = stored.rows
    fields = [field_in(rows["entry"], name) for name in StateEntry._fields]
    columns = [rows["message_id"], *fields, drains_of(rows)]
    claimed = pa.table(columns, names=CLAIMED.names).cast(CLAIMED)
    claimed = _filtered(claimed, wanted)

    newer = claimed_table(archive, without=stored.runs.keys(), wanted=wanted)
    return pa.concat_tables([claimed, newer])


def _filtered(claimed: pa.Table, wanted: Callable[[pa.Table], Any] | None) -> pa.Table:
    return claimed.filter(wanted(claimed)) if wanted else claimed


def has_unknown_sends(archive: Archive) -> bool:
    """Return whether a message is unconfirmed because no result of its claim was written.

    A task may still be at work on it, or have been killed. Other messages are unconfirmed because
    SQS gave no answer: no task is at work on those.
    """
    paths, open_attempts = ledger_files(archive)
    # All claims of a file that the open set covers have results.
    covered = stored_open_set(archive).runs
    paths = [path for path in paths if path not in covered]

    ids: set[str] = set()
    for attempts in read_results(archive, paths, lambda file: list(file.without_results())):
        for attempt in attempts:
            ids.update(attempt.claim.message_ids)
    for attempt in open_attempts:
        if attempt.results is None:
            ids.update(attempt.claim.message_ids)
    if not ids:
        return False

    message_ids = pa.array(sorted(ids), pa.string())
    claimed = claimed_table(archive, wanted=lambda rows: is_in(rows["message_id"], message_ids))
    return str(Disposition.UNCONFIRMED) in states_among(claimed, message_ids).to_pylist()


def _known_path(plan_id: str) -> str:
    return f"{plan_folder(plan_id)}/known.parquet"


def planned_states(
    archive: Archive,
    plan_id: str,
    message_ids: Any,  # noqa: ANN401 - an Arrow column
    claimed: pa.Table | None = None,
) -> Any:  # noqa: ANN401 - an Arrow column
    """Return the state of each of these messages of a plan; the archive may have lost some.

    *claimed* is ``claimed_of_plan``, if the caller has read it before.
    """
    if claimed is None:
        claimed = claimed_of_plan(archive, plan_id)
    states = states_among(claimed, message_ids)

    erased: set[str] = set()
    for erasure in erasures(archive):
        erased.update(erasure.messages)
    is_lost = pc.and_not(is_in(message_ids, erased), is_in(states, SETTLED))
    return pc.if_else(is_lost, ERASED, states)


def _entry_table(claimed: pa.Table) -> pa.Table:
    """Return ``_ENTRIES`` of a table as ``CLAIMED``."""
    columns = [claimed["message_id"], entry_texts(claimed), claimed["drain_id"]]
    return pa.table(columns, schema=_ENTRIES)


def _strongest(tables: Sequence[pa.Table]) -> pa.Table:
    """Return one row for each message: the greatest entry, and one of the drains."""
    entries = pa.concat_tables(tables)
    # Few messages are claimed twice, and to group a million texts takes a gigabyte.
    is_repeated = is_in(entries["message_id"], _repeated(entries["message_id"]))
    grouped = entries.filter(is_repeated).group_by("message_id")
    strongest = grouped.aggregate([("entry", "max"), ("drain_id", "min")])
    strongest = strongest.select(["message_id", "entry_max", "drain_id_min"])
    strongest = strongest.rename_columns(_ENTRIES.names)
    return pa.concat_tables([_without(entries, is_repeated), strongest])


def _entries_for(rows: pa.Table, entries: pa.Table) -> Any:  # noqa: ANN401 - an Arrow column
    """Return the entry of each of *rows*, null where *entries* has not the message."""
    indices = pc.index_in(rows["message_id"], value_set=entries["message_id"].combine_chunks())
    return entries["entry"].take(indices)


def _rows_of_drains(rows: pa.Table, drains: Collection[str]) -> pa.Table:
    """Return those of *rows* whose file is of one of the *drains*."""
    files: Any = rows["file"].combine_chunks()
    is_other = [drain_of(path) not in drains for path in files.dictionary.to_pylist()]
    return _without(rows, pa.array(is_other, pa.bool_()).take(files.indices))


def _without(rows: pa.Table, mask: Any) -> pa.Table:  # noqa: ANN401 - an Arrow mask
    """Return *rows* without those of the *mask*; the same table, no copy, where it has none."""
    return rows.filter(pc.invert(mask)) if pc.any(mask).as_py() else rows


def _is_decided(entries: Any) -> Any:  # noqa: ANN401 - Arrow's columns
    """Return of each entry, or null, whether the message needs no decision any more."""
    is_decided = pc.match_substring_regex(entries, f"{BETWEEN}({'|'.join(DECIDED)}){BETWEEN}")
    return pc.fill_null(is_decided, False)  # noqa: FBT003 - a value


def _counted(rows: pa.Table, entries: Any) -> Counter[Count]:  # noqa: ANN401 - Arrow's columns
    """Count *rows* by drain, and by the plan and the state in their *entries*."""
    counts = Counter[Count]()
    for start in range(0, rows.num_rows, _ROWS_AT_ONCE):
        some_entries = entries.slice(start, _ROWS_AT_ONCE)
        some_rows = rows.select(["file"]).slice(start, _ROWS_AT_ONCE)
        for name in ("plan_id", "state"):
            some_rows = some_rows.append_column(name, field_in(some_entries, name))

        groups = some_rows.group_by(some_rows.column_names).aggregate([([], "count_all")])
        for group in groups.to_pylist():
            count = drain_of(group["file"]), group["plan_id"] or "", group["state"] or PENDING
            counts[count] += group["count_all"]
    return counts
