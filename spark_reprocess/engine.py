"""The engine of many machines: work as tasks of Spark, and the SQL of operators as its columns."""

import gc
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, partial
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere
from pyspark.sql.pandas.types import from_arrow_schema, from_arrow_type
from pyspark.sql.types import (
    BinaryType,
    DayTimeIntervalType,
    NullType,
    NumericType,
    StringType,
    YearMonthIntervalType,
)

from dlq.archive.messages.dead_letter_schema import READ_COLUMNS, READ_SCHEMA
from dlq.aws.actor import text_of
from dlq.engine import ATTEMPT, CHANGE, CHANGES, GROUP_ID, AttributeSql, Exchange, Function, Work
from dlq.errors import InputError
from dlq.sql.sql_errors import WHERE, naming, no_attribute
from spark_reprocess.allowed_sql import attribute_value, condition
from spark_reprocess.evaluation import evaluated, to_arrow
from spark_reprocess.interrupts import cancel_jobs_on_interrupt
from spark_reprocess.session import our_settings
from spark_reprocess.spark_errors import spark_errors

_CHANGE_TYPE = from_arrow_type(CHANGE).simpleString()
_CHANGES_TYPE = f"array<{_CHANGE_TYPE}>"

_STRING = "String"
_NUMBER = "Number"
_BINARY = "Binary"
"""The types of message attributes, as SQS names them."""

_TAKEN_ALONG_BYTES = 1024 * 1024
"""Partitions of this size in total, mostly paths of files, or smaller, every task takes along."""


class SparkEngine:
    """Runs work as tasks of a Spark session; see ``dlq.engine.Engine``.

    The session may have an owner: our settings hold only while the engine works.
    """

    name = "spark"
    holds_rows = False

    def __init__(self, session: SparkSession) -> None:
        """Use *session*, and let Ctrl-C cancel its jobs."""
        self._session = session
        cancel_jobs_on_interrupt(session)

    @property
    def slots(self) -> int:
        """See ``Engine.slots``."""
        return int(self._session.sparkContext.defaultParallelism)

    @cached_property
    def may_grow(self) -> bool:
        """See ``Engine.may_grow``."""
        return not is_one_machine(self._session.sparkContext.master)

    @property
    def application_id(self) -> str | None:
        """See ``Engine.application_id``."""
        return self._session.sparkContext.applicationId

    @property
    def reserved_bytes(self) -> int:
        """The bytes by which the heap of the driver's JVM may still grow."""
        java: Any = self._session.sparkContext._jvm  # noqa: SLF001 - there is no public question
        runtime: Any = java.java.lang.Runtime.getRuntime()
        return int(runtime.maxMemory() - runtime.totalMemory())

    def run(self, work: Work) -> pa.Table:
        """See ``Engine.run``."""
        if not work.partitions:
            return work.schema.empty_table()

        with our_settings(self._session), spark_errors():
            return to_arrow(self._rows(work)).cast(work.schema)

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

        def selected() -> pa.Table:
            rows = self._rows(work)
            chosen = rows.where(condition(rows.drop(*hidden), where, place))
            return to_arrow(chosen.select(*columns))

        schema = pa.schema([work.schema.field(name) for name in columns])
        with our_settings(self._session):
            return evaluated(self._session, selected, f"{place} {where!r}", row=row).cast(schema)

    def run_edited(
        self,
        work: Work,
        attributes: AttributeSql,
        then: Work,
        exchange: Exchange | None = None,
    ) -> pa.Table:
        """See ``Engine.run_edited``."""
        if not work.partitions:
            return then.schema.empty_table()

        def edited() -> pa.Table:
            rows = self._rows(work)
            if exchange:
                rows = _exchanged(rows, exchange)
            changed = rows.withColumn(CHANGES, _changes(rows, attributes))
            function = partial(_run_task, then.function)
            return to_arrow(changed.mapInArrow(function, from_arrow_schema(then.schema)))

        sources = list(map(_source, attributes))
        with our_settings(self._session):
            if exchange:
                # A send has no time limit, and the SQL was evaluated over all its messages before.
                with spark_errors(*sources):
                    return edited().cast(then.schema)

            return evaluated(self._session, edited, *sources).cast(then.schema)

    def check_condition(self, sql: str, schema: pa.Schema, place: str) -> None:
        """See ``Engine.check_condition``."""
        with our_settings(self._session):
            condition(self._nothing(schema), sql, place)

    def attribute_fault(self, sql: str) -> str | None:
        """See ``Engine.attribute_fault``."""
        with our_settings(self._session):
            try:
                _attribute(self._nothing(READ_SCHEMA), sql)
            except InputError as error:
                return text_of(error)
        return None

    def _nothing(self, schema: pa.Schema) -> DataFrame:
        return self._session.createDataFrame([], from_arrow_schema(schema))

    def _rows(self, work: Work) -> DataFrame:
        """Return the rows of *work*, a task for each partition. Lazy."""
        count = len(work.partitions)
        schema = from_arrow_schema(work.schema)
        # A slice that is pickled takes along all that it is a slice of.
        contents = list(map(_to_bytes, work.partitions))

        if sum(map(len, contents)) <= _TAKEN_ALONG_BYTES:
            # To distribute rows would be a job of its own.
            task = _NumberedTask(work.function, contents)
            return self._session.range(0, count, 1, max(count, 1)).mapInArrow(task.run, schema)

        rows = pa.table({"number": pa.array(range(count), pa.int32()), "content": contents})
        moved = self._session.createDataFrame(rows).repartitionById(count, F.col("number"))
        return moved.mapInArrow(_SentTask(work.function).run, schema)


