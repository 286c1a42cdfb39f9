"""One look at a queue: receive, hand on, give back. Nothing is ever deleted here."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from dlq_replay.errors import MalformedMessageError
from dlq_replay.message import Message
from spark_reprocess.sql.options import LookOptions

EMPTY_POLLS = 2
"""An empty long poll is not an empty queue; so many in a row are taken for one."""

RECEIVE_MESSAGES = 10

_LOG = logging.getLogger(__name__)


class SeenQueue(Protocol):
    """What a look needs of a queue. ``dlq_replay.sqs.SqsQueue`` is one."""

    def receive(
        self, *, max_messages: int, wait_seconds: int, visibility_timeout_seconds: int | None
    ) -> list[Message | MalformedMessageError]:
        """Receive 1 to 10 messages; raises QueueError."""

    def change_visibility(self, changes: Sequence[tuple[Message, int]]) -> list[Message]:
        """Hide messages for so many seconds from now; return those that were not confirmed."""


@dataclass(slots=True)
class Look:
    """Reads a queue up to a limit.

    A message that comes twice (its timeout ended before the look did) is yielded once; the later
    receipt handle is the one that gives it back.
    """

    queue: SeenQueue
    options: LookOptions
    _held: dict[str, Message] = field(default_factory=dict)

    def batches(self) -> Iterator[list[Message]]:
        """Yield what each receive brought that was new.

        However this ends, what was received is given back where the options say so. Messages that
        cannot be read stay in the queue; each leaves a line in the log.

        Raises:
            QueueError: SQS refused or could not be reached.
        """
        try:
            yield from self._received()
        finally:
            if self.options.gives_back:
                # Where SQS does not confirm, the timeout does the same, later.
                self.queue.change_visibility([(one, 0) for one in self._held.values()])

    def _received(self) -> Iterator[list[Message]]:
        empty_polls = 0
        while empty_polls < EMPTY_POLLS and (room := self.options.limit - len(self._held)) > 0:
            received = self.queue.receive(
                max_messages=min(RECEIVE_MESSAGES, room),
                wait_seconds=self.options.wait_seconds,
                visibility_timeout_seconds=self.options.visibility_timeout_seconds,
            )
            new = self._new(received)
            # What only brings back messages that were seen already will bring nothing new either.
            empty_polls = 0 if new else empty_polls + 1
            if new:
                yield new

    def _new(self, received: Sequence[Message | MalformedMessageError]) -> list[Message]:
        new: list[Message] = []
        for one in received:
            if isinstance(one, MalformedMessageError):
                _LOG.warning("left in the queue, unreadable: %s", one)
                continue
            if one.message_id not in self._held:
                new.append(one)
            # Bodies may be a MiB each; giving back takes the receipt handle alone.
            self._held[one.message_id] = replace(one, body="", attributes={}, system={})
        return new
