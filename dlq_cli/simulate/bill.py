"""What an outage costs in requests and dollars. Pure.

Messages of the same second share requests, up to ten in each, and invocations, up to a hundred in
each. A single message has its own request.
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
"""Duration of an invocation, and the part that each message adds: a conservative estimate.

``make bench`` measures 2 ms of CPU time for one message and about 25 ms for a hundred; a function
of 256 MB has a seventh of a CPU."""


@dataclass(frozen=True, slots=True)
class Bill:
    """Requests and time for the messages of an outage, without normal traffic.

    Attributes:
        replay_requests: SQS requests for the DLQ: receives and deletes by Lambda, sends by the
            function.
        consumer_requests: SQS requests of the consumer on main: receives, and deletes of processed
            messages.
        billed_requests: both, each counted once for every 64 KiB of its content.
        invocations: of the replay function.
        function_seconds: their total duration.
        peak_concurrency: concurrent invocations in the busiest second.
    """

    replay_requests: float
    consumer_requests: float
    billed_requests: float
    invocations: float
    function_seconds: float
    peak_concurrency: float

    @property
    def sqs_dollars(self) -> float:
        """Cost of the SQS requests at list prices."""
        return self.billed_requests * SQS_STANDARD_PER_REQUEST

    @property
    def lambda_dollars(self) -> float:
        """Cost of invocations and duration at list prices."""
        time_dollars = self.function_seconds * FUNCTION_GB * LAMBDA_ARM64_PER_GB_SECOND
        return self.invocations * LAMBDA_PER_INVOCATION + time_dollars


def bill_of(recovery: Recovery) -> Bill:
    """Count the requests and invocations of *recovery*."""
    steps = recovery.steps
    received = _Shared.of(steps.receives, recovery.scenario)
    tried = [failed + done for failed, done in zip(steps.failed, steps.through, strict=True)]
    tries = _Shared.of(tried, recovery.scenario)
    through = _Shared.of(steps.through, recovery.scenario)
    return Bill(
        # A receive and a send, which have message content, and a delete, which has none.
        replay_requests=3 * received.requests,
        consumer_requests=tries.requests + through.requests,
        billed_requests=2 * received.chunks + received.requests + tries.chunks + through.requests,
        invocations=received.invocations,
        function_seconds=received.invocations * EVENT_SECONDS + recovery.receives * MESSAGE_SECONDS,
        peak_concurrency=received.peak_concurrency,
    )


@dataclass(frozen=True, slots=True)
class _Shared:
    """Requests and invocations, if the messages of the same second share them.

    Attributes:
        requests: of up to ten messages each.
        chunks: the billed units of 64 KiB of those requests.
        invocations: of up to a hundred messages each.
        peak_concurrency: concurrent invocations in the busiest second.
    """

    requests: float
    chunks: float
    invocations: float
    peak_concurrency: float

    @classmethod
    def of(cls, sizes: Iterable[float], scenario: Scenario) -> Self:
        """Count for *sizes*, the number of messages in each step."""
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
    """Return the average number of groups for the messages of one second."""
    return per_second if per_second <= 1 else math.ceil(per_second / at_most)
