"""How long a canary is waited for, and from when. Pure: time and counts come in as values.

SQS does not tell when a message was handled. What can be seen is this: a queue that shows nothing
to receive has given everything it held to its consumers, canaries included. From then on a message
that fails takes at most maxReceiveCount times the visibility timeout to be moved to the DLQ, and a
little longer to be parked. So the wait counts from the moment at which the backlog was gone; where
that moment does not come, nobody knows whether the canaries were ever looked at.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from spark_reprocess.queue_counts import QueueCounts

MARGIN_SECONDS = 60
"""For the way over the DLQ, where pollers take up to 20 s, and for counts that lag behind."""

_LOOKS_IN_A_ROW = 2
"""SQS's counts are approximate: one look alone proves nothing."""


@dataclass(frozen=True, slots=True)
class Redelivery:
    """How a queue gives messages again that were not deleted.

    Attributes:
        visibility_timeout_seconds: how long each receive hides a message.
        max_receive_count: after how many receives it moves to the DLQ.
        dead_letter_arn: the DLQ; empty where there is none, so that nothing ever leaves by it.
        delay_seconds: how long the queue itself delays every message.
    """

    visibility_timeout_seconds: int
    max_receive_count: int
    dead_letter_arn: str
    delay_seconds: int = 0

    @classmethod
    def of(cls, attributes: Mapping[str, str]) -> Self:
        """Read a queue's attributes."""
        try:
            policy = json.loads(attributes["RedrivePolicy"])
            count, arn = int(policy["maxReceiveCount"]), str(policy["deadLetterTargetArn"])
        except (KeyError, TypeError, ValueError):
            count, arn = 0, ""
        hidden = int(attributes.get("VisibilityTimeout", 30))
        return cls(hidden, count, arn, int(attributes.get("DelaySeconds", 0)))

    def least_wait_seconds(self, failures_in_a_row: int = 1) -> int:
        """How long so many failures, one behind the other, take to come back.

        On a FIFO queue the messages of a group fail one after the other.
        """
        seconds = self.visibility_timeout_seconds * self.max_receive_count
        return seconds * failures_in_a_row + MARGIN_SECONDS


@dataclass(slots=True)
class Vigil:
    """The clock of one canary.

    Attributes:
        sent_at: when its last message was sent.
        wait_seconds: how long to wait for the backlog to be gone, and then as long for failures.
        redelivery: of the main queue.
        started_at: when the backlog was gone; None until then.
    """

    sent_at: float
    wait_seconds: float
    redelivery: Redelivery
    started_at: float | None = None
    _empty_looks: int = 0

    def see(self, now: float, main: QueueCounts) -> None:
        """Take note of a look at the main queue.

        Its backlog is gone when nothing is left, or when nothing can be received and what was in
        flight at the time of sending must have shown itself again or be done.
        """
        age = now - self.sent_at - self.redelivery.delay_seconds
        is_later = age >= self.redelivery.visibility_timeout_seconds
        if age < 0 or main.visible or (main.in_flight and not is_later):
            self._empty_looks = 0
            return
        self._empty_looks += 1
        if self.started_at is None and self._empty_looks >= _LOOKS_IN_A_ROW:
            self.started_at = now

    def seconds_left(self, now: float) -> float:
        """Until the present phase is over at the latest; at least 0."""
        since = self.sent_at if self.started_at is None else self.started_at
        return max(0.0, since + self.wait_seconds - now)

    def has_given_up(self, now: float) -> bool:
        """Whether the backlog was not gone in time."""
        return self.started_at is None and self.seconds_left(now) == 0

    def is_over(self, now: float) -> bool:
        """Whether whatever failed had the time to come back."""
        return self.started_at is not None and self.seconds_left(now) == 0
