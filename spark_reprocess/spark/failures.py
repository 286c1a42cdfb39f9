"""What Spark raises when it gives up: some as pyspark's exceptions, some as the JVM's own."""

from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

SPARK_FAILURES = (PySparkException, Py4JJavaError)


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
