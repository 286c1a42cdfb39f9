"""Checks of a message for a queue; deduplication keys."""

import hashlib
import re
from collections.abc import Hashable

from local_sqs.content import check_submission
from local_sqs.errors import SqsError, invalid_parameter, invalid_value, missing_parameter
from local_sqs.settings import Settings
from local_sqs.values import Submission

MAX_DELAY_SECONDS = 900
"""SQSDeveloperGuide, message timers."""

_ID = re.compile(r"[\x21-\x7e]{1,128}")
_WRONG_TYPE = "The request include parameter that is not valid for this queue type."
_NO_DEDUPLICATION = (
    "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId "
    "provided explicitly"
)


def missing_for_fifo(submission: Submission, settings: Settings) -> SqsError | None:
    """Return the error for a missing FIFO parameter; in a batch it fails the whole request."""
    if not settings.is_fifo:
        return None
    if not submission.group_id:
        return missing_parameter("MessageGroupId")
    if not submission.deduplication_id and not settings.deduplicates_content:
        return invalid_parameter(_NO_DEDUPLICATION)
    return None


def check_for(submission: Submission, settings: Settings, size_bytes: int) -> None:
    """Check a submission of *size_bytes* for a queue with *settings*.

    Raises:
        SqsError: invalid content, size, delay or ids.
    """
    _check_delay(submission.delay_seconds, is_fifo=settings.is_fifo)
    _check_id("MessageGroupId", submission.group_id)
    _check_id("MessageDeduplicationId", submission.deduplication_id)
    if submission.deduplication_id and not settings.is_fifo:
        raise invalid_value("MessageDeduplicationId", submission.deduplication_id, _WRONG_TYPE)
    check_submission(submission, size_bytes, settings.max_bytes)


def _check_delay(seconds: int | None, *, is_fifo: bool) -> None:
    if seconds and is_fifo:
        raise invalid_value("DelaySeconds", seconds, _WRONG_TYPE)
    if seconds is not None and not 0 <= seconds <= MAX_DELAY_SECONDS:
        raise invalid_value("DelaySeconds", seconds, "DelaySeconds must be >= 0 and <= 900.")


def _check_id(name: str, value: str | None) -> None:
    if value is not None and not _ID.fullmatch(value):
        reason = (
            f"{name} can only include alphanumeric and punctuation characters. 1 to 128 in length."
        )
        raise invalid_value(name, value, reason)


def deduplication_id_of(submission: Submission) -> str:
    """Return the given id, else the SHA-256 of the body (SQSAPI, SendMessage)."""
    if submission.deduplication_id:
        return submission.deduplication_id
    return hashlib.sha256(submission.body.encode("utf-8", "surrogatepass")).hexdigest()


def deduplication_key(
    submission: Submission, deduplication_id: str, settings: Settings
) -> Hashable:
    """Return the key within the queue, or within the message group if that is the scope."""
    if settings.deduplicates_per_group:
        return (submission.group_id, deduplication_id)
    return deduplication_id
