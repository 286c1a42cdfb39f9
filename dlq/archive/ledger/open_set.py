"""What is pending, found without reading what is decided: ``ledger/open.parquet``, a cache.

It has a row for each message that is not decided by the runs that it covers: its id, the path of
its file, and the ``Entry`` that holds. Its metadata name what it covers: the drains, each with a
digest of the names of its files; how many of their messages are decided, by plan and state; and the
result files, each with its ``ResultSpan``. A run with a claim without a result is not covered,
since the result may come; the messages of such claims keep their rows.

An analysis replaces it. A reader takes its rows of the drains that have the same files as then,
reads the ids of the other drains, and adds what the runs say that it does not cover. So an older
one is as right as a newer one, an erasure need not touch it, and without it, or where it is
damaged, all ids and results are read. It has ids and paths, and no content.

Clocks of machines differ, and ids have times of such clocks. So nothing here compares times of two
machines. A drain may bring again what was decided long ago: a copy that SQS delivers twice has the
same SentTimestamp each time, and each claim says between which SentTimestamps its messages are. An
analysis also stores which result files it has read, and what they say of what is pending:
``ledger/plan_id=PLAN/known.parquet``, in the same form. For the messages of its plan these files
need not be read again.
"""

import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
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
    Entry,
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
_SAID = pa.schema([("message_id", pa.string()), ("entry", pa.string()), ("drain_id", pa.string())])

_ROWS_AT_ONCE = 20_000


Count = tuple[str, str, str]
"""A drain, the plan whose attempt holds, and a state; without an attempt the plan is empty."""


SentSpan = tuple[str, str] | None
"""The SentTimestamp of the first and of the last of some messages, both by the clock of SQS; ISO
8601, UTC. None if that of one of them is not known."""


@dataclass(frozen=True, slots=True)
class ResultSpan:
    """Which messages a result file may be about, so that nobody opens it in vain.

    Attributes:
        last_time: the greatest time of its results; ISO 8601, UTC.
        sent: of its messages.
    """

    last_time: str
    sent: SentSpan

    def may_have(self, sent: SentSpan) -> bool:
        """Whether a message of *sent* may be among them."""
        if self.sent is None or sent is None:
            return True
        return self.sent[0] <= sent[1] and sent[0] <= self.sent[1]


_Covers: Any = tuple[dict[str, str], list[tuple[str, str, str, int]], dict[str, ResultSpan]]
"""*drains*, *decided* and *runs* of an ``OpenSet``."""


@dataclass(frozen=True, slots=True)
class OpenSet:
    """What is not decided by the runs that it covers.

    Attributes:
        rows: see ``_ROWS``; *entry* is null where no run has claimed the message.
        drains: by id, the digest of the names of the files that were read.
        decided: the numbers of the messages of these drains that have no row.
        runs: by path of the result file.
    """

    rows: pa.Table
    drains: Mapping[str, str]
    decided: Mapping[Count, int]
    runs: Mapping[str, ResultSpan]

    def write(self, archive: Archive, path: str = OPEN_SET) -> None:
        """Replace the stored one. Raises ArchiveError."""
        decided = [(*key, number) for key, number in sorted(self.decided.items())]
        covers = record_bytes((self.drains, decided, self.runs))
        rows = self.rows.replace_schema_metadata({_COVERS: covers})
        archive.write(path, parquet_bytes(rows))

    def write_for_plan(self, archive: Archive, plan_id: str) -> None:
        """Store what a plan of what is pending need not read again. Raises ArchiveError."""
        claimed = self.rows.filter(pc.is_valid(self.rows["entry"]))
        OpenSet(claimed, {}, {}, self.runs).write(archive, _known_path(plan_id))

    def without(self, sent: SentSpan) -> set[str]:
        """Return the result files that have no message of *sent*."""
        return {path for path, span in self.runs.items() if not span.may_have(sent)}


@dataclass(frozen=True, slots=True)
class Messages:
    """All messages of an archive.

    Attributes:
        open_set: covers all that it can.
        entries: as in its rows, but by all runs.
    """

    open_set: OpenSet
    entries: Any

    def pending(self) -> pa.Table:
        """Return ``message_id, file, entry`` of what is pending, in doubt or busy."""
        rows = self.open_set.rows.set_column(2, "entry", self.entries)
        return _without(rows, _is_decided(self.entries))

    def counts(self) -> Counter[Count]:
        """Count all messages. A message of two drains counts in one.

        A decided message that was erased, and that a drain then brought again, does not count.
        """
        return Counter(self.open_set.decided) + _counted(self.open_set.rows, self.entries)


