"""All queues of one account and Region, with a common clock."""

import random
import re
import threading
import uuid
from collections.abc import Mapping
from functools import partial
from itertools import count
from urllib.parse import urlsplit

from local_sqs.clock import Clock, VirtualClock
from local_sqs.errors import SqsError, invalid_parameter, invalid_value, no_such_queue
from local_sqs.queues import Queue
from local_sqs.settings import Settings

_STANDARD_NAME = re.compile(r"[A-Za-z0-9_-]{1,80}")
_FIFO_NAME = re.compile(r"[A-Za-z0-9_-]{1,75}\.fifo")


class SqsModel:
    """SQS without a network. ``api.call`` is its interface; tests may read queues directly.

    Args:
        clock: a virtual one by default.
        seed: of message ids; with it, a run can be repeated.

    Attributes:
        changed: notified, with its lock held, after every call that may have changed something.
            Hold the lock to use a queue directly from several threads.
        base_url: the start of queue URLs.
        orders: sequence numbers, of 20 digits as in SQS; they increase over all queues.
    """

    account = "123456789012"
    region = "us-east-1"

    def __init__(self, clock: Clock | None = None, *, seed: int | None = None) -> None:
        self.clock: Clock = clock or VirtualClock()
        self.base_url = f"https://sqs.{self.region}.amazonaws.com"
        self.queues: dict[str, Queue] = {}
        self.changed = threading.Condition(threading.RLock())
        self.orders = count(18_880_000_000_000_000_256, 256)
        self._random = random.Random(seed)
        self._serials = count(1)

    def new_message_id(self) -> str:
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))

    def url_of(self, queue: Queue) -> str:
        return f"{self.base_url}/{self.account}/{queue.name}"

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
                    text = (
                        "A queue already exists with the same name and a different value for "
                        f"attribute {attribute}"
                    )
                    raise SqsError("QueueAlreadyExists", text, shape="QueueNameExists")
            return existing

        arn = f"arn:aws:sqs:{self.region}:{self.account}:{name}"
        self.check_redrive(arn, settings)
        self.queues[name] = Queue(self, arn, next(self._serials), settings)
        return self.queues[name]

    def check_redrive(self, source_arn: str, settings: Settings) -> None:
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

    def next_event_ms(self) -> int | None:
        """Return when the next delay or timeout ends; None if there is none.

        Messages that are visible now do not count.
        """
        due_times_ms = []
        for queue in self.queues.values():
            due_ms = queue.next_event_ms()
            if due_ms is not None:
                due_times_ms.append(due_ms)
        return min(due_times_ms, default=None)


def _check_name(name: str, *, is_fifo: bool) -> None:
    """Check a queue name as SQS does: SQSAPI, CreateQueue, QueueName.

    Raises:
        SqsError: an invalid character or length, or a name of the other queue type.
    """
    pattern = _FIFO_NAME if is_fifo else _STANDARD_NAME
    if not pattern.fullmatch(name):
        text = "Can only include alphanumeric characters, hyphens, or underscores"
        if is_fifo:
            text += ", must end with .fifo suffix and be 1 to 80 in length."
        else:
            text += ". 1 to 80"
        raise invalid_parameter(text)
