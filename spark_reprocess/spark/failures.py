"""Reads Spark's exceptions: some are pyspark's, others are the JVM's own."""

import re
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from spark_reprocess.errors import ArchiveError

SPARK_FAILURES = (PySparkException, Py4JJavaError)


_RAISED_IN_A_TASK = re.compile(
    r"^spark_reprocess\.errors\.ArchiveError: (?P<text>.+)$", re.MULTILINE
)


def archive_fault_of(error: BaseException) -> ArchiveError | None:
    """Return the ArchiveError that a task raised; None if something else failed.

    Spark does not return a task's exception, only its traceback as text.
    """
    raised = _RAISED_IN_A_TASK.findall(str(error))
    return ArchiveError(raised[-1]) if raised else None


def condition_of(error: BaseException) -> str:
    """Return Spark's error condition, empty if it has none."""
    return _find(error)[0]


def sentence_of(error: BaseException) -> str:
    """Return the first line of Spark's text. It may quote a message if a condition fails."""
    return _find(error)[1]


def _find(error: BaseException) -> tuple[str, str]:
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
