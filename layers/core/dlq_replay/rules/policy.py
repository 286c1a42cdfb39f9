"""The numbers the rules go by. Pure."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

from dlq_replay.backoff import Backoff
from dlq_replay.wire.addresses import QueueAddress

MAX_MESSAGE_BYTES = 1_048_576
"""SQS's limit, and a queue's default: SQSDeveloperGuide, "Amazon SQS message quotas"."""

DEFAULT_RETENTION_SECONDS = 345_600
"""The retention of a queue by default: SQSAPI, CreateQueue."""

MESSAGE_TIMER_MAX_SECONDS = 900
"""The longest DelaySeconds: SQSDeveloperGuide, "Amazon SQS message timers"."""

EXPIRY_MARGIN_SECONDS = 300
"""Retention that a message must have left when its wait ends, for a poller to receive it."""


Attributes = Mapping[str, str]
"""The attributes of a queue by name, as SQS answers them; empty where it did not."""


@dataclass(frozen=True)
class QueueLimits:
    """The limits of the queues themselves: MaximumMessageSize, MessageRetentionPeriod, and others.

    Attributes:
        max_receive_count: of the main queue's redrive policy; None where it is not known.
        dlq_visibility_seconds: VisibilityTimeout of the DLQ; 0 where it is not known.
    """

    main_max_bytes: int = MAX_MESSAGE_BYTES
    dlq_max_bytes: int = MAX_MESSAGE_BYTES
    parked_max_bytes: int = MAX_MESSAGE_BYTES
    main_retention_seconds: int = DEFAULT_RETENTION_SECONDS
    dlq_retention_seconds: int = DEFAULT_RETENTION_SECONDS
    max_receive_count: int | None = None
    dlq_visibility_seconds: int = 0

    @classmethod
    def of(cls, main: Attributes, dlq: Attributes, parked: Attributes) -> Self:
        """Read them from the attributes of the queues; what is missing has SQS's default."""
        max_receive_count = json.loads(main.get("RedrivePolicy", "{}")).get("maxReceiveCount")
        return cls(
            main_max_bytes=_max_bytes(main),
            dlq_max_bytes=_max_bytes(dlq),
            parked_max_bytes=_max_bytes(parked),
            main_retention_seconds=_retention_seconds(main),
            dlq_retention_seconds=_retention_seconds(dlq),
            max_receive_count=max_receive_count and int(max_receive_count),
            dlq_visibility_seconds=int(dlq.get("VisibilityTimeout", 0)),
        )

    @cached_property
    def replay_timer_max_seconds(self) -> int:
        """The longest message timer towards main that leaves the copy alive when it ends."""
        return _timer_within(self.main_retention_seconds)

    @cached_property
    def hold_timer_max_seconds(self) -> int:
        """The same within the DLQ; 0 where its retention is too short to hold anything."""
        return _timer_within(self.dlq_retention_seconds)


@dataclass(frozen=True, slots=True)
class ReplayPolicy:
    """The rules for replays: when to replay, how long to wait first, and when to stop.

    Attributes:
        main_queue: where replayed messages go, and the source that they came from.
        max_attempts: replays of one message, at least 0; 0 parks at once.
        backoff: the wait before each.
        max_age_seconds: how long after we first saw it a message is still replayed; None: forever.
        non_retryable_errors: patterns of error names for which a message is parked at once.
        limits: of the queues.
        other_main_queues: further sources that share the DLQ, with their limits. A message of one
            of them is replayed to that queue: ask ``of`` for the policy of its messages.
        takes_unnamed: whether a message that names no source came from the main queue, where there
            are no others; False where *main_queue* stands for none.
    """

    main_queue: QueueAddress
    max_attempts: int
    backoff: Backoff
    max_age_seconds: int | None = None
    non_retryable_errors: tuple[str, ...] = ()
    limits: QueueLimits = field(default_factory=QueueLimits)
    other_main_queues: Mapping[QueueAddress, QueueLimits] = field(default_factory=dict)
    takes_unnamed: bool = True

    def of(self, source: QueueAddress | None) -> Self:
        """The policy for messages of *source*: that queue as the main queue, with its limits.

        The same policy where *source* is not configured; such messages are parked.
        """
        if source is None or source not in self.other_main_queues:
            return self
        others = {**self.other_main_queues, self.main_queue: self.limits}
        limits = others.pop(source)
        return replace(self, main_queue=source, limits=limits, other_main_queues=others)


def _max_bytes(attributes: Attributes) -> int:
    return int(attributes.get("MaximumMessageSize", MAX_MESSAGE_BYTES))


def _retention_seconds(attributes: Attributes) -> int:
    return int(attributes.get("MessageRetentionPeriod", DEFAULT_RETENTION_SECONDS))


def _timer_within(retention_seconds: int) -> int:
    return max(0, min(MESSAGE_TIMER_MAX_SECONDS, retention_seconds - EXPIRY_MARGIN_SECONDS))
