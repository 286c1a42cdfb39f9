"""The engine of one machine: threads of this process, and DuckDB for the SQL of operators.

Threads, because sends and reads wait for SQS and for the disk; and because a process that is killed
then leaves nobody who sends. Signing, which computes, gains nothing from them: at the limit of this
engine it takes half a second.

DuckDB and sqlglot are imported at the first SQL: most runs have none.
"""

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor, wait
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dlq.archive.messages.dead_letter_schema import READ_COLUMNS, READ_SCHEMA
from dlq.aws.actor import text_of
from dlq.engine import (
    CHANGE,
    CHANGES,
    GROUP_ID,
    STOPPED,
    AttributeSql,
    Exchange,
    Function,
    Work,
)
from dlq.errors import InputError
from dlq.sql.sql_errors import WHERE, naming, no_attribute

_SQL_BYTES = 64 * 1024 * 1024
"""About as many bytes of rows are given to DuckDB at once."""

_BATCH_ROWS = 1000
_COPIED_ROWS = 100
"""Rows of a batch that is a copy: each may have 1 MiB."""

_CHANGES = pa.list_(CHANGE)

_STRING = "String"
_NUMBER = "Number"
_BINARY = "Binary"
"""The types of message attributes, as SQS names them."""

T = TypeVar("T")


