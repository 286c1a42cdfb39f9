"""The move of a message that was received too often to the dead-letter queue.

It happens at a receive, never before (SQSAPI, CreateQueue, RedrivePolicy). What is kept and what
is not: SQSDeveloperGuide, "Using dead-letter queues" and "Learn how to configure a dead-letter
queue redrive"; MessageId, attributes and trace header as recorded from AWS in
https://github.com/localstack/localstack (tests/aws/services/sqs, snapshots of 2024-04-30).
"""

from collections.abc import Callable

from local_sqs.queues import PutAside, Queue
from local_sqs.values import StoredMessage


def put_aside_from(
    source: Queue, find: Callable[[str], Queue | None], *, is_cumulative: bool
) -> PutAside:
    """What a receive from *source* does with a message that it should not hand out again.

    Args:
        find: a queue by its ARN. Where the target does not exist, the message stays.
        is_cumulative: whether ``maxReceiveCount`` compares the receives in all queues, or those in
            *source*. AWS does not say; they differ only for a message that was moved here.
    """
    policy = source.settings.redrive
    target = find(policy.target_arn) if policy else None

    def put_aside(message: StoredMessage) -> bool:
        if policy is None or target is None:
            return False
        count = message.receive_count if is_cumulative else message.receives_here
        if count < policy.max_receive_count:
            return False
        move(message, source, target)
        return True

    return put_aside


def move(message: StoredMessage, source: Queue, target: Queue) -> None:
    """Move one message as a redrive policy does.

    Kept: message id, body, attributes, group id, trace header, receive count, and on a standard
    queue the time of the first send, so that its retention runs on. A FIFO queue counts retention
    from the move and takes the message id as the deduplication id. Of the group id of a standard
    queue AWS does not say that it is kept.
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
