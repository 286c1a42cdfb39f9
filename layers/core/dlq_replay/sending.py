"""Confirmed sends: batches of at most 10 entries and 1 MiB, several calls at once, in order.

A *lane* is a sequence of shipments that must arrive in their order: a FIFO message group. Its next
entry goes only after the one before it is confirmed, so no call carries two of one lane, and the
first that is not confirmed stops the lane. A message of a standard queue is a lane of its own.
"""

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, wait
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from dlq_replay.message import SendEntry

MAX_BATCH_ENTRIES = 10
MAX_BATCH_BYTES = 1_048_576
"""Sum over a SendMessageBatch: SQSAPI, SendMessageBatch."""


@dataclass(frozen=True, slots=True)
class Confirmed:
    """SQS answered that it has the message. Only this is called sent."""

    message_id: str


@dataclass(frozen=True, slots=True)
class Refused:
    """SQS answered that it does not have the message, and why. Sending it again is safe."""

    code: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class InDoubt:
    """The answer was lost, or had not come in time: SQS may have the message, or may not."""

    cause: str


@dataclass(frozen=True, slots=True)
class NotReached:
    """No call was made: time was up, or an earlier entry of the lane was not confirmed."""


SendResult = Confirmed | Refused | InDoubt | NotReached


@dataclass(frozen=True, slots=True)
class Spoiled:
    """SQS refused a call of several entries for what one of them contains; nothing was sent."""


class Queue(Protocol):
    """What a send needs of a queue. ``sqs.SqsQueue`` is one."""

    @property
    def url(self) -> str:
        """Where it is."""

    def send(self, entries: Sequence[SendEntry]) -> Sequence[SendResult]:
        """Send at most 10 entries of at most 1 MiB together; one result each, in order.

        Never raises for an error of SQS or of the network: a failure is a result.
        """


CallResult = Sequence[SendResult] | Spoiled
"""What one call came to: a result for each entry, in order, or that one entry spoiled it all."""

Call = Callable[[Sequence[SendEntry]], CallResult]
"""One SendMessageBatch. A call of one entry is never spoiled: it is refused."""


def send_apart_if_spoiled(call: Call, entries: Sequence[SendEntry]) -> Sequence[SendResult]:
    """Send with one *call*; if one entry spoils it, each with a call of its own.

    So only the bad one is refused. One result each, in order.
    """
    answer = call(entries)
    if not isinstance(answer, Spoiled):
        return answer
    return [result for entry in entries for result in send_apart_if_spoiled(call, [entry])]


Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Shipment(Generic[Key]):
    """An entry, where it goes, and the caller's own key for its result."""

    key: Key
    queue: Queue
    entry: SendEntry


def pack(shipments: Iterable[Shipment[Key]]) -> Iterator[list[Shipment[Key]]]:
    """Cut into runs that one SendMessageBatch takes: one queue, 10 entries, 1 MiB.

    Keeps the order within each queue. An entry above 1 MiB travels alone, for SQS to refuse.
    """
    open_runs: dict[str, tuple[list[Shipment[Key]], int]] = {}
    for shipment in shipments:
        run, run_bytes = open_runs.get(shipment.queue.url, ([], 0))
        size = shipment.entry.size_bytes
        if run and (len(run) == MAX_BATCH_ENTRIES or run_bytes + size > MAX_BATCH_BYTES):
            yield run
            run, run_bytes = [], 0
        run.append(shipment)
        open_runs[shipment.queue.url] = (run, run_bytes + size)
    yield from (run for run, _ in open_runs.values())


def send_lanes(
    lanes: Iterable[Sequence[Shipment[Key]]],
    executor: Executor,
    seconds_left: Callable[[], float],
) -> Mapping[Key, SendResult]:
    """Send every lane in its order; lanes share calls and calls run side by side.

    The first of every lane goes first, then the next of those confirmed, and so on.

    Args:
        lanes: keys must be distinct over all of them.
        executor: runs the calls; its size bounds how many are open at once.
        seconds_left: how long the caller can still wait for answers. At 0, calls that have not
            begun never will (``NotReached``), and those that are open are ``InDoubt``.

    Returns:
        A result for every key.
    """
    waiting = [list(lane) for lane in lanes if lane]
    results: dict[Key, SendResult] = {s.key: NotReached() for lane in waiting for s in lane}
    while waiting and seconds_left() > 0:
        heads = [lane.pop(0) for lane in waiting]
        results.update(_send_round(heads, executor, seconds_left))
        waiting = [
            lane
            for lane, head in zip(waiting, heads, strict=True)
            if lane and isinstance(results[head.key], Confirmed)
        ]
    return results


def _send_round(
    heads: Sequence[Shipment[Key]], executor: Executor, seconds_left: Callable[[], float]
) -> dict[Key, SendResult]:
    calls = {executor.submit(_send_run, run): run for run in pack(heads)}
    left = seconds_left()
    wait(calls, timeout=None if math.isinf(left) else max(0.0, left))
    results: dict[Key, SendResult] = {}
    for call, run in calls.items():
        keys = [shipment.key for shipment in run]
        results.update(zip(keys, _results_of(call, len(run)), strict=True))
    return results


def _send_run(run: Sequence[Shipment[Key]]) -> Sequence[SendResult]:
    return run[0].queue.send([shipment.entry for shipment in run])


def _results_of(call: Future[Sequence[SendResult]], count: int) -> Sequence[SendResult]:
    if call.cancel():
        return [NotReached()] * count
    if not call.done():
        return [InDoubt("no answer in time")] * count
    try:
        return call.result()
    except Exception as error:  # noqa: BLE001 - a bug in one call must not take the others along
        return [InDoubt(f"{type(error).__name__} in the call")] * count


def forever() -> float:
    """``seconds_left`` of a caller without a deadline."""
    return math.inf
