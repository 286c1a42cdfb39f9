"""The ledgers of all plans, read without Spark: a result file for each run that has ended.

``ledger/runs/<plan id>/<run id>.parquet`` has a row for each claim of the run: its name, all fields
of the claim and, for each message, all fields of its result. The run writes it when it ends, if
absent. Of a run that was killed, the run that closed it writes it at its own end. Until then
readers list the claims of the run, and open each.

An attempt without a result stands in the file as such. For those alone readers look whether a
result has been written since. A claim that its run's file lacks was made after the run was closed:
it sends nothing, and nobody reads it.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, zip_longest
from operator import attrgetter
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dlq.archive.ledger.claims import (
    CLEARED,
    CLOSING,
    RESULTS,
    RUNS,
    SEALED,
    Attempt,
    AttemptName,
    Claim,
    Result,
    RunName,
    RunState,
    attempt_names,
    discard_claim,
    find_runs,
    list_runs,
    read_attempt,
    read_claim_results,
    run_path,
)
from dlq.archive.messages.message_store import opened
from dlq.archive.storage.files import Archive
from dlq.archive.storage.records import (
    DAMAGE,
    damage_named,
    missing,
    record_of,
    values_of,
)
from dlq.archive.storage.table_parts import arrow_fields
from dlq.errors import ArchiveError

_MESSAGE = pa.struct([*arrow_fields(Result).items(), ("drain_id", pa.string())])
_IN_ORDER, _UNKNOWN = attrgetter(*arrow_fields(Result)), (None,) * (len(_MESSAGE) - 2)
_COLUMNS = {
    **arrow_fields(AttemptName),
    **arrow_fields(Claim),
    "has_result": pa.bool_(),
    "messages": pa.list_(pa.field("element", _MESSAGE)),
}
_SCHEMA = pa.schema({n: of for n, of in _COLUMNS.items() if n not in ("message_ids", "drain_ids")})
"""Columns are named like the JSON keys of claims and results.

``messages`` has an element for each message of the claim, in the claim's order; where no result
names a message, all but ``message_id`` and ``drain_id`` is null.
"""

_ATTEMPTS_AT_ONCE = 500
"""With 100 messages each: about 10 MB of rows, and one row group of the file."""

_ATTEMPTS_DECODED = 100
_CONCURRENT_READS = 8
_CONCURRENT_FILES = 4
"""Of a million messages each takes 100 MB."""

ADVICE = "restore it"
IN_MESSAGES = "messages.list.element."
"""Parquet's name of a field of ``messages`` begins so."""

_Read = TypeVar("_Read")


