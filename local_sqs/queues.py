"""One queue: sends, receives, deletions and changes of visibility.

Standard and FIFO queues differ in the order of messages, in deduplication, and in the use of old
receipt handles.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from local_sqs.errors import SqsError, invalid_value, namespaced
from local_sqs.messages import Delivery, State, StoredMessage, Timers
from local_sqs.settings import Settings

if TYPE_CHECKING:
    from local_sqs.model import SqsModel

MAX_VISIBILITY_SECONDS = 43_200
"""12 hours, counted from the receive: SQSAPI, ChangeMessageVisibility."""

WINDOW_MS = 300_000
"""Of a deduplication id and of a ReceiveRequestAttemptId: SQSAPI, SendMessage, ReceiveMessage."""

_MAX_VISIBILITY_MS = MAX_VISIBILITY_SECONDS * 1000

_HANDLE = re.compile(r"AQEB-(?P<queue>\d+)-(?P<message>.+)-(?P<receive>\d+)-(?P<received_ms>\d+)")
"""A receipt handle: serial of the queue, id of the message, which receive of it, and its time."""


class Queue:
    """One queue. Not thread-safe. Its serial is unique, also among deleted ones of its name.

    Attributes:
        in_flight_quota: a test may lower it.
        deleted: how many deletes with a valid handle there were, by epoch second.
    """

    def __init__(self, model: "SqsModel", arn: str, serial: int, settings: Settings) -> None:
        self.arn = arn
        self.name = arn.rpartition(":")[2]
        self.settings = settings
        self.created_ms = self.modified_ms = model.clock.now_ms()
        self.in_flight_quota = 120_000  # SQSDeveloperGuide, message quotas
        self.deleted = Counter[int]()
        self.tags: dict[str, str] = {}
        self._model = model
        self._serial = serial
        self._messages: dict[str, StoredMessage] = {}
        self._counts: Counter[State] = Counter()
        self._delivery = Delivery(is_fifo=settings.is_fifo)
        self._timers = Timers(lambda message: message.due_ms)
        self._expiries = Timers(lambda message: message.expires_ms)
        # An id is remembered even after its message was deleted: SQSAPI, SendMessage.
        self._window: dict[Hashable, StoredMessage] = {}
        # Each message of a receive that had an attempt id, its handle and the end of its timeout.
        self._attempts: dict[str, list[tuple[StoredMessage, str, int | None]]] = {}

    def tick(self) -> int:
        """Carry out everything that is due, expiries first; return the time."""
        now_ms = self._model.clock.now_ms()
        for message in self._expiries.fire(now_ms):
            self.take_out(message)
        for message in self._timers.fire(now_ms):
            self._make_ready(message)
        return now_ms

    def send(self, message: StoredMessage) -> StoredMessage:
        """Store a checked message and return it.

        A FIFO queue does not store a duplicate; it returns the first message of that id.
        """
        now_ms = self.tick()
        if self.settings.is_fifo:
            duplicated = self._duplicated_by(message, now_ms)
            if duplicated is not None:
                return duplicated

        delay_seconds = message.delay_seconds
        if delay_seconds is None or self.settings.is_fifo:
            delay_seconds = self.settings.number("DelaySeconds")

        message.message_id = self._model.new_message_id()
        message.order = next(self._model.orders)
        message.sent_ms = now_ms
        message.due_ms = now_ms + delay_seconds * 1000 if delay_seconds else None
        self._put(message)
        return message

    def _duplicated_by(self, message: StoredMessage, now_ms: int) -> StoredMessage | None:
        """Return the message of this deduplication id. If there is none, remember this one."""
        self._forget_old_ids(now_ms)

        if not message.deduplication_id:
            # Without an id, the SHA-256 of the body is the id: SQSAPI, SendMessage.
            content = message.body.encode("utf-8", "surrogatepass")
            message.deduplication_id = hashlib.sha256(content).hexdigest()

        is_per_group = self.settings.values["DeduplicationScope"] == "messageGroup"
        key = (message.group_id if is_per_group else None, message.deduplication_id)
        if key in self._window:
            return self._window[key]

        self._window[key] = message
        return None

    def _forget_old_ids(self, now_ms: int) -> None:
        while self._window:
            oldest = next(iter(self._window))
            if self._window[oldest].sent_ms + WINDOW_MS > now_ms:
                return
            del self._window[oldest]

    def take_in(self, message: StoredMessage) -> None:
        """Store a message that SQS moves here. It is visible at once."""
        self.tick()
        message.order = next(self._model.orders)
        self._put(message)

    def take_out(self, message: StoredMessage) -> None:
        """Remove a message in any state."""
        was_in_flight = message.state is State.IN_FLIGHT
        message.due_ms = message.expires_ms = None
        self._enter(message, State.GONE)
        del self._messages[message.message_id]
        if was_in_flight:
            self._delivery.came_back(message)

    def receive(
        self,
        limit: int,
        visibility_seconds: int | None = None,
        *,
        is_long_poll: bool = False,
        attempt_id: str | None = None,
    ) -> Sequence[StoredMessage]:
        """Receive up to *limit* messages. A timeout of 0 ends at once.

        Raises:
            SqsError: a short poll of a standard queue whose quota is in flight.
        """
        now_ms = self.tick()
        if visibility_seconds is None:
            visibility_seconds = self.settings.number("VisibilityTimeout")
        due_ms = now_ms + visibility_seconds * 1000

        batch = self._repeated(attempt_id, now_ms)
        for message in batch:
            self._set_due(message, due_ms)

        if not batch:
            room = min(limit, self.in_flight_quota - self._counts[State.IN_FLIGHT])
            if room <= 0 and not self.settings.is_fifo and not is_long_poll:
                text = "Too many messages in flight for the queue to hand out another."
                raise SqsError("OverLimit", text, status=403)
            batch = self._take(room, due_ms, now_ms)

        if attempt_id:
            taken = [(message, message.handle, message.due_ms) for message in batch]
            self._attempts[attempt_id] = taken
        return batch

    def _repeated(self, attempt_id: str | None, now_ms: int) -> list[StoredMessage]:
        """Return the messages of an attempt less than 5 minutes ago: SQSAPI, ReceiveMessage.

        Only if all are still in flight, and none was deleted or had its visibility changed.
        """
        messages = []
        for message, handle, due_ms in self._attempts.get(attempt_id or "", []):
            is_unchanged = message.handle == handle and message.due_ms == due_ms
            if not is_unchanged or message.received_ms + WINDOW_MS <= now_ms:
                return []
            messages.append(message)
        return messages

    def _take(self, room: int, due_ms: int, now_ms: int) -> list[StoredMessage]:
        """Receive messages, and move those that were received too often.

        They move at a receive, never before (SQSAPI, CreateQueue, RedrivePolicy). If the target
        does not exist, they stay. AWS does not document whether the receives in a source queue
        count towards the policy of a dead-letter queue. Here they do: it is the worse case.
        """
        batch: list[StoredMessage] = []
        policy = self.settings.redrive
        target = self._model.find_by_arn(policy.target_arn) if policy else None
        offers = self._delivery.offers()

        while len(batch) < room and (message := next(offers, None)) is not None:
            if policy and target and message.receive_count >= policy.max_receive_count:
                self._move(message, target)
                continue

            self._enter(message, State.IN_FLIGHT)
            self._set_due(message, due_ms)
            self._delivery.was_handed_out(message)

            message.receive_count += 1
            message.received_ms = now_ms
            message.first_received_ms = message.first_received_ms or now_ms
            message.was_released = False
            receive = f"{message.message_id}-{message.receive_count}-{now_ms}"
            message.handle = f"AQEB-{self._serial}-{receive}"
            batch.append(message)

        return batch

    def _move(self, message: StoredMessage, target: "Queue") -> None:
        """Move one message as a redrive policy does.

        The message keeps id, body, attributes, group id, trace header and receive count. On a
        standard queue it keeps the time of the first send, so its retention continues. On a FIFO
        queue retention starts at the move, and the message id becomes the deduplication id. For
        standard queues AWS does not document that the group id is kept. See SQSDeveloperGuide,
        "Using dead-letter queues" and "Learn how to configure a dead-letter queue redrive";
        MessageId, attributes and trace header as recorded from AWS in
        https://github.com/localstack/localstack (tests/aws/services/sqs, snapshots of 2024-04-30).
        """
        moved = replace(message, source_arn=self.arn, received_ms=0, handle="", was_released=False)
        if target.settings.is_fifo:
            moved.sent_ms = self.tick()
            moved.deduplication_id = message.message_id
        self.take_out(message)
        target.take_in(moved)
        self._model.changed.notify_all()

    def _receive_of(self, handle: str) -> tuple[StoredMessage | None, int]:
        """Return the message of a handle, if it is still here, and the time of that receive.

        Raises:
            SqsError: it is not a handle, or it is another queue's.
        """
        match = _HANDLE.fullmatch(handle)
        if match is None or int(match["queue"]) != self._serial:
            text = f'The input receipt handle "{handle}" is not valid.'
            raise SqsError("ReceiptHandleIsInvalid", text)

        return self._messages.get(match["message"]), int(match["received_ms"])

    def delete(self, handle: str) -> None:
        """Delete the message of that receive.

        On a standard queue the latest handle deletes even after its timeout, and an older one does
        nothing (SQSAPI, DeleteMessage). Every handle expires after 12 hours
        (https://github.com/boto/boto3/issues/2898). On a FIFO queue it expires when its receive is
        not in flight any longer (https://github.com/localstack/localstack/pull/12442, recorded
        from AWS).

        Raises:
            SqsError: an unknown or expired handle.
        """
        now_ms = self.tick()
        message, received_ms = self._receive_of(handle)
        is_latest = message is not None and message.handle == handle
        has_expired = now_ms > received_ms + _MAX_VISIBILITY_MS
        if self.settings.is_fifo and message is not None:
            is_in_flight = is_latest and message.state is State.IN_FLIGHT
            has_expired = has_expired or not is_in_flight
        if has_expired:
            raise invalid_value("ReceiptHandle", handle, "The receipt handle has expired.")

        self.deleted[now_ms // 1000] += 1
        if message is not None and is_latest:
            self.take_out(message)

    def change_visibility(self, handle: str, seconds: int) -> None:
        """Make the message of that receive visible *seconds* from now.

        A standard queue accepts the latest handle after its timeout, and does nothing
        (https://github.com/localstack/localstack/pull/9632, recorded from AWS). After a change to 0
        the message is not in flight, which is an error (SQSAPI, ChangeMessageVisibility).

        Raises:
            SqsError: out of range; not in flight by that handle; or visible later than 12 hours
                after the receive.
        """
        now_ms = self.tick()
        message, _ = self._receive_of(handle)
        if not 0 <= seconds <= MAX_VISIBILITY_SECONDS:
            reason = f"Must be between 0 and {MAX_VISIBILITY_SECONDS}."
            raise invalid_value("VisibilityTimeout", seconds, reason)

        is_latest = message is not None and message.handle == handle
        is_in_flight = message is not None and message.state is State.IN_FLIGHT
        if message is not None and is_latest and not is_in_flight:
            if message.was_released:
                raise namespaced("MessageNotInflight", "The specified message isn't in flight.")
            if not self.settings.is_fifo:
                return
        if message is None or not is_latest or not is_in_flight:
            reason = "Message does not exist or is not available for visibility timeout change."
            raise invalid_value("ReceiptHandle", handle, reason)

        if now_ms + seconds * 1000 > message.received_ms + _MAX_VISIBILITY_MS:
            reason = (
                "Total VisibilityTimeout for the message is beyond the limit "
                f"[{MAX_VISIBILITY_SECONDS} seconds]"
            )
            raise invalid_value("VisibilityTimeout", seconds, reason)

        if seconds == 0:
            message.was_released = True
            self._make_ready(message)
        else:
            self._set_due(message, now_ms + seconds * 1000)

    def change(self, given: Mapping[str, str]) -> None:
        """Change attributes at once.

        A new delay of a FIFO queue holds for the messages that are in it, that of a standard queue
        does not (SQSAPI, SetQueueAttributes; SQSDeveloperGuide, delay queues).

        Raises:
            SqsError: an unknown name, a value that SQS refuses, or an invalid redrive policy.
        """
        settings = self.settings.changed(given)
        if given.get("RedrivePolicy"):
            self._model.check_redrive(self.arn, settings)

        self.modified_ms = self.tick()
        self.settings = settings
        for message in self._messages.values():
            if "MessageRetentionPeriod" in given:
                self._set_expiry(message)
            if self.settings.is_fifo and message.state is State.DELAYED:
                delay_ms = self.settings.number("DelaySeconds") * 1000
                self._set_due(message, message.sent_ms + delay_ms)

    def messages(self) -> Sequence[StoredMessage]:
        """Return all messages, in no order, for tests."""
        self.tick()
        return list(self._messages.values())

    def count(self, state: State) -> int:
        self.tick()
        return self._counts[state]

    def next_event_ms(self) -> int | None:
        """Return when the next delay or visibility timeout ends; None if there is none."""
        self.tick()
        return self._timers.next_due_ms()

    def _put(self, message: StoredMessage) -> None:
        self._messages[message.message_id] = message
        message.state = State.DELAYED if message.due_ms else State.READY
        self._counts[message.state] += 1
        self._timers.add(message)
        self._set_expiry(message)
        if message.state is State.READY:
            self._delivery.became_ready(message)

    def _set_due(self, message: StoredMessage, due_ms: int) -> None:
        message.due_ms = due_ms
        self._timers.add(message)

    def _make_ready(self, message: StoredMessage) -> None:
        """End its visibility timeout or its delay."""
        was_in_flight = message.state is State.IN_FLIGHT
        message.due_ms = None
        self._enter(message, State.READY)
        self._delivery.became_ready(message)
        if was_in_flight:
            self._delivery.came_back(message)

    def _enter(self, message: StoredMessage, state: State) -> None:
        self._counts[message.state] -= 1
        self._counts[state] += 1
        message.state = state

    def _set_expiry(self, message: StoredMessage) -> None:
        message.expires_ms = message.sent_ms + 1000 * self.settings.number("MessageRetentionPeriod")
        self._expiries.add(message)
