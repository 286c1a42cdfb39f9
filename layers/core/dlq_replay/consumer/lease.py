"""How long one received message is certainly hidden, and what to do about it next. Pure.

SQS answers an extension that came too late on a standard queue with success and does nothing
(https://github.com/localstack/localstack/pull/9632, recorded from AWS). So success proves nothing
by itself: an extension counts only if its answer came before the time that was confirmed before it.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from math import inf
from typing import Self

from dlq_replay.consumer.errors import VisibilityLimitError, VisibilityLostError
from dlq_replay.consumer.rhythm import LIMIT_SECONDS, Rhythm

LIMIT_RESERVE_SECONDS = 5
"""Kept from the 12 hours: they began when SQS sent the message, not when it arrived here."""

LIMIT_NOTICE_SECONDS = 5
"""The end of the 12 hours is told so much earlier, while the message is still hidden."""


class Loss(StrEnum):
    """Why a message is not certainly hidden any more."""

    LATE = "its visibility timeout may have ended before it was extended"
    REFUSED = "SQS refused to extend it: deleted, or received again by another consumer"
    LIMIT = "SQS hides it no longer: 12 hours since its receive are over"


@dataclass(frozen=True, slots=True)
class Extension:
    """One request to hide a message longer.

    Attributes:
        seconds: from when SQS gets it.
        sent_at: on the heartbeat's clock, before it is sent.
    """

    message_id: str
    receipt_handle: str
    seconds: int
    sent_at: float


@dataclass(frozen=True, slots=True)
class Lease:
    """One receive of one message. Times are seconds on one clock that never goes back.

    Attributes:
        hidden_until: until then no other consumer receives it: counted from the last extension
            that was confirmed, from the moment in which it was sent; at the limit a little less.
        extend_at: when to extend it next; infinite where nothing can be gained any more.
        limit_at: SQS's 12 hours, less a reserve.
        loss: None as long as nothing went wrong; final.
        detail: the last thing that went wrong, such as SQS's error code; may be empty.
    """

    message_id: str
    receipt_handle: str
    rhythm: Rhythm
    hidden_until: float
    extend_at: float
    limit_at: float
    loss: Loss | None = None
    detail: str = ""

    @classmethod
    def received(
        cls, message_id: str, receipt_handle: str, rhythm: Rhythm, received_at: float
    ) -> Self:
        """A message as it was received; to be extended at once."""
        limit_at = received_at + LIMIT_SECONDS - LIMIT_RESERVE_SECONDS
        return cls(
            message_id=message_id,
            receipt_handle=receipt_handle,
            rhythm=rhythm,
            hidden_until=min(received_at + rhythm.received_timeout_seconds, limit_at),
            extend_at=received_at,
            limit_at=limit_at,
        )

    def is_safe(self, now: float) -> bool:
        """Whether the message is certainly still hidden."""
        return self.loss is None and now < self.hidden_until

    def seconds_left(self, now: float) -> float:
        """For how long it is certainly still hidden; 0 if it is not."""
        return self.hidden_until - now if self.is_safe(now) else 0.0

    def extension(self, now: float) -> Extension | None:
        """What to ask of SQS now; None where it is too late or nothing is gained."""
        seconds = min(self.rhythm.timeout_seconds, int(self.limit_at - now))
        if seconds < 1 or not self.is_safe(now):
            return None
        return Extension(self.message_id, self.receipt_handle, seconds, sent_at=now)

    def confirmed(self, extension: Extension, answered_at: float) -> Self:
        """SQS answered that it hid the message."""
        if not self.is_safe(answered_at):
            return self.aged(answered_at)
        hidden_until = extension.sent_at + extension.seconds
        if hidden_until > self.limit_at - 1:
            told_at = hidden_until - LIMIT_NOTICE_SECONDS
            return replace(self, hidden_until=told_at, extend_at=inf, detail="")
        extend_at = extension.sent_at + self.rhythm.interval_seconds
        return replace(self, hidden_until=hidden_until, extend_at=extend_at, detail="")

    def failed(self, extension: Extension, answered_at: float, detail: str) -> Self:
        """No confirmation came: SQS may have hidden the message anew, or not.

        It counts for what is worse: where the receive hid it for longer than an extension
        does, the end may have come nearer.
        """
        hidden_until = min(self.hidden_until, extension.sent_at + extension.seconds)
        retry_after = self.rhythm.retry_after_seconds(hidden_until - answered_at)
        tried = replace(
            self, hidden_until=hidden_until, extend_at=answered_at + retry_after, detail=detail
        )
        return tried.aged(answered_at)

    def refused(self, detail: str) -> Self:
        """SQS does not know this receive any more."""
        return self if self.loss else replace(self, loss=Loss.REFUSED, detail=detail)

    def aged(self, now: float) -> Self:
        """The same lease, lost if its time is over."""
        if self.loss or now < self.hidden_until:
            return self
        return replace(self, loss=Loss.LIMIT if self.extend_at == inf else Loss.LATE)

    def error(self) -> VisibilityLostError:
        """What to tell the worker of a lost message."""
        cause = f" ({self.detail})" if self.detail else ""
        kind = VisibilityLimitError if self.loss is Loss.LIMIT else VisibilityLostError
        return kind(self.message_id, f"{self.loss}{cause}")