@dataclass(frozen=True, slots=True)
class ResultFile:
    """The result file of one run. Only columns that are read are fetched."""

    archive: Archive
    path: str
    parquet: pq.ParquetFile

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Decode the rows, 100 attempts at once; *columns* is None for all."""
        yield from self.parquet.iter_batches(
            batch_size=_ATTEMPTS_DECODED, columns=list(columns or _SCHEMA.names)
        )

    def sent_span(self) -> tuple[str, str] | None:
        """Return the first and the last SentTimestamp of its messages, None if one is unknown."""
        spans = self.parquet.read(["first_sent_at", "last_sent_at"])
        first, last = pc.min(spans["first_sent_at"]).as_py(), pc.max(spans["last_sent_at"]).as_py()
        return (first, last) if first else None

    def attempts_with(self, field: str, ids: Collection[str]) -> Iterator[Attempt]:
        """Return the attempts in which *field* of some message is one of *ids*."""
        wanted = pa.array(ids, pa.string())
        for group in range(self.parquet.num_row_groups):
            keys = self.parquet.read_row_group(group, ["has_result", f"{IN_MESSAGES}{field}"])
            messages = keys["messages"].combine_chunks()
            matches = pc.is_in(pc.struct_field(pc.list_flatten(messages), field), value_set=wanted)
            numbers = pa.array(range(keys.num_rows), pa.int64())
            has_any = pc.is_in(numbers, value_set=pc.list_parent_indices(messages).filter(matches))
            if field == "new_message_id":
                # Its results may have come since.
                has_any = pc.or_(has_any, pc.invert(keys["has_result"]))
            if pc.any(has_any).as_py():
                yield from self.attempts_of(self.parquet.read_row_group(group).filter(has_any))

    def without_results(self) -> Iterator[Attempt]:
        """Return the attempts that have no results, also none that have come since."""
        if pc.all(self.parquet.read(["has_result"])["has_result"]).as_py() is not False:
            return
        for rows in self.batches():
            late = self.attempts_of(rows.filter(pc.invert(rows.column("has_result"))))
            yield from (attempt for attempt in late if attempt.results is None)

    def attempts_of(self, rows: pa.RecordBatch | pa.Table) -> list[Attempt]:
        """Return the attempts of *rows*, with the results that have come since."""
        with damage_named(self.archive, self.path, DAMAGE, ADVICE):
            found = list(map(_attempt, rows.to_pylist()))
        return [
            one
            if one.results is not None
            else replace(one, results=read_claim_results(self.archive, one.name))
            for one in found
        ]


def read_results(
    archive: Archive, paths: Sequence[str], read: Callable[[ResultFile], _Read]
) -> Iterator[_Read]:
    """Return what *read* makes of each of these result files, several at once, in their order."""

    def act(path: str) -> _Read:
        with opened(archive, path, ADVICE) as parquet:
            if parquet is None:
                raise missing(archive, path)
            if not parquet.schema_arrow.equals(_SCHEMA):
                raise pa.ArrowInvalid("it has other columns")
            return read(ResultFile(archive, path, parquet))

    with ThreadPoolExecutor(_CONCURRENT_FILES, thread_name_prefix="ledger") as executor:
        for start in range(0, len(paths), _CONCURRENT_FILES):
            yield from executor.map(act, paths[start : start + _CONCURRENT_FILES])


def ledger_files(archive: Archive, plan_id: str = "") -> tuple[list[str], Iterator[Attempt]]:
    """List the runs of a plan, or of all.

    Returns:
        The paths of the result files; and the attempts of the runs that have none, read lazily.
    """
    states = list_runs(archive, plan_id)
    closed = sorted(run for run, state in states.items() if state is RunState.CLOSED)
    others = sorted(states.keys() - set(closed))
    attempts = (
        attempt
        for run in others
        for attempt in read_attempts(archive, run, is_closed=states[run] is RunState.CLOSING)
    )
    return [run_path(*run, RESULTS) for run in closed], attempts


def names_of(file: ResultFile, *, finished: bool = False) -> list[AttemptName]:
    """Return the name of each attempt, or of each that has a result in this file."""
    rows = file.parquet.read([*AttemptName._fields, "has_result"])
    rows = rows.filter(rows["has_result"]) if finished else rows
    columns = (rows[name].to_pylist() for name in AttemptName._fields)
    return [*map(AttemptName._make, zip(*columns, strict=True))]


def read_attempts(archive: Archive, run: RunName, *, is_closed: bool = True) -> Iterator[Attempt]:
    """Read the claims and results of a run, several at once; *is_closed*: as in ``Attempt``."""
    names = attempt_names(archive, run)

    def read(name: AttemptName) -> Attempt:
        attempt = read_attempt(archive, name, is_closed=is_closed)
        if attempt is None:
            raise missing(archive, f"a claim of run {name.run_id}, chunk {name.chunk}")
        return attempt

    with ThreadPoolExecutor(_CONCURRENT_READS, thread_name_prefix="ledger") as executor:
        for start in range(0, len(names), _ATTEMPTS_AT_ONCE):
            yield from executor.map(read, names[start : start + _ATTEMPTS_AT_ONCE])


def write_result_files(archive: Archive, ended: RunName) -> tuple[str, ...]:
    """Close the run that ends, and write its result file and those of runs that others closed.

    Those were closed when this run took the archive lock, or before, so most results that their
    tasks still had to write are there by now. Runs that are open are left alone: if this run has
    lost the lock, one of them holds it. Does not raise, so that no run fails after it has sent.

    Returns:
        A sentence for the operator if it failed: readers then open more files.
    """
    try:
        states = list_runs(archive)
        died = sorted(run for run, state in states.items() if state is RunState.CLOSING)
        if states.get(ended) is RunState.OPEN:
            died.insert(0, ended)
        for run in died:
            _close(archive, run)
    except (ArchiveError, pa.ArrowException, ValueError) as error:
        # The last two: Parquet cannot hold a value, such as a reason that is not valid Unicode.
        return (f"a run's results were not put into one file, so commands open more: {error}",)
    return ()


def _close(archive: Archive, run: RunName) -> None:
    # In this order: what claims after the marker finds it, and sends nothing.
    archive.create(run_path(*run, CLOSING), b"")
    sink = pa.BufferOutputStream()
    rows = map(_row, read_attempts(archive, run))
    with pq.ParquetWriter(sink, _SCHEMA, compression="zstd") as writer:
        while held := [*islice(rows, _ATTEMPTS_AT_ONCE)]:
            writer.write_batch(pa.RecordBatch.from_pylist(held, schema=_SCHEMA))
    archive.create(run_path(*run, RESULTS), sink.getvalue().to_pybytes())


def clear_plans(archive: Archive, oldest: str) -> None:
    """Seal the plans of which no redrive began at *oldest* or later, and remove their claims.

    *oldest* is ISO 8601, UTC. Nobody but the caller may act on the archive. A call after one that
    was killed completes it. An attempt without a result stays as it is: its result may come.
    """
    marks = set(archive.list(RUNS))
    for plan_id in sorted({plan_id for plan_id, _ in list_runs(archive)}):
        cleared = f"{RUNS}/{plan_id}/{CLEARED}"
        records = () if cleared in marks else find_runs(archive, plan_id)
        if not records or any(one.verb != "redrive" or one.time >= oldest for one in records):
            continue
        archive.create(f"{RUNS}/{plan_id}/{SEALED}", b"")
        # Listed after the seal: a run that is not among them finds it.
        runs = list_runs(archive, plan_id)
        for run in (run for run, state in runs.items() if state is not RunState.CLOSED):
            _close(archive, run)
        with ThreadPoolExecutor(_CONCURRENT_READS, thread_name_prefix="ledger") as executor:
            paths = [run_path(*run, RESULTS) for run in runs]
            for names in read_results(archive, paths, partial(names_of, finished=True)):
                list(executor.map(partial(discard_claim, archive), names))
        archive.create(cleared, b"")


def _row(attempt: Attempt) -> dict[str, Any]:
    ids = attempt.claim.message_ids
    results = {one.message_id: _IN_ORDER(one) for one in attempt.results or ()}
    messages = [
        (*results.get(message_id, (message_id, *_UNKNOWN)), drain_id)
        for message_id, drain_id in zip_longest(ids, attempt.claim.drain_ids)
    ]
    return {
        **attempt.name._asdict(),
        **values_of(attempt.claim),
        "has_result": attempt.results is not None,
        "messages": messages,
    }


def _attempt(row: dict[str, Any]) -> Attempt:
    name = AttemptName(*(row.pop(column) for column in AttemptName._fields))
    messages, has_result = row.pop("messages"), row.pop("has_result")
    drain_ids = [drain_id for one in messages if (drain_id := one.pop("drain_id")) is not None]
    ids = [one["message_id"] for one in messages]
    claim = record_of(
        Claim, {**row, "edits": dict(row["edits"]), "message_ids": ids, "drain_ids": drain_ids}
    )
    results = tuple(record_of(Result, one) for one in messages if one["outcome"] is not None)
    return Attempt(name, claim, results if has_result else None)
