"""Calls side by side in one thread: all of a round are begun, then the answers are read.

A thread for each call would be the other way, and is where calls have to wait for permission. Most
of such a thread's time is spent on handing over to the next, and all of them on waiting: that time
is for what comes next.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Generic, Protocol, TypeVar

from dlq_replay.message import SendEntry
from dlq_replay.sending import InDoubt, SendResult, Shipment, pack, send_in_rounds

End = Callable[[], Sequence[SendResult]]
"""Waits for the rest of a call that was begun; to be called once."""


class BeginningQueue(Protocol):
    """A queue whose calls have two halves. ``gated_queue.GatedQueue`` is one."""

    def begin(self, entries: Sequence[SendEntry]) -> End:
        """Begin to send at most 10 entries of at most 1 MiB together."""


def send_overlapping(
    lanes: Iterable[Sequence[Shipment[str]]],
    queue: BeginningQueue,
    seconds_left: Callable[[], float],
    meanwhile: Callable[[], None],
) -> Mapping[str, SendResult]:
    """Send every lane in its order, as ``sending.send_lanes`` does, but in this thread alone.

    Args:
        lanes: keys must be distinct over all of them.
        queue: where all of them go.
        seconds_left: at 0 no further round begins. How long an answer is waited for is the
            queue's affair.
        meanwhile: called once in each round when its calls are under way. Must not raise.

    Returns:
        A result for every key.
    """

    def send_round(heads: Sequence[Shipment[str]]) -> dict[str, SendResult]:
        begun = [(run, _begun(queue, run)) for run in pack(heads)]
        meanwhile()
        return {
            shipment.key: result
            for run, end in begun
            for shipment, result in zip(run, _ended(end, len(run)), strict=True)
        }

    return send_in_rounds(lanes, seconds_left, send_round)


def _begun(queue: BeginningQueue, run: Sequence[Shipment[str]]) -> End:
    try:
        return queue.begin([shipment.entry for shipment in run])
    except Exception as error:  # noqa: BLE001 - a bug in one call must not take the others along
        return partial(_of_a_bug, error, len(run))


def _ended(end: End, count: int) -> Sequence[SendResult]:
    try:
        return end()
    except Exception as error:  # noqa: BLE001 - as above
        return _of_a_bug(error, count)


def _of_a_bug(error: Exception, count: int) -> Sequence[SendResult]:
    return [InDoubt(f"{type(error).__name__} in the call")] * count


Thing = TypeVar("Thing")


class LookingAhead(Generic[Thing]):
    """An iterator whose next thing can be made ready before anybody asks for it."""

    def __init__(self, things: Iterable[Thing]) -> None:
        """Take over *things*."""
        self._things = iter(things)
        self._ready: list[Callable[[], Thing]] = []

    def look(self) -> None:
        """Make the next thing ready, if it is not. What that raises is raised by ``next``."""
        if not self._ready:
            self._ready.append(self._made())

    def __iter__(self) -> Iterator[Thing]:
        """Return itself."""
        return self

    def __next__(self) -> Thing:
        """Return the next thing."""
        return self._ready.pop()() if self._ready else next(self._things)

    def _made(self) -> Callable[[], Thing]:
        try:
            thing = next(self._things)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is for whoever asks
            return partial(_raise, error)
        return lambda: thing


def _raise(error: Exception) -> Thing:  # type: ignore[type-var]
    raise error
