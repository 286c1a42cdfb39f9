"""The engine of one machine: threads of this process, and DuckDB for the SQL of operators.

Threads, because sends and reads wait for SQS and for the disk; and because a process that is killed
then leaves nobody who sends. Signing, which computes, gains nothing from them: at the limit of this
engine it takes half a second.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dlq.archive.messages.dead_letter_schema import READ_COLUMNS, READ_SCHEMA
from dlq.aws.actor import text_of
from dlq.engine import CHANGE, CHANGES, GROUP_ID, AttributeSql, Exchange, Work
from dlq.errors import InputError
from dlq.sql.duckdb_engine import matching, values
from dlq.sql.duckdb_sql import condition_for_duckdb, for_duckdb, spark_name

_SQL_BYTES = 64 * 1024 * 1024
"""Rows of so many bytes are given to DuckDB at once."""

_BATCH_ROWS = 1000

_CHANGES = pa.list_(CHANGE)


class LocalEngine:
    """Runs work in threads of this process; see ``engine.Engine``."""

    name = "local"
    may_grow = False
    application_id = None
    reserved_bytes = 0

    def __init__(self) -> None:
        """Take the processors that this process may use."""
        # Three threads for two processors: they also wait for SQS and for the disk.
        self.slots = max(1, len(os.sched_getaffinity(0)) * 3 // 2)

    def run(self, work: Work) -> pa.Table:
        """See ``Engine.run``."""
        calls = [_call(work, partition.to_batches()) for partition in work.partitions]
        return _joined(_in_threads(calls, self.slots), work.schema)

    def run_where(
        self, work: Work, where: str, columns: Sequence[str], hidden: Sequence[str] = ()
    ) -> pa.Table:
        """See ``Engine.run_where``."""
        seen = [work.schema.field(name) for name in work.schema.names if name not in hidden]
        condition_for_duckdb(where, pa.schema(seen))

        selected = []
        for partition in work.partitions:
            batches = work.function(partition.to_batches())
            for rows in _in_pieces(batches, work.schema):
                is_taken = matching(where, rows, hidden=hidden)
                selected.append(rows.select(list(columns)).filter(is_taken))
        return _joined(selected, pa.schema([work.schema.field(name) for name in columns]))

    def run_edited(
        self,
        work: Work,
        attributes: AttributeSql,
        then: Work,
        exchange: Exchange | None = None,
    ) -> pa.Table:
        """See ``Engine.run_edited``. With an *exchange* it holds all rows at once."""
        if exchange is None:
            results = []
            for partition in work.partitions:
                batches = work.function(partition.to_batches())
                for rows in _in_pieces(batches, work.schema):
                    changed = _with_changes(rows, attributes)
                    results.append(_call(then, changed.to_batches(_BATCH_ROWS))())
            return _joined(results, then.schema)

        # Before any task begins: SQL that fails must find nothing sent.
        rows = _with_changes(self.run(work), attributes)
        calls = []
        for task in range(exchange.tasks):
            is_of_task = pc.equal(rows[exchange.task], pa.scalar(task, pa.int32()))
            of_task = rows.filter(is_of_task).sort_by(
                [(name, "ascending") for name in exchange.order]
            )
            calls.append(_call(then, of_task.to_batches(_BATCH_ROWS)))
        del rows
        return _joined(_in_threads(calls, len(calls)), then.schema)

    def check_condition(self, sql: str, schema: pa.Schema, place: str) -> None:
        """See ``Engine.check_condition``."""
        condition_for_duckdb(sql, schema, place)

    def attribute_fault(self, sql: str) -> str | None:
        """See ``Engine.attribute_fault``."""
        try:
            kind = for_duckdb(sql, READ_SCHEMA).type
        except InputError as error:
            return text_of(error)
        if _attribute_type(kind) is None:
            return f"gives {spark_name(kind)}; cast it to string, binary or a number"
        return None


def _call(work: Work, batches: Iterable[pa.RecordBatch]) -> Callable[[], pa.Table]:
    def call() -> pa.Table:
        return pa.Table.from_batches(work.function(batches), work.schema)

    return call


def _in_threads(calls: Sequence[Callable[[], pa.Table]], threads: int) -> list[pa.Table]:
    """Return what each call returns, in their order; raise the first error after all have ended.

    Ctrl-C raises at once, and lets calls that have begun run on: whoever sends must stop them.
    """
    if not calls:
        return []
    executor = ThreadPoolExecutor(threads, thread_name_prefix="work")
    futures: list[Future[pa.Table]] = [executor.submit(call) for call in calls]
    try:
        wait(futures, return_when=FIRST_EXCEPTION)
    finally:
        executor.shutdown(wait=False, cancel_futures=True)
    failed = [future for future in futures if future.done() and not future.cancelled()]
    for future in failed:
        future.result()
    return [future.result() for future in futures]


def _in_pieces(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    """Yield the rows as tables of about ``_SQL_BYTES``; none without a row."""
    held: list[pa.RecordBatch] = []
    held_bytes = 0
    for batch in batches:
        held.append(batch)
        held_bytes += batch.nbytes
        if held_bytes >= _SQL_BYTES:
            yield pa.Table.from_batches(held, schema)
            held = []
            held_bytes = 0
    if held:
        yield pa.Table.from_batches(held, schema)


def _joined(tables: Sequence[pa.Table], schema: pa.Schema) -> pa.Table:
    return pa.concat_tables(tables) if tables else schema.empty_table()


def _with_changes(rows: pa.Table, attributes: AttributeSql) -> pa.Table:
    """Add ``CHANGES``: the SQL of a row's group gives the new values of its attributes."""
    changes: list[list[dict[str, Any]] | None] = [None] * rows.num_rows
    for group_id, expressions in attributes.items():
        group_ids = rows[GROUP_ID].cast(pa.string())
        is_of_group = pc.equal(group_ids, pa.scalar(group_id)).fill_null(False)  # noqa: FBT003 - a value
        places = pc.indices_nonzero(is_of_group)
        if not len(places):
            continue

        columns = [name for name in READ_COLUMNS if name in rows.column_names]
        of_group = rows.select(columns).take(places)
        source = f"set_attributes of group {group_id}"
        lists: list[list[dict[str, Any]]] = [[] for _ in range(of_group.num_rows)]
        for name, sql in expressions:
            for changed, value in zip(lists, _values(name, sql, of_group, source), strict=True):
                changed.append(value)

        for place, changed in zip(places.to_pylist(), lists, strict=True):
            changes[place] = changed
    return rows.append_column(CHANGES, pa.array(changes, _CHANGES))


def _values(name: str, sql: str | None, rows: pa.Table, source: str) -> list[dict[str, Any]]:
    """Return the ``CHANGE`` of one attribute for each row."""
    change: dict[str, Any] = {
        "name": name,
        "data_type": "String",
        "string_value": None,
        "binary_value": None,
    }
    if sql is None:
        return [change] * rows.num_rows

    kind = _attribute_type(for_duckdb(sql, rows.schema).type)
    field = "binary_value" if kind == "Binary" else "string_value"
    # The cast writes numbers as Spark does. A comment may end the expression.
    written = sql if kind == "Binary" else f"cast({sql}\n AS string)"
    texts = values(written, rows, source).to_pylist()
    return [{**change, "data_type": kind, field: text} for text in texts]


def _attribute_type(kind: Any) -> str | None:  # noqa: ANN401 - a DataType, see duckdb_sql.Kind
    """Return the type of SQS for values of this type; None if there is none."""
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind):
        return "String"
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "Number"
    return "Binary" if pa.types.is_binary(kind) else None
