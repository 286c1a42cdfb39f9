"""Checks the deadline of an invocation before each try of its calls.

Lambda freezes an execution environment when the handler has answered. A thread that waits before a
retry would be frozen too, and would continue in a later invocation: possibly more than 5 minutes
later, when a FIFO queue no longer removes duplicates. So each try, botocore's own retries included,
checks the deadline of the invocation that it belongs to.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from functools import partial
from typing import ParamSpec, TypeVar

from botocore.exceptions import BotoCoreError

from dlq_replay.replaying.sending import forever

P = ParamSpec("P")
T = TypeVar("T")

_seconds_left: ContextVar[Callable[[], float]] = ContextVar("seconds_left", default=forever)


class DeadlinePassedError(BotoCoreError):
    """The deadline passed before this try. An earlier try may have been carried out."""

    fmt = "the time to answer has come: no further try was made"


@contextmanager
def calls_until(seconds_left: Callable[[], float]) -> Iterator[None]:
    """Set a deadline for all calls of this thread and of a ``DeadlineExecutor`` that it uses.

    *seconds_left* returns the seconds until the deadline; after the deadline always 0 or less.
    """
    token = _seconds_left.set(seconds_left)
    try:
        yield
    finally:
        _seconds_left.reset(token)


def require_time_left(**_: object) -> None:
    """Raise ``DeadlinePassedError`` before a try, which botocore does not repeat."""
    if _seconds_left.get()() <= 0:
        raise DeadlinePassedError


class DeadlineExecutor(ThreadPoolExecutor):
    """A thread pool. Its threads have the deadline of the thread that submitted the work."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run *fn* in the caller's context, which holds the deadline."""
        return super().submit(copy_context().run, partial(fn, *args, **kwargs))
