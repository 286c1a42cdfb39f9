"""Requests and invocations that an outage causes, and their cost at list prices. Pure.

Prices are in dollars for us-east-1, as of 2026-11, without free tiers; docs/growth.md, "Where the
prices come from", has the sources. Each request carries at most 64 KiB, which is billed as one.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from dlq_cli.simulate.model import MINUTE_SECONDS, Recovery

PRICES_AS_OF = "2026-11"
PRICES_REGION = "us-east-1"

SQS_PER_REQUEST = 0.40e-6
LAMBDA_PER_INVOCATION = 0.20e-6
LAMBDA_ARM64_PER_GB_SECOND = 0.0000133334

SQS_BATCH_ENTRIES = 10
"""The most messages in one receive, send or delete."""

FUNCTION_GB = 0.25
EVENT_MESSAGES = 100
"""Of the template: memory of the function, and the most messages in one invocation."""

EVENT_SECONDS = 0.1
MESSAGE_SECONDS = 0.003
"""Duration of an invocation, and the part that each message adds: a conservative estimate.

``make bench`` measures 2 ms of CPU time for one message and about 25 ms for a hundred; a function
of 256 MB has a seventh of a CPU."""

MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Bill:
    """What the messages of an outage cause, without the normal traffic.

    Attributes:
        sqs_requests: for the DLQ receive, send and delete; of the consumer receives and deletes.
        invocations: of the replay function.
        dollars: cost of the requests, the invocations and their duration.
        dollars_per_million: the same for a million messages of such an outage.
    """

    sqs_requests: float
    invocations: float
    dollars: float
    dollars_per_million: float


def bill_of(recovery: Recovery) -> Bill:
    """Count requests and invocations. The messages of a second share them."""
    batches = [
        _shared(counts, SQS_BATCH_ENTRIES)
        for counts in (recovery.receives, recovery.tries, recovery.through)
    ]
    requests = 3 * batches[0] + batches[1] + batches[2]
    invocations = _shared(recovery.receives, EVENT_MESSAGES)
    dollars = requests * SQS_PER_REQUEST + lambda_dollars(invocations, recovery.receives.total())
    return Bill(requests, invocations, dollars, dollars / recovery.arrived * MILLION)


def lambda_dollars(invocations: float, messages: float) -> float:
    """Return the cost of *invocations* that have so many *messages* together."""
    seconds = invocations * EVENT_SECONDS + messages * MESSAGE_SECONDS
    time_dollars = seconds * FUNCTION_GB * LAMBDA_ARM64_PER_GB_SECOND
    return invocations * LAMBDA_PER_INVOCATION + time_dollars


def _shared(counts: Mapping[int, int], at_most: int) -> float:
    """Return the number of requests of up to *at_most* messages, for messages by minute."""
    return sum(
        MINUTE_SECONDS * math.ceil(count / MINUTE_SECONDS / at_most)
        if count > MINUTE_SECONDS
        else count
        for count in counts.values()
    )
