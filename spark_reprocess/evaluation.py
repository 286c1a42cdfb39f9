"""Evaluates operators' SQL: within a time limit, and so that every end of Spark is an error.

SQL that is quick over all other messages may never end over one long body. Java does not stop a
regular expression when its job is cancelled, and Spark answers nobody if the thread that plans or
serves a query dies. So a thread of its own calls Spark, and the caller waits in Python.
"""

import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import ExitStack, suppress
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from dlq.sql import sql_errors
from spark_reprocess.interrupts import is_in_spark
from spark_reprocess.spark_errors import SPARK_FAILURES, spark_errors

T = TypeVar("T")

_LOOK_SECONDS = 1.0


def evaluated(spark: SparkSession, call: Callable[[], T], *sources: str, row: str = "message") -> T:
    """Return the result of *call*, which evaluates SQL of operators in Spark.

    Args:
        spark: the session that *call* uses.
        call: runs in another thread, unless there are no *sources*.
        sources: where the SQL comes from, such as ``--where 'a = 1'``. Empty for no SQL at all;
            then there is no limit.
        row: the name of a row of the SQL, for errors.

    Raises:
        SqlError: the SQL fails on a message, takes too long, or is too much for Spark's JVM. The
            text does not quote the message.
        ArchiveError: a file of the archive is broken.
        KeyboardInterrupt: Ctrl-C, also where Spark does not answer.
    """
    if not sources:
        with spark_errors():
            return call()

    with ExitStack() as unless_done:
        unless_done.callback(_cancel, spark)
        running = _started(call, sources, row)
        is_in_time = _ends_in_time(spark, running)
        if is_in_time:
            unless_done.pop_all()
            return running.result.result()

    raise sql_errors.too_slow(sources, row, sql_errors.LIMIT_SECONDS)


def where_option(where: str | None) -> tuple[str, ...]:
    """Return the source of a ``--where``, none where there is no condition."""
    return () if where is None else (f"--where {where!r}",)


def to_arrow(rows: DataFrame) -> pa.Table:
    """Return *rows* as a table of Arrow; raise whatever Spark raises while it plans.

    Planning evaluates SQL over rows that the driver holds. ``toArrow`` alone plans in a thread of
    the JVM whose death Spark does not notice.
    """
    plan: Any = rows._jdf.queryExecution()  # noqa: SLF001 - no public way
    plan.executedPlan()
    return rows.toArrow()


def _cancel(spark: SparkSession) -> None:
    """Cancel all jobs. A task in a regular expression goes on until the process ends."""
    with suppress(*SPARK_FAILURES):
        spark.sparkContext.cancelAllJobs()


@dataclass(frozen=True, slots=True)
class _Running(Generic[T]):
    thread: threading.Thread
    result: Future[T]


def _started(call: Callable[[], T], sources: tuple[str, ...], row: str) -> _Running[T]:
    """Call in a thread that does not keep the process alive."""
    result: Future[T] = Future()
    context = copy_context()

    def run() -> None:
        try:
            with spark_errors(*sources, row=row):
                result.set_result(context.run(call))
        except BaseException as error:  # noqa: BLE001 - the caller raises it
            result.set_exception(error)

    thread = threading.Thread(target=run, name="evaluate", daemon=True)
    thread.start()
    return _Running(thread, result)


def _ends_in_time(spark: SparkSession, running: _Running[T]) -> bool:
    """Wait until the call has ended, but no longer than the limit; return whether it has."""
    idle = IdleClock(time.monotonic())
    while not wait([running.result], _LOOK_SECONDS).done:
        work = _work(spark)
        if work is None:
            continue
        frame = sys._current_frames().get(running.thread.ident or 0)  # noqa: SLF001 - no public way
        seconds = idle.seconds(time.monotonic(), work, is_in_spark=is_in_spark(frame))
        if seconds >= sql_errors.LIMIT_SECONDS:
            return False
    return True


class SparkWork(NamedTuple):
    """Jobs and tasks that Spark works on.

    Attributes:
        jobs: ids of the jobs that run.
        running_tasks, ended_tasks: of the stages of these jobs.
    """

    jobs: frozenset[int]
    running_tasks: int
    ended_tasks: int


class IdleClock:
    """Measures for how long SQL has kept Spark busy without any task that started or ended."""

    def __init__(self, now: float) -> None:
        """Start at *now*, in seconds of a clock that never goes back."""
        self._since = now
        self._seen: SparkWork | None = None

    def seconds(self, now: float, work: SparkWork, *, is_in_spark: bool) -> float:
        """Return the seconds without progress.

        Work in Python is progress, and so is a job without any running task: it waits for machines.
        Without a job Spark plans a query, or evaluates it in the driver.
        """
        is_waiting_for_machines = bool(work.jobs) and work.running_tasks == 0
        if work != self._seen or not is_in_spark or is_waiting_for_machines:
            self._since = now
        self._seen = work
        return now - self._since


def _work(spark: SparkSession) -> SparkWork | None:
    """Ask Spark for its work; return None if it does not answer: then the call will fail."""
    running_tasks = 0
    ended_tasks = 0
    try:
        tracker = spark.sparkContext.statusTracker()
        jobs = frozenset(tracker.getActiveJobsIds())

        stage_ids: list[int] = []
        for job_info in map(tracker.getJobInfo, jobs):
            if job_info is not None:
                stage_ids += job_info.stageIds

        for stage_info in map(tracker.getStageInfo, stage_ids):
            if stage_info is not None:
                running_tasks += stage_info.numActiveTasks
                ended_tasks += stage_info.numCompletedTasks + stage_info.numFailedTasks

    except SPARK_FAILURES:
        return None
    return SparkWork(jobs, running_tasks, ended_tasks)
