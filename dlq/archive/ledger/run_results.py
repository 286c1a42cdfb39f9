"""Result files of runs: the ledgers of all plans are read from them, without Spark.

``ledger/runs/<plan id>/<run id>.parquet`` has a row for each claim of the run: its name, all fields
of the claim and, for each message, all fields of its result. The run writes it when it ends, by
create-if-absent. If the run was killed, the run that closed it writes the file at its own end.
Until then readers list the claims of the run, and open each.

The file also has attempts without a result. Only for these a reader looks for a result that was
written since. A claim that is missing in the file was made after the run was closed: it sends
nothing, and no reader opens it.
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
    RunRecord,
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
_result_values = attrgetter(*arrow_fields(Result))
_NO_RESULT = (None,) * (len(_MESSAGE) - 2)
_IN_ELEMENTS = ("message_ids", "drain_ids")
_CLAIM_FIELDS = {n: kind for n, kind in arrow_fields(Claim).items() if n not in _IN_ELEMENTS}
_SCHEMA = pa.schema(
    {
        **arrow_fields(AttemptName),
        **_CLAIM_FIELDS,
        "has_result": pa.bool_(),
        "messages": pa.list_(pa.field("element", _MESSAGE)),
    }
)
"""Columns are named like the JSON keys of claims and results.

``messages`` has an element for each message of the claim, in the claim's order; where no result
names a message, all fields except ``message_id`` and ``drain_id`` are null.
"""

_ATTEMPTS_AT_ONCE = 500
"""With 100 messages each: about 10 MB of rows, and one row group of the file."""

_ATTEMPTS_DECODED = 100
_CONCURRENT_READS = 8
_CONCURRENT_FILES = 4
"""A result file of a million messages takes 100 MB of memory."""

ADVICE = "restore it"
IN_MESSAGES = "messages.list.element."
"""Prefix of Parquet's name of a field of ``messages``."""

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
        first = pc.min(spans["first_sent_at"]).as_py()
        last = pc.max(spans["last_sent_at"]).as_py()
        return (first, last) if first else None

    def attempts_with(self, field: str, ids: Collection[str]) -> Iterator[Attempt]:
        """Return the attempts in which *field* of some message is one of *ids*."""
        wanted_ids = pa.array(ids, pa.string())
        for group in range(self.parquet.num_row_groups):
            keys = self.parquet.read_row_group(group, ["has_result", f"{IN_MESSAGES}{field}"])
            messages = keys["messages"].combine_chunks()
            values = pc.struct_field(pc.list_flatten(messages), field)
            is_match = pc.is_in(values, value_set=wanted_ids)
            matching_rows = pc.list_parent_indices(messages).filter(is_match)
            row_numbers = pa.array(range(keys.num_rows), pa.int64())
            is_wanted = pc.is_in(row_numbers, value_set=matching_rows)

            if field == "new_message_id":
                # The results of the other attempts may have come since.
                is_wanted = pc.or_(is_wanted, pc.invert(keys["has_result"]))
            if pc.any(is_wanted).as_py():
                yield from self.attempts_of(self.parquet.read_row_group(group).filter(is_wanted))

    def without_results(self) -> Iterator[Attempt]:
        """Yield the attempts that have no results, neither here nor written since."""
        has_result = self.parquet.read(["has_result"])["has_result"]
        if pc.all(has_result).as_py() is not False:
            return
        for rows in self.batches():
            late = self.attempts_of(rows.filter(pc.invert(rows.column("has_result"))))
            for attempt in late:
                if attempt.results is None:
                    yield attempt

    def attempts_of(self, rows: pa.RecordBatch | pa.Table) -> list[Attempt]:
        """Return the attempts of *rows*, with the results that have come since."""
        with damage_named(self.archive, self.path, DAMAGE, ADVICE):
            attempts = list(map(_attempt, rows.to_pylist()))
        for number, attempt in enumerate(attempts):
            if attempt.results is None:
                results = read_claim_results(self.archive, attempt.name)
                attempts[number] = replace(attempt, results=results)
        return attempts


def read_results(
    archive: Archive, paths: Sequence[str], read: Callable[[ResultFile], _Read]
) -> Iterator[_Read]:
    """Yield the value of *read* for each of these result files, in order; read several at once."""

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


def ledger_files(
    archive: Archive, plan_id: str = "", without: Collection[str] = ()
) -> tuple[list[str], Iterator[Attempt]]:
    """List the runs of a plan, or of all.

    Returns:
        The paths of the result files, except those of *without*; and the attempts of the runs that
        have no result file, read lazily.
    """
    states = list_runs(archive, plan_id)
    paths = []
    without_file = []
    for run in sorted(states):
        if states[run] is not RunState.CLOSED:
            without_file.append(run)
        elif (path := run_path(*run, RESULTS)) not in without:
            paths.append(path)

    def attempts() -> Iterator[Attempt]:
        for run in without_file:
            yield from read_attempts(archive, run, is_closed=states[run] is RunState.CLOSING)

    return paths, attempts()


