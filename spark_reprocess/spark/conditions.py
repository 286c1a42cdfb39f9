"""The operator's SQL conditions, and what Spark says when one is wrong."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyspark.errors import AnalysisException, PythonException
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame

from spark_reprocess.errors import ArchiveError, InputError
from spark_reprocess.spark.failures import (
    SPARK_FAILURES,
    archive_fault_of,
    condition_of,
    sentence_of,
)
from spark_reprocess.spark.interrupts import CANCELLED

_UNREADABLE_FILE = ("FAILED_READ_FILE", "CANNOT_READ_FILE")


def matching(rows: DataFrame, where: str | None) -> DataFrame:
    """Keep the rows for which *where* is true.

    Raises:
        InputError: it is no SQL, or names a column that there is not.
    """
    if where is None:
        return rows
    _hush()
    try:
        return rows.where(where)
    except AnalysisException as error:
        # What Spark says here is about the SQL alone; no message has been looked at.
        raise InputError(f"--where {where!r}: {sentence_of(error)}") from error


@contextmanager
def explained(where: str | None, expressions: Sequence[str] = ()) -> Iterator[None]:
    """Turn what fails while Spark evaluates *where* (a bad cast, say) into a sentence.

    Args:
        where: the condition, None where there is none.
        expressions: names of other SQL of the operator's that is evaluated here.

    Raises:
        InputError: one of them fails on a message. On which is not said: Spark would quote it.
        ArchiveError: a file of the archive is broken.
    """
    _hush()
    try:
        yield
    except PythonException as error:
        fault = archive_fault_of(error)
        if fault is None:
            raise
        raise fault from error
    except SPARK_FAILURES as error:
        condition = condition_of(error)
        if condition.startswith(_UNREADABLE_FILE):
            named = sentence_of(error)
            raise ArchiveError(f"the archive has a file that Spark cannot read: {named}") from error
        sources = [*([] if where is None else [f"--where {where!r}"]), *expressions]
        if not sources or condition in ("", CANCELLED):
            raise
        raise InputError(
            f"{' or '.join(sources)}: fails on a message: {condition}; "
            "use forms that give null instead, e.g. try_cast"
        ) from error


def _hush() -> None:
    """Keep pyspark from logging such an error by itself, at length, with parts of messages."""
    PySparkLogger.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)
