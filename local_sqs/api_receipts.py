"""Operations by receipt handle: deletion and visibility, single and in batches."""

from collections.abc import Mapping
from typing import Any

from local_sqs.api_batches import Entry, checked_entries, each
from local_sqs.errors import SqsError
from local_sqs.model import SqsModel
from local_sqs.queues import Queue

Request = Mapping[str, Any]
Answer = dict[str, Any]


def delete_message(model: SqsModel, request: Request) -> Answer:
    model.find(request["QueueUrl"]).delete(request["ReceiptHandle"])
    return {}


def delete_message_batch(model: SqsModel, request: Request) -> Answer:
    queue = model.find(request["QueueUrl"])
    entries = checked_entries(request, "DeleteMessageBatch")
    return each(entries, lambda entry: _delete(queue, entry))


def _delete(queue: Queue, entry: Entry) -> Answer:
    try:
        queue.delete(entry["ReceiptHandle"])
    except SqsError as error:
        if "has expired" not in error.message:
            raise
        # In a batch the same error has another code: github.com/smaskalik/sqsmover/issues/54.
        text = "The receipt handle has expired"
        raise SqsError("ReceiptHandleIsInvalid", text) from error
    return {}


def change_message_visibility(model: SqsModel, request: Request) -> Answer:
    queue = model.find(request["QueueUrl"])
    queue.change_visibility(request["ReceiptHandle"], request["VisibilityTimeout"])
    return {}


def change_message_visibility_batch(model: SqsModel, request: Request) -> Answer:
    queue = model.find(request["QueueUrl"])
    entries = checked_entries(request, "ChangeMessageVisibilityBatch")
    return each(entries, lambda entry: _change(queue, entry))


def _change(queue: Queue, entry: Entry) -> Answer:
    queue.change_visibility(entry["ReceiptHandle"], entry["VisibilityTimeout"])
    return {}
