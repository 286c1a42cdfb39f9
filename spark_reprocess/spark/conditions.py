"""SQL conditions of operators: apply them, and report their errors."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyspark.errors import PythonException
from pyspark.logger import PySparkLogger
from pyspark.sql import Column, DataFrame
from pyspark.sql.types import DataType

from spark_reprocess.errors import ArchiveError, InputError
from spark_reprocess.spark import allowed_sql
from spark_reprocess.spark.allowed_sql import Place
from spark_reprocess.spark.failures import (
    SPARK_FAILURES,
    archive_fault_of,
    condition_of,
    sentence_of,
)
from spark_reprocess.spark.interrupts import CANCELLED

_UNREADABLE_FILE = ("FAILED_READ_FILE", "CANNOT_READ_FILE")


def matching(
    rows: DataFrame, where: str | None, place: Place = Place.WHERE, hidden: Sequence[str] = ()
) -> DataFrame:
    """Keep the rows for which *where*, which comes from *place*, is true.

    The columns *hidden* stay in the result, and *where* cannot name them.

    Raises:
        InputError: *where* is not SQL, names an unknown column, or has something that is not
            allowed; see ``allowed_sql``.
    """
    return rows if where is None else rows.where(condition(rows.drop(*hidden), where, place))


def condition(rows: DataFrame, where: str, place: Place) -> Column:
    """Return *where*, which comes from *place*, as a condition over the columns of *rows*.

    Raises:
        InputError: as for ``matching``; the text names the place and the condition.
    """
    _silence_query_log()
    try:
        return allowed_sql.condition(rows, where, place)
    except InputError as error:
        raise InputError(f"{place} {where!r}: {error}") from error


def attribute_value(rows: DataFrame, sql: str) -> tuple[Column, DataType]:
    """Return an expression of ``set_attributes`` as a column over *rows*, and its type.

    Raises:
        InputError: as for ``matching``; the text names neither the attribute nor *sql*.
    """
    _silence_query_log()
    return allowed_sql.value(rows, sql, Place.SET_ATTRIBUTES)


@contextmanager
def explained(where: str | None, expressions: Sequence[str] = ()) -> Iterator[None]:
    """Convert errors while Spark evaluates *where*, such as a bad cast, to ours.

    Args:
        where: the condition, None for none.
        expressions: names of other SQL expressions of operators that are evaluated here.

    Raises:
        InputError: one of them fails on a message. The text does not quote the message.
        ArchiveError: a file of the archive is broken.
    """
    _silence_query_log()
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


def _silence_query_log() -> None:
    """Stop pyspark from logging such errors itself: its log lines contain parts of messages."""
    PySparkLogger.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)
