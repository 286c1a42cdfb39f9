"""The interface of the model: AWS operations, with boto3's parameters and answers."""

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from local_sqs.content import check_for, missing_for_fifo, normalised, size_bytes
from local_sqs.errors import (
    SqsError,
    invalid_parameter,
    invalid_value,
    missing_parameter,
    namespaced,
    unknown_queue_attribute,
)
from local_sqs.messages import AttributeValue, State, StoredMessage
from local_sqs.model import SqsModel
from local_sqs.queues import MAX_VISIBILITY_SECONDS, Queue
from local_sqs.settings import MIB, SETTABLE

_ENTRY_ID = re.compile(r"[A-Za-z0-9_-]{1,80}")

Request = Mapping[str, Any]
Answer = dict[str, Any]


def call(model: SqsModel, operation: str, request: Request) -> Answer:
    """Carry out one operation now. A receive does not wait: its WaitTimeSeconds is ignored.

    Raises:
        SqsError: SQS would refuse it.
    """
    implementation = OPERATIONS.get(operation)
    if implementation is None:
        raise SqsError("UnknownOperationException", f"The model does not know {operation}.")

    with model.changed:
        answer = implementation(model, _Parameters(request))

        only_reads = operation.startswith(("Get", "List"))
        # An empty receive changes nothing. A notification would make waiting receives try again.
        is_empty_receive = operation == "ReceiveMessage" and not answer
        if not only_reads and not is_empty_receive:
            model.changed.notify_all()

    return answer


class _Parameters(dict[str, Any]):
    """The parameters of a request or an entry. Reading a missing one raises SqsError."""

    def __missing__(self, name: str) -> Any:
        raise missing_parameter(name)


def _range_check(name: str, value: int, lowest: int, highest: int) -> None:
    if not lowest <= value <= highest:
        reason = f"Must be between {lowest} and {highest}, if provided."
        raise invalid_value(name, value, reason)


# --- Queues


def create_queue(model: SqsModel, request: Request) -> Answer:
    queue = model.create_queue(request["QueueName"], request.get("Attributes"))
    return {"QueueUrl": model.url_of(queue)}


def delete_queue(model: SqsModel, request: Request) -> Answer:
    # AWS takes up to 60 s, and keeps the name for as long.
    del model.queues[model.find(request["QueueUrl"]).name]
    return {}


def get_queue_url(model: SqsModel, request: Request) -> Answer:
    return {"QueueUrl": model.url_of(model.find(request["QueueName"]))}


def list_dead_letter_source_queues(model: SqsModel, request: Request) -> Answer:
    arn = model.find(request["QueueUrl"]).arn
    source_urls = []
    for queue in model.queues.values():
        policy = queue.settings.redrive
        if policy and policy.target_arn == arn:
            source_urls.append(model.url_of(queue))

    size = request.get("MaxResults", 1000)
    _range_check("MaxResults", size, 1, 1000)
    start = int(request.get("NextToken", 0))
    end = start + size

    answer: Answer = {"queueUrls": source_urls[start:end]}
    if "MaxResults" in request and end < len(source_urls):
        answer["NextToken"] = str(end)
    return answer


