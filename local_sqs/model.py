"""All queues of one account and Region, with a common clock."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from local_sqs.clock import Clock, VirtualClock
from local_sqs.errors import namespaced, no_such_queue, queue_exists
from local_sqs.identity import Identity
from local_sqs.move_tasks import MoveTasks
from local_sqs.naming import check_name, check_redrive
from local_sqs.queues import MoveToDlq, Queue
from local_sqs.redrive import make_move_to_dlq
from local_sqs.settings import Settings
from local_sqs.values import State, StoredMessage

QUIET_MS = 60_000
"""The pause before a name can be used again, and between two purges: SQSAPI, DeleteQueue,
PurgeQueue."""


@dataclass(frozen=True, slots=True)
class Switches:
    """Behaviour that AWS does not document, and limits that a test may lower.

    Attributes:
        counts_receives_of_all_queues: whether ``maxReceiveCount`` of a dead-letter queue includes
            the receives in the source queue. True is the worse case.
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
        check_name(name, is_fifo=given.get("FifoQueue") == "true")
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
        check_redrive(self.arn_of(name), settings, self.find_by_arn)
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
            check_redrive(queue.arn, queue.settings.changed(given), self.find_by_arn)
        queue.change(given)

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
        """Return the redrive policy of *queue* for a receive."""
        is_cumulative = self.switches.counts_receives_of_all_queues
        move_to_dlq = make_move_to_dlq(queue, self.find_by_arn, is_cumulative=is_cumulative)

        def move_and_announce(message: StoredMessage) -> bool:
            is_moved = move_to_dlq(message)
            if is_moved:
                self.announce()
            return is_moved

        return move_and_announce

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
