"""A main queue with a consumer, a DLQ with the replay function's own use case, a parked queue.

Consumer and function are steps that use the model of the server directly, on a virtual clock that
goes on whenever a ramp waits. Visibility timeouts are a second.
"""

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from dlq_replay.backoff import Backoff
from dlq_replay.replaying.replay import Replayer
from dlq_replay.replaying.returns import ReturnsCounter
from dlq_replay.replaying.sending import forever
from dlq_replay.rules.policy import QueueLimits, ReplayPolicy
from dlq_replay.wire.addresses import QueueAddress
from dlq_replay.wire.message import Message
from local_sqs.clock import VirtualClock
from local_sqs.front import Front
from local_sqs.model_queue import ModelQueue
from tests.support.inline_executor import InlineExecutor

VISIBILITY_SECONDS = 1
MAX_RECEIVES = 2


@dataclass
class RampWorld:
    """The queues, and what the consumer did.

    Attributes:
        fails: whether the consumer fails on a message.
        handled: what it handled, in order.
        is_replaying: whether the function receives anything.
        last: what happens last in each step.
        loses_answer: whether Lambda does not get an answer of the function.
        faults: when the function missed a return, and when it left a message in the DLQ.
        limits: of the function's queues, as it knows them.
    """

    clock: VirtualClock
    main: ModelQueue
    dlq: ModelQueue
    parked: ModelQueue
    add_returns: Callable[..., bool]
    fails: Callable[[Message], bool] = lambda _: False
    is_consuming: bool = True
    is_replaying: bool = True
    handled: list[Message] = field(default_factory=list)
    last: Callable[[], object] = lambda: None
    loses_answer: Callable[[], bool] = lambda: False
    faults: dict[str, list[float]] = field(default_factory=lambda: {"missed": [], "left": []})
    step_seconds: float = 0.02
    limits: QueueLimits = field(default_factory=QueueLimits)

    def __post_init__(self) -> None:
        self.replayer = Replayer(
            policy=ReplayPolicy(
                QueueAddress.from_url(self.main.url), 3, Backoff(1, 1), limits=self.limits
            ),
            main_queue=self.main,
            dlq=self.dlq,
            parked_queue=self.parked,
            now_seconds=lambda: self.clock.now_ms() // 1000,
            draw_up_to=lambda top: random.randint(0, top),
            executor=InlineExecutor(),
            returns=ReturnsCounter(self.add_returns, self.clock.time),
        )

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
        outcome = self.replayer.replay(batch, forever)
        left = {one.message_id for one in outcome.outcomes if one.is_left}
        self.faults["missed"] += [self.clock.time()] * outcome.uncounted_returns
        self.faults["left"] += [self.clock.time()] * len(outcome.failed)
        if not self.loses_answer():
            self.dlq.delete([one for one in batch if one.message_id not in left])

    def pass_time(self, seconds: float) -> None:
        """Let so many virtual seconds pass; in each step consumer and function poll once."""
        until = self.clock.time() + seconds
        while (left := until - self.clock.time()) > 0:
            self.clock.advance(min(self.step_seconds, left))
            if self.is_consuming:
                self.consume()
            if self.is_replaying:
                self.replay()
            self.last()


def world_at(
    front: Front,
    clock: VirtualClock,
    add_returns: Callable[..., bool],
    suffix: str = "",
    **fields: Any,
) -> RampWorld:
    fifo = {"FifoQueue": "true"} if suffix else {}

    def queue(name: str, feeds: ModelQueue | None = None, **attributes: str) -> ModelQueue:
        if feeds is not None:
            most = "1000" if name == "dlq" else MAX_RECEIVES
            policy = {"deadLetterTargetArn": feeds.arn, "maxReceiveCount": most}
            attributes["RedrivePolicy"] = json.dumps(policy)
        return ModelQueue(front, name + suffix, **fifo, **attributes)

    parked = queue("parked")
    dlq = queue("dlq", parked, VisibilityTimeout="2")
    main = queue("main", dlq, VisibilityTimeout=str(VISIBILITY_SECONDS))
    return RampWorld(clock, main, dlq, parked, add_returns, **fields)
