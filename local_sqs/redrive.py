"""Moves messages that were received too often to the dead-letter queue.

This happens at a receive, never before (SQSAPI, CreateQueue, RedrivePolicy). For what a message
keeps see SQSDeveloperGuide, "Using dead-letter queues" and "Learn how to configure a dead-letter
queue redrive"; MessageId, attributes and trace header as recorded from AWS in
https://github.com/localstack/localstack (tests/aws/services/sqs, snapshots of 2024-04-30).
"""

from collections.abc import Callable

from local_sqs.queues import MoveToDlq, Queue
from local_sqs.values import StoredMessage


def make_move_to_dlq(
    source: Queue, find: Callable[[str], Queue | None], *, is_cumulative: bool
) -> MoveToDlq:
    """Return the function that applies the redrive policy of *source* to a message.

    Args:
        source: the queue to receive from.
        find: returns a queue by its ARN. If the target does not exist, the message stays.
        is_cumulative: whether ``maxReceiveCount`` counts the receives in all queues, or only those
            in *source*. AWS does not document it. They differ only for a message that was moved
            to *source*.
    """
    policy = source.settings.redrive
    target = find(policy.target_arn) if policy else None

    def move_to_dlq(message: StoredMessage) -> bool:
        if policy is None or target is None:
            return False
        count = message.receive_count if is_cumulative else message.receives_here
        if count < policy.max_receive_count:
            return False
        move(message, source, target)
        return True

    return move_to_dlq


def move(message: StoredMessage, source: Queue, target: Queue) -> None:
    """Move one message as a redrive policy does.

    The message keeps id, body, attributes, group id, trace header and receive count. On a standard
    queue it keeps the time of the first send, so its retention continues. On a FIFO queue retention
    starts at the move, and the message id becomes the deduplication id. For standard queues AWS
    does not document that the group id is kept.
    """
    now_ms = source.tick()
    source.take_out(message)
    is_fifo = target.settings.is_fifo
    target.take_in(
        StoredMessage(
            message_id=message.message_id,
            body=message.body,
            attributes=message.attributes,
            sent_ms=now_ms if is_fifo else message.sent_ms,
            order=message.order,
            group_id=message.group_id,
            deduplication_id=message.message_id if is_fifo else message.deduplication_id,
            trace_header=message.trace_header,
            source_arn=source.arn,
            receive_count=message.receive_count,
            first_received_ms=message.first_received_ms,
        )
    )
