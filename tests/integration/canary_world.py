"""A main queue with a consumer, a DLQ with the replay function's own use case, a parked queue.

Consumer and function are steps that use the model of the server directly. They come ten times a
second in real time; or on a virtual clock, whenever the watch of a canary pauses. Visibility
timeouts are a second.
"""

import json
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest
from spark_reprocess.canary.watch import Watch

from dlq_replay.addresses import QueueAddress
from dlq_replay.backoff import Backoff
from dlq_replay.errors import QueueError
from dlq_replay.message import Message
from dlq_replay.policy import ReplayPolicy
from dlq_replay.replay import Replayer
from dlq_replay.sending import forever
from local_sqs.clock import SystemClock, VirtualClock
from local_sqs.model import SqsModel
from local_sqs.model_queue import ModelQueue
from local_sqs.server import serve_in_thread
from spark_reprocess.redrive import canary
from spark_reprocess.repeating import repeating
from tests.inline_executor import InlineExecutor

VISIBILITY_SECONDS = 1
MAX_RECEIVES = 2

STEP_SECONDS = 0.02
"""Between two steps on a virtual clock."""


@dataclass
class CanaryWorld:
    """The queues, and what the consumer did.

    Attributes:
        clock: of the queues, the consumer and the function.
        fails: whether the consumer fails on a message.
        handled: what it handled, in order.
        parks_in: where the replay function parks; another queue where somebody else drains it.
        last: what happens last in each step.
    """

    clock: VirtualClock | SystemClock
    main: ModelQueue
    dlq: ModelQueue
    parked: ModelQueue
    parks_in: ModelQueue
    add_queue: Callable[[str], ModelQueue]
    fails: Callable[[Message], bool] = lambda _: False
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
        )

    def step(self) -> None:
        """One poll of the consumer, one of the replay function."""
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
        parking = replace(self.replayer, parked_queue=self.parks_in)
        response = parking.replay(batch, forever).to_partial_batch_response()
        left = {item["itemIdentifier"] for item in response["batchItemFailures"]}
        self.dlq.delete([one for one in batch if one.message_id not in left])

    def pass_time(self, seconds: float) -> None:
        """Let so many virtual seconds pass, step by step."""
        assert isinstance(self.clock, VirtualClock)
        until = self.clock.time() + seconds
        while (left := until - self.clock.time()) > 0:
            self.clock.advance(min(STEP_SECONDS, left))
            self.step()


@contextmanager
def canary_world(suffix: str = "", clock: VirtualClock | None = None) -> Iterator[CanaryWorld]:
    """Set it all up until the block ends; without a virtual *clock*, run it all the time."""
    model = SqsModel(clock or SystemClock())
    with serve_in_thread(model) as served:
        fifo = {"FifoQueue": "true"} if suffix else {}

        def queue(name: str, **attributes: str) -> ModelQueue:
            return ModelQueue(served.front, name + suffix, **fifo, **attributes)

        parked = queue("parked")
        dlq = queue("dlq", VisibilityTimeout="2")
        policy = {"deadLetterTargetArn": dlq.arn, "maxReceiveCount": MAX_RECEIVES}
        main = queue(
            "main",
            VisibilityTimeout=str(VISIBILITY_SECONDS),
            RedrivePolicy=json.dumps(policy),
        )
        world = CanaryWorld(
            clock or SystemClock(), main, dlq, parked, parks_in=parked, add_queue=queue
        )

        def step() -> None:
            with suppress(QueueError):
                world.step()

        with repeating(step, 0.1, "world") if clock is None else watched_on(clock, world):
            yield world


@contextmanager
def watched_on(clock: VirtualClock, world: CanaryWorld) -> Iterator[None]:
    """Have canaries wait on the virtual clock, and the world go on while they do."""

    def watch(**given: Any) -> Watch:
        return Watch(**{**given, "pause": world.pass_time})

    with pytest.MonkeyPatch.context() as patch:
        times = SimpleNamespace(monotonic=clock.time, time=time.time)
        patch.setattr(canary, "time", times)
        patch.setattr(canary, "Watch", watch)
        yield
