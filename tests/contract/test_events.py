import base64
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from dlq_replay.context import CONTEXT_ATTRIBUTE
from dlq_replay.events import UnreadableRecord, read_event
from dlq_replay.history import REPLAY_COUNT_ATTRIBUTE
from dlq_replay.settings import ReplaySettings
from tests.contract.cloudformation import Stack, load_template

ROOT = Path(__file__).parents[2]
ENVIRONMENTS = sorted((ROOT / "events").glob("env*.json"))
EVENTS = sorted(set((ROOT / "events").glob("*.json")) - set(ENVIRONMENTS))

for_every_event = pytest.mark.parametrize("path", EVENTS, ids=lambda path: path.stem)
for_every_environment = pytest.mark.parametrize("path", ENVIRONMENTS, ids=lambda path: path.stem)

LISTS_THAT_SQS_LEAVES_EMPTY: dict[str, list[str]] = {"stringListValues": [], "binaryListValues": []}
SYSTEM_ATTRIBUTES_OF_EVERY_DEAD_LETTER = {
    "ApproximateReceiveCount",
    "SentTimestamp",
    "SenderId",
    "ApproximateFirstReceiveTimestamp",
    "DeadLetterQueueSourceArn",
}


def load(name: str) -> Any:
    return json.loads((ROOT / "events" / f"{name}.json").read_text("utf-8"))


def records_of(path: Path) -> list[dict[str, Any]]:
    event = load(path.stem)
    return event if isinstance(event, list) else list(event["Records"])


def attributes_of(record: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return dict(record.get("messageAttributes", {}))


@for_every_event
def test_the_digest_is_that_of_the_body(path: Path) -> None:
    with_body = [record for record in records_of(path) if "body" in record]

    assert with_body
    for record in with_body:
        digest = hashlib.md5(record["body"].encode(), usedforsecurity=False).hexdigest()
        assert digest == record["md5OfBody"]


@for_every_event
def test_every_body_is_a_json_document(path: Path) -> None:
    for record in records_of(path):
        assert isinstance(json.loads(record.get("body", "{}")), dict)


@for_every_event
def test_no_two_messages_share_an_id_or_a_receipt_handle(path: Path) -> None:
    records = records_of(path)

    assert len({record["messageId"] for record in records}) == len(records)
    assert len({record["receiptHandle"] for record in records}) == len(records)


@for_every_event
def test_message_attributes_have_the_form_in_which_lambda_sends_them(path: Path) -> None:
    attributes = [one for record in records_of(path) for one in attributes_of(record).values()]

    for attribute in attributes:
        kind = attribute["dataType"].partition(".")[0]
        value = "binaryValue" if kind == "Binary" else "stringValue"
        assert {value, "dataType"} == attribute.keys() - LISTS_THAT_SQS_LEAVES_EMPTY.keys()
        assert attribute.items() >= LISTS_THAT_SQS_LEAVES_EMPTY.items()
        assert kind in {"String", "Number", "Binary"}


@for_every_event
def test_every_record_says_when_and_from_which_queue_it_came(path: Path) -> None:
    for record in records_of(path):
        system = record["attributes"]
        assert system.keys() >= SYSTEM_ATTRIBUTES_OF_EVERY_DEAD_LETTER
        assert int(system["SentTimestamp"]) <= int(system["ApproximateFirstReceiveTimestamp"])
        assert record["eventSource"] == "aws:sqs"
        assert record["eventSourceARN"].partition(".fifo")[0].endswith(":dlq")
        assert record["awsRegion"] in record["eventSourceARN"]


@for_every_event
def test_fifo_records_and_only_they_carry_what_fifo_adds(path: Path) -> None:
    for record in records_of(path):
        is_fifo = record["eventSourceARN"].endswith(".fifo")
        added = {"SequenceNumber", "MessageDeduplicationId"} & record["attributes"].keys()
        assert len(added) == (2 if is_fifo else 0)


def test_the_binary_attribute_holds_bytes_that_are_no_text() -> None:
    [record] = load("binary-attribute")["Records"]
    attributes = attributes_of(record)
    thumbnail = base64.b64decode(attributes["thumbnail"]["binaryValue"], validate=True)

    assert thumbnail == b"\x00\x01\xff"
    assert attributes["thumbnail"]["dataType"] == "Binary.png"
    assert attributes["page-count"]["dataType"] == "Number.int"


def test_the_standard_event_has_a_first_failure_a_third_and_a_traced_one() -> None:
    first, third, traced = load("standard")["Records"]

    assert REPLAY_COUNT_ATTRIBUTE not in attributes_of(first)
    assert attributes_of(third)[REPLAY_COUNT_ATTRIBUTE]["stringValue"] == "2"
    assert json.loads(attributes_of(third)[CONTEXT_ATTRIBUTE]["stringValue"])["v"] == 1
    assert "Lineage=" in traced["attributes"]["AWSTraceHeader"]
    assert traced["attributes"]["MessageGroupId"] == "tenant-acme"


def test_the_fifo_event_has_two_groups_in_the_order_of_their_sequence_numbers() -> None:
    attributes = [record["attributes"] for record in load("fifo")["Records"]]
    numbers = [one["SequenceNumber"] for one in attributes]

    assert len(attributes) == 3
    assert len({one["MessageGroupId"] for one in attributes}) == 2
    assert numbers == sorted(numbers)


def test_the_malformed_event_costs_only_the_record_that_is_no_message() -> None:
    records = read_event(load("malformed"))
    unreadable = [one.fault for one in records if isinstance(one, UnreadableRecord)]
    histories = [one.history for one in records if not isinstance(one, UnreadableRecord)]

    assert unreadable == ["body: must be text of at least one character"]
    assert [history.replay_count for history in histories] == [None, 1, 0, 0, 0]
    assert [bool(history.fault) for history in histories] == [False, True, False, False, False]


@for_every_environment
def test_the_environment_sets_only_variables_of_the_template(path: Path) -> None:
    functions = load(path.stem)
    resources = Stack.of(load_template(ROOT / "template.yaml")).resources

    for name, variables in functions.items():
        declared = resources[name]["Properties"]["Environment"]["Variables"]
        assert variables.keys() <= declared.keys()
        ReplaySettings.from_env(variables)
