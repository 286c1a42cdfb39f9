"""The event of a rehearsal has the shape of those that Lambda gives; see ``events/``."""

import json
from pathlib import Path
from typing import Any

import pytest

from demo.event_source import to_record
from dlq_cli.rehearse.events import Source, event_of
from dlq_replay.message import Message
from dlq_replay.outgoing import redriven_entry
from tests.builders import NOW, queue_arn

EVENTS = Path(__file__).parents[4] / "events"


def records(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((EVENTS / name).read_text())["Records"]
    return found


@pytest.mark.parametrize("name", ["standard.json", "fifo.json", "binary-attribute.json"])
def test_event_has_the_fields_of_lambda_s(name: str) -> None:
    # The replay function's events have counter and context; Lambda's own words are the same.
    ours = {"sqs-dlq-replay-nb", "sqs-dlq-context"}
    for record in records(name):
        message = Message.from_lambda_record(record)
        is_fifo = name == "fifo.json"
        entry = redriven_entry(message, "plan-1", to_fifo=is_fifo)
        source = Source(queue_arn("main.fifo" if is_fifo else "main"), "us-east-1")

        (made,) = event_of(message, entry, source, NOW * 1000)["Records"]

        assert made.keys() == record.keys()
        expected = record["attributes"].keys() - {"DeadLetterQueueSourceArn", "AWSTraceHeader"}
        assert made["attributes"].keys() - {"AWSTraceHeader"} == expected
        assert made["attributes"]["ApproximateReceiveCount"] == "1"
        assert (made["body"], made["md5OfBody"]) == (record["body"], record["md5OfBody"])
        theirs = {n: a for n, a in record["messageAttributes"].items() if n not in ours}
        own = {n: a for n, a in made["messageAttributes"].items() if n not in ours}
        assert own == theirs


def test_event_is_what_the_redriven_copy_arrives_as() -> None:
    message = Message.from_lambda_record(records("binary-attribute.json")[0])
    entry = redriven_entry(message, "plan-1", to_fifo=False)
    sent = entry.to_api("0")
    received = {
        "MessageId": message.message_id,
        "ReceiptHandle": f"rehearsal-{message.message_id}",
        "Body": sent["MessageBody"],
        "MessageAttributes": sent["MessageAttributes"],
    }

    (made,) = event_of(message, entry, Source(queue_arn("main"), "us-east-1"), 1)["Records"]

    arrived = to_record(received, queue_arn("main"))
    assert {**made, "attributes": {}} == {**arrived, "attributes": {}}
