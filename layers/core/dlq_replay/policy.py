"""The numbers the rules go by. Pure."""

from dataclasses import dataclass, replace
from typing import Self

from dlq_replay.addresses import QueueAddress
from dlq_replay.backoff import Backoff

MAX_MESSAGE_BYTES = 1_048_576
"""SQS's limit, and a queue's default: SQSDeveloperGuide, "Amazon SQS message quotas"."""

MESSAGE_TIMER_MAX_SECONDS = 900
"""The longest DelaySeconds: SQSDeveloperGuide, "Amazon SQS message timers"."""


@dataclass(frozen=True, slots=True)
class ReplayPolicy:
    """When to replay, how long to wait first, and when to stop.

    Attributes:
        main_queue: where replayed messages go, and the only source they may have come from.
        max_attempts: replays of one message, at least 0; 0 parks at once.
        backoff: the wait before each.
        max_age_seconds: how long after we first saw it a message is still replayed; None: forever.
        max_message_bytes: the smallest MaximumMessageSize of the queues involved.
    """

    main_queue: QueueAddress
    max_attempts: int
    backoff: Backoff
    max_age_seconds: int | None = None
    max_message_bytes: int = MAX_MESSAGE_BYTES

    def with_max_message_bytes(self, max_message_bytes: int) -> Self:
        """The same policy for queues with this limit."""
        return replace(self, max_message_bytes=max_message_bytes)
