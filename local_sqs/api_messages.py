"""Sending and receiving, by their AWS names, with boto3's parameters and answers."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from local_sqs.api_batches import Entry, checked_entries, each
from local_sqs.content import (
    md5_of_attributes,
    md5_of_body,
    normalised,
    size_bytes,
)
from local_sqs.errors import invalid_parameter, invalid_value, namespaced
from local_sqs.model import SqsModel
from local_sqs.queues import Queue
from local_sqs.receipts import MAX_VISIBILITY_SECONDS
from local_sqs.sending import check_for, missing_for_fifo
from local_sqs.settings import MIB
from local_sqs.values import Attributes, AttributeValue, StoredMessage, Submission

Request = Mapping[str, Any]
Answer = dict[str, Any]

MAX_BATCH_BYTES = MIB
"""Sum over a SendMessageBatch: SQSAPI, SendMessageBatch."""

SENDER_ID = "AIDAEXAMPLEEXAMPLE123"


def send_message(model: SqsModel, request: Request) -> Answer:
    queue = model.find(request["QueueUrl"])
    submission = _submission(request)
    missing = missing_for_fifo(submission, queue.settings)
    if missing is not None:
        raise missing
    check_for(submission, queue.settings, size_bytes(submission))
    return _accept(model, queue, submission)


def send_message_batch(model: SqsModel, request: Request) -> Answer:
    queue = model.find(request["QueueUrl"])
    entries = checked_entries(request, "SendMessageBatch")
    submissions = {entry["Id"]: _submission(entry) for entry in entries}
    sizes = {entry_id: size_bytes(submission) for entry_id, submission in submissions.items()}
    total = sum(sizes.values())
    if total > MAX_BATCH_BYTES:
        text = f"Batch requests cannot be longer than {MAX_BATCH_BYTES} bytes."
        raise namespaced("BatchRequestTooLong", f"{text} You have sent {total} bytes.")
    for submission in submissions.values():
        if missing := missing_for_fifo(submission, queue.settings):
            raise invalid_parameter(missing.message)
    if model.switches.rejects_whole_batch:
        for entry_id, submission in submissions.items():
            check_for(submission, queue.settings, sizes[entry_id])

    def send(entry: Entry) -> Answer:
        submission = submissions[entry["Id"]]
        check_for(submission, queue.settings, sizes[entry["Id"]])
        return _accept(model, queue, submission)

    return each(entries, send)


def _accept(model: SqsModel, queue: Queue, submission: Submission) -> Answer:
    given = submission.attributes
    kept = normalised(given) if model.switches.normalises_numbers else given
    if kept is not given:
        submission = submission._replace(attributes=kept)
    accepted = queue.send(submission)
    answer: Answer = {
        "MessageId": accepted.message_id,
        "MD5OfMessageBody": md5_of_body(submission.body),
    }
    if given:
        answer["MD5OfMessageAttributes"] = md5_of_attributes(given)
    if submission.trace_header:
        header = {"AWSTraceHeader": AttributeValue("String", submission.trace_header)}
        answer["MD5OfMessageSystemAttributes"] = md5_of_attributes(header)
    if queue.settings.is_fifo:
        answer["SequenceNumber"] = str(accepted.order)
    return answer


def _submission(entry: Entry) -> Submission:
    system = entry.get("MessageSystemAttributes") or {}
    unknown = next((name for name in system if name != "AWSTraceHeader"), None)
    if unknown is not None:
        raise invalid_parameter(f"Message system attribute name '{unknown}' is invalid.")
    return Submission(
        body=entry.get("MessageBody") or "",
        attributes=_attributes(entry.get("MessageAttributes") or {}),
        group_id=entry.get("MessageGroupId"),
        deduplication_id=entry.get("MessageDeduplicationId"),
        trace_header=system.get("AWSTraceHeader", {}).get("StringValue"),
        delay_seconds=entry.get("DelaySeconds"),
    )


def _attributes(raw: Mapping[str, Mapping[str, Any]]) -> Attributes:
    return {
        name: AttributeValue(
            attribute.get("DataType") or "",
            attribute["BinaryValue"]
            if "BinaryValue" in attribute
            else attribute.get("StringValue") or "",
        )
        for name, attribute in raw.items()
    }


def wait_seconds(queue: Queue, request: Request) -> int:
    """Return the wait of a receive, or the default of the queue, in seconds.

    Raises:
        SqsError: it is not within 0 to 20.
    """
    seconds = int(request.get("WaitTimeSeconds", queue.settings.wait_seconds))
    if not 0 <= seconds <= 20:
        reason = "Must be >= 0 and <= 20, if provided."
        raise invalid_value("WaitTimeSeconds", seconds, reason)
    return seconds


def receive_message(model: SqsModel, request: Request) -> Answer:
    queue = model.find(request["QueueUrl"])
    limit = request.get("MaxNumberOfMessages", 1)
    if not 1 <= limit <= 10:
        reason = "Must be between 1 and 10, if provided."
        raise invalid_value("MaxNumberOfMessages", limit, reason)
    visibility = request.get("VisibilityTimeout")
    if visibility is not None and not 0 <= visibility <= MAX_VISIBILITY_SECONDS:
        reason = f"Must be between 0 and {MAX_VISIBILITY_SECONDS}, if provided."
        raise invalid_value("VisibilityTimeout", visibility, reason)
    messages = queue.receive(
        limit,
        visibility,
        is_long_poll=wait_seconds(queue, request) > 0,
        attempt_id=request.get("ReceiveRequestAttemptId") if queue.settings.is_fifo else None,
        move_to_dlq=model.make_move_to_dlq(queue),
    )
    names = {*request.get("AttributeNames", ()), *request.get("MessageSystemAttributeNames", ())}
    wants = _chooser(request.get("MessageAttributeNames", ()))
    found = [_describe(message, names, wants, queue) for message in messages]
    return {"Messages": found} if found else {}


def _describe(
    message: StoredMessage, names: set[str], wants: Callable[[str], bool], queue: Queue
) -> Answer:
    answer: Answer = {
        "MessageId": message.message_id,
        "ReceiptHandle": message.handle,
        "MD5OfBody": md5_of_body(message.body),
        "Body": message.body,
    }
    system = _system_attributes(message, names, is_fifo=queue.settings.is_fifo) if names else {}
    if system:
        answer["Attributes"] = system
    chosen = {name: a for name, a in message.attributes.items() if wants(name)}
    if chosen:
        answer["MD5OfMessageAttributes"] = md5_of_attributes(chosen)
        answer["MessageAttributes"] = {
            name: {"DataType": a.data_type, _value_key(a): a.value} for name, a in chosen.items()
        }
    return answer


def _value_key(attribute: AttributeValue) -> str:
    return "StringValue" if isinstance(attribute.value, str) else "BinaryValue"


def _system_attributes(message: StoredMessage, names: set[str], *, is_fifo: bool) -> dict[str, str]:
    values = {
        "SenderId": SENDER_ID,
        "SentTimestamp": str(message.sent_ms),
        "ApproximateReceiveCount": str(message.receive_count),
        "ApproximateFirstReceiveTimestamp": str(message.first_received_ms),
        "MessageGroupId": message.group_id,
        "MessageDeduplicationId": message.deduplication_id,
        "SequenceNumber": str(message.order) if is_fifo else None,
        "AWSTraceHeader": message.trace_header,
        "DeadLetterQueueSourceArn": message.source_arn,
    }
    return {
        name: value for name, value in values.items() if value and ("All" in names or name in names)
    }


def _chooser(names: Iterable[str]) -> Callable[[str], bool]:
    """Return whether a receive requested an attribute: by name, by ``prefix.*``, or ``All``."""
    exact = frozenset(names)
    if exact & {"All", ".*"}:
        return lambda _: True
    prefixes = tuple(name[:-2] for name in exact if name.endswith(".*"))
    return lambda name: name in exact or name.startswith(prefixes)
