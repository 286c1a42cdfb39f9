"""How long a canary is waited for, and from when. Pure: time and counts come in as values.

SQS does not say when a message was received. A count without visible messages shows that every
message was received that was in the queue before, canaries included. SQS's counts lag, so the first
looks after the send do not count. From then on a message that fails takes at most maxReceiveCount
times the time for which a receive hides it to move to the DLQ, and a little longer to be parked.

A consumer that stops leaves its messages visible. So a backlog that comes back restarts the wait,
and the wait does not end at a look that shows one. Messages in flight do not matter: a queue with
live traffic always has some, and the wait is long enough for all that were hidden when it began.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from spark_reprocess.queue_counts import QueueCounts

COUNTS_LAG_SECONDS = 60
"""So much SQS's counts may lag behind: SQS API, GetQueueAttributes."""

MARGIN_SECONDS = 60
"""For the way over the DLQ, where pollers take up to 20 s, and for counts that lag behind."""

MOST_RESTARTS = 3
"""A backlog that comes back more often ends the wait: nobody knows what became of the canaries."""

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

    @property
    def first_look_seconds(self) -> int:
        """After a send, before which the queue's counts say nothing about it."""
        return COUNTS_LAG_SECONDS + self.delay_seconds

    def least_wait_seconds(self, failures_in_a_row: int = 1, consumer_max_seconds: int = 0) -> int:
        """How long so many failures, one behind the other, take to come back.

        On a FIFO queue the messages of a group fail one after the other.

        Args:
            failures_in_a_row: how many.
            consumer_max_seconds: the longest that the consumer keeps one message hidden.
        """
        hidden_seconds = max(self.visibility_timeout_seconds, consumer_max_seconds)
        return hidden_seconds * self.max_receive_count * failures_in_a_row + MARGIN_SECONDS


@dataclass(slots=True)
class Vigil:
    """The clock of one canary.

    Attributes:
        sent_at: when its last message was sent.
        first_look_seconds: after the send; earlier looks at the main queue do not count.
        wait_seconds: how long to wait for the backlog to be gone, and then as long for failures.
        started_at: when the backlog was gone; None while it is not.
        restarts: how often it came back.
    """

    sent_at: float
    first_look_seconds: float
    wait_seconds: float
    started_at: float | None = None
    restarts: int = 0
    _came_back_at: float | None = None
    _clear_looks: int = 0
    _other_looks: int = 0

    def see(self, now: float, main: QueueCounts | None) -> None:
        """Take note of a look at the main queue.

        A look that SQS did not answer (None) counts like one that shows a backlog.
        """
        if now < self.sent_at + self.first_look_seconds:
            return
        is_clear = main is not None and not main.visible
        self._clear_looks = self._clear_looks + 1 if is_clear else 0
        self._other_looks = 0 if is_clear else self._other_looks + 1
        if self.started_at is None:
            if self._clear_looks >= _LOOKS_IN_A_ROW:
                self.started_at = now
        elif self._other_looks >= _LOOKS_IN_A_ROW:
            self.started_at = None
            self._came_back_at = now
            self.restarts += 1

    def seconds_left(self, now: float) -> float:
        """Until the present phase is over; at least 0."""
        since = self.sent_at + self.first_look_seconds
        if self.started_at is not None:
            since = self.started_at
        elif self._came_back_at is not None:
            since = self._came_back_at
        return max(0.0, since + self.wait_seconds - now)

    def has_given_up(self, now: float) -> bool:
        """Whether the backlog was not gone in time, or came back too often."""
        is_late = self.seconds_left(now) == 0 or self.restarts > MOST_RESTARTS
        return self.started_at is None and is_late

    def is_over(self, now: float) -> bool:
        """Whether whatever failed had the time to come back, and nothing waits to be received."""
        is_waited = self.started_at is not None and self.seconds_left(now) == 0
        return is_waited and self._clear_looks > 0
