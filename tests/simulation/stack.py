"""Main queue, DLQ, parked queue and the real use case between them, on a virtual clock."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast

from dlq_replay.aws.deadline import calls_until
from dlq_replay.backoff import Backoff
from dlq_replay.replaying.replay import BatchOutcome, Replayer
from dlq_replay.replaying.returns import Add, ReturnsCounter
from dlq_replay.replaying.sending import forever
from dlq_replay.rules.policy import QueueLimits, ReplayPolicy
from dlq_replay.wire.addresses import QueueAddress
from dlq_replay.wire.message import Message
from local_sqs.clock import VirtualClock
from local_sqs.front import Front
from local_sqs.model import SqsModel
from local_sqs.model_queue import ModelQueue
from tests.simulation.event_source import EventSource
from tests.support.builders import InlineExecutor
from tests.support.sqs_driver import redrive_policy

FOURTEEN_DAYS = 1_209_600
BACKOFF = Backoff(10, 900)


class Stack:
    """A stack as ``sam deploy`` would set it up."""

    def __init__(
        self,
        *,
        is_fifo: bool = False,
        backoff: Backoff = BACKOFF,
        max_attempts: int = 20,
        max_receive_count: int = 3,
        seed: int = 1,
        visibility_seconds: tuple[int, int] = (30, 180),
        front: Front | None = None,
    ) -> None:
        """Set it up; *visibility_seconds* are those of main queue and DLQ."""
        self.budget_seconds: int | None = None
        self.front = front or Front(SqsModel(VirtualClock(), seed=seed))
        self.model = self.front.model
        self.clock = cast("VirtualClock", self.model.clock)

        suffix, fifo = (".fifo", {"FifoQueue": "true"}) if is_fifo else ("", {})
        long_lived = {"MessageRetentionPeriod": str(FOURTEEN_DAYS), **fifo}
        self.parked = ModelQueue(self.front, f"parked{suffix}", **long_lived)
        self.dlq = ModelQueue(
            self.front,
            f"dlq{suffix}",
            VisibilityTimeout=str(visibility_seconds[1]),
            RedrivePolicy=redrive_policy(self.parked, 1000),
            **long_lived,
        )
        self.main = ModelQueue(
            self.front,
            f"main{suffix}",
            VisibilityTimeout=str(visibility_seconds[0]),
            RedrivePolicy=redrive_policy(self.dlq, max_receive_count),
            **fifo,
        )

        self.replayer = self._replayer(backoff, max_attempts, seed)
        self.outcomes: list[BatchOutcome] = []
        self.invocations_ms: list[tuple[int, int]] = []

    def count_returns(self, add: Add | None, **limits: int) -> None:
        """Let the function count returns; *limits* are what it knows of its queues."""
        policy = self.replayer.policy
        policy = replace(policy, limits=replace(policy.limits, **limits))
        returns = ReturnsCounter(add, self.clock.time)
        self.replayer = replace(self.replayer, policy=policy, returns=returns)

    def now_seconds(self) -> int:
        return self.clock.now_ms() // 1000

    def replay_source(self, batch_size: int = 10) -> EventSource:
        """The replay Lambda behind its event source mapping."""
        return EventSource(self.dlq, self.replay, batch_size)

    def replay(self, batch: Sequence[Message]) -> set[str]:
        seconds_left = self._deadline()
        with calls_until(seconds_left):
            outcome = self.replayer.replay(batch, seconds_left)
        self.outcomes.append(outcome)
        response = outcome.to_partial_batch_response()
        return {failure["itemIdentifier"] for failure in response["batchItemFailures"]}

    def _deadline(self) -> Callable[[], float]:
        if self.budget_seconds is None:
            return forever
        starts_ms = self.clock.now_ms()
        ends_ms = starts_ms + 1000 * self.budget_seconds
        self.invocations_ms.append((starts_ms, ends_ms))
        return lambda: (ends_ms - self.clock.now_ms()) / 1000

    def _replayer(self, backoff: Backoff, max_attempts: int, seed: int) -> Replayer:
        randomness = random.Random(seed)
        policy = ReplayPolicy(
            main_queue=QueueAddress.from_arn(self.main.arn),
            max_attempts=max_attempts,
            backoff=backoff,
            limits=QueueLimits(dlq_retention_seconds=FOURTEEN_DAYS),
        )
        return Replayer(
            policy=policy,
            main_queues={policy.main_queue: self.main},
            dlq=self.dlq,
            parked_queue=self.parked,
            now_seconds=self.now_seconds,
            draw_up_to=lambda top: randomness.randint(0, top),
            executor=InlineExecutor(),
        )
