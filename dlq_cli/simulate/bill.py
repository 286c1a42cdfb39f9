"""What an outage costs in requests and dollars. Pure.

What is there in one second travels together: messages share their requests, ten to each, and their
invocations, a hundred to each. One alone has a request to itself.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from dlq_cli.simulate.prices import (
    EVENT_MESSAGES,
    FUNCTION_GB,
    LAMBDA_ARM64_PER_GB_SECOND,
    LAMBDA_PER_INVOCATION,
    SQS_BATCH_ENTRIES,
    SQS_CHUNK_BYTES,
    SQS_STANDARD_PER_REQUEST,
)
from dlq_cli.simulate.recovery import Recovery
from dlq_cli.simulate.scenario import Scenario

EVENT_SECONDS = 0.1
MESSAGE_SECONDS = 0.003
"""What an invocation takes, and what each of its messages adds: an estimate, on the safe side.
``make bench`` takes 2 ms of a processor for one message and about 25 ms for a hundred; 256 MB bring
a seventh of one."""


@dataclass(frozen=True, slots=True)
class Bill:
    """Requests and time that the messages of an outage cost; normal traffic is not in it.

    Attributes:
        replay_requests: SQS requests around the DLQ: receives and deletes, which Lambda makes,
            and sends, which the function makes.
        consumer_requests: SQS requests of the consumer on main: receives, and deletes of what it
            handled.
        billed_requests: both, each counted once for every 64 KiB that it carries.
        invocations: of the replay function.
        function_seconds: what they take together.
        peak_concurrency: invocations at once, in the busiest second.
    """

    replay_requests: float
    consumer_requests: float
    billed_requests: float
    invocations: float
    function_seconds: float
    peak_concurrency: float

    @property
    def sqs_dollars(self) -> float:
        """For the requests, at list prices."""
        return self.billed_requests * SQS_STANDARD_PER_REQUEST

    @property
    def lambda_dollars(self) -> float:
        """For invocations and time, at list prices."""
        time_dollars = self.function_seconds * FUNCTION_GB * LAMBDA_ARM64_PER_GB_SECOND
        return self.invocations * LAMBDA_PER_INVOCATION + time_dollars


def bill_of(recovery: Recovery) -> Bill:
    """Count the requests and invocations that *recovery* took."""
    steps = recovery.steps
    looks = _Shared.of(steps.looks, recovery.scenario)
    tried = [failed + done for failed, done in zip(steps.failed, steps.through, strict=True)]
    tries = _Shared.of(tried, recovery.scenario)
    through = _Shared.of(steps.through, recovery.scenario)
    return Bill(
        # A receive and a send, which carry messages, and a delete, which does not.
        replay_requests=3 * looks.requests,
        consumer_requests=tries.requests + through.requests,
        billed_requests=2 * looks.chunks + looks.requests + tries.chunks + through.requests,
        invocations=looks.invocations,
        function_seconds=looks.invocations * EVENT_SECONDS + recovery.looks * MESSAGE_SECONDS,
        peak_concurrency=looks.peak_concurrency,
    )


@dataclass(frozen=True, slots=True)
class _Shared:
    """How messages share requests and invocations, if those of one second go together.

    Attributes:
        requests: with up to ten messages each.
        chunks: those requests, each as often as it is billed.
        invocations: with up to a hundred messages each.
        peak_concurrency: invocations at once, in the busiest second.
    """

    requests: float
    chunks: float
    invocations: float
    peak_concurrency: float

    @classmethod
    def of(cls, sizes: Iterable[float], scenario: Scenario) -> Self:
        """Share out *sizes*, the numbers of messages in each step."""
        requests = chunks = invocations = peak = 0.0
        for size in sizes:
            per_second = size / scenario.step_seconds
            batches = _groups(per_second, SQS_BATCH_ENTRIES)
            events = _groups(per_second, EVENT_MESSAGES)
            batch_bytes = scenario.message_bytes * max(1, per_second / batches) if batches else 0
            requests += batches * scenario.step_seconds
            chunks += batches * scenario.step_seconds * math.ceil(batch_bytes / SQS_CHUNK_BYTES)
            invocations += events * scenario.step_seconds
            peak = max(peak, events * EVENT_SECONDS + per_second * MESSAGE_SECONDS)
        return cls(requests, chunks, invocations, peak)


def _groups(per_second: float, at_most: int) -> float:
    """In how many groups the messages of one second travel, on average."""
    return per_second if per_second <= 1 else math.ceil(per_second / at_most)
