"""Reads Spark's exceptions, some pyspark's, others the JVM's own, and converts them to ours."""

import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException, PythonException
from pyspark.logger import PySparkLogger

from spark_reprocess.errors import ArchiveError, SqlError
from spark_reprocess.spark.interrupts import CANCELLED

SPARK_FAILURES = (PySparkException, Py4JJavaError)

_UNREADABLE_FILE = ("FAILED_READ_FILE", "CANNOT_READ_FILE")
_RAISED_IN_A_TASK = re.compile(
    r"^spark_reprocess\.errors\.ArchiveError: (?P<text>.+)$", re.MULTILINE
)


def archive_fault_of(error: BaseException) -> ArchiveError | None:
    """Return the ArchiveError that a task raised; None if something else failed.

    Spark does not return a task's exception, only its traceback as text.
    """
    raised = _RAISED_IN_A_TASK.findall(str(error))
    return ArchiveError(raised[-1]) if raised else None


@contextmanager
def explained(where: str | None, expressions: Sequence[str] = ()) -> Iterator[None]:
    """Convert errors while Spark evaluates *where*, such as a bad cast, to ours.

    *expressions* name other SQL expressions of operators that are evaluated here.

    Raises:
        SqlError: one of them fails on a message. The text does not quote the message.
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
        condition, sentence = condition_and_sentence(error)
        if condition.startswith(_UNREADABLE_FILE):
            raise ArchiveError(
                f"the archive has a file that Spark cannot read: {sentence}"
            ) from error
        sources = [*([] if where is None else [f"--where {where!r}"]), *expressions]
        if not sources or condition in ("", CANCELLED):
            raise
        why = f"fails on a message: {condition}; use forms that give null instead, e.g. try_cast"
        raise SqlError(f"{' or '.join(sources)}: {why}", f"the SQL {why}") from error


def silence_query_log() -> None:
    """Stop pyspark from logging such errors itself: its log lines contain parts of messages."""
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL + 1)


def condition_and_sentence(error: BaseException) -> tuple[str, str]:
    """Return Spark's error condition, empty if it has none, and the first line of its text.

    The text may quote a message if a condition of SQL fails.
    """
    if isinstance(error, PySparkException):
        return error.getCondition() or "", _first_line(str(error))
    cause: Any = getattr(error, "java_exception", None)
    sentence = _first_line(str(cause.getMessage()) if cause is not None else str(error))
    while cause is not None:
        try:
            condition = cause.getCondition()
        except Py4JError:  # not an exception of Spark
            condition = None
        if condition:
            return str(condition), _first_line(str(cause.getMessage()))
        cause = cause.getCause()
    return "", sentence


def _first_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[0]
