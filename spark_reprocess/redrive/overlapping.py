"""Calls side by side in one thread: all of a round are begun, then the answers are read.

A thread for each call would be the other way, and is where calls have to wait for permission. Most
of such a thread's time is spent on handing over to the next, and all of them on waiting: that time
is for what comes next.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Generic, NoReturn, Protocol, TypeVar

from dlq_replay.message import SendEntry
from dlq_replay.sending import (
    InDoubt,
    NotReached,
    SendResult,
    Shipment,
    pack,
    send_in_rounds,
)

End = Callable[[], Sequence[SendResult]]
"""Waits for the rest of a call that was begun; to be called once."""


class BeginningQueue(Protocol):
    """A queue whose calls have two halves. ``gated_queue.GatedQueue`` is one."""

    def begin(self, entries: Sequence[SendEntry]) -> End:
        """Begin to send at most 10 entries of at most 1 MiB together. Neither half raises."""


def send_overlapping(
    lanes: Iterable[Sequence[Shipment[str]]],
    queue: BeginningQueue,
    seconds_left: Callable[[], float],
    *,
    most_calls: int,
    meanwhile: Callable[[], None],
) -> Mapping[str, SendResult]:
    """Send every lane in its order, as ``sending.send_lanes`` does, but in this thread alone.

    Args:
        lanes: keys must be distinct over all of them.
        queue: where all of them go.
        seconds_left: at 0 nothing more is begun (``NotReached``), and what is under way is
            ``InDoubt``. How long one answer is waited for is the queue's affair.
        most_calls: so many are under way at once.
        meanwhile: called when calls are under way, before the first answer is read. Must not raise.

    Returns:
        A result for every key.
    """

    def send_round(heads: Sequence[Shipment[str]]) -> dict[str, SendResult]:
        results: dict[str, SendResult] = {s.key: NotReached() for s in heads}
        runs = pack(heads)
        while seconds_left() > 0 and (some := list(islice(runs, most_calls))):
            begun = [(run, queue.begin([s.entry for s in run])) for run in some]
            meanwhile()
            for run, end in begun:
                is_late = seconds_left() <= 0
                of_run = [InDoubt("no answer in time")] * len(run) if is_late else end()
                results.update(zip((s.key for s in run), of_run, strict=True))
        return results

    return send_in_rounds(lanes, seconds_left, send_round)


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


def _raise(error: Exception) -> NoReturn:
    raise error
