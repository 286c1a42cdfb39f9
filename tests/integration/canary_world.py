"""A main queue with a consumer, a DLQ with the replay function's own use case, a parked queue.

All of it is real time on the model server, with visibility timeouts of a second.
"""

import json
import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import boto3

from dlq_replay.addresses import QueueAddress
from dlq_replay.backoff import Backoff
from dlq_replay.errors import QueueError
from dlq_replay.message import Message
from dlq_replay.policy import ReplayPolicy
from dlq_replay.replay import Replayer
from dlq_replay.sending import forever
from dlq_replay.sqs import SqsQueue
from local_sqs.clock import SystemClock
from local_sqs.model import SqsModel, Switches
from local_sqs.server import serve_in_thread

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

VISIBILITY_SECONDS = 1
MAX_RECEIVES = 2


def client_at(queue_url: str) -> "SQSClient":
    """A client for the server that the URL names; importable by Spark's workers."""
    parts = urlsplit(queue_url)
    return boto3.client(
        "sqs", endpoint_url=f"{parts.scheme}://{parts.netloc}", region_name="us-east-1"
    )


@dataclass
class CanaryWorld:
    """The queues, and what the consumer did.

    Attributes:
        fails: whether the consumer fails on a message.
        handled: what it handled, in order.
        hides_seconds: the consumer hides a message for so long, None for the queue's timeout.
        wait_seconds: of its long polls.
        is_replaying: whether the replay function runs.
        parks_in: where the replay function parks; another queue where somebody else drains it.
    """

    main: SqsQueue
    dlq: SqsQueue
    parked: SqsQueue
    parks_in: SqsQueue
    add_queue: Callable[[str], SqsQueue]
    fails: Callable[[Message], bool] = lambda _: False
    handled: list[Message] = field(default_factory=list)
    is_consuming: bool = True
    hides_seconds: int | None = None
    wait_seconds: int = 0
    is_replaying: bool = True

    def consume(self) -> None:
        """One look of the consumer: deletes what it handles, leaves what it fails on."""
        if not self.is_consuming:
            return
        answer = self.main.receive(
            wait_seconds=self.wait_seconds, visibility_timeout_seconds=self.hides_seconds
        )
        received = [one for one in answer if isinstance(one, Message)]
        good = [one for one in received if not self.fails(one)]
        self.handled += good
        self.main.delete(good)

    def replay(self, replayer: Replayer) -> None:
        """One batch of the replay function."""
        if not self.is_replaying:
            return
        batch = [one for one in self.dlq.receive(wait_seconds=0) if isinstance(one, Message)]
        if not batch:
            return
        parking = replace(replayer, parked_queue=self.parks_in)
        response = parking.replay(batch, forever).to_partial_batch_response()
        left = {item["itemIdentifier"] for item in response["batchItemFailures"]}
        self.dlq.delete([one for one in batch if one.message_id not in left])


@contextmanager
def canary_world(suffix: str = "", counts_lag_seconds: float = 0.0) -> Iterator[CanaryWorld]:
    """Set it all up and run consumer and function until the block ends."""
    model = SqsModel(SystemClock(), switches=Switches(counts_lag_seconds=counts_lag_seconds))
    with serve_in_thread(model) as served, ThreadPoolExecutor(4) as executor:
        client = client_at(served.url)
        fifo = {"FifoQueue": "true"} if suffix else {}

        def queue(name: str, **attributes: str) -> SqsQueue:
            settings = {**fifo, **attributes}
            url = client.create_queue(QueueName=name + suffix, Attributes=settings)["QueueUrl"]  # type: ignore[arg-type]
            return SqsQueue(client, url)

        parked = queue("parked")
        dlq = queue("dlq", VisibilityTimeout="2")
        policy = {
            "deadLetterTargetArn": dlq.describe()["QueueArn"],
            "maxReceiveCount": MAX_RECEIVES,
        }
        main = queue(
            "main",
            VisibilityTimeout=str(VISIBILITY_SECONDS),
            RedrivePolicy=json.dumps(policy),
        )
        world = CanaryWorld(main, dlq, parked, parks_in=parked, add_queue=queue)
        replayer = Replayer(
            policy=ReplayPolicy(QueueAddress.from_url(main.url), 3, Backoff(1, 1)),
            main_queue=main,
            dlq=dlq,
            parked_queue=parked,
            now_seconds=lambda: int(time.time()),
            draw_up_to=lambda top: random.randint(0, top),
            executor=executor,
        )
        with repeated(world.consume), repeated(lambda: world.replay(replayer)):
            yield world


@contextmanager
def repeated(step: Callable[[], None]) -> Iterator[None]:
    """Do *step* ten times a second until the block ends."""
    is_over = threading.Event()

    def loop() -> None:
        while not is_over.wait(0.1):
            with suppress(QueueError):
                step()

    thread = threading.Thread(target=loop, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join(10)
