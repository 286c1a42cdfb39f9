"""Lambda's event source mapping on a virtual clock, and the run of time itself."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dlq_replay.wire.message import Message
from local_sqs.clock import VirtualClock
from local_sqs.model import SqsModel
from local_sqs.model_queue import ModelQueue

Handler = Callable[[Sequence[Message]], set[str]]
"""Takes a batch, returns the ids of the messages that must stay: a partial batch response."""


def collect(into: list[Message]) -> Handler:
    """Return a handler that succeeds with every message and keeps it."""

    def keep(batch: Sequence[Message]) -> set[str]:
        into.extend(batch)
        return set()

    return keep


@dataclass(frozen=True)
class EventSource:
    """Polls one queue, calls a handler, deletes what it does not name."""

    queue: ModelQueue
    handler: Handler
    batch_size: int = 10

    def poll(self) -> int:
        """Handle one batch; return how many messages it held."""
        batch = self._receive()
        if batch:
            left = self.handler(batch)
            undeleted = self.queue.delete([m for m in batch if m.message_id not in left])
            assert not undeleted
        return len(batch)

    def _receive(self) -> list[Message]:
        batch: list[Message] = []
        while room := min(10, self.batch_size - len(batch)):
            received = self.queue.receive(max_messages=room)
            batch.extend(message for message in received if isinstance(message, Message))
            # The model's queue has no more for now, or it would have filled the room.
            if len(received) < room:
                break
        return batch


def run(model: SqsModel, sources: Sequence[EventSource], until_ms: int | None = None) -> None:
    """Let time pass, from event to event, until nothing waits any more or *until_ms* is reached."""
    clock = model.clock
    assert isinstance(clock, VirtualClock)
    while True:
        while sum(source.poll() for source in sources):
            pass
        next_ms = model.next_event_ms()
        if next_ms is None or (until_ms is not None and next_ms > until_ms):
            break
        clock.advance_to(next_ms)
    if until_ms is not None:
        clock.advance_to(until_ms)
