"""Waits of the driver: until something is seen, and until the limit of a destination is known."""

import threading
from collections.abc import Callable

from dlq.archive.ledger.stop import Stop, StopCause
from dlq.aws.clients import Limit
from dlq.interrupts import asking_to_stop
from dlq.redrive.sending.stop_signals import Deadline, TableWatch, waiting_for


def look_until(
    is_over: Callable[[], bool],
    every_seconds: float,
    deadline: Deadline,
) -> Stop | None:
    """Look until *is_over*; return what ended that before: a signal or the deadline; else None."""
    is_stopping = threading.Event()
    with asking_to_stop(is_stopping.set):
        while not (is_over() or is_stopping.is_set()):
            if deadline.seconds_left <= 0:
                return Stop(StopCause.TIME_OVER)
            deadline.clock.wait(is_stopping, min(every_seconds, deadline.seconds_left))
    return Stop(StopCause.INTERRUPTED) if is_stopping.is_set() else None


def wait_for_limit(
    watch: TableWatch, every_seconds: float, deadline: Deadline
) -> tuple[Limit, Stop | None]:
    """Read the limit of a destination until it is known, as far as it must be known.

    Return also why nothing may be sent there now; None if something may.
    """
    limit = Limit()

    def is_over() -> bool:
        nonlocal limit
        limit = watch.limit()
        return not (limit.fault and watch.is_needed) or bool(watch.lost())

    stopped_by = look_until(is_over, every_seconds, deadline)
    return limit, stopped_by or watch.lost() or waiting_for(limit)