def _exchanged(rows: DataFrame, exchange: Exchange) -> DataFrame:
    if exchange.tasks == 1:
        # The task that sends reads them, too: nothing is moved.
        moved = rows.coalesce(1)
    else:
        moved = rows.repartitionById(exchange.tasks, F.col(exchange.task))
    return moved.sortWithinPartitions(*exchange.order)


class _NumberedTask:
    """Has all partitions; Spark calls ``run``."""

    def __init__(self, function: Function, contents: Sequence[bytes]) -> None:
        self._function = function
        self._contents = contents

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the function on the partition of each number in *batches*."""
        for batch in batches:
            for row in batch.to_pylist():
                content = pa.py_buffer(self._contents[row["id"]])
                yield from _run_task(self._function, _from_bytes(content))


class _SentTask:
    """Gets its partition from Spark, which calls ``run``."""

    def __init__(self, function: Function) -> None:
        self._function = function

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the function on each partition in *batches*."""
        for batch in batches:
            for content in batch["content"]:
                yield from _run_task(self._function, _from_bytes(content.as_buffer()))


def _to_bytes(partition: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, partition.schema) as stream:
        stream.write_table(partition)
    return sink.getvalue().to_pybytes()


def _from_bytes(content: pa.Buffer) -> list[pa.RecordBatch]:
    with pa.ipc.open_stream(content) as stream:
        return [*stream]


def _run_task(function: Function, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    # As in the replay function: garbage collections took much time and found nothing.
    gc.set_threshold(50_000)
    context = TaskContext.get()
    ATTEMPT.set(1 + context.attemptNumber() if context else 1)
    yield from function(batches)


def is_one_machine(master: str | None) -> bool:
    """Return whether a session with this master has the cores of one machine, and never more."""
    return re.match(r"local(\[|$)", master or "") is not None


def _source(group_id: str) -> str:
    return f"set_attributes of group {group_id}"


def _changes(rows: DataFrame, attributes: AttributeSql) -> Column:
    """Return ``CHANGES``: the SQL of a row's group gives the new values of its attributes."""
    seen = rows.select([name for name in READ_COLUMNS if name in rows.columns])
    branches: list[Column] = []
    for group_id, expressions in attributes.items():
        changes = [_change(seen, group_id, name, sql) for name, sql in expressions]
        branches.append(F.col(GROUP_ID) == group_id)
        branches.append(F.array(*changes).cast(_CHANGES_TYPE))

    nothing = F.lit(None).cast(_CHANGES_TYPE)
    return F.call_function("when", *branches, nothing) if branches else nothing


def _change(rows: DataFrame, group_id: str, name: str, sql: str | None) -> Column:
    """Return the ``CHANGE`` of one attribute."""
    value = F.lit(None)
    data_type = _STRING
    if sql is not None:
        with naming(_source(group_id), sql):
            value, data_type = _attribute(rows, sql)

    if data_type == _BINARY:
        text = F.lit(None).cast("string")
        binary = value
    else:
        text = value.cast("string")
        binary = F.lit(None).cast("binary")
    return F.struct(F.lit(name), F.lit(data_type), text, binary).cast(_CHANGE_TYPE)


def _attribute(rows: DataFrame, sql: str) -> tuple[Column, str]:
    """Return the results of *sql* as a column, and their type of SQS.

    Raises:
        InputError: there is none, or *sql* is refused.
    """
    value, kind = attribute_value(rows, sql)
    match kind:
        case StringType() | NullType():
            return value, _STRING
        case BinaryType():
            return value, _BINARY
        case NumericType():
            return value, _NUMBER
        case DayTimeIntervalType() | YearMonthIntervalType():
            # As the local engine, which does not know their units.
            raise no_attribute("interval")
    raise no_attribute(kind.simpleString())
