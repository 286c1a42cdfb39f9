"""Checks the names of queues and the targets of redrive policies."""

import re
from collections.abc import Callable

from local_sqs.errors import SqsError, invalid_parameter, invalid_value, no_such_queue
from local_sqs.queues import Queue
from local_sqs.settings import Settings

_STANDARD = re.compile(r"[A-Za-z0-9_-]{1,80}")
_FIFO = re.compile(r"[A-Za-z0-9_-]{1,75}\.fifo")


def check_name(name: str, *, is_fifo: bool) -> None:
    """Check a queue name as SQS does: SQSAPI, CreateQueue, QueueName.

    Raises:
        SqsError: an invalid character or length, or a name of the other queue type.
    """
    if is_fifo and not _FIFO.fullmatch(name):
        raise invalid_parameter(
            "The name of a FIFO queue can only include alphanumeric characters, hyphens, or "
            "underscores, must end with .fifo suffix and be 1 to 80 in length."
        )
    if not is_fifo and not _STANDARD.fullmatch(name):
        raise invalid_parameter(
            "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length"
        )


def check_redrive(source_arn: str, settings: Settings, find: Callable[[str], Queue | None]) -> None:
    """Check the dead-letter queue of *settings*.

    Raises:
        SqsError: the queue does not exist, has the other type, or does not allow this source.
    """
    if settings.redrive is None:
        return
    target_arn = settings.redrive.target_arn
    if not target_arn.startswith("arn:"):
        raise _bad_target(settings, "Invalid value for deadLetterTargetArn.")
    target = find(target_arn)
    if target is None:
        raise no_such_queue()
    if target.settings.is_fifo != settings.is_fifo:
        raise _bad_target(settings, "Dead-letter queue must be same type of queue as the source.")
    if not target.settings.allows_source(source_arn):
        raise _bad_target(settings, "Dead-letter queue does not allow this source queue.")


def _bad_target(settings: Settings, reason: str) -> SqsError:
    return invalid_value("RedrivePolicy", settings.values["RedrivePolicy"], reason)