def read_messages(archive: Archive) -> Messages:
    """Read which messages are pending now, of all drains."""
    base = stored_open_set(archive)
    reopened: set[str] = set()
    while True:
        messages, counted_twice = _read(archive, base, reopened)
        if not counted_twice:
            return messages
        reopened |= counted_twice


def _read(archive: Archive, base: OpenSet, reopened: set[str]) -> tuple[Messages, set[str]]:
    """Read what *base* does not cover, and the drains *reopened*.

    Also return drains of *base* in which a message may be counted that was counted here, too: it
    was delivered again, and is decided. Without them the count is right.
    """
    results, attempts = ledger_files(archive)
    runs = {path: base.runs[path] for path in results if path in base.runs}
    covered, unsure = [_SAID.empty_table()], [_SAID.empty_table()]

    def read(file: ResultFile) -> tuple[pa.Table, bool, ResultSpan]:
        claimed, is_whole = claimed_in(file)
        span = ResultSpan(pc.max(claimed["time"]).as_py() or "", file.sent_span())
        return _said(claimed), is_whole, span

    new = [path for path in results if path not in runs]
    for path, (said, is_whole, span) in zip(new, read_results(archive, new, read), strict=True):
        (covered if is_whole else unsure).append(said)
        if is_whole:
            runs[path] = span
    batch = claimed_rows(attempts)
    unsure.append(_said(pa.Table.from_batches([batch])))

    files = {drain_id: [*paths] for drain_id, paths in groupby(message_files(archive), drain_of)}
    digests = {one: sha256("\n".join(paths).encode()).hexdigest() for one, paths in files.items()}
    drains = {one for one, digest in base.drains.items() if digests.get(one) == digest} - reopened
    rows = _without(base.rows, _is_outside(base.rows, drains))
    # Somebody says something new of a message without a row: its drain is read again.
    newer = pa.concat_tables([*covered, *unsure])
    is_new = pc.invert(is_in(newer["message_id"], rows["message_id"]))
    renewed = set(pc.unique(newer["drain_id"].filter(is_new)).to_pylist())
    drains = drains - renewed if all(renewed) else set()
    rows = _without(rows, _is_outside(rows, drains))
    unread = sorted(files.keys() - drains)
    fresh = first_rows_of(archive, unread)
    fresh = _without(fresh, is_in(fresh["message_id"], rows["message_id"]))

    def read_of_fresh(file: ResultFile) -> pa.Table:
        claimed, _ = claimed_in(file)
        return _said(claimed.filter(is_in(claimed["message_id"], fresh["message_id"])))

    if fresh.num_rows:
        older = sorted((base.runs.keys() & runs.keys()) - base.without(sent_span(fresh["sent_at"])))
        covered += read_results(archive, older, read_of_fresh)
    unclaimed = pa.nulls(fresh.num_rows, pa.string())
    fresh = pa.table([fresh["message_id"], fresh["file"], unclaimed], schema=_ROWS)
    rows = pa.concat_tables([rows, fresh]).unify_dictionaries()

    known, others = _holding(covered), _holding(unsure)
    entries = pc.max_element_wise(rows["entry"], _found(known, "entry", rows))
    now = pc.max_element_wise(entries, _found(others, "entry", rows))
    leaves = pc.and_not(_is_decided(entries), is_in(rows["message_id"], others["message_id"]))
    rows = rows.set_column(2, "entry", entries).append_column("now", now)
    leaving = rows.filter(leaves)
    brought = _without(leaving, is_in(leaving["message_id"], base.rows["message_id"]))
    claims = pa.concat_tables(covered)
    of_brought = claims.filter(is_in(claims["message_id"], brought["message_id"]))
    counted_twice = drains.intersection(of_brought["drain_id"].to_pylist())
    decided = Counter({key: number for key, number in base.decided.items() if key[0] in drains})
    decided += _counted(leaving, leaving["entry"])
    kept = _without(rows, leaves)
    open_set = OpenSet(kept.select(_ROWS.names), digests, decided, runs)
    return Messages(open_set, kept["now"]), counted_twice


