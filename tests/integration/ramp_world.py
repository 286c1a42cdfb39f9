"""A main queue with a consumer, a DLQ with the replay function's own use case, a parked queue.

Consumer and function are steps that use the model of the server directly, on a virtual clock that
goes on whenever a ramp waits. Visibility timeouts are a second.
"""

import json
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from dlq_replay.addresses import QueueAddress
from dlq_replay.backoff import Backoff
from dlq_replay.message import Message
from dlq_replay.policy import ReplayPolicy
from dlq_replay.replay import Replayer
from dlq_replay.returns import Counters, ReturnsCounter
from dlq_replay.sending import forever
from local_sqs.clock import VirtualClock
from local_sqs.model import SqsModel
from local_sqs.model_queue import ModelQueue
from local_sqs.server import serve_in_thread
from tests.inline_executor import InlineExecutor

VISIBILITY_SECONDS = 1
MAX_RECEIVES = 2

STEP_SECONDS = 0.02
"""Between two steps on a virtual clock."""


@dataclass
class RampWorld:
    """The queues, and what the consumer did.

    Attributes:
        clock: of the queues, the consumer and the function.
        fails: whether the consumer fails on a message.
        handled: what it handled, in order.
        url: of the server.
        is_consuming: whether the consumer receives anything.
        last: what happens last in each step.
    """

    clock: VirtualClock
    main: ModelQueue
    dlq: ModelQueue
    parked: ModelQueue
    counters: Counters
    url: str
    fails: Callable[[Message], bool] = lambda _: False
    is_consuming: bool = True
    handled: list[Message] = field(default_factory=list)
    last: Callable[[], object] = lambda: None

    def __post_init__(self) -> None:
        self.replayer = Replayer(
            policy=ReplayPolicy(QueueAddress.from_url(self.main.url), 3, Backoff(1, 1)),
            main_queue=self.main,
            dlq=self.dlq,
            parked_queue=self.parked,
            now_seconds=lambda: self.clock.now_ms() // 1000,
            draw_up_to=lambda top: random.randint(0, top),
            executor=InlineExecutor(),
            returns=ReturnsCounter(self.counters, self.clock.time),
        )

    def step(self) -> None:
        """One poll of the consumer, one of the replay function."""
        if self.is_consuming:
            self.consume()
        self.replay()
        self.last()

    def consume(self) -> None:
        """Delete what the consumer handles, leave what it fails on."""
        received = [one for one in self.main.receive() if isinstance(one, Message)]
        good = [one for one in received if not self.fails(one)]
        self.handled += good
        self.main.delete(good)

    def replay(self) -> None:
        """One batch of the replay function."""
        batch = [one for one in self.dlq.receive() if isinstance(one, Message)]
        if not batch:
            return
        response = self.replayer.replay(batch, forever).to_partial_batch_response()
        left = {item["itemIdentifier"] for item in response["batchItemFailures"]}
        self.dlq.delete([one for one in batch if one.message_id not in left])

    def wait(self, _: threading.Event, seconds: float) -> None:
        """Wait as a ramp does."""
        self.pass_time(seconds)

    def pass_time(self, seconds: float) -> None:
        """Let so many virtual seconds pass, step by step."""
        until = self.clock.time() + seconds
        while (left := until - self.clock.time()) > 0:
            self.clock.advance(min(STEP_SECONDS, left))
            self.step()


@contextmanager
def ramp_world(clock: VirtualClock, counters: Counters, suffix: str = "") -> Iterator[RampWorld]:
    """Set it all up until the block ends."""
    model = SqsModel(clock)
    with serve_in_thread(model) as served:
        fifo = {"FifoQueue": "true"} if suffix else {}

        def queue(name: str, feeds: ModelQueue | None = None, **attributes: str) -> ModelQueue:
            if feeds is not None:
                most = "1000" if name == "dlq" else MAX_RECEIVES
                policy = {"deadLetterTargetArn": feeds.arn, "maxReceiveCount": most}
                attributes["RedrivePolicy"] = json.dumps(policy)
            return ModelQueue(served.front, name + suffix, **fifo, **attributes)

        parked = queue("parked")
        dlq = queue("dlq", parked, VisibilityTimeout="2")
        main = queue("main", dlq, VisibilityTimeout=str(VISIBILITY_SECONDS))
        yield RampWorld(clock, main, dlq, parked, counters, served.url)
