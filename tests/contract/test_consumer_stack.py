"""The stack that docs/consumer.md names, against the example in it and the replay's stack."""

import json
import re
from pathlib import Path
from typing import Any

import boto3
from aws_lambda_powertools.utilities.idempotency import DynamoDBPersistenceLayer
from moto import mock_aws

from tests.contract.cloudformation import Stack, load_template
from tests.contract.template import TEMPLATE

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "templates" / "examples"
SAMPLE = ROOT / "functions" / "sample_consumer"
HANDLER = (SAMPLE / "handler.py").read_text(encoding="utf-8")


def shown() -> dict[str, Any]:
    return load_template(EXAMPLES / "consumer.yaml")


def references(node: Any) -> set[str]:
    if isinstance(node, list):
        return set().union(*map(references, node))
    if not isinstance(node, dict):
        return set()
    if "Ref" in node:
        return {node["Ref"]}
    return set().union(*map(references, node.values()))


def test_everything_it_refers_to_is_its_own_or_an_output_of_the_replays_stack() -> None:
    stack = shown()

    assert references(stack) <= stack.keys() | Stack.of(TEMPLATE).outputs.keys()


def test_it_sets_every_variable_that_the_example_reads_and_documents() -> None:
    variables = shown()["SampleConsumerFunction"]["Properties"]["Environment"]["Variables"]
    documented = set(re.findall(r"^``([A-Z_]+)``", HANDLER, re.MULTILINE))

    # The example charges its orders itself; only hand_over needs a state machine.
    assert variables.keys() == documented - {"STATE_MACHINE"}
    assert set(re.findall(r'environ\["([A-Z_]+)"\]', HANDLER)) == documented - {"FAILURE_TABLE"}


def test_its_table_is_keyed_as_powertools_expects() -> None:
    table = shown()["ProcessedTable"]["Properties"]
    store = DynamoDBPersistenceLayer("processed")

    assert table["KeySchema"] == [{"AttributeName": store.key_attr, "KeyType": "HASH"}]
    assert table["TimeToLiveSpecification"]["AttributeName"] == store.expiry_attr


def test_its_function_is_the_one_that_the_makefile_builds() -> None:
    makefile = (SAMPLE / "Makefile").read_text(encoding="utf-8")
    function = shown()["SampleConsumerFunction"]["Properties"]

    assert "build-SampleConsumerFunction:" in makefile
    assert ROOT / function["CodeUri"] == SAMPLE
    assert function["Handler"] == "handler.lambda_handler"


def test_its_function_ends_before_a_queue_of_the_default_shows_its_messages() -> None:
    function = shown()["SampleConsumerFunction"]["Properties"]
    default_visibility_seconds = 30

    assert function["Timeout"] <= default_visibility_seconds
    assert function["Events"]["Orders"]["Properties"]["FunctionResponseTypes"] == [
        "ReportBatchItemFailures"
    ]


def test_the_state_machine_sends_what_it_cannot_do_to_the_dlq_as_it_came() -> None:
    text = (EXAMPLES / "hand-over.asl.json").read_text(encoding="utf-8")
    attributes = {"tenant": {"DataType": "String", "StringValue": "acme"}}
    with mock_aws(config={"stepfunctions": {"execute_state_machine": True}}):
        sqs, states = boto3.client("sqs"), boto3.client("stepfunctions")
        url = sqs.create_queue(QueueName="dlq")["QueueUrl"]
        # There is no such function, so the work fails.
        machine = states.create_state_machine(
            name="long-work",
            definition=text.replace("DLQ_URL", url),
            roleArn="arn:aws:iam::123456789012:role/r",
        )["stateMachineArn"]
        states.start_execution(
            stateMachineArn=machine,
            input=json.dumps({"body": "b", "attributes": attributes, "message_group_id": None}),
        )
        received = sqs.receive_message(
            QueueUrl=url, MessageAttributeNames=["All"], WaitTimeSeconds=10
        )

    (sent,) = received["Messages"]
    assert (sent["Body"], sent["MessageAttributes"]) == ("b", attributes)