def stored_open_set(archive: Archive, path: str = OPEN_SET) -> OpenSet:
    """Read the stored one; an empty one where there is none, or a damaged one."""
    # As a whole: an analysis may replace it between two reads of parts.
    content = archive.read(path)
    try:
        file = pq.ParquetFile(pa.BufferReader(content or b""), page_checksum_verification=True)
        rows = file.read()
        covers = json.loads(rows.schema.metadata[_COVERS])
        drains, decided, runs = record_of(_Covers, covers)
        counts = {(drain, plan, state): number for drain, plan, state, number in decided}
        return OpenSet(rows.cast(_ROWS), drains, counts, runs)
    except (*PARQUET_DAMAGE, *DAMAGE):
        return OpenSet(_ROWS.empty_table(), {}, {}, {})


def first_rows_of(archive: Archive, drain_ids: Sequence[str]) -> pa.Table:
    """Read one row of each message of these drains: that which was drained first.

    Its columns are ``message_id``, ``file`` and ``sent_at``.
    """
    paths, columns = message_files(archive, drain_ids), ("message_id", "sent_at")
    found = with_files(rows_by_file(archive, paths, columns), columns)
    repeated = _repeated(found["message_id"])
    if len(repeated):
        ordered_by = ("message_id", "sent_at", "drained_at", "receive_count")
        of_repeated = found.filter(is_in(found["message_id"], repeated))
        paths = sorted(map(str, of_repeated["file"].unique().to_pylist()))
        ids = repeated.to_pylist()
        again = with_files(rows_by_file(archive, paths, ordered_by, ids), ordered_by)
        again = again.append_column("drain_id", drains_of(again))
        again = again.append_column("path", again["file"].cast(pa.string()))
        order = ("drained_at", "drain_id", "receive_count", "path")
        first = again.take(first_rows(again, "message_id", *order)).select(found.column_names)
        once = _without(found, is_in(found["message_id"], repeated))
        found = pa.concat_tables([once, first]).unify_dictionaries()
    return found.select(["message_id", "file", "sent_at"])


def sent_span(sent_at: Any) -> SentSpan:  # noqa: ANN401 - an Arrow column
    """Return the span of messages with these times; at least one."""
    if sent_at.null_count:
        return None
    first, last = pc.min(sent_at).as_py(), pc.max(sent_at).as_py()
    return sent_text(first), sent_text(last)


def _repeated(ids: Any) -> Any:  # noqa: ANN401 - an Arrow column
    """Return the ids that are there twice; sorted hashes take a quarter of a set's memory."""
    chunks = [pa.array(map(hash, chunk.to_pylist()), pa.int64()) for chunk in ids.chunks]
    hashes = pa.chunked_array(chunks, pa.int64()).combine_chunks()
    in_order = hashes.take(pc.sort_indices(hashes))
    later = in_order.slice(1)
    again = later.filter(pc.equal(later, in_order.slice(0, len(later))))
    return pc.unique(ids.filter(pc.is_in(hashes, value_set=again)))


def claimed_table(
    archive: Archive,
    *,
    by_plan: str = "",
    without: Collection[str] = (),
    wanted: Callable[[pa.Table], Any] | None = None,
) -> pa.Table:
    """Read ``CLAIMED``.

    *by_plan* is for the runs of one plan. The result files of *without* are left out. *wanted*
    returns which rows to keep.
    """
    paths, attempts = ledger_files(archive, by_plan)
    paths = [path for path in paths if path not in without]

    def kept(claimed: pa.Table) -> pa.Table:
        return claimed.filter(wanted(claimed)) if wanted else claimed

    def read(file: ResultFile) -> pa.Table:
        return kept(claimed_in(file)[0])

    open_ones = claimed_rows(attempts)
    tables = [kept(pa.Table.from_batches([open_ones]))]
    return pa.concat_tables([*tables, *read_results(archive, paths, read)])


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
    known = stored_open_set(archive, _known_path(plan_id))
    rows = known.rows
    fields = [field_in(rows["entry"], name) for name in Entry._fields]
    columns = [rows["message_id"], *fields, drains_of(rows)]
    claimed = pa.table(columns, names=CLAIMED.names).cast(CLAIMED)
    claimed = claimed.filter(wanted(claimed)) if wanted else claimed
    without = known.runs.keys()
    newer = claimed_table(archive, without=without, wanted=wanted)
    return pa.concat_tables([claimed, newer])


