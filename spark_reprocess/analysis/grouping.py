"""Signatures for a whole DataFrame: the pure function of ``signature``, run by Spark's workers."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere
from pyspark.sql.types import StringType, StructType

from spark_reprocess.analysis.signature import signature_of

SIGNATURE_INPUTS = ("body", "parked_reason", "error_type", "error_message")


def with_groups(messages: DataFrame, kept: Sequence[str]) -> DataFrame:
    """Return the columns *kept* of each message, and its ``group_id``.

    Args:
        messages: has the columns of ``SIGNATURE_INPUTS`` and those *kept*.
        kept: what to keep. What is not kept (bodies, say) does not come back from the workers.
    """
    schema = StructType([messages.schema[name] for name in kept]).add("group_id", StringType())
    # Where an error is recorded the body does not matter, and need not travel.
    no_error = (F.coalesce("error_type", F.lit("")) == "") & (
        F.coalesce("error_message", F.lit("")) == ""
    )
    body = F.col("body") if "body" in kept else F.when(no_error, F.col("body")).alias("body")
    others = dict.fromkeys([*SIGNATURE_INPUTS, *kept])
    columns = [body if name == "body" else F.col(name) for name in others]
    return messages.select(*columns).mapInArrow(_Grouping(tuple(kept)).add, schema)


@dataclass(frozen=True, slots=True)
class _Grouping:
    """What each task takes along; ``add`` is what Spark calls."""

    kept: tuple[str, ...]

    def add(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            columns = (batch.column(name).to_pylist() for name in SIGNATURE_INPUTS)
            ids = [
                signature_of(body or "", reason, error_type, error_message).group_id
                for body, reason, error_type, error_message in zip(*columns, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(
                [*(batch.column(name) for name in self.kept), pa.array(ids, pa.string())],
                names=[*self.kept, "group_id"],
            )
