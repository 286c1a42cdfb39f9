"""Three messages of a run, and the events that Lambda makes of them."""

from typing import Any

from demo.event_source import to_event
from demo.identity import COUNTER, Attribute, Content
from demo.workload import DemoMessage, Trait

ARN = "arn:aws:sqs:us-east-1:1:main"
FIFO_ARN = f"{ARN}.fifo"
PLAIN = DemoMessage.of(1, Content("plain"), Trait.PLAIN)
PAYMENT = DemoMessage.of(2, Content("payment"), Trait.NEEDS_PAYMENTS)
BROKEN = DemoMessage.of(3, Content("broken"), Trait.BROKEN)
MESSAGES = {m.identity: m for m in (PLAIN, PAYMENT, BROKEN)}


def event(*messages: DemoMessage, replay_count: int = 0, body: str | None = None) -> dict[str, Any]:
    attributes = {COUNTER: Attribute("Number", str(replay_count))} if replay_count else {}
    received = [
        {
            "MessageId": f"copy-of-{m.number}",
            "ReceiptHandle": "handle",
            "Body": body or m.content.body,
            "Attributes": {
                "ApproximateReceiveCount": "1",
                "SentTimestamp": "1000",
                "ApproximateFirstReceiveTimestamp": "4000",
            },
            "MessageAttributes": {
                name: {"DataType": a.data_type, "StringValue": a.value}
                for name, a in {**m.content.attributes, **attributes}.items()
            },
        }
        for m in messages
    ]
    return to_event(received, ARN)


def fifo_event(*messages: DemoMessage, groups: str, replay_count: int = 0) -> dict[str, Any]:
    """The same from a FIFO queue; *groups* holds a letter for each message."""
    standard = event(*messages, replay_count=replay_count)
    for record, group in zip(standard["Records"], groups, strict=True):
        record["eventSourceARN"] = FIFO_ARN
        record["attributes"] = {**record["attributes"], "MessageGroupId": group}
    return standard