def get_queue_attributes(model: SqsModel, request: Request) -> Answer:
    queue = model.find(request["QueueUrl"])
    values = {
        "QueueArn": queue.arn,
        "CreatedTimestamp": str(queue.created_ms // 1000),
        "LastModifiedTimestamp": str(queue.modified_ms // 1000),
        "ApproximateNumberOfMessages": str(queue.count(State.READY)),
        "ApproximateNumberOfMessagesNotVisible": str(queue.count(State.IN_FLIGHT)),
        "ApproximateNumberOfMessagesDelayed": str(queue.count(State.DELAYED)),
        **queue.settings.values,
    }

    names = request.get("AttributeNames", [])
    for name in names:
        if name not in {"All", *values, *SETTABLE}:
            raise unknown_queue_attribute(name)

    chosen = _chosen(values, names)
    return {"Attributes": chosen} if chosen else {}


def _chosen(values: Mapping[str, str], names: Collection[str]) -> Mapping[str, str]:
    """Return the values that a request names; the name ``All`` means all of them."""
    if "All" in names:
        return values
    return {name: value for name, value in values.items() if name in names}


def set_queue_attributes(model: SqsModel, request: Request) -> Answer:
    model.find(request["QueueUrl"]).change(request["Attributes"])
    return {}


# --- Batches


def _each(entries: Sequence[Request], carry_out: Callable[[Request], Answer]) -> Answer:
    """Carry out every entry of a batch. A refused entry does not stop the others."""
    answer: dict[str, list[dict[str, Any]]] = {}
    for entry in entries:
        try:
            result = {"Id": entry["Id"], **carry_out(entry)}
            answer.setdefault("Successful", []).append(result)
        except SqsError as error:
            answer.setdefault("Failed", []).append(failed_entry(entry, error))
    return answer


def _checked_entries(request: Request, kind: str) -> Sequence[Request]:
    """Return the entries of a batch.

    Raises:
        SqsError: no entries, too many, or an id that is malformed or not unique.
    """
    entries = [_Parameters(entry) for entry in request["Entries"]]
    if not entries:
        text = f"There should be at least one {kind}RequestEntry in the request."
        raise namespaced("EmptyBatchRequest", text)

    if len(entries) > 10:
        text = f"Maximum number of entries per request are 10. You have sent {len(entries)}."
        raise namespaced("TooManyEntriesInBatchRequest", text)

    ids = [entry["Id"] for entry in entries]
    for entry_id in ids:
        if not _ENTRY_ID.fullmatch(entry_id):
            text = (
                "A batch entry id can only contain alphanumeric characters, hyphens and "
                "underscores. It can be at most 80 letters long."
            )
            raise namespaced("InvalidBatchEntryId", text)

    for entry_id in ids:
        if ids.count(entry_id) > 1:
            raise namespaced("BatchEntryIdsNotDistinct", f"Id {entry_id} repeated.")

    return entries


def failed_entry(entry: Request, error: SqsError) -> dict[str, Any]:
    """Return an element of ``Failed``."""
    return {
        "Id": entry["Id"],
        "Code": error.code,
        "Message": error.message,
        "SenderFault": error.is_sender_fault,
    }


# --- Sending


def send_message(model: SqsModel, request: Request) -> Answer:
    queue = model.find(request["QueueUrl"])
    message = _message(request)
    if missing := missing_for_fifo(message, queue.settings):
        raise missing
    return _accept(queue, message)


def send_message_batch(model: SqsModel, request: Request) -> Answer:
    queue = model.find(request["QueueUrl"])
    entries = _checked_entries(request, "SendMessageBatch")
    messages = {entry["Id"]: _message(entry) for entry in entries}

    total_bytes = sum(map(size_bytes, messages.values()))
    if total_bytes > MIB:
        text = f"Batch requests cannot be longer than {MIB} bytes."
        raise namespaced("BatchRequestTooLong", f"{text} You have sent {total_bytes} bytes.")

    for message in messages.values():
        if missing := missing_for_fifo(message, queue.settings):
            raise invalid_parameter(missing.message)

    return _each(entries, lambda entry: _accept(queue, messages[entry["Id"]]))


def _accept(queue: Queue, message: StoredMessage) -> Answer:
    check_for(message, queue.settings)
    message.attributes = normalised(message.attributes)
    accepted = queue.send(message)

    answer: Answer = {
        "MessageId": accepted.message_id,
        "MD5OfMessageBody": _md5(message.body),
    }
    if queue.settings.is_fifo:
        answer["SequenceNumber"] = str(accepted.order)
    return answer


def _message(entry: Request) -> StoredMessage:
    system_attributes = entry.get("MessageSystemAttributes") or {}
    for name in system_attributes:
        if name != "AWSTraceHeader":
            raise invalid_parameter(f"Message system attribute name '{name}' is invalid.")

    attributes = {}
    for name, attribute in (entry.get("MessageAttributes") or {}).items():
        data_type = attribute.get("DataType", "")
        value = attribute.get("BinaryValue", attribute.get("StringValue", ""))
        attributes[name] = AttributeValue(data_type, value)

    return StoredMessage(
        body=entry.get("MessageBody") or "",
        attributes=attributes,
        group_id=entry.get("MessageGroupId"),
        deduplication_id=entry.get("MessageDeduplicationId"),
        trace_header=system_attributes.get("AWSTraceHeader", {}).get("StringValue"),
        delay_seconds=entry.get("DelaySeconds"),
    )


def _md5(body: str) -> str:
    return hashlib.md5(body.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()


# --- Receiving


def wait_seconds(model: SqsModel, operation: str, request: Request) -> int:
    """Return how long the call may wait for messages, in seconds; 0 unless it is a long poll.

    Raises:
        SqsError: the queue does not exist, or the wait is out of range.
    """
    if operation != "ReceiveMessage" or "QueueUrl" not in request:
        return 0
    settings = model.find(request["QueueUrl"]).settings
    seconds = int(request.get("WaitTimeSeconds", settings.number("ReceiveMessageWaitTimeSeconds")))
    _range_check("WaitTimeSeconds", seconds, 0, 20)
    return seconds


def receive_message(model: SqsModel, request: Request) -> Answer:
    queue = model.find(request["QueueUrl"])

    limit = request.get("MaxNumberOfMessages", 1)
    _range_check("MaxNumberOfMessages", limit, 1, 10)
    visibility_seconds = request.get("VisibilityTimeout")
    if visibility_seconds is not None:
        _range_check("VisibilityTimeout", visibility_seconds, 0, MAX_VISIBILITY_SECONDS)

    messages = queue.receive(
        limit,
        visibility_seconds,
        is_long_poll=wait_seconds(model, "ReceiveMessage", request) > 0,
        attempt_id=request.get("ReceiveRequestAttemptId") if queue.settings.is_fifo else None,
    )
    if not messages:
        return {}

    system_names = {
        *request.get("AttributeNames", ()),
        *request.get("MessageSystemAttributeNames", ()),
    }
    wants = _chooser(request.get("MessageAttributeNames", ()))
    return {"Messages": [_describe(message, queue, system_names, wants) for message in messages]}


def _describe(
    message: StoredMessage,
    queue: Queue,
    system_names: Collection[str],
    wants: Callable[[str], bool],
) -> Answer:
    """Return a received message with the attributes that the request asked for."""
    answer: Answer = {
        "MessageId": message.message_id,
        "ReceiptHandle": message.handle,
        "MD5OfBody": _md5(message.body),
        "Body": message.body,
    }

    system_attributes = _chosen(_system_attributes(message, queue), system_names)
    if system_attributes:
        answer["Attributes"] = system_attributes

    attributes = {}
    for name, (data_type, value) in message.attributes.items():
        if wants(name):
            value_key = "StringValue" if isinstance(value, str) else "BinaryValue"
            attributes[name] = {"DataType": data_type, value_key: value}
    if attributes:
        answer["MessageAttributes"] = attributes

    return answer


def _system_attributes(message: StoredMessage, queue: Queue) -> Mapping[str, str]:
    """Return the attributes that SQS gives a message, without those that it does not have."""
    values = {
        "SenderId": "AIDAEXAMPLEEXAMPLE123",
        "SentTimestamp": str(message.sent_ms),
        "ApproximateReceiveCount": str(message.receive_count),
        "ApproximateFirstReceiveTimestamp": str(message.first_received_ms),
        "MessageGroupId": message.group_id,
        "MessageDeduplicationId": message.deduplication_id,
        "SequenceNumber": str(message.order) if queue.settings.is_fifo else None,
        "AWSTraceHeader": message.trace_header,
        "DeadLetterQueueSourceArn": message.source_arn,
    }
    return {name: value for name, value in values.items() if value}


def _chooser(requested: Iterable[str]) -> Callable[[str], bool]:
    """Return a predicate: whether a receive requested the attribute of that name.

    It requests by name, by ``prefix.*``, or all by ``All`` or ``.*``.
    """
    names = frozenset(requested)
    if names & {"All", ".*"}:
        return lambda _: True

    prefixes = tuple(name.removesuffix(".*") for name in names if name.endswith(".*"))
    return lambda name: name in names or name.startswith(prefixes)


# --- Receipt handles


def delete_message(model: SqsModel, request: Request) -> Answer:
    model.find(request["QueueUrl"]).delete(request["ReceiptHandle"])
    return {}


def delete_message_batch(model: SqsModel, request: Request) -> Answer:
    queue = model.find(request["QueueUrl"])

    def delete(entry: Request) -> Answer:
        try:
            queue.delete(entry["ReceiptHandle"])
        except SqsError as error:
            if "has expired" not in error.message:
                raise
            # In a batch the same error has another code: github.com/smaskalik/sqsmover/issues/54.
            text = "The receipt handle has expired"
            raise SqsError("ReceiptHandleIsInvalid", text) from error
        return {}

    return _each(_checked_entries(request, "DeleteMessageBatch"), delete)


def change_message_visibility(model: SqsModel, request: Request) -> Answer:
    return _change(model.find(request["QueueUrl"]), request)


def change_message_visibility_batch(model: SqsModel, request: Request) -> Answer:
    queue = model.find(request["QueueUrl"])
    entries = _checked_entries(request, "ChangeMessageVisibilityBatch")
    return _each(entries, partial(_change, queue))


def _change(queue: Queue, entry: Request) -> Answer:
    queue.change_visibility(entry["ReceiptHandle"], entry["VisibilityTimeout"])
    return {}


# --- Tags


def tag_queue(model: SqsModel, request: Request) -> Answer:
    model.find(request["QueueUrl"]).tags.update(request["Tags"])
    return {}


def untag_queue(model: SqsModel, request: Request) -> Answer:
    tags = model.find(request["QueueUrl"]).tags
    for key in request["TagKeys"]:
        tags.pop(key, None)
    return {}


def list_queue_tags(model: SqsModel, request: Request) -> Answer:
    return {"Tags": dict(model.find(request["QueueUrl"]).tags)}


def get_resources(model: SqsModel, request: Request) -> Answer:
    """Answer for the Resource Groups Tagging API: the queues that have one of each filter's values.

    A tag is seen at once; AWS takes some minutes.
    """
    resources = []
    for queue in model.queues.values():
        filters = request.get("TagFilters", [])
        passed = [queue.tags.get(wanted["Key"]) in wanted["Values"] for wanted in filters]
        if queue.tags and all(passed):
            tags = [{"Key": key, "Value": value} for key, value in queue.tags.items()]
            resources.append({"ResourceARN": queue.arn, "Tags": tags})

    size = request.get("ResourcesPerPage", 50)
    start = int(request.get("PaginationToken") or 0)
    end = start + size
    token = str(end) if end < len(resources) else ""
    return {"ResourceTagMappingList": resources[start:end], "PaginationToken": token}


# --- CloudWatch metrics of a queue


def get_metric_statistics(model: SqsModel, request: Request) -> Answer:
    """Return how many messages a queue deleted; the number is complete at once.

    There is no data of any other metric.
    """
    datapoints = []
    if request["MetricName"] == "NumberOfMessagesDeleted":
        for start, count in _deleted(model, request, request).items():
            datapoints.append({"Timestamp": start, "Sum": count})
    return {"Datapoints": datapoints}


def get_metric_data(model: SqsModel, request: Request) -> Answer:
    """Return how many messages a queue deleted, and how many are visible now.

    Both for each period of the queue's life. There is no data of any other metric.
    """
    results = []
    for query in request["MetricDataQueries"]:
        stat = query["MetricStat"]
        name = stat["Metric"]["MetricName"]
        values: Mapping[int, int] = {}
        if name in ("ApproximateNumberOfMessagesVisible", "NumberOfMessagesDeleted"):
            values = _deleted(model, stat["Metric"] | stat, request)
        if name == "ApproximateNumberOfMessagesVisible" and values:
            [dimension] = stat["Metric"]["Dimensions"]
            visible = model.find(dimension["Value"]).count(State.READY)
            values = dict.fromkeys(values, visible)

        results.append(
            {
                "Id": query["Id"],
                "Label": name,
                "Timestamps": list(values),
                "Values": list(values.values()),
                "StatusCode": "Complete",
            }
        )
    return {"MetricDataResults": results}


def _deleted(model: SqsModel, metric: Request, times: Request) -> Counter[int]:
    """Return how many messages a queue deleted, by the start of each period of its life."""
    [dimension] = metric["Dimensions"]
    period_seconds = int(metric["Period"])
    counts = Counter[int]()

    if queue := model.queues.get(dimension["Value"]):
        begin = max(int(times["StartTime"]), queue.created_ms // 1000)
        end = min(int(times["EndTime"]), model.clock.now_ms() // 1000 + 1)
        for second in range(begin, end):
            period_start = second - second % period_seconds
            counts[period_start] += queue.deleted[second]

    return counts


OPERATIONS: Mapping[str, Callable[[SqsModel, Request], Answer]] = {
    "ChangeMessageVisibility": change_message_visibility,
    "ChangeMessageVisibilityBatch": change_message_visibility_batch,
    "CreateQueue": create_queue,
    "DeleteMessage": delete_message,
    "DeleteMessageBatch": delete_message_batch,
    "DeleteQueue": delete_queue,
    "GetMetricData": get_metric_data,
    "GetMetricStatistics": get_metric_statistics,
    "GetQueueAttributes": get_queue_attributes,
    "GetQueueUrl": get_queue_url,
    "GetResources": get_resources,
    "ListDeadLetterSourceQueues": list_dead_letter_source_queues,
    "ListQueueTags": list_queue_tags,
    "ReceiveMessage": receive_message,
    "SendMessage": send_message,
    "SendMessageBatch": send_message_batch,
    "SetQueueAttributes": set_queue_attributes,
    "TagQueue": tag_queue,
    "UntagQueue": untag_queue,
}
