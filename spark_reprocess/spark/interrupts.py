"""Ctrl-C while Spark works: its jobs are cancelled, and the answer says so in a sentence.

pyspark's own handler asks the JVM to cancel over the connection on which the main thread is waiting
for an answer. That fails with pages of tracebacks, so this one asks from a thread of its own.
"""

import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
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
    if threading.current_thread() is not threading.main_thread():
        return
    asked: list[FrameType] = []

    def ask(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - a signal handler
        call = _spark_call(frame)
        if call is None or asked:
            raise KeyboardInterrupt
        asked.append(call)
        threading.Thread(target=cancel, args=(call,), name="cancel", daemon=True).start()

    def cancel(call: FrameType) -> None:
        if not _cancelled(spark, call):
            # It came to its end without a job: what the main thread does now is to end, too. The
            # signal goes to that thread, which it wakes where it waits for an answer.
            asked.clear()
            signal.pthread_kill(_main(), signal.SIGINT)

    signal.signal(signal.SIGINT, ask)


def _cancelled(spark: SparkSession, call: FrameType) -> bool:
    """Cancel jobs while the main thread waits in *call*; return whether there was one."""
    context = spark.sparkContext
    has_cancelled = False
    while call in _stack(sys._current_frames().get(_main())):  # noqa: SLF001 - no public way
        # Once the main thread is back, it may have ended the session.
        with suppress(AttributeError, Py4JError):
            has_cancelled |= bool(context.statusTracker().getActiveJobsIds())
            context.cancelAllJobs()
        time.sleep(_AGAIN_SECONDS)
    return has_cancelled


def _main() -> int:
    return threading.main_thread().ident or 0


def _spark_call(frame: FrameType | None) -> FrameType | None:
    """Where the stack enters Spark; None where it does not."""
    names = ((one, str(one.f_globals.get("__name__", ""))) for one in _stack(frame))
    inside = [one for one, name in names if name.partition(".")[0] in ("pyspark", "py4j")]
    return inside[-1] if inside else None


def _stack(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back
