"""Signatures for a whole DataFrame: the pure function of ``signature``, run by Spark's workers."""

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StringType, StructType

from spark_reprocess.analysis.signature import signature_of

SIGNATURE_INPUTS = ("body", "parked_reason", "error_type", "error_message")


def with_groups(messages: DataFrame) -> DataFrame:
    """Add ``group_id`` and ``title`` to rows that have the columns of ``SIGNATURE_INPUTS``."""
    schema = StructType(
        [
            *messages.schema.fields,
            *StructType().add("group_id", StringType()).add("title", StringType()),
        ]
    )
    return messages.mapInArrow(_add_signatures, schema)


def _add_signatures(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        columns = (batch.column(name).to_pylist() for name in SIGNATURE_INPUTS)
        signatures = [signature_of(*values) for values in zip(*columns, strict=True)]
        yield pa.RecordBatch.from_arrays(
            [
                *batch.columns,
                pa.array([s.group_id for s in signatures], pa.string()),
                pa.array([s.title for s in signatures], pa.string()),
            ],
            names=[*batch.schema.names, "group_id", "title"],
        )
