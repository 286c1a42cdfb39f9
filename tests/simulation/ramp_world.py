"""A stack with a consumer: it and the replay function poll once in each step of a virtual clock."""

from collections.abc import Callable, Sequence

from dlq_replay.backoff import Backoff
from dlq_replay.replaying.returns import Add
from dlq_replay.rules.batch_plan import Failed
from dlq_replay.wire.message import Message
from local_sqs.front import Front
from tests.simulation.event_source import EventSource
from tests.simulation.stack import Stack

VISIBILITY_SECONDS = 1
MAX_RECEIVES = 2


class RampWorld(Stack):
    """The queues and the consumer that a ramp sends to. Time passes whenever the ramp waits.

    Attributes:
        fails: whether the consumer fails on a message.
        handled: what it handled, in order.
        is_replaying: whether the function receives anything.
        last: what happens last in each step.
        loses_answer: whether Lambda does not get an answer of the function.
        faults: when the function missed a return, and when it left a message in the DLQ.
    """

    def __init__(
        self,
        add_returns: Add,
        front: Front | None = None,
        *,
        is_fifo: bool = False,
        **settings: int,
    ) -> None:
        """Begin with empty queues, of which the function knows the limits *known*."""
        super().__init__(
            is_fifo=is_fifo,
            backoff=Backoff(1, 1),
            max_attempts=3,
            max_receive_count=MAX_RECEIVES,
            visibility_seconds=(VISIBILITY_SECONDS, 2),
            front=front,
        )
        self.add_returns = add_returns
        self.count_returns(add_returns, **settings)
        self.fails: Callable[[Message], bool] = lambda _: False
        self.is_consuming = self.is_replaying = True
        self.handled: list[Message] = []
        self.last: Callable[[], object] = lambda: None
        self.loses_answer: Callable[[], bool] = lambda: False
        self.faults: dict[str, list[float]] = {"missed": [], "left": []}
        self.step_seconds = 0.02

    def _consume(self, batch: Sequence[Message]) -> set[str]:
        good = [message for message in batch if not self.fails(message)]
        self.handled += good
        return {message.message_id for message in batch} - {message.message_id for message in good}

    def _replay(self, batch: Sequence[Message]) -> set[str]:
        left = self.replay(batch)
        now = self.clock.time()
        self.faults["missed"] += [now] * self.outcomes[-1].uncounted_returns
        decisions = [planned.decision for planned in self.outcomes[-1].outcomes]
        self.faults["left"] += [now] * sum(isinstance(decision, Failed) for decision in decisions)
        return {message.message_id for message in batch} if self.loses_answer() else left

    def pass_time(self, seconds: float) -> None:
        """Let so many virtual seconds pass; in each step consumer and function poll once."""
        until = self.clock.time() + seconds
        while (left := until - self.clock.time()) > 0:
            self.clock.advance(min(self.step_seconds, left))
            if self.is_consuming:
                EventSource(self.main, self._consume).poll()
            if self.is_replaying:
                EventSource(self.dlq, self._replay).poll()
            self.last()