def names_of(file: ResultFile, *, finished: bool = False) -> list[AttemptName]:
    """Return the name of each attempt; if *finished*, of those with a result in this file."""
    rows = file.parquet.read([*AttemptName._fields, "has_result"])
    if finished:
        rows = rows.filter(rows["has_result"])
    return [AttemptName(**row) for row in rows.select(list(AttemptName._fields)).to_pylist()]


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

    The other runs were closed when this run took the archive lock, or before. So most results that
    their tasks still had to write are there by now. Open runs are left alone: if this run has lost
    the lock, one of them holds it. Does not raise, so that no run fails after it has sent.

    Returns:
        A sentence for the operator if it failed: readers then open more files.
    """
    try:
        states = list_runs(archive)
        runs = sorted(run for run, state in states.items() if state is RunState.CLOSING)
        if states.get(ended) is RunState.OPEN:
            runs.insert(0, ended)
        for run in runs:
            _close(archive, run)
    except (ArchiveError, pa.ArrowException, ValueError) as error:
        # The last two: Parquet cannot hold a value, such as a reason that is not valid Unicode.
        return (f"a run's results were not put into one file, so commands open more: {error}",)
    return ()


def _close(archive: Archive, run: RunName) -> None:
    # In this order: a task that claims after the marker finds it, and sends nothing.
    archive.create(run_path(*run, CLOSING), b"")
    sink = pa.BufferOutputStream()
    rows = map(_row, read_attempts(archive, run))
    with pq.ParquetWriter(sink, _SCHEMA, compression="zstd") as writer:
        while some_rows := [*islice(rows, _ATTEMPTS_AT_ONCE)]:
            writer.write_batch(pa.RecordBatch.from_pylist(some_rows, schema=_SCHEMA))
    archive.create(run_path(*run, RESULTS), sink.getvalue().to_pybytes())


def clear_plans(archive: Archive, oldest: str) -> None:
    """Seal the plans of which no redrive began at *oldest* or later, and remove their claims.

    *oldest* is ISO 8601, UTC. No other process may act on the archive. A call after one that was
    killed completes it. An attempt without a result stays as it is: its result may come.
    """
    marks = set(archive.list(RUNS))
    plan_ids = {plan_id for plan_id, _ in list_runs(archive)}
    for plan_id in sorted(plan_ids):
        is_cleared = f"{RUNS}/{plan_id}/{CLEARED}" in marks
        if not is_cleared and _is_old(find_runs(archive, plan_id), oldest):
            _clear(archive, plan_id)


def _is_old(runs: Sequence[RunRecord], oldest: str) -> bool:
    """Return whether all these runs are redrives that began before *oldest*; there must be one."""
    return bool(runs) and all(run.verb == "redrive" and run.time < oldest for run in runs)


def _clear(archive: Archive, plan_id: str) -> None:
    """Seal a plan, close its runs, and remove the claims whose results are in their files."""
    archive.create(f"{RUNS}/{plan_id}/{SEALED}", b"")
    # Listed after the seal: a run that is not among them finds it.
    runs = list_runs(archive, plan_id)
    for run, state in runs.items():
        if state is not RunState.CLOSED:
            _close(archive, run)

    paths = [run_path(*run, RESULTS) for run in runs]
    with ThreadPoolExecutor(_CONCURRENT_READS, thread_name_prefix="ledger") as executor:
        for names in read_results(archive, paths, partial(names_of, finished=True)):
            list(executor.map(partial(discard_claim, archive), names))
    archive.create(f"{RUNS}/{plan_id}/{CLEARED}", b"")


def _row(attempt: Attempt) -> dict[str, Any]:
    claim = attempt.claim
    results = {result.message_id: _result_values(result) for result in attempt.results or ()}
    messages = []
    for message_id, drain_id in zip_longest(claim.message_ids, claim.drain_ids):
        values = results.get(message_id, (message_id, *_NO_RESULT))
        messages.append((*values, drain_id))
    return {
        **attempt.name._asdict(),
        **values_of(claim),
        "has_result": attempt.results is not None,
        "messages": messages,
    }


def _attempt(row: dict[str, Any]) -> Attempt:
    name = AttemptName(*(row.pop(field) for field in AttemptName._fields))
    has_result = row.pop("has_result")

    message_ids = []
    drain_ids = []
    results = []
    for message in row.pop("messages"):
        message_ids.append(message["message_id"])
        drain_id = message.pop("drain_id")
        if drain_id is not None:
            drain_ids.append(drain_id)
        if message["outcome"] is not None:
            results.append(record_of(Result, message))

    edits = dict(row.pop("edits"))
    claim = {**row, "edits": edits, "message_ids": message_ids, "drain_ids": drain_ids}
    return Attempt(
        name=name,
        claim=record_of(Claim, claim),
        results=tuple(results) if has_result else None,
    )
