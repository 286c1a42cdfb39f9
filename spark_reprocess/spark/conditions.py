"""SQL conditions of operators: apply them, and report their errors."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyspark.errors import PythonException
from pyspark.sql import Column, DataFrame

from spark_reprocess.errors import ArchiveError, InputError
from spark_reprocess.spark import allowed_sql
from spark_reprocess.spark.allowed_sql import Place, silence_query_log
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
    try:
        return allowed_sql.condition(rows, where, place)
    except InputError as error:
        raise InputError(f"{place} {where!r}: {error}") from error


@contextmanager
def explained(where: str | None, expressions: Sequence[str] = ()) -> Iterator[None]:
    """Convert errors while Spark evaluates *where*, such as a bad cast, to ours.

    *expressions* name other SQL expressions of operators that are evaluated here.

    Raises:
        InputError: one of them fails on a message. The text does not quote the message.
        ArchiveError: a file of the archive is broken.
    """
    silence_query_log()
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
