"""The event that Lambda would give to the handler for one redriven message. Pure."""

import base64
import hashlib
from dataclasses import dataclass
from typing import Any

from dlq_replay.attributes import MessageAttribute
from dlq_replay.message import Message, SendEntry


@dataclass(frozen=True, slots=True)
class Source:
    """The source queue, as an event names it."""

    arn: str
    region: str

    @property
    def is_fifo(self) -> bool:
        """Whether it keeps the order of message groups."""
        return self.arn.endswith(".fifo")


def event_of(
    message: Message, entry: SendEntry, source: Source, now_milliseconds: int
) -> dict[str, Any]:
    """Return the event with *entry*, the copy of *message* that a redrive sends.

    The message keeps the id that the archive knows it by; SQS would give the copy a new one.

    Args:
        message: the archived message.
        entry: the copy.
        source: the queue that the copy goes to.
        now_milliseconds: when it is sent and received.
    """
    system = {
        "ApproximateReceiveCount": "1",
        "SentTimestamp": str(now_milliseconds),
        "SenderId": message.system.get("SenderId", ""),
        "ApproximateFirstReceiveTimestamp": str(now_milliseconds),
    }
    if entry.trace_header:
        system["AWSTraceHeader"] = entry.trace_header
    if entry.message_group_id is not None:
        system["MessageGroupId"] = entry.message_group_id
    if source.is_fifo:
        system["MessageDeduplicationId"] = entry.deduplication_id or ""
        # SQS's own has 20 digits too, and grows.
        system["SequenceNumber"] = f"{now_milliseconds:020d}"
    record = {
        "messageId": message.message_id,
        "receiptHandle": f"rehearsal-{message.message_id}",
        "body": entry.body,
        "attributes": system,
        "messageAttributes": {name: _attribute(one) for name, one in entry.attributes.items()},
        "md5OfBody": hashlib.md5(entry.body.encode(), usedforsecurity=False).hexdigest(),
        "eventSource": "aws:sqs",
        "eventSourceARN": source.arn,
        "awsRegion": source.region,
    }
    return {"Records": [record]}


def _attribute(attribute: MessageAttribute) -> dict[str, Any]:
    rest = {"stringListValues": [], "binaryListValues": [], "dataType": attribute.data_type}
    if isinstance(attribute.value, bytes):
        return {"binaryValue": base64.b64encode(attribute.value).decode(), **rest}
    return {"stringValue": attribute.value, **rest}
