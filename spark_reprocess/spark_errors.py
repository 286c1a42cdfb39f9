"""Reads Spark's exceptions, some pyspark's, others the JVM's own, and converts them to ours."""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException, PythonException
from pyspark.logger import PySparkLogger

from dlq.errors import ArchiveError, InputError, JobError
from dlq.sql.sql_errors import SMALLER, sql_error
from spark_reprocess.interrupts import CANCELLED

SPARK_FAILURES = (PySparkException, Py4JError, ConnectionRefusedError, ConnectionResetError)
"""The errors that pyspark raises where Spark fails, or where its JVM has ended."""

_JVM_ERRORS = ("java.lang.OutOfMemoryError", "java.lang.StackOverflowError")
_PY4J_LOGS = ("py4j/java_gateway.py", "py4j/clientserver.py")
_SHUT_DOWN = "SparkContext was shut down"

_TRACEBACK = "Traceback (most recent call last):\n"
_LAST_ERROR = re.compile(r"(?:\s.*\n)*dlq\.errors\.(?P<type>\w+): (?P<text>.+)")
"""Behind the lines of the calls."""


def error_of_task(error: PythonException) -> JobError | None:
    """Return the error of ours that a function raised in a task; None if it raised another.

    Spark does not return a task's exception, only its traceback as text.
    """
    raised = _LAST_ERROR.match(str(error).rpartition(_TRACEBACK)[2])
    if raised is None:
        return None
    is_of_archive = raised["type"] == ArchiveError.__name__
    return ArchiveError(raised["text"]) if is_of_archive else InputError(raised["text"])


@contextmanager
def spark_errors(*sources: str, row: str = "message") -> Iterator[None]:
    """Convert errors of Spark, such as a bad cast, to ours.

    Args:
        sources: where the operators' SQL comes from that is evaluated here; empty for none.
        row: the name of a row of that SQL.

    Raises:
        SqlError: the SQL fails on a message, or ends Spark's JVM. The text does not quote the
            message.
        ArchiveError, InputError: a function raised it in a task.
        KeyboardInterrupt: Spark's job was cancelled, which is what Ctrl-C does.
    """
    silence_query_log()
    try:
        yield
    except PythonException as error:
        ours = error_of_task(error)
        if ours is None:
            raise
        raise ours from error

    except SPARK_FAILURES as error:
        condition, _ = condition_and_sentence(error)
        if condition == CANCELLED:
            raise KeyboardInterrupt from error
        if not sources:
            raise

        if is_end_of_jvm(error):
            why = f"needs more memory or stack than Spark has for some {row}; {SMALLER}"
            raise sql_error(sources, why) from error
        if not condition:
            raise
        why = f"fails on a {row}: {condition}; use forms that give null instead, e.g. try_cast"
        raise sql_error(sources, why) from error


def is_end_of_jvm(error: BaseException) -> bool:
    """Return whether Spark's JVM has ended, or had too little memory or stack and may end."""
    if isinstance(error, PySparkException):
        return False
    cause: Any = getattr(error, "java_exception", None)
    if cause is None:
        # py4j gets no answer, or cannot connect.
        return isinstance(error, SPARK_FAILURES)

    try:
        while cause is not None:
            name = str(cause.getClass().getName())
            text = str(cause.getMessage())
            if name in _JVM_ERRORS or _SHUT_DOWN in text:
                return True
            cause = cause.getCause()
    except SPARK_FAILURES:
        # It has ended since.
        return True
    return False


def silence_query_log() -> None:
    """Stop pyspark and py4j from logging such errors themselves.

    pyspark's log lines contain parts of messages. py4j's are tracebacks of errors that it raises.
    """
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL + 1)
    logging.getLogger().addFilter(_is_not_of_py4j)


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    return not record.pathname.endswith(_PY4J_LOGS)


def condition_and_sentence(error: BaseException) -> tuple[str, str]:
    """Return Spark's error condition, empty if it has none, and the first line of its text.

    The text may quote a message if a condition of SQL fails.
    """
    if isinstance(error, PySparkException):
        return error.getCondition() or "", _first_line(str(error))
    cause: Any = getattr(error, "java_exception", None)
    if cause is None:
        return "", _first_line(str(error))
    try:
        return _java_condition_and_sentence(cause)
    except SPARK_FAILURES:
        return "", "its JVM has ended"


def _java_condition_and_sentence(error: Any) -> tuple[str, str]:  # noqa: ANN401 - a Java exception
    cause = error
    while cause is not None:
        try:
            condition = cause.getCondition()
        except Py4JError:  # not an exception of Spark
            condition = None
        if condition:
            return str(condition), _first_line(str(cause.getMessage()))
        cause = cause.getCause()
    return "", _first_line(str(error.getMessage()))


def _first_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[0]
