"""One queue: sends, receives, deletions and changes of visibility.

Standard and FIFO queues differ in the order of messages, in deduplication, and in the use of old
receipt handles.
"""

from collections.abc import Callable, Mapping, Sequence

from local_sqs.clock import Clock
from local_sqs.delivery import FifoDelivery, StandardDelivery
from local_sqs.errors import over_limit
from local_sqs.fifo import Accepted, DeduplicationWindow, ReceiveAttempts
from local_sqs.identity import Identity
from local_sqs.receipts import Receipt, VisibilityChange, is_changeable, is_deletable
from local_sqs.sending import deduplication_id_of, deduplication_key
from local_sqs.settings import Settings
from local_sqs.states import MessageStates
from local_sqs.values import State, StoredMessage, Submission

MoveToDlq = Callable[[StoredMessage], bool]
"""Moves a message to the dead-letter queue if it was received too often; returns whether it did."""


class Queue:
    """One queue. Not thread-safe.

    Attributes:
        serial: unique, also among deleted queues of the same name.
        in_flight_quota: 120,000 unless a test lowers it.
    """

    def __init__(
        self, arn: str, serial: int, settings: Settings, clock: Clock, ids: Identity
    ) -> None:
        self.arn = arn
        self.name = arn.rpartition(":")[2]
        self.serial = serial
        self.settings = settings
        self.tags: dict[str, str] = {}
        self.created_ms = self.modified_ms = clock.now_ms()
        self.purged_ms: int | None = None
        self.in_flight_quota = 120_000
        self._clock = clock
        self._ids = ids
        delivery = FifoDelivery() if settings.is_fifo else StandardDelivery()
        self._states = MessageStates(delivery, settings.retention_ms)
        self._window = DeduplicationWindow()
        self._attempts = ReceiveAttempts()

    def tick(self) -> int:
        """Carry out everything that is due; return the time."""
        now_ms = self._clock.now_ms()
        self._states.tick(now_ms)
        return now_ms

    def send(self, submission: Submission) -> Accepted:
        """Store a checked message. On a FIFO queue a duplicate is not stored."""
        now_ms = self.tick()
        if not self.settings.is_fifo:
            return self._store(submission, submission.deduplication_id, now_ms)
        deduplication_id = deduplication_id_of(submission)
        key = deduplication_key(submission, deduplication_id, self.settings)
        accepted = self._window.find(key, now_ms)
        if accepted is None:
            accepted = self._store(submission, deduplication_id, now_ms)
            self._window.remember(key, accepted, now_ms)
        return accepted

    def _store(self, submission: Submission, deduplication_id: str | None, now_ms: int) -> Accepted:
        delay_ms = self.settings.delay_ms
        if submission.delay_seconds is not None and not self.settings.is_fifo:
            delay_ms = submission.delay_seconds * 1000
        message = StoredMessage(
            message_id=self._ids.new_id(),
            body=submission.body,
            attributes=submission.attributes,
            sent_ms=now_ms,
            order=self._ids.next_order(),
            group_id=submission.group_id,
            deduplication_id=deduplication_id,
            trace_header=submission.trace_header,
        )
        self._states.put(message, now_ms + delay_ms, now_ms)
        return Accepted(message.message_id, message.order)

    def take_in(self, message: StoredMessage) -> None:
        """Store a message that SQS moves here. It is visible at once."""
        now_ms = self.tick()
        message.order = self._ids.next_order()
        self._states.put(message, now_ms, now_ms)

    def receive(
        self,
        limit: int,
        visibility_seconds: int | None = None,
        *,
        is_long_poll: bool = False,
        attempt_id: str | None = None,
        move_to_dlq: MoveToDlq = lambda _: False,
    ) -> Sequence[StoredMessage]:
        """Receive up to *limit* messages. A timeout of 0 ends at once.

        Raises:
            SqsError: a short poll of a standard queue whose quota is in flight.
        """
        now_ms = self.tick()
        timeout_ms = self.settings.visibility_timeout_ms
        if visibility_seconds is not None:
            timeout_ms = visibility_seconds * 1000
        if attempt_id and (repeated := self._attempts.repeat(attempt_id, now_ms)):
            for message in repeated:
                self._states.set_timer(message, now_ms + timeout_ms)
            self._attempts.remember(attempt_id, repeated, now_ms)
            return repeated
        room = min(limit, self.in_flight_quota - self._states.count(State.IN_FLIGHT))
        if room <= 0 and not self.settings.is_fifo and not is_long_poll:
            raise over_limit()
        batch = self._take(room, timeout_ms, move_to_dlq, now_ms)
        if attempt_id:
            self._attempts.remember(attempt_id, batch, now_ms)
        return batch

    def _take(
        self, room: int, timeout_ms: int, move_to_dlq: MoveToDlq, now_ms: int
    ) -> list[StoredMessage]:
        batch: list[StoredMessage] = []
        offers = self._states.delivery.offers()
        while len(batch) < room and (message := next(offers, None)) is not None:
            if move_to_dlq(message):
                continue
            self._states.hand_out(message, now_ms + timeout_ms)
            self._count_receive(message, now_ms)
            batch.append(message)
        return batch

    def _count_receive(self, message: StoredMessage, now_ms: int) -> None:
        message.receive_count += 1
        message.receives_here += 1
        message.received_ms = now_ms
        message.first_received_ms = message.first_received_ms or now_ms
        message.was_released = False
        receipt = Receipt(self.serial, message.message_id, message.receives_here, now_ms)
        message.handle = receipt.to_handle()

    def delete(self, handle: str) -> None:
        """Delete the message of that receive if ``receipts.is_deletable``.

        Raises:
            SqsError: an unknown or expired handle.
        """
        now_ms = self.tick()
        receipt = Receipt.from_handle(handle, self.serial)
        message = self._states.messages.get(receipt.message_id)
        if is_deletable(receipt, message, now_ms, is_fifo=self.settings.is_fifo) and message:
            self._states.remove(message)

    def change_visibility(self, handle: str, seconds: int) -> None:
        """Make the message of that receive visible *seconds* from now.

        Raises:
            SqsError: see ``receipts.is_changeable``.
        """
        now_ms = self.tick()
        receipt = Receipt.from_handle(handle, self.serial)
        message = self._states.messages.get(receipt.message_id)
        change = VisibilityChange(receipt, seconds, now_ms)
        if not is_changeable(change, message, is_fifo=self.settings.is_fifo) or message is None:
            return
        if seconds == 0:
            message.was_released = True
            self._states.make_ready(message)
        else:
            self._states.set_timer(message, now_ms + seconds * 1000)

    def change(self, given: Mapping[str, str]) -> None:
        """Change attributes at once.

        A new delay of a FIFO queue holds for the messages that are in it, that of a standard queue
        does not (SQSAPI, SetQueueAttributes; SQSDeveloperGuide, delay queues).

        Raises:
            SqsError: an unknown name, or a value that SQS refuses.
        """
        now_ms = self.tick()
        self.settings = self.settings.changed(given)
        self.modified_ms = now_ms
        if "MessageRetentionPeriod" in given:
            self._states.set_retention(self.settings.retention_ms)
        if self.settings.is_fifo and "DelaySeconds" in given:
            for message in self._states.messages.values():
                if message.state is State.DELAYED:
                    self._states.set_timer(message, message.sent_ms + self.settings.delay_ms)

    def take_out(self, message: StoredMessage) -> None:
        """Remove a message in any state."""
        self._states.remove(message)

    def ready_messages(self) -> Sequence[StoredMessage]:
        """Return the visible messages, oldest first."""
        self.tick()
        ready = [m for m in self._states.messages.values() if m.state is State.READY]
        return sorted(ready, key=lambda m: m.order)

    def messages(self) -> Sequence[StoredMessage]:
        """Return all messages, in no order, for tests."""
        self.tick()
        return list(self._states.messages.values())

    def count(self, state: State) -> int:
        self.tick()
        return self._states.count(state)

    def has_offers(self) -> bool:
        """Return whether a receive would find a message now."""
        self.tick()
        return self._states.delivery.has_offers()

    def next_event_ms(self) -> int | None:
        """Return when the next delay or visibility timeout ends; None if there is none."""
        self.tick()
        return self._states.next_due_ms()

    def next_expiry_ms(self) -> int | None:
        """Return when the retention of the next message ends; None if there is none."""
        self.tick()
        return self._states.next_expiry_ms()
