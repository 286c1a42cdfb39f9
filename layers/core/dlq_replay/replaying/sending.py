"""Sends batches of at most 10 entries and 1 MiB, several calls at once, in the order of each group.

The entries of a message group are sent one after the other: each only after SQS confirmed the one
before it. So no call carries two entries of one group, and the first entry that is not confirmed
stops its group. On a standard queue, which has no order, each message is a group of its own.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, wait
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple, Protocol

from dlq_replay.wire.message import SendEntry

MAX_BATCH_ENTRIES = 10
MAX_BATCH_BYTES = 1_048_576
"""Sum over a SendMessageBatch: SQSAPI, SendMessageBatch."""


class Confirmed(NamedTuple):
    """SQS answered that it has the message. Only such a message counts as sent."""

    message_id: str


@dataclass(frozen=True, slots=True)
class Refused:
    """SQS answered that it did not take the message, and why. It is safe to send it again."""

    code: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class Unconfirmed:
    """No answer, or none in time: SQS may have the message or not."""

    cause: str


@dataclass(frozen=True, slots=True)
class NotSent:
    """No call was made: no time was left, or an earlier entry of the group was not confirmed."""


SendResult = Confirmed | Refused | Unconfirmed | NotSent


@dataclass(frozen=True, slots=True)
class BatchRejected:
    """SQS refused a call of several entries because of one of them. No entry was sent."""


class WritableQueue(Protocol):
    """A queue to send to. ``sqs.SqsQueue`` is one."""

    @property
    def url(self) -> str:
        """The queue's URL."""

    def send(self, entries: Sequence[SendEntry]) -> Sequence[SendResult]:
        """Send at most 10 entries of at most 1 MiB together; one result each, in order.

        Never raises for an error of SQS or of the network: a failure is a result.
        """


CallResult = Sequence[SendResult] | BatchRejected
"""The result of one call: one per entry, in order, or the refusal of the batch as a whole."""

Call = Callable[[Sequence[SendEntry]], CallResult]
"""One SendMessageBatch. A call of one entry returns ``Refused`` rather than ``BatchRejected``."""


def send_each_if_rejected(call: Call, entries: Sequence[SendEntry]) -> Sequence[SendResult]:
    """Send with one *call*; if SQS refuses the batch because of one entry, send each by itself.

    So only the bad entry is refused. Returns one result each, in order.
    """
    answer = call(entries)
    if not isinstance(answer, BatchRejected):
        return answer
    results: list[SendResult] = []
    for entry in entries:
        results += send_each_if_rejected(call, [entry])
    return results


class Shipment(NamedTuple):
    """An entry, its queue, and the caller's key for its result."""

    key: str
    queue: WritableQueue
    entry: SendEntry


def pack(shipments: Iterable[Shipment]) -> Iterator[list[Shipment]]:
    """Split into runs for one SendMessageBatch each: one queue, at most 10 entries and 1 MiB.

    Keeps the order within each queue. An entry above 1 MiB gets a run of its own; SQS refuses it.
    """
    open_runs: dict[str, tuple[list[Shipment], int]] = {}
    for shipment in shipments:
        url = shipment.queue.url
        size_bytes = shipment.entry.size_bytes
        run, run_bytes = open_runs.get(url, ([], 0))
        if run and (len(run) == MAX_BATCH_ENTRIES or run_bytes + size_bytes > MAX_BATCH_BYTES):
            yield run
            run = []
            run_bytes = 0
        run.append(shipment)
        open_runs[url] = (run, run_bytes + size_bytes)

    for run, _ in open_runs.values():
        yield run


def send_groups(
    groups: Iterable[Sequence[Shipment]],
    executor: Executor,
    seconds_left: Callable[[], float],
) -> Mapping[str, SendResult]:
    """Send each message group in its order. Groups share calls, and calls run concurrently.

    Keys must be distinct over all groups. *seconds_left* returns how long the caller can still wait
    for answers. At 0, calls that have not started are not made (``NotSent``), and open calls are
    ``Unconfirmed``.
    """
    waiting = [list(group) for group in groups if group]
    not_sent = NotSent()
    results: dict[str, SendResult] = {}
    for shipment in chain.from_iterable(waiting):
        results[shipment.key] = not_sent

    while waiting and seconds_left() > 0:
        heads = [group.pop(0) for group in waiting]
        calls: dict[Future[Sequence[SendResult]], list[Shipment]] = {}
        for run in pack(heads):
            entries = [shipment.entry for shipment in run]
            calls[executor.submit(run[0].queue.send, entries)] = run
        left_seconds = seconds_left()
        wait(calls, timeout=None if math.isinf(left_seconds) else max(0.0, left_seconds))

        for call, run in calls.items():
            keys = [shipment.key for shipment in run]
            results.update(zip(keys, _results_of(call, len(run)), strict=True))

        still_waiting: list[list[Shipment]] = []
        for group, head in zip(waiting, heads, strict=True):
            if group and isinstance(results[head.key], Confirmed):
                still_waiting.append(group)
        waiting = still_waiting
    return results


def _results_of(call: Future[Sequence[SendResult]], count: int) -> Sequence[SendResult]:
    if call.cancel():
        return [NotSent()] * count
    if not call.done():
        return [Unconfirmed("no answer in time")] * count
    try:
        return call.result()
    except Exception as error:  # noqa: BLE001 - a bug in one call must not affect the others
        return [Unconfirmed(f"{type(error).__name__} in the call")] * count


def forever() -> float:
    """``seconds_left`` for a caller without a deadline."""
    return math.inf
