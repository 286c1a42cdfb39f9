"""The interface of the model: AWS operations, with boto3's parameters and answers."""

from collections.abc import Callable, Mapping
from typing import Any

from local_sqs import api_messages, api_queues, api_receipts
from local_sqs.api_batches import Parameters
from local_sqs.errors import SqsError
from local_sqs.model import SqsModel

Call = Callable[[SqsModel, Mapping[str, Any]], dict[str, Any]]

OPERATIONS: Mapping[str, Call] = {
    "CancelMessageMoveTask": api_queues.cancel_message_move_task,
    "ChangeMessageVisibility": api_receipts.change_message_visibility,
    "ChangeMessageVisibilityBatch": api_receipts.change_message_visibility_batch,
    "CreateQueue": api_queues.create_queue,
    "DeleteMessage": api_receipts.delete_message,
    "DeleteMessageBatch": api_receipts.delete_message_batch,
    "DeleteQueue": api_queues.delete_queue,
    "GetQueueAttributes": api_queues.get_queue_attributes,
    "GetQueueUrl": api_queues.get_queue_url,
    "ListDeadLetterSourceQueues": api_queues.list_dead_letter_source_queues,
    "ListMessageMoveTasks": api_queues.list_message_move_tasks,
    "ListQueueTags": api_queues.list_queue_tags,
    "ListQueues": api_queues.list_queues,
    "PurgeQueue": api_queues.purge_queue,
    "ReceiveMessage": api_messages.receive_message,
    "SendMessage": api_messages.send_message,
    "SendMessageBatch": api_messages.send_message_batch,
    "SetQueueAttributes": api_queues.set_queue_attributes,
    "StartMessageMoveTask": api_queues.start_message_move_task,
    "TagQueue": api_queues.tag_queue,
    "UntagQueue": api_queues.untag_queue,
}

_READS = frozenset(name for name in OPERATIONS if name.startswith(("Get", "List")))


def call(model: SqsModel, operation: str, request: Mapping[str, Any]) -> dict[str, Any]:
    """Carry out one operation now. A receive does not wait: its WaitTimeSeconds is ignored.

    Raises:
        SqsError: SQS would refuse it.
    """
    act = OPERATIONS.get(operation)
    if act is None:
        raise SqsError("UnknownOperationException", f"The model does not know {operation}.")
    with model.changed:
        model.move_tasks.tick()
        answer = act(model, Parameters(request))
        # An empty receive changes nothing. A notification would make waiting receives try again.
        if operation not in _READS and (answer or operation != "ReceiveMessage"):
            model.announce()
    return answer


def wait_seconds(model: SqsModel, operation: str, request: Mapping[str, Any]) -> int:
    """Return how long the call may wait for messages, in seconds; 0 unless it is a long poll.

    Raises:
        SqsError: the queue does not exist, or the wait is out of range.
    """
    if operation != "ReceiveMessage" or "QueueUrl" not in request:
        return 0
    with model.changed:
        return api_messages.wait_seconds(model.find(request["QueueUrl"]), request)
