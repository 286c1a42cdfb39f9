"""The rules of a rehearsal: the event for a message, and the verdict of the answer. Pure."""

import base64
import hashlib
import json
from dataclasses import dataclass
from typing import Any

from dlq_replay.attributes import MessageAttribute
from dlq_replay.context import CONTEXT_ATTRIBUTE
from dlq_replay.history import REPLAY_COUNT_ATTRIBUTE
from dlq_replay.message import Message

_OURS = (CONTEXT_ATTRIBUTE, REPLAY_COUNT_ATTRIBUTE)
_ERROR = {"errorMessage", "errorType"}
_ERROR_FIELDS = {*_ERROR, "requestId", "stackTrace", "cause", "trace"}


@dataclass(frozen=True, slots=True)
class Failure:
    """Why the function did not process a message. *text* may quote the message."""

    type: str
    text: str = ""


def event_of(
    message: Message, source_arn: str, new_message_id: str, now_milliseconds: int
) -> dict[str, Any]:
    """Return the event with which Lambda would deliver a new copy of *message*.

    The copy has a new message id, and neither our counter nor our context. So nothing that
    remembers messages by these ids takes it for the message itself.

    Args:
        message: as a redrive would send it.
        source_arn: of the queue that it is redriven to.
        new_message_id: of the copy; on FIFO queues also its deduplication id.
        now_milliseconds: when the copy is sent and received.
    """
    system = {
        "ApproximateReceiveCount": "1",
        "SentTimestamp": str(now_milliseconds),
        "SenderId": message.system.get("SenderId", ""),
        "ApproximateFirstReceiveTimestamp": str(now_milliseconds),
    }
    if message.trace_header:
        system["AWSTraceHeader"] = message.trace_header
    if message.message_group_id is not None:
        system["MessageGroupId"] = message.message_group_id
    if source_arn.endswith(".fifo"):
        system["MessageDeduplicationId"] = new_message_id
        # SQS's own has 20 digits too, and grows.
        system["SequenceNumber"] = f"{now_milliseconds:020d}"
    attributes = {n: _attribute(a) for n, a in message.attributes.items() if n not in _OURS}
    record = {
        "messageId": new_message_id,
        "receiptHandle": f"rehearsal-{new_message_id}",
        "body": message.body,
        "attributes": system,
        "messageAttributes": attributes,
        "md5OfBody": hashlib.md5(message.body.encode(), usedforsecurity=False).hexdigest(),
        "eventSource": "aws:sqs",
        "eventSourceARN": source_arn,
        "awsRegion": source_arn.split(":")[3],
    }
    return {"Records": [record]}


def _attribute(attribute: MessageAttribute) -> dict[str, Any]:
    rest = {"stringListValues": [], "binaryListValues": [], "dataType": attribute.data_type}
    if isinstance(attribute.value, bytes):
        return {"binaryValue": base64.b64encode(attribute.value).decode(), **rest}
    return {"stringValue": attribute.value, **rest}


def failure_of(
    payload: bytes, function_error: str | None, message_id: str, *, is_emulated: bool
) -> Failure | None:
    """Return why the function failed on the only message of its event, None if it did not.

    A partial batch response is read as Lambda does: an answer without ``batchItemFailures``, or
    with an empty or null list, says that all succeeded. A list of another form, or one that names
    another message, fails the whole batch. See
    https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html

    Args:
        payload: what the invocation returned.
        function_error: the field ``FunctionError`` of the answer.
        message_id: of the message in the event.
        is_emulated: whether an emulator answered. It may report an error of the function in the
            payload alone, and a time-out as plain text.
    """
    try:
        answer: object = json.loads(payload or b"null")
    except ValueError:
        text = payload.decode(errors="replace")
        return Failure("Timeout" if "timed out" in text else "InvalidAnswer", text)
    fields = answer if isinstance(answer, dict) else {}
    if function_error or (is_emulated and _ERROR <= fields.keys() <= _ERROR_FIELDS):
        error_type = fields.get("errorType") or function_error
        return Failure(str(error_type), str(fields.get("errorMessage", "")))
    items = fields.get("batchItemFailures")
    if items is None or items == []:
        return None
    if items == [{"itemIdentifier": message_id}]:
        return Failure("batchItemFailures", "the function reports the message as failed")
    return Failure("InvalidPartialResponse", "batchItemFailures is no list of the message's id")
