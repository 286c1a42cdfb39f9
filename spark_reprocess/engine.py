"""The engine of many machines: work as tasks of Spark, and the SQL of operators as its columns."""

import gc
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, partial
from typing import Any, TypeVar

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import BinaryType, DataType, NullType, NumericType, StringType

from dlq.archive.messages.dead_letter_schema import READ_SCHEMA
from dlq.aws.actor import text_of
from dlq.engine import ATTEMPT, CHANGE, CHANGES, GROUP_ID, AttributeSql, Exchange, Function, Work
from dlq.errors import InputError
from spark_reprocess.allowed_sql import attribute_value, condition
from spark_reprocess.evaluation import evaluated, to_arrow, where_option
from spark_reprocess.failures import explained
from spark_reprocess.interrupts import cancel_jobs_on_interrupt
from spark_reprocess.session import our_settings

T = TypeVar("T")

_CHANGE_TYPE = ", ".join(f"{field.name}: {field.type!s}" for field in CHANGE)
_CHANGES_TYPE = f"array<struct<{_CHANGE_TYPE}>>"

_TAKEN_ALONG_BYTES = 1024 * 1024
"""Partitions of so many bytes in total, paths of files mostly, every task takes along."""


class SparkEngine:
    """Runs work as tasks of a Spark session; see ``dlq.engine.Engine``.

    The session may have an owner: our settings hold only while the engine works.
    """

    name = "spark"

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
        """What the heap of the driver's JVM may still grow."""
        java: Any = self._session.sparkContext._jvm  # noqa: SLF001 - there is no public question
        runtime: Any = java.java.lang.Runtime.getRuntime()
        return int(runtime.maxMemory() - runtime.totalMemory())

    def run(self, work: Work) -> pa.Table:
        """See ``Engine.run``."""
        with our_settings(self._session), explained():
            return to_arrow(self._rows(work))

    def run_where(
        self, work: Work, where: str, columns: Sequence[str], hidden: Sequence[str] = ()
    ) -> pa.Table:
        """See ``Engine.run_where``."""

        def selected() -> pa.Table:
            rows = self._rows(work)
            taken = rows.where(condition(rows.drop(*hidden), where))
            return to_arrow(taken.select(*columns))

        with our_settings(self._session):
            return evaluated(self._session, selected, *where_option(where))

    def run_edited(
        self,
        work: Work,
        attributes: AttributeSql,
        then: Work,
        exchange: Exchange | None = None,
    ) -> pa.Table:
        """See ``Engine.run_edited``."""

        def edited() -> pa.Table:
            rows = self._rows(work)
            if exchange:
                rows = self._exchanged(rows, exchange)
            changed = rows.withColumn(CHANGES, _changes(rows, attributes))
            function = partial(_run_task, then.function)
            return to_arrow(changed.mapInArrow(function, from_arrow_schema(then.schema)))

        sources = [f"set_attributes of group {group_id}" for group_id in attributes]
        with our_settings(self._session):
            if exchange:
                # A send has no time limit, and the SQL was evaluated over all its messages before.
                with explained(*sources):
                    return edited()
            return evaluated(self._session, edited, *sources)

    def check_condition(self, sql: str, schema: pa.Schema, place: str) -> None:
        """See ``Engine.check_condition``."""
        condition(self._nothing(schema), sql, place)

    def attribute_fault(self, sql: str) -> str | None:
        """See ``Engine.attribute_fault``."""
        try:
            _, kind = attribute_value(self._nothing(READ_SCHEMA), sql)
        except InputError as error:
            return text_of(error)
        if _attribute_type(kind) is None:
            return f"gives {kind.simpleString()}; cast it to string, binary or a number"
        return None

    def _nothing(self, schema: pa.Schema) -> DataFrame:
        return self._session.createDataFrame([], from_arrow_schema(schema))

    def _rows(self, work: Work) -> DataFrame:
        """Return the rows of *work*, a task for each partition. Lazy."""
        count = len(work.partitions)
        schema = from_arrow_schema(work.schema)
        if sum(partition.nbytes for partition in work.partitions) <= _TAKEN_ALONG_BYTES:
            # To distribute rows would be a job of its own.
            task = _NumberedTask(work.function, tuple(work.partitions))
            return self._session.range(0, count, 1, max(count, 1)).mapInArrow(task.run, schema)

        contents = pa.table(
            {
                "number": pa.array(range(count), pa.int32()),
                "content": [_to_bytes(partition) for partition in work.partitions],
            }
        )
        moved = self._session.createDataFrame(contents).repartitionById(count, F.col("number"))
        return moved.mapInArrow(_SentTask(work.function).run, schema)

    def _exchanged(self, rows: DataFrame, exchange: Exchange) -> DataFrame:
        tasks = exchange.tasks
        moved = rows if tasks == 1 else rows.repartitionById(tasks, F.col(exchange.task))
        return moved.sortWithinPartitions(*exchange.order)


class _NumberedTask:
    """Has all partitions; Spark calls ``run``."""

    def __init__(self, function: Function, partitions: Sequence[pa.Table]) -> None:
        self._function = function
        self._partitions = partitions

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the function on the partition of each number in *batches*."""
        for batch in batches:
            for row in batch.to_pylist():
                partition = self._partitions[row["id"]]
                yield from _run_task(self._function, partition.to_batches())


class _SentTask:
    """Gets its partition from Spark, which calls ``run``."""

    def __init__(self, function: Function) -> None:
        self._function = function

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the function on each partition in *batches*."""
        for batch in batches:
            for content in batch["content"]:
                with pa.ipc.open_stream(content.as_buffer()) as stream:
                    partition = stream.read_all()
                yield from _run_task(self._function, partition.to_batches())


def _to_bytes(partition: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, partition.schema) as stream:
        stream.write_table(partition)
    return sink.getvalue().to_pybytes()


def _run_task(function: Function, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    # As in the replay function: garbage collections took much time and found nothing.
    gc.set_threshold(50_000)
    context = TaskContext.get()
    ATTEMPT.set(1 + context.attemptNumber() if context else 1)
    yield from function(batches)


def is_one_machine(master: str | None) -> bool:
    """Whether a session with this master has the cores of one machine, and never more."""
    return re.match(r"local(\[|$)", master or "") is not None


def _changes(rows: DataFrame, attributes: AttributeSql) -> Column:
    changes = F.lit(None).cast(_CHANGES_TYPE)
    for group_id, expressions in attributes.items():
        of_group = F.array(*(_change(rows, name, sql) for name, sql in expressions))
        changes = F.when(F.col(GROUP_ID) == group_id, of_group).otherwise(changes)
    return changes


def _change(rows: DataFrame, name: str, sql: str | None) -> Column:
    value, data_type = (F.lit(None), NullType()) if sql is None else attribute_value(rows, sql)
    kind = _attribute_type(data_type)
    is_binary = kind == "Binary"
    fields = (
        F.lit(name).alias("name"),
        F.lit(kind).alias("data_type"),
        F.lit(None).cast("string") if is_binary else value.cast("string").alias("string_value"),
        value.cast("binary") if is_binary else F.lit(None).cast("binary"),
    )
    return F.struct(*fields).cast(f"struct<{_CHANGE_TYPE}>")


def _attribute_type(kind: DataType) -> str | None:
    """Return the type of SQS for values of this type; None if there is none."""
    if isinstance(kind, StringType | NullType):
        return "String"
    if isinstance(kind, NumericType):
        return "Number"
    return "Binary" if isinstance(kind, BinaryType) else None
