"""All queues of one account and Region, with a common clock."""

import re
import threading
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from urllib.parse import urlsplit

from local_sqs.clock import Clock, VirtualClock
from local_sqs.errors import SqsError, invalid_parameter, invalid_value, no_such_queue
from local_sqs.messages import State, StoredMessage
from local_sqs.queues import Identity, MoveToDlq, Queue
from local_sqs.settings import Settings

_STANDARD_NAME = re.compile(r"[A-Za-z0-9_-]{1,80}")
_FIFO_NAME = re.compile(r"[A-Za-z0-9_-]{1,75}\.fifo")


class SqsModel:
    """SQS without a network. ``api.call`` is its interface; tests may read queues directly.

    Attributes:
        changed: notified, with its lock held, after every call that may have changed something.
            Hold the lock to use a queue directly from several threads.
        base_url: the start of queue URLs.
    """

    account = "123456789012"
    region = "us-east-1"

    def __init__(
        self,
        clock: Clock | None = None,
        *,
        seed: int | None = None,
        counts_lag_seconds: float = 0.0,
    ) -> None:
        """Create a model without queues.

        Args:
            clock: a virtual one by default.
            seed: of message ids.
            counts_lag_seconds: the age of the counts of GetQueueAttributes; on AWS a minute or
                more (SQSAPI, GetQueueAttributes).
        """
        self.clock: Clock = clock or VirtualClock()
        self.base_url = f"https://sqs.{self.region}.amazonaws.com"
        self.queues: dict[str, Queue] = {}
        self.changed = threading.Condition(threading.RLock())
        self._ids = Identity(seed)
        self._serial = 0
        self._lag_ms = counts_lag_seconds * 1000
        self._counted: dict[int, list[tuple[int, Mapping[State, int]]]] = {}

    def url_of(self, queue: Queue) -> str:
        return f"{self.base_url}/{self.account}/{queue.name}"

    def arn_of(self, name: str) -> str:
        return f"arn:aws:sqs:{self.region}:{self.account}:{name}"

    def create_queue(self, name: str, attributes: Mapping[str, str] | None = None) -> Queue:
        """Create a queue, or return the one that has these attributes already.

        Raises:
            SqsError: the name or an attribute is invalid, or the queue exists with another value.
        """
        given = dict(attributes or {})
        _check_name(name, is_fifo=given.get("FifoQueue") == "true")
        settings = Settings.of(given, is_fifo=name.endswith(".fifo"))
        existing = self.queues.get(name)
        if existing is not None:
            for attribute, value in given.items():
                if existing.settings.values.get(attribute) != value:
                    text = "A queue already exists with the same name and a different value for"
                    text += f" attribute {attribute}"
                    raise SqsError("QueueAlreadyExists", text, shape="QueueNameExists")
            return existing
        self._check_redrive(self.arn_of(name), settings)
        self._serial += 1
        queue = Queue(self.arn_of(name), self._serial, settings, self.clock, self._ids)
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
        """Delete at once, also its name; AWS takes up to 60 s, and keeps the name for as long."""
        del self.queues[queue.name]

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

    def sources_of(self, arn: str) -> list[Queue]:
        """Return the queues whose dead-letter queue is *arn*."""
        policies = [(queue, queue.settings.redrive) for queue in self.queues.values()]
        return [queue for queue, policy in policies if policy and policy.target_arn == arn]

    def make_move_to_dlq(self, queue: Queue) -> MoveToDlq:
        """Return what applies the redrive policy of *queue* to a message.

        This happens at a receive, never before (SQSAPI, CreateQueue, RedrivePolicy). If the target
        does not exist, the message stays. AWS does not document whether the receives in a source
        queue count towards the policy of a dead-letter queue. Here they do: it is the worse case.
        """
        policy = queue.settings.redrive
        target = self.find_by_arn(policy.target_arn) if policy else None

        def move_to_dlq(message: StoredMessage) -> bool:
            if policy is None or target is None:
                return False
            if message.receive_count < policy.max_receive_count:
                return False
            _move(message, queue, target)
            self.announce()
            return True

        return move_to_dlq

    def counts(self, queue: Queue) -> Mapping[State, int]:
        """Return the number of messages of each state ``counts_lag_seconds`` ago."""
        self._count(queue)
        then_ms = queue.tick() - self._lag_ms
        known = [counts for at_ms, counts in self._counted[queue.serial] if at_ms <= then_ms]
        return known[-1] if known else dict.fromkeys(State, 0)

    def _count(self, queue: Queue) -> None:
        counts = {state: queue.count(state) for state in State}
        history = self._counted.setdefault(queue.serial, [])
        history.append((queue.tick(), counts))
        if not self._lag_ms:
            del history[:-1]

    def next_event_ms(self) -> int | None:
        """Return when the next delay or timeout ends; None if there is none.

        Messages that are visible now do not count.
        """
        times = [queue.next_event_ms() for queue in self.queues.values()]
        return min((at for at in times if at is not None), default=None)

    def announce(self) -> None:
        """Notify waiting receives that something may have changed. The lock must be held."""
        if self._lag_ms:
            for queue in self.queues.values():
                self._count(queue)
        self.changed.notify_all()


def _check_name(name: str, *, is_fifo: bool) -> None:
    """Check a queue name as SQS does: SQSAPI, CreateQueue, QueueName.

    Raises:
        SqsError: an invalid character or length, or a name of the other queue type.
    """
    if not (_FIFO_NAME if is_fifo else _STANDARD_NAME).fullmatch(name):
        text = "Can only include alphanumeric characters, hyphens, or underscores"
        end = ", must end with .fifo suffix and be 1 to 80 in length." if is_fifo else ". 1 to 80"
        raise invalid_parameter(text + end)


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
    is_fifo = target.settings.is_fifo
    moved = replace(
        message,
        sent_ms=source.tick() if is_fifo else message.sent_ms,
        deduplication_id=message.message_id if is_fifo else message.deduplication_id,
        source_arn=source.arn,
        received_ms=0,
        handle="",
        was_released=False,
    )
    source.take_out(message)
    target.take_in(moved)
