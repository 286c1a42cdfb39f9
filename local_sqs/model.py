"""All queues of one account and Region, with a common clock."""

import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from urllib.parse import urlsplit

from local_sqs.clock import Clock, VirtualClock
from local_sqs.errors import (
    invalid_parameter,
    invalid_value,
    namespaced,
    no_such_queue,
    queue_exists,
)
from local_sqs.identity import Identity
from local_sqs.move_tasks import MoveTasks
from local_sqs.queues import MoveToDlq, Queue
from local_sqs.settings import Settings
from local_sqs.values import State, StoredMessage

QUIET_MS = 60_000
"""The pause before a name can be used again, and between two purges: SQSAPI, DeleteQueue,
PurgeQueue."""

_STANDARD_NAME = re.compile(r"[A-Za-z0-9_-]{1,80}")
_FIFO_NAME = re.compile(r"[A-Za-z0-9_-]{1,75}\.fifo")


@dataclass(frozen=True, slots=True)
class Switches:
    """Behaviour that AWS does not document, and limits that a test may lower.

    Attributes:
        counts_receives_of_all_queues: whether ``maxReceiveCount`` of a dead-letter queue includes
            the receives in the source queue. They differ only for a message that was moved there.
            True is the worse case.
        rejects_whole_batch: whether to refuse the whole SendMessageBatch for the content of one
            entry.
        normalises_numbers: whether to strip zeroes from Number attributes, as the developer guide
            describes.
        in_flight_quota: SQSDeveloperGuide, message quotas.
        counts_lag_seconds: the age of the counts of GetQueueAttributes; on AWS a minute or more
            (SQSAPI, GetQueueAttributes).
    """

    counts_receives_of_all_queues: bool = True
    rejects_whole_batch: bool = False
    normalises_numbers: bool = True
    in_flight_quota: int = 120_000
    counts_lag_seconds: float = 0.0


