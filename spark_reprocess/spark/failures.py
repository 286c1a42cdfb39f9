"""What Spark raises when it gives up: some as pyspark's exceptions, some as the JVM's own."""

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
    """Return what a task raised about the archive; None where something else went wrong.

    Spark brings no exception of a task back, only its traceback as a text.
    """
    raised = _RAISED_IN_A_TASK.findall(str(error))
    return ArchiveError(raised[-1]) if raised else None


def condition_of(error: BaseException) -> str:
    """Return Spark's name for what went wrong, empty where it has none."""
    return _find(error)[0]


def sentence_of(error: BaseException) -> str:
    """Return the first line of what Spark says. It may quote a message, if a condition fails."""
    return _find(error)[1]


def _find(error: BaseException) -> tuple[str, str]:
    if isinstance(error, PySparkException):
        return error.getCondition() or "", _first_line(str(error))
    cause: Any = getattr(error, "java_exception", None)
    sentence = _first_line(str(cause.getMessage()) if cause is not None else str(error))
    while cause is not None:
        try:
            condition = cause.getCondition()
        except Py4JError:  # an exception that is not Spark's own
            condition = None
        if condition:
            return str(condition), _first_line(str(cause.getMessage()))
        cause = cause.getCause()
    return "", sentence


def _first_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[0]
