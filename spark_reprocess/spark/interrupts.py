"""Ctrl-C, and SIGTERM: what they stop, and how.

While sends are under way, the first asks them to come to their end in good order. Elsewhere Ctrl-C
cancels Spark's jobs, and the answer says so in a sentence.

pyspark's own handler asks the JVM to cancel over the connection on which the main thread is waiting
for an answer. That fails with pages of tracebacks, so this one asks from a thread of its own.
"""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from traceback import walk_stack
from types import FrameType

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

INTERRUPTED = "interrupted"
"""Why sends that were asked to end did so."""

CANCELLED = "SPARK_JOB_CANCELLED"
"""Spark's name for what a cancelled job raises."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
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
    """Cancel jobs while there are any; return whether there was one.

    A job that starts within 0.2 s of the last one is cancelled, too: a call may have several.
    """
    context = spark.sparkContext
    has_cancelled = False
    # Once the main thread is back, it may have ended the session.
    with suppress(AttributeError, Py4JError):
        while context.statusTracker().getActiveJobsIds():
            context.cancelAllJobs()
            has_cancelled = True
            time.sleep(_AGAIN_SECONDS)
    return has_cancelled


@contextmanager
def asking_to_stop(stop: Callable[[str], object]) -> Iterator[None]:
    """Call *stop* at the first SIGINT or SIGTERM of the block; later ones mean what they did.

    Signals reach the main thread alone: anywhere else this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def ask(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - a signal handler
        restore()
        stop(INTERRUPTED)

    former = {number: signal.signal(number, ask) for number in _SIGNALS}

    def restore() -> None:
        for number, handler in former.items():
            signal.signal(number, handler)

    try:
        yield
    finally:
        restore()
