import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from dlq_replay.settings import ReplaySettings
from tests.contract.cloudformation import Stack, load_template

ROOT = Path(__file__).parents[2]
ENVIRONMENTS = sorted((ROOT / "events").glob("env*.json"))
SWEEP = ROOT / "events" / "sweep.json"
EVENTS = sorted(set((ROOT / "events").glob("*.json")) - {*ENVIRONMENTS, SWEEP})

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


@pytest.mark.parametrize("path", EVENTS, ids=lambda path: path.stem)
def test_records_have_the_form_in_which_lambda_sends_them(path: Path) -> None:
    records = records_of(path)

    for name in ("messageId", "receiptHandle"):
        assert len({record[name] for record in records}) == len(records)
    for record in records:
        body = record.get("body")
        system = record["attributes"]
        if body is not None:
            digest = hashlib.md5(body.encode(), usedforsecurity=False).hexdigest()
            assert (record["md5OfBody"], type(json.loads(body))) == (digest, dict)
        assert system.keys() >= SYSTEM_ATTRIBUTES_OF_EVERY_DEAD_LETTER
        assert int(system["SentTimestamp"]) <= int(system["ApproximateFirstReceiveTimestamp"])
        assert record["eventSource"] == "aws:sqs"
        queue, suffix, _ = record["eventSourceARN"].partition(".fifo")
        assert queue.endswith(":dlq")
        assert record["awsRegion"] in queue
        of_fifo = {"SequenceNumber", "MessageDeduplicationId"}
        assert of_fifo & system.keys() == (of_fifo if suffix else set())
        for attribute in record.get("messageAttributes", {}).values():
            kind = attribute["dataType"].partition(".")[0]
            value = "binaryValue" if kind == "Binary" else "stringValue"
            assert kind in {"String", "Number", "Binary"}
            assert attribute.keys() == {value, "dataType", "stringListValues", "binaryListValues"}
            assert attribute["stringListValues"] == attribute["binaryListValues"] == []


def test_the_sweep_s_event_has_the_form_in_which_a_rule_sends_it() -> None:
    """See "Events from Amazon EventBridge rules on a schedule" in EventBridge's user guide."""
    event = load("sweep")

    fields = ["version", "id", "detail-type", "source", "account", "time", "region", "resources"]
    assert list(event) == [*fields, "detail"]
    assert (event["source"], event["detail-type"]) == ("aws.events", "Scheduled Event")
    [rule] = event["resources"]
    arn = f"arn:aws:events:{event['region']}:{event['account']}:rule/"
    assert rule.startswith(arn)
    assert "SweepRule" in rule
    assert event["detail"] == {}


@pytest.mark.parametrize("path", ENVIRONMENTS, ids=lambda path: path.stem)
def test_the_environment_sets_only_variables_of_the_template(path: Path) -> None:
    functions = load(path.stem)
    resources = Stack.of(load_template(ROOT / "template.yaml")).resources

    for name, variables in functions.items():
        declared = resources[name]["Properties"]["Environment"]["Variables"]
        assert variables.keys() <= declared.keys()
        ReplaySettings.from_env(variables)
