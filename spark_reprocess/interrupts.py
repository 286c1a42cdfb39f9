"""Ctrl-C outside sends: it cancels Spark's jobs, and the command prints one line.

pyspark's own handler sends the cancellation over the connection on which the main thread waits for
an answer. That fails with long tracebacks, so this one uses a thread of its own.
"""

import signal
import sys
import threading
import time
from contextlib import suppress
from traceback import walk_stack
from types import FrameType

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

CANCELLED = "SPARK_JOB_CANCELLED"
"""Spark's error condition of a cancelled job."""

_AGAIN_SECONDS = 0.2
_LOOKS = 50
"""The number of looks for a job to cancel: a query that is still being planned has no job yet, and
one whose thread has died never gets one."""


def cancel_jobs_on_interrupt(spark: SparkSession) -> None:
    """Make Ctrl-C cancel the Spark job of the main thread.

    The call of Spark then fails with the condition ``CANCELLED``. Outside Spark, and the second
    time, Ctrl-C raises KeyboardInterrupt. The first time it does so after about 10 s, if there is
    no job to cancel. This function does nothing outside the main thread.
    """
    main = threading.main_thread()
    if threading.current_thread() is not main:
        return

    is_asked = threading.Event()

    def interrupt(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - a signal handler
        if is_asked.is_set() or not is_in_spark(frame):
            is_asked.clear()
            raise KeyboardInterrupt
        is_asked.set()
        threading.Thread(target=cancel, name="cancel", daemon=True).start()

    def cancel() -> None:
        for _ in range(_LOOKS):
            if _cancelled(spark):
                is_asked.clear()
                return
            time.sleep(_AGAIN_SECONDS)
            if not is_asked.is_set():
                # The second Ctrl-C came meanwhile.
                return
            if not is_in_spark(sys._current_frames().get(main.ident or 0)):  # noqa: SLF001 - no public way
                break
        # The signal goes to the main thread, and wakes it while it waits for an answer.
        signal.pthread_kill(main.ident or 0, signal.SIGINT)

    signal.signal(signal.SIGINT, interrupt)


def is_in_spark(frame: FrameType | None) -> bool:
    """Return whether the code of *frame* was called by pyspark or py4j, or is theirs."""
    if frame is None:
        return False
    for caller, _ in walk_stack(frame):
        package = str(caller.f_globals.get("__name__")).partition(".")[0]
        if package in ("pyspark", "py4j"):
            return True
    return False


def _cancelled(spark: SparkSession) -> bool:
    """Cancel jobs until there are none; return whether one failed, and so the call that waits.

    A job that starts within 0.2 s after the last one is cancelled, too: a call may have several.
    One that ended before it was cancelled has not failed, and the main thread goes on.
    """
    context = spark.sparkContext
    jobs = set[int]()
    # The main thread may have stopped the session meanwhile.
    with suppress(AttributeError, Py4JError):
        tracker = context.statusTracker()
        while active := tracker.getActiveJobsIds():
            jobs.update(active)
            context.cancelAllJobs()
            time.sleep(_AGAIN_SECONDS)

        infos = list(map(tracker.getJobInfo, jobs))
        return any(info is not None and info.status == "FAILED" for info in infos)
    return bool(jobs)
