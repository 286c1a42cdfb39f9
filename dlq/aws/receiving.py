"""Receives from SQS, with repeats where a receive may succeed in a moment."""

import itertools
import uuid
from collections.abc import Callable
from functools import partial

from dlq_replay.aws.refusals import RefusalKind, refusal_kind
from dlq_replay.aws.sqs import SqsQueue
from dlq_replay.errors import MalformedMessageError, QueueError
from dlq_replay.retry import Retry
from dlq_replay.wire.message import Message

RECEIVE_ATTEMPTS = {
    RefusalKind.GLOBAL: 1,
    RefusalKind.TRANSIENT: 6,
    RefusalKind.OTHER: 3,
}
"""A receive that fails this often in a row is given up. The client has repeated most failures
before, but not a throttled KMS key."""

Received = list[Message | MalformedMessageError]


def receive(
    queue: SqsQueue,
    *,
    max_messages: int,
    wait_seconds: int,
    visibility_timeout_seconds: int,
    is_fifo: bool,
    sleep: Callable[[float], object],
    seconds_left: Callable[[], float],
) -> Received | QueueError:
    """Receive, and repeat a failure; return the error of the last attempt if all failed.

    On a FIFO queue all attempts have one id, so that an answer that was lost is given again: see
    ``SqsQueue.receive``, which has the arguments. Nothing that was received may be changed before
    this returns. No attempt begins after *seconds_left*, but for the first.
    """
    call = partial(
        queue.receive,
        max_messages=max_messages,
        wait_seconds=wait_seconds,
        visibility_timeout_seconds=visibility_timeout_seconds,
        attempt_id=uuid.uuid4().hex if is_fifo else None,
    )
    retry = Retry(max(RECEIVE_ATTEMPTS.values()), sleep=sleep, seconds_left=seconds_left)
    failures = itertools.count(1)

    def may_repeat(error: Exception) -> bool:
        if not isinstance(error, QueueError):
            return False
        return next(failures) < RECEIVE_ATTEMPTS[refusal_kind(error.code)]

    try:
        return retry.call(call, may_repeat)
    except QueueError as error:
        return error
