"""The rules of a rehearsal: the event has Lambda's shape, and the verdict is that of Lambda."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from dlq.cli.verbs.rehearse import Rehearsal, RehearsalFailure, event_of, failure_of
from dlq_replay.wire.message import Message
from tests.support.builders import NOW, context, counter, queue_arn

EVENTS = Path(__file__).parents[3] / "events"
ID = "5fea7756-0ea4-451a-a703-a558b933e274"


@pytest.mark.parametrize("name", ["standard", "fifo", "binary-attribute"])
def test_event_has_the_fields_of_lambda_s(name: str) -> None:
    ours = {**counter("2"), **context(first_id="first")}
    records = json.loads((EVENTS / f"{name}.json").read_text())["Records"]
    arn = queue_arn("main.fifo" if name == "fifo" else "main")
    for record in records:
        message = Message.from_received(record)
        message = replace(message, attributes={**message.attributes, **ours})
        (made,) = event_of(message, arn, ID, NOW * 1000)["Records"]

        assert made.keys() == record.keys()
        expected = record["attributes"].keys() - {"DeadLetterQueueSourceArn", "AWSTraceHeader"}
        assert made["attributes"].keys() - {"AWSTraceHeader"} == expected
        assert made["attributes"].get("MessageGroupId") == record["attributes"].get(
            "MessageGroupId"
        )
        assert made["attributes"]["ApproximateReceiveCount"] == "1"
        assert (made["body"], made["md5OfBody"]) == (record["body"], record["md5OfBody"])
        own = {n: a for n, a in record["messageAttributes"].items() if n not in ours}
        assert made["messageAttributes"] == own
        assert (made["messageId"], made["eventSourceARN"]) == (ID, arn)
        assert record["messageId"] not in json.dumps(made)


ERROR = {"errorMessage": "'vat'", "errorType": "KeyError", "stackTrace": []}
TIMEOUT = "Task timed out after 3.00 seconds"
PASS = None


@pytest.mark.parametrize(
    ("answer", "function_error", "is_emulated", "expected"),
    [
        (None, None, False, PASS),
        ({}, None, False, PASS),
        ({"batchItemFailures": None}, None, False, PASS),
        ({"batchItemFailures": []}, None, False, PASS),
        # Text is no batch response.
        ("done", None, False, PASS),
        ({"batchItemFailures": [{"itemIdentifier": ID}]}, None, False, "batchItemFailures"),
        ({"batchItemFailures": [{"itemIdentifier": "m-2"}]}, None, False, "InvalidPartialResponse"),
        ({"batchItemFailures": ["m-1"]}, None, False, "InvalidPartialResponse"),
        ({"batchItemFailures": ID}, None, False, "InvalidPartialResponse"),
        (ERROR, "Unhandled", False, "KeyError"),
        ({"errorMessage": "x"}, "Unhandled", False, "Unhandled"),
        (ERROR, None, True, "KeyError"),
        # A function on AWS may return such an object, and one in the emulator such an answer.
        (ERROR, None, False, PASS),
        ({**ERROR, "batchItemFailures": []}, None, True, PASS),
        # No JSON.
        (b"", None, True, PASS),
        (TIMEOUT.encode(), None, True, RehearsalFailure("Timeout", TIMEOUT)),
        (b"<html>", None, True, RehearsalFailure("InvalidAnswer", "<html>")),
    ],
)
def test_verdict(
    answer: object,
    function_error: str | None,
    is_emulated: bool,
    expected: str | RehearsalFailure | None,
) -> None:
    payload = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
    failure = failure_of(payload, function_error, ID, is_emulated=is_emulated)

    assert expected in ((failure and failure.type), failure)


def test_what_a_function_says_of_its_failure_is_masked() -> None:
    rehearsal = Rehearsal("p-1", "g-1", "consumer", 1)

    rehearsal.add("m-1", RehearsalFailure("No user anna@example.com", "password=hunter2 is wrong"))

    [outcome] = rehearsal.outcomes
    assert (outcome.error_type, outcome.error) == ("No user ***", "password=*** is wrong")
