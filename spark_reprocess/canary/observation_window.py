"""How long to wait for the failures of a canary, and from when. No I/O.

SQS does not report when a message was received. A count without visible messages shows that every
message that was in the queue before, canaries included, has been received. SQS's counts lag, so
readings soon after the send are ignored. From then on a message that fails moves to the DLQ within
maxReceiveCount times the time for which a receive hides it, and is parked shortly after.

A consumer that stops leaves its messages visible. So a backlog that returns restarts the wait, and
the wait does not end at a reading that shows a backlog. Messages in flight do not matter: a queue
with live traffic always has some, and the wait covers all that were hidden when it began.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from spark_reprocess.clients import QueueCounts

COUNTS_LAG_SECONDS = 60
"""How far SQS's counts may lag: SQS API, GetQueueAttributes."""

MARGIN_SECONDS = 60
"""For the way through the DLQ, where long polls take up to 20 s, and for counts that lag."""

GRACE_SECONDS = 120.0
"""How long, after the wait, dead letters on their way may take to be parked."""

MOST_RESTARTS = 3
"""A backlog that returns more often ends the wait with the verdict unknown."""

_READINGS_IN_A_ROW = 2
"""SQS's counts are approximate: one reading proves nothing."""


@dataclass(frozen=True, slots=True)
class Redelivery:
    """How a queue redelivers messages that were not deleted.

    Attributes:
        visibility_timeout_seconds: how long each receive hides a message.
        max_receive_count: after how many receives it moves to the DLQ.
        dead_letter_arn: of the DLQ; empty if the queue has none.
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
    def stale_seconds(self) -> int:
        """After a send, for how long the queue's counts may not include it."""
        return COUNTS_LAG_SECONDS + self.delay_seconds

    def least_wait_seconds(self, failures_in_a_row: int = 1, consumer_max_seconds: int = 0) -> int:
        """Return how long so many failures, one after the other, take to come back.

        On a FIFO queue the messages of a group fail one after the other.

        Args:
            failures_in_a_row: how many.
            consumer_max_seconds: the longest that the consumer keeps one message hidden.
        """
        hidden_seconds = max(self.visibility_timeout_seconds, consumer_max_seconds)
        return hidden_seconds * self.max_receive_count * failures_in_a_row + MARGIN_SECONDS


@dataclass(slots=True)
class ObservationWindow:
    """The wait for one canary: first until the backlog is gone, then for failures.

    Attributes:
        sent_at: when its last message was sent.
        stale_seconds: after the send; earlier readings of the main queue are ignored.
        wait_seconds: the longest wait for the backlog to be gone, and the wait for failures.
        started_at: when the backlog was gone; None while there is one.
        restarts: how often the backlog returned.
    """

    sent_at: float
    stale_seconds: float
    wait_seconds: float
    started_at: float | None = None
    restarts: int = 0
    _returned_at: float | None = None
    _clear_readings: int = 0
    _backlog_readings: int = 0

    def record(self, now: float, main: QueueCounts | None) -> None:
        """Take a reading of the main queue.

        None, where SQS did not answer, counts as a backlog.
        """
        if now < self.sent_at + self.stale_seconds:
            return
        is_clear = main is not None and not main.visible
        self._clear_readings = self._clear_readings + 1 if is_clear else 0
        self._backlog_readings = 0 if is_clear else self._backlog_readings + 1
        if self.started_at is None:
            if self._clear_readings >= _READINGS_IN_A_ROW:
                self.started_at = now
        elif self._backlog_readings >= _READINGS_IN_A_ROW:
            self.started_at = None
            self._returned_at = now
            self.restarts += 1

    def seconds_left(self, now: float) -> float:
        """Return the time until the current phase is over; at least 0."""
        since = self.sent_at + self.stale_seconds
        if self.started_at is not None:
            since = self.started_at
        elif self._returned_at is not None:
            since = self._returned_at
        return max(0.0, since + self.wait_seconds - now)

    def has_given_up(self, now: float) -> bool:
        """Whether the backlog was not gone in time, or returned too often."""
        is_late = self.seconds_left(now) == 0 or self.restarts > MOST_RESTARTS
        return self.started_at is None and is_late

    def is_over(self, now: float) -> bool:
        """Whether every failure had the time to come back, and no message waits to be received."""
        is_waited = self.started_at is not None and self.seconds_left(now) == 0
        return is_waited and self._clear_readings > 0