def has_unknown_sends(archive: Archive) -> bool:
    """Whether a message is in doubt because nobody has written a result of its claim.

    A task may still be at work on it, or have been killed. Other messages are in doubt because SQS
    gave no answer: nobody is at work on those.
    """
    paths, attempts = ledger_files(archive)
    # What the open set covers has all its results.
    covered = stored_open_set(archive).runs
    unread = [path for path in paths if path not in covered]
    ids: set[str] = set()
    for late in read_results(archive, unread, lambda file: list(file.without_results())):
        ids.update(message_id for attempt in late for message_id in attempt.claim.message_ids)
    for attempt in attempts:
        if attempt.results is None:
            ids.update(attempt.claim.message_ids)
    if not ids:
        return False
    message_ids = pa.array(sorted(ids), pa.string())
    claimed = claimed_table(archive, wanted=lambda rows: is_in(rows["message_id"], message_ids))
    return str(Disposition.IN_DOUBT) in states_among(claimed, message_ids).to_pylist()


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
    erased = {one for record in erasures(archive) for one in record.messages}
    is_lost = pc.and_not(is_in(message_ids, erased), is_in(states, SETTLED))
    return pc.if_else(is_lost, ERASED, states)


def _said(claimed: pa.Table) -> pa.Table:
    columns = [claimed["message_id"], entry_texts(claimed), claimed["drain_id"]]
    return pa.table(columns, schema=_SAID)


def _holding(said: Sequence[pa.Table]) -> pa.Table:
    """Return one row for each message: the greatest entry, and one of the drains."""
    rows = pa.concat_tables(said)
    # Few messages are claimed twice, and to group a million texts takes a gigabyte.
    is_again = is_in(rows["message_id"], _repeated(rows["message_id"]))
    grouped = rows.filter(is_again).group_by("message_id")
    found = grouped.aggregate([("entry", "max"), ("drain_id", "min")])
    found = found.select(["message_id", "entry_max", "drain_id_min"]).rename_columns(_SAID.names)
    return pa.concat_tables([_without(rows, is_again), found])


def _found(said: pa.Table, column: str, rows: pa.Table) -> Any:  # noqa: ANN401 - an Arrow column
    """Return a column of *said* for each of *rows*, null where it has not the message."""
    places = pc.index_in(rows["message_id"], value_set=said["message_id"].combine_chunks())
    return said[column].take(places)


def _is_outside(rows: pa.Table, drains: Collection[str]) -> Any:  # noqa: ANN401 - an Arrow mask
    files: Any = rows["file"].combine_chunks()
    outside = [drain_of(path) not in drains for path in files.dictionary.to_pylist()]
    return pa.array(outside, pa.bool_()).take(files.indices)


def _without(rows: pa.Table, mask: Any) -> pa.Table:  # noqa: ANN401 - an Arrow mask
    """Return the other *rows*: the same, and no copy, where there is none."""
    return rows.filter(pc.invert(mask)) if pc.any(mask).as_py() else rows


def _is_decided(entries: Any) -> Any:  # noqa: ANN401 - Arrow's columns
    """Return of each entry, or null, whether the message needs no decision any more."""
    is_decided = pc.match_substring_regex(entries, f"{BETWEEN}({'|'.join(DECIDED)}){BETWEEN}")
    return pc.fill_null(is_decided, False)  # noqa: FBT003 - a value


def _counted(rows: pa.Table, entries: Any) -> Counter[Count]:  # noqa: ANN401 - Arrow's columns
    counts = Counter[Count]()
    for start in range(0, rows.num_rows, _ROWS_AT_ONCE):
        said = entries.slice(start, _ROWS_AT_ONCE)
        some = rows.select(["file"]).slice(start, _ROWS_AT_ONCE)
        for name in ("plan_id", "state"):
            some = some.append_column(name, field_in(said, name))
        sums = some.group_by(some.column_names).aggregate([([], "count_all")])
        for row in sums.to_pylist():
            key = drain_of(row["file"]), row["plan_id"] or "", row["state"] or PENDING
            counts[key] += row["count_all"]
    return counts
