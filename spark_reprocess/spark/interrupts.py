"""Ctrl-C while Spark works: its jobs are cancelled, and the answer says so in a sentence.

pyspark's own handler asks the JVM to cancel over the connection on which the main thread is waiting
for an answer. That fails with pages of tracebacks, so this one asks from a thread of its own.
"""

import signal
import threading
import time
from contextlib import suppress
from traceback import walk_stack
from types import FrameType

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

CANCELLED = "SPARK_JOB_CANCELLED"
"""Spark's name for what a cancelled job raises."""

_AGAIN_SECONDS = 0.2
"""A query that is still being planned has no job that could be cancelled."""


def cancel_jobs_on_interrupt(spark: SparkSession) -> None:
    """Let Ctrl-C cancel what Spark does for the main thread; elsewhere, and again, it interrupts.

    For the main thread of a process that is all ours.
    """
    main = threading.main_thread()
    if threading.current_thread() is not main:
        return
    is_asked = threading.Event()

    def interrupt(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - a signal handler
        if is_asked.is_set() or not _is_in_spark(frame):
            raise KeyboardInterrupt
        is_asked.set()
        threading.Thread(target=cancel, name="cancel", daemon=True).start()

    def cancel() -> None:
        if not _cancelled(spark):
            # The same question again: by then there is a job, or the call is at its end. The
            # signal goes to the main thread, which it wakes where it waits for an answer.
            time.sleep(_AGAIN_SECONDS)
            is_asked.clear()
            signal.pthread_kill(main.ident or 0, signal.SIGINT)

    signal.signal(signal.SIGINT, interrupt)


def _is_in_spark(frame: FrameType | None) -> bool:
    if frame is None:
        return False
    names = (str(one.f_globals.get("__name__")) for one, _ in walk_stack(frame))
    return any(name.partition(".")[0] in ("pyspark", "py4j") for name in names)


def _cancelled(spark: SparkSession) -> bool:
    """Cancel jobs while there are any; return whether there was one."""
    context = spark.sparkContext
    has_cancelled = False
    # Once the main thread is back, it may have ended the session.
    with suppress(AttributeError, Py4JError):
        while context.statusTracker().getActiveJobsIds():
            context.cancelAllJobs()
            has_cancelled = True
            time.sleep(_AGAIN_SECONDS)
    return has_cancelled