class LocalEngine:
    """Runs work in threads of this process; see ``engine.Engine``.

    SQL is evaluated in the caller's thread, and so are the functions that make the rows for it. So
    the rows that are in memory at once do not grow with the number of rows.
    """

    name = "local"
    may_grow = False
    application_id = None
    holds_rows = True
    reserved_bytes = 0

    def __init__(self) -> None:
        """Take the processors that this process may use."""
        processors = os.cpu_count() or 1
        if hasattr(os, "sched_getaffinity"):  # Not every system has it.
            processors = len(os.sched_getaffinity(0))
        # Three threads for two processors: they also wait for SQS and for the disk.
        self.slots = max(1, processors * 3 // 2)

    def run(self, work: Work) -> pa.Table:
        """See ``Engine.run``."""

        def rows_of(partition: pa.Table) -> pa.Table:
            return _call(work.function, partition.to_batches(), work.schema)

        return _joined(_in_threads(rows_of, work.partitions, self.slots), work.schema)

    def run_where(
        self,
        work: Work,
        where: str,
        columns: Sequence[str],
        hidden: Sequence[str] = (),
        *,
        place: str = WHERE,
        row: str = "message",
    ) -> pa.Table:
        """See ``Engine.run_where``."""
        from dlq.sql.duckdb_engine import matching
        from dlq.sql.duckdb_sql import condition_for_duckdb

        named = [name for name in work.schema.names if name not in hidden]
        condition_for_duckdb(where, _fields(work.schema, named), place)

        selected = []
        for rows in _in_pieces(_batches(work), work.schema):
            is_selected = matching(where, rows, place, hidden=hidden, row=row)
            selected.append(rows.select(list(columns)).filter(is_selected))
            del rows
        return _joined(selected, _fields(work.schema, columns))

    def run_edited(
        self,
        work: Work,
        attributes: AttributeSql,
        then: Work,
        exchange: Exchange | None = None,
    ) -> pa.Table:
        """See ``Engine.run_edited``."""
        if exchange is None:
            results = []
            for partition in work.partitions:
                rows = work.function(partition.to_batches())
                edited = _edited(rows, work.schema, attributes)
                results.append(_call(then.function, edited, then.schema))
            return _joined(results, then.schema)

        if not work.partitions:
            return then.schema.empty_table()
        # Before any task begins: SQL that fails must find nothing sent.
        edited = _edited(self.run(work).to_batches(), work.schema, attributes)
        rows_of_tasks = _exchanged([*edited], exchange)

        def results_of(rows: Iterator[pa.RecordBatch]) -> pa.Table:
            return _call(then.function, rows, then.schema)

        return _joined(_in_threads(results_of, rows_of_tasks, exchange.tasks), then.schema)

    def check_condition(self, sql: str, schema: pa.Schema, place: str) -> None:
        """See ``Engine.check_condition``."""
        from dlq.sql.duckdb_sql import condition_for_duckdb

        condition_for_duckdb(sql, schema, place)

    def attribute_fault(self, sql: str) -> str | None:
        """See ``Engine.attribute_fault``."""
        try:
            _attribute_type(sql, READ_SCHEMA)
        except InputError as error:
            return text_of(error)
        return None


def _fields(schema: pa.Schema, names: Iterable[str]) -> pa.Schema:
    return pa.schema([schema.field(name) for name in names])


def _batches(work: Work) -> Iterator[pa.RecordBatch]:
    """Do *work* in this thread; yield its rows."""
    for partition in work.partitions:
        yield from work.function(partition.to_batches())


def _call(function: Function, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    is_stopped = STOPPED.get()

    def until_stopped() -> Iterator[pa.RecordBatch]:
        for batch in function(batches):
            yield batch
            if is_stopped():
                return

    return pa.Table.from_batches(until_stopped(), schema)


def _in_threads(call: Callable[[T], pa.Table], inputs: Sequence[T], threads: int) -> list[pa.Table]:
    """Return the results of *call* for each of *inputs*, in their order.

    After a call has failed no other begins, and the first error is raised when those that run have
    ended. Ctrl-C raises at once. In both cases they see ``STOPPED``, and end at their next batch.
    """
    if not inputs:
        return []

    stopped = threading.Event()

    def call_in_thread(value: T) -> pa.Table:
        if stopped.is_set():
            # Whoever asks for the results finds the error of one that had begun before this.
            raise CancelledError
        STOPPED.set(stopped.is_set)
        try:
            return call(value)
        except BaseException:
            stopped.set()
            raise

    executor = ThreadPoolExecutor(threads, thread_name_prefix="work")
    try:
        futures = [executor.submit(call_in_thread, value) for value in inputs]
        wait(futures)
    finally:
        stopped.set()
        executor.shutdown(wait=False)
    return [future.result() for future in futures]


def _in_pieces(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    """Yield the rows as tables of about ``_SQL_BYTES``; none without a row."""
    held: list[pa.RecordBatch] = []
    held_bytes = 0
    for batch in batches:
        held.append(batch)
        held_bytes += batch.nbytes
        if held_bytes >= _SQL_BYTES:
            piece = pa.Table.from_batches(held, schema)
            held = []
            held_bytes = 0
            yield piece
            del piece
    if held:
        yield pa.Table.from_batches(held, schema)


def _joined(tables: Sequence[pa.Table], schema: pa.Schema) -> pa.Table:
    return pa.concat_tables(tables) if tables else schema.empty_table()


def _exchanged(
    batches: Sequence[pa.RecordBatch], exchange: Exchange
) -> list[Iterator[pa.RecordBatch]]:
    """Return the rows of each task, sorted. They are copied when they are read.

    Raises:
        ValueError: a row has no task.
    """
    if not batches:
        return [iter(())] * exchange.tasks

    keys = [exchange.task, *exchange.order]
    table = pa.Table.from_batches(batches).select(keys)
    in_order: Any = pc.sort_indices(table, [(key, "ascending") for key in keys])
    tasks = table[exchange.task].take(in_order).to_numpy()
    if len(tasks) and not 0 <= tasks[0] <= tasks[-1] < exchange.tasks:
        raise ValueError(f"a row has none of {exchange.tasks} tasks")

    numbers = in_order.to_numpy().astype(np.int64)
    rows_of_tasks = []
    for task in range(exchange.tasks):
        first, end = np.searchsorted(tasks, [task, task + 1])
        rows_of_tasks.append(_taken(batches, numbers[first:end]))
    return rows_of_tasks


def _taken(
    batches: Sequence[pa.RecordBatch], numbers: "np.ndarray[Any, Any]"
) -> Iterator[pa.RecordBatch]:
    """Yield the rows with these numbers, in this order.

    Arrow's own ``take`` would copy all rows first, and fails on 2 GiB of bodies.
    """
    ends = np.cumsum([batch.num_rows for batch in batches])
    for start in range(0, len(numbers), _COPIED_ROWS):
        wanted = numbers[start : start + _COPIED_ROWS]
        sources = np.searchsorted(ends, wanted, side="right")
        by_source = np.argsort(sources, kind="stable")

        parts = []
        for source in np.unique(sources):
            batch = batches[source]
            first_number = ends[source] - batch.num_rows
            parts.append(batch.take(wanted[sources == source] - first_number))

        copied = pa.Table.from_batches(parts)
        yield from copied.take(np.argsort(by_source, kind="stable")).to_batches()


def _edited(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, attributes: AttributeSql
) -> Iterator[pa.RecordBatch]:
    """Add ``CHANGES``: the SQL of a row's group gives the new values of its attributes."""
    for rows in _in_pieces(batches, schema):
        changes = pa.array(_changes(rows, attributes), _CHANGES)
        yield from rows.append_column(CHANGES, changes).to_batches(_BATCH_ROWS)


def _changes(rows: pa.Table, attributes: AttributeSql) -> list[list[dict[str, Any]] | None]:
    """Return ``CHANGES`` of each row."""
    changes: list[list[dict[str, Any]] | None] = [None] * rows.num_rows
    columns = [name for name in READ_COLUMNS if name in rows.column_names]
    for group_id, expressions in attributes.items():
        group_ids = rows[GROUP_ID].cast(pa.string())
        is_of_group: Any = pc.equal(group_ids, pa.scalar(group_id)).fill_null(False)  # noqa: FBT003 - a value
        positions = np.flatnonzero(is_of_group)
        if not len(positions):
            continue

        group_rows = rows.select(columns).filter(is_of_group)
        source = f"set_attributes of group {group_id}"
        changes_by_row: list[list[dict[str, Any]]] = [[] for _ in positions]
        for name, sql in expressions:
            new_values = _values(name, sql, group_rows, source)
            for row_changes, value in zip(changes_by_row, new_values, strict=True):
                row_changes.append(value)

        for position, row_changes in zip(positions, changes_by_row, strict=True):
            changes[position] = row_changes
    return changes


def _values(name: str, sql: str | None, rows: pa.Table, source: str) -> list[dict[str, Any]]:
    """Return the ``CHANGE`` of one attribute for each row."""
    from dlq.sql.duckdb_engine import values

    change: dict[str, Any] = {
        "name": name,
        "data_type": _STRING,
        "string_value": None,
        "binary_value": None,
    }
    if sql is None:
        return [change] * rows.num_rows

    with naming(source, sql):
        data_type = _attribute_type(sql, rows.schema)
    is_binary = data_type == _BINARY
    change["data_type"] = data_type
    field = "binary_value" if is_binary else "string_value"
    results = values(sql, rows, source, as_text=not is_binary).to_pylist()
    return [{**change, field: result} for result in results]


def _attribute_type(sql: str, schema: pa.Schema) -> str:
    """Return the type of SQS for the results of *sql*.

    Raises:
        InputError: there is none, or *sql* is refused.
    """
    from dlq.sql.duckdb_sql import for_duckdb
    from dlq.sql.duckdb_terms import spark_name

    kind = for_duckdb(sql, schema).type
    if pa.types.is_string(kind) or pa.types.is_null(kind):
        return _STRING
    if pa.types.is_binary(kind):
        return _BINARY
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        for_duckdb(sql, schema, as_text=True)
        return _NUMBER
    raise no_attribute(spark_name(kind))
