"""The deadline of an invocation travels with its calls: no try begins after it.

Lambda freezes an execution environment when the handler has answered. A thread that waits to
repeat a call sleeps on and wakes in another invocation, minutes later: past the 5 minutes in which
a FIFO queue removes duplicates. So each try checks the deadline of the invocation that it belongs
to, botocore's own retries included.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from functools import partial
from typing import Any, ParamSpec, TypeVar

from botocore.exceptions import BotoCoreError

from dlq_replay.sending import forever

P = ParamSpec("P")
T = TypeVar("T")

_seconds_left: ContextVar[Callable[[], float]] = ContextVar("seconds_left", default=forever)


class DeadlinePassedError(BotoCoreError):
    """A try was not made. An earlier try of the same call may have been carried out."""

    fmt = "the time to answer has come: no further try was made"


@contextmanager
def calls_until(seconds_left: Callable[[], float]) -> Iterator[None]:
    """Give every call of this thread, and of a ``DeadlineExecutor`` that it uses, a deadline.

    Args:
        seconds_left: seconds until the deadline; it must stay at or below 0 once it is passed.
    """
    token = _seconds_left.set(seconds_left)
    try:
        yield
    finally:
        _seconds_left.reset(token)


def require_time_left(**_: object) -> None:
    """Stop before a try if the deadline of the call has passed.

    Raises:
        DeadlinePassedError: it has. botocore does not repeat a call for it.
    """
    if _seconds_left.get()() <= 0:
        raise DeadlinePassedError


def checking_deadline(client: Any) -> Any:  # noqa: ANN401 - a client of any service
    """Have *client*, of botocore, check the deadline before each try of each call."""
    client.meta.events.register("before-send", require_time_left)
    return client


class DeadlineExecutor(ThreadPoolExecutor):
    """Threads whose calls have the deadline of the call that submitted the work."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run it with the context of the caller, which holds the deadline."""
        return super().submit(copy_context().run, partial(fn, *args, **kwargs))
