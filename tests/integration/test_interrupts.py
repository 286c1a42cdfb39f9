"""Ctrl-C while Spark works for the main thread."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, cast

import pytest
from py4j.protocol import Py4JNetworkError  # type: ignore[import-untyped]
from pyspark import SparkJobInfo

from spark_reprocess import interrupts
from spark_reprocess.interrupts import CANCELLED, cancel_jobs_on_interrupt
from spark_reprocess.spark_errors import SPARK_FAILURES, condition_and_sentence
from tests.integration.spark_world import Spark


@pytest.fixture(autouse=True)
def handler(spark: Spark) -> Iterator[None]:
    former = signal.getsignal(signal.SIGINT)
    cancel_jobs_on_interrupt(spark)
    yield
    signal.signal(signal.SIGINT, former)


def press_when(is_so: Callable[[], object]) -> None:
    """Press Ctrl-C once it is so."""

    def press() -> None:
        while not is_so():
            time.sleep(0.05)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    threading.Thread(target=press, daemon=True).start()


def is_cancelling() -> bool:
    """Say if the thread that cancels jobs works; one that is only being started is listed too."""
    threads = threading.enumerate()
    return any(thread.name == "cancel" and thread.is_alive() for thread in threads)


def call_spark_and_press(spark: Spark) -> None:
    """Press Ctrl-C in a call of Spark that is no job, and work on for a minute after it."""
    jvm: Any = spark._jvm  # noqa: SLF001 - there is no public call without a job
    answers = iter([False, True])
    press_when(lambda: next(answers))
    jvm.java.lang.Thread.sleep(1000)
    time.sleep(60)


def test_a_job_is_cancelled_and_so_is_the_next(spark: Spark) -> None:
    for _ in range(2):
        press_when(spark.sparkContext.statusTracker().getActiveJobsIds)

        with pytest.raises(SPARK_FAILURES) as caught:
            spark.range(1).foreach(lambda _: time.sleep(60))

        assert condition_and_sentence(caught.value)[0] == CANCELLED
        for thread in threading.enumerate():
            if thread.name == "cancel":
                thread.join()
    assert spark.range(3).count() == 3


def test_the_second_interrupt_ends_the_call_once(
    spark: Spark, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that looks for a job to cancel does not interrupt the main thread then."""
    monkeypatch.setattr(interrupts, "_LOOKS", 10)
    jvm: Any = spark._jvm  # noqa: SLF001 - there is no public call without a job
    answers = iter([False, True])
    press_when(lambda: next(answers))
    press_when(is_cancelling)

    with pytest.raises(KeyboardInterrupt):
        jvm.java.lang.Thread.sleep(3_600_000)
    for thread in threading.enumerate():
        if thread.name == "cancel":
            thread.join()
    assert spark.range(3).count() == 3


def test_a_call_without_a_job_is_followed_by_the_interrupt(spark: Spark) -> None:
    with pytest.raises(KeyboardInterrupt):
        call_spark_and_press(spark)


def test_a_call_that_never_ends_is_left(spark: Spark, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupts, "_LOOKS", 3)
    jvm: Any = spark._jvm  # noqa: SLF001 - there is no public call without a job
    answers = iter([False, True])
    press_when(lambda: next(answers))

    with pytest.raises(KeyboardInterrupt):
        jvm.java.lang.Thread.sleep(3_600_000)
    for thread in threading.enumerate():
        if thread.name == "cancel":
            thread.join()
    # py4j closes the connection that was left, and rarely takes the next call with it.
    with suppress(Py4JNetworkError):
        spark.range(3).count()
    assert spark.range(3).count() == 3


def test_the_main_thread_is_interrupted_elsewhere() -> None:
    def call() -> None:
        press_when(lambda: True)
        time.sleep(60)

    with pytest.raises(KeyboardInterrupt):
        call()


def test_a_job_that_ends_before_it_is_cancelled_is_followed_by_the_interrupt(spark: Spark) -> None:
    active = iter([[7]])
    tracker = SimpleNamespace(
        getActiveJobsIds=lambda: next(active, []),
        getJobInfo=lambda _: SparkJobInfo(7, [], "SUCCEEDED"),
    )
    context = SimpleNamespace(statusTracker=lambda: tracker, cancelAllJobs=lambda: None)
    cancel_jobs_on_interrupt(cast("Spark", SimpleNamespace(sparkContext=context)))

    with pytest.raises(KeyboardInterrupt):
        call_spark_and_press(spark)
