"""Ctrl-C while Spark works: what counts as a sign that the main thread's call was cancelled."""

import inspect
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]

from spark_reprocess.spark.interrupts import _cancelled

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def cancelled_beside(spark: "SparkSession") -> bool:
    """Cancel while this thread waits and another one's job runs."""
    context = spark.sparkContext
    jobs = context.statusTracker()

    def long_job() -> None:
        with suppress(Py4JError):
            context.parallelize([0], 1).foreach(lambda _: time.sleep(60))

    beside = threading.Thread(target=long_job, daemon=True)
    beside.start()
    wait_until(lambda: bool(jobs.getActiveJobsIds()))
    answers: list[bool] = []

    def call() -> threading.Thread:
        here: Any = inspect.currentframe()
        asking = threading.Thread(target=lambda: answers.append(_cancelled(spark, here)))
        asking.start()
        wait_until(lambda: not jobs.getActiveJobsIds())
        return asking

    call().join()
    beside.join()
    return answers == [True]


def test_any_job_is_taken_for_the_calls(spark: "SparkSession") -> None:
    assert cancelled_beside(spark)