class SqsModel:
    """SQS without a network. ``api.call`` is its interface; tests may read queues directly.

    Attributes:
        changed: notified, with its lock held, after every call that may have changed something.
            Hold the lock to use a queue directly from several threads.
        base_url: the start of queue URLs.
    """

    def __init__(
        self,
        clock: Clock | None = None,
        *,
        account: str = "123456789012",
        region: str = "us-east-1",
        base_url: str | None = None,
        switches: Switches | None = None,
        seed: int | None = None,
    ) -> None:
        self.clock: Clock = clock or VirtualClock()
        self.account = account
        self.region = region
        self.base_url = base_url or f"https://sqs.{region}.amazonaws.com"
        self.switches = switches or Switches()
        self.ids = Identity(seed)
        self.queues: dict[str, Queue] = {}
        self.changed = threading.Condition(threading.RLock())
        self.listeners: list[Callable[[], None]] = []
        self.move_tasks = MoveTasks(self.find_by_arn, self.ids)
        self._deleted_ms: dict[str, int] = {}
        self._serial = 0
        self._counted: dict[int, list[tuple[int, Mapping[State, int]]]] = {}

    def url_of(self, queue: Queue) -> str:
        return f"{self.base_url}/{self.account}/{queue.name}"

    def arn_of(self, name: str) -> str:
        return f"arn:aws:sqs:{self.region}:{self.account}:{name}"

    def create_queue(self, name: str, attributes: Mapping[str, str] | None = None) -> Queue:
        """Create a queue, or return the one that has these attributes already.

        Raises:
            SqsError: the name or an attribute is invalid; the queue exists with another value; or
                a queue of that name was deleted less than 60 s ago.
        """
        given = dict(attributes or {})
        _check_name(name, is_fifo=given.get("FifoQueue") == "true")
        settings = Settings.of(given, is_fifo=name.endswith(".fifo"))
        existing = self.queues.get(name)
        if existing is not None:
            for attribute, value in given.items():
                if existing.settings.values.get(attribute) != value:
                    raise queue_exists(attribute)
            return existing
        if self._deleted_ms.get(name, -QUIET_MS) + QUIET_MS > self.clock.now_ms():
            text = "You must wait 60 seconds after deleting a queue before you can create another"
            raise namespaced("QueueDeletedRecently", f"{text} with the same name.")
        self._check_redrive(self.arn_of(name), settings)
        self._serial += 1
        queue = Queue(self.arn_of(name), self._serial, settings, self.clock, self.ids)
        queue.in_flight_quota = self.switches.in_flight_quota
        self.queues[name] = queue
        return queue

    def change_queue(self, queue: Queue, given: Mapping[str, str]) -> None:
        """Change attributes of a queue.

        Raises:
            SqsError: an unknown name, a value that SQS refuses, or an invalid target.
        """
        if given.get("RedrivePolicy"):
            self._check_redrive(queue.arn, queue.settings.changed(given))
        queue.change(given)

    def _check_redrive(self, source_arn: str, settings: Settings) -> None:
        """Check the dead-letter queue of *settings*.

        Raises:
            SqsError: the queue does not exist, has the other type, or does not allow this source.
        """
        if settings.redrive is None:
            return
        refused = partial(invalid_value, "RedrivePolicy", settings.values["RedrivePolicy"])
        target_arn = settings.redrive.target_arn
        if not target_arn.startswith("arn:"):
            raise refused("Invalid value for deadLetterTargetArn.")
        target = self.find_by_arn(target_arn)
        if target is None:
            raise no_such_queue()
        if target.settings.is_fifo != settings.is_fifo:
            raise refused("Dead-letter queue must be same type of queue as the source.")
        if not target.settings.allows_source(source_arn):
            raise refused("Dead-letter queue does not allow this source queue.")

    def delete_queue(self, queue: Queue) -> None:
        """Delete at once; AWS takes up to 60 s."""
        del self.queues[queue.name]
        self._deleted_ms[queue.name] = self.clock.now_ms()

    def purge_queue(self, queue: Queue) -> None:
        """Remove every message, in flight or not.

        Raises:
            SqsError: the last purge was less than 60 s ago.
        """
        now_ms = queue.tick()
        if queue.purged_ms is not None and queue.purged_ms + QUIET_MS > now_ms:
            text = f"Only one PurgeQueue operation on {queue.name} is allowed every 60 seconds."
            raise namespaced("PurgeQueueInProgress", text, status=403)
        queue.purged_ms = now_ms
        for message in queue.messages():
            queue.take_out(message)

    def find(self, url: str) -> Queue:
        """Return the queue of a URL with any host.

        Raises:
            SqsError: there is none.
        """
        account, _, name = urlsplit(url).path.strip("/").rpartition("/")
        queue = self.queues.get(name)
        if queue is None or account.rpartition("/")[2] not in {"", self.account}:
            raise no_such_queue()
        return queue

    def find_by_arn(self, arn: str) -> Queue | None:
        queue = self.queues.get(arn.rpartition(":")[2])
        return queue if queue is not None and queue.arn == arn else None

    def make_move_to_dlq(self, queue: Queue) -> MoveToDlq:
        """Return what applies the redrive policy of *queue* to a message.

        This happens at a receive, never before (SQSAPI, CreateQueue, RedrivePolicy). If the target
        does not exist, the message stays.
        """
        policy = queue.settings.redrive
        target = self.find_by_arn(policy.target_arn) if policy else None
        is_cumulative = self.switches.counts_receives_of_all_queues

        def move_to_dlq(message: StoredMessage) -> bool:
            if policy is None or target is None:
                return False
            count = message.receive_count if is_cumulative else message.receives_here
            if count < policy.max_receive_count:
                return False
            _move(message, queue, target)
            self.announce()
            return True

        return move_to_dlq

    def counts(self, queue: Queue) -> Mapping[State, int]:
        """Return the number of messages of each state ``counts_lag_seconds`` ago."""
        self._count(queue)
        then_ms = queue.tick() - self.switches.counts_lag_seconds * 1000
        known = [counts for at_ms, counts in self._counted[queue.serial] if at_ms <= then_ms]
        return known[-1] if known else dict.fromkeys(State, 0)

    def _count(self, queue: Queue) -> None:
        counts = {state: queue.count(state) for state in State}
        self._counted.setdefault(queue.serial, []).append((queue.tick(), counts))
        if not self.switches.counts_lag_seconds:
            del self._counted[queue.serial][:-1]

    def next_event_ms(self) -> int | None:
        """Return when the next delay or timeout ends, or the next move of a task is due.

        None if there is no such event. Messages that are visible now do not count.
        """
        times = [queue.next_event_ms() for queue in self.queues.values()]
        times.append(self.move_tasks.next_event_ms())
        return min((at for at in times if at is not None), default=None)

    def announce(self) -> None:
        """Notify waiting receives that something may have changed. The lock must be held."""
        if self.switches.counts_lag_seconds:
            for queue in self.queues.values():
                self._count(queue)
        self.changed.notify_all()
        for listener in self.listeners:
            listener()


def _check_name(name: str, *, is_fifo: bool) -> None:
    """Check a queue name as SQS does: SQSAPI, CreateQueue, QueueName.

    Raises:
        SqsError: an invalid character or length, or a name of the other queue type.
    """
    if is_fifo and not _FIFO_NAME.fullmatch(name):
        raise invalid_parameter(
            "The name of a FIFO queue can only include alphanumeric characters, hyphens, or "
            "underscores, must end with .fifo suffix and be 1 to 80 in length."
        )
    if not is_fifo and not _STANDARD_NAME.fullmatch(name):
        raise invalid_parameter(
            "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length"
        )


def _move(message: StoredMessage, source: Queue, target: Queue) -> None:
    """Move one message as a redrive policy does.

    The message keeps id, body, attributes, group id, trace header and receive count. On a standard
    queue it keeps the time of the first send, so its retention continues. On a FIFO queue retention
    starts at the move, and the message id becomes the deduplication id. For standard queues AWS
    does not document that the group id is kept. See SQSDeveloperGuide, "Using dead-letter queues"
    and "Learn how to configure a dead-letter queue redrive"; MessageId, attributes and trace header
    as recorded from AWS in https://github.com/localstack/localstack (tests/aws/services/sqs,
    snapshots of 2024-04-30).
    """
    now_ms = source.tick()
    source.take_out(message)
    is_fifo = target.settings.is_fifo
    target.take_in(
        StoredMessage(
            message_id=message.message_id,
            body=message.body,
            attributes=message.attributes,
            sent_ms=now_ms if is_fifo else message.sent_ms,
            order=message.order,
            group_id=message.group_id,
            deduplication_id=message.message_id if is_fifo else message.deduplication_id,
            trace_header=message.trace_header,
            source_arn=source.arn,
            receive_count=message.receive_count,
            first_received_ms=message.first_received_ms,
        )
    )
