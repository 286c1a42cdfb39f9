"""When SQL counts as endless, and which errors mean that Spark's JVM has ended."""

from collections.abc import Sequence

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError  # type: ignore[import-untyped]
from pyspark.errors import AnalysisException, PythonException

from dlq.errors import ArchiveError, InputError, SqlError
from spark_reprocess.evaluation import IdleClock, SparkWork
from spark_reprocess.interrupts import CANCELLED
from spark_reprocess.spark_errors import condition_and_sentence, is_end_of_jvm, spark_errors

PLANNING = SparkWork(frozenset(), 0, 0)
WAITING_FOR_MACHINES = SparkWork(frozenset({1}), 0, 4)


def running(tasks: int, ended: int = 0, job: int = 1) -> SparkWork:
    return SparkWork(frozenset({job}), tasks, ended)


@pytest.mark.parametrize(
    ("looks", "idle_seconds"),
    [
        # The first look at a query is progress.
        ([PLANNING], 0),
        # Spark plans, or evaluates in the driver; or the same tasks run.
        ([PLANNING, PLANNING, PLANNING], 20),
        ([running(3), running(3), running(3)], 20),
        # A task ended, a job began.
        ([running(3), running(3), running(3, ended=1)], 0),
        ([running(3), running(2)], 0),
        ([running(3), running(3, job=2)], 0),
        ([PLANNING, PLANNING, running(1), running(1)], 10),
        # No machine is free: that is not the SQL.
        ([WAITING_FOR_MACHINES] * 3, 0),
    ],
)
def test_sql_is_idle_while_no_task_starts_or_ends(
    looks: Sequence[SparkWork], idle_seconds: int
) -> None:
    clock = IdleClock(1000.0)
    for number, work in enumerate(looks):
        seconds = clock.seconds(1010.0 + 10 * number, work, is_in_spark=True)

    assert seconds == idle_seconds


def test_work_in_python_is_not_idle() -> None:
    clock = IdleClock(0.0)
    clock.seconds(10.0, PLANNING, is_in_spark=True)

    assert clock.seconds(20.0, PLANNING, is_in_spark=False) == 0
    assert clock.seconds(30.0, PLANNING, is_in_spark=True) == 10


ENDED = [Py4JError("calling o1.count"), Py4JNetworkError("no answer"), ConnectionRefusedError()]


@pytest.mark.parametrize("error", ENDED)
def test_jvm_that_ends_under_sql_is_an_error_of_the_sql(error: Exception) -> None:
    assert is_end_of_jvm(error)
    with (
        pytest.raises(SqlError, match=r"--where 'x': needs more memory"),
        spark_errors("--where 'x'"),
    ):
        raise error


@pytest.mark.parametrize("error", ENDED)
def test_without_sql_it_stays_as_it_is(error: Exception) -> None:
    with pytest.raises(type(error)), spark_errors():
        raise error


def test_other_errors_do_not_end_the_jvm() -> None:
    assert not is_end_of_jvm(AnalysisException("no such column"))
    assert not is_end_of_jvm(BrokenPipeError())
    assert not is_end_of_jvm(ValueError())


def test_a_cancelled_job_is_an_interrupt() -> None:
    error = AnalysisException("Job 1 cancelled", errorClass=CANCELLED)

    for sources in ((), ("--where 'x'",)):
        with pytest.raises(KeyboardInterrupt), spark_errors(*sources):
            raise error


RAISED = """
  An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "a.py", line 1, in run
    yield from function(batches)
{}
"""
BEFORE = """dlq.errors.ArchiveError: the cause

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "b.py", line 2, in run
    raise InputError("a") from error
{}"""


@pytest.mark.parametrize(
    ("raised", "kind", "text"),
    [
        ("dlq.errors.ArchiveError: a/b: is missing", ArchiveError, "a/b: is missing"),
        ("dlq.errors.InputError: plan: is wrong", InputError, "plan: is wrong"),
        ("dlq.errors.SqlError: --where 'x': fails", InputError, "--where 'x': fails"),
        (BEFORE.format("dlq.errors.InputError: plan"), InputError, "plan"),
        # An error of ours that another one hides is not what ended the task.
        (BEFORE.format("ValueError: dlq.errors.ArchiveError: no"), PythonException, "no"),
        ("ValueError: two\ndlq.errors.ArchiveError: lines", PythonException, "two"),
    ],
)
def test_an_error_of_ours_in_a_task_is_raised(
    raised: str, kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind) as caught, spark_errors():
        raise PythonException(RAISED.format(raised))

    assert type(caught.value) is kind
    assert str(caught.value) == text or kind is PythonException


class _Dead:
    """An exception of Java whose JVM has ended since."""

    def __getattr__(self, name: str) -> object:
        raise ConnectionRefusedError(name)


def test_error_whose_jvm_ended_since_can_be_read() -> None:
    error = Py4JError("a task failed")
    error.java_exception = _Dead()

    assert is_end_of_jvm(error)
    assert condition_and_sentence(error) == ("", "its JVM has ended")
