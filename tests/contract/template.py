"""The template as the contract tests look at it: parts of a stack, and the documents beside it."""

import re
from pathlib import Path
from typing import Any

from tests.contract.cloudformation import Stack, load_template

ROOT = Path(__file__).parents[2]
TEMPLATE = load_template(ROOT / "template.yaml")
APPLICATION = TEMPLATE["Metadata"]["AWS::ServerlessRepo::Application"]

# The families that an application of this kind could need, from
# https://docs.aws.amazon.com/serverlessrepo/latest/devguide/list-supported-resources.html
ACCEPTED_BY_SERVERLESS_REPO = set(
    Path(__file__).with_name("accepted_types.txt").read_text().split()
)

OWN_QUEUES = {
    "MainQueueURL": "https://sqs.us-east-1.amazonaws.com/210987654321/orders",
    "DLQArn": "arn:aws:sqs:us-east-1:210987654321:orders-dlq",
}
OWN_PARKED_QUEUE = {"ParkedQueueArn": "arn:aws:sqs:us-east-1:210987654321:orders-parked"}
OTHER_MAIN_QUEUES = {
    "OtherMainQueueArns": "arn:aws:sqs:us-east-1:210987654321:invoices,"
    "arn:aws:sqs:us-east-1:210987654321:refunds"
}
FIFO = {"QueueType": "fifo"}
OWN_FIFO_QUEUES = {name: f"{value}.fifo" for name, value in OWN_QUEUES.items()}
SPARK_JOB = {"CreateSparkJob": "true"}
RETAINED = ("RetainExceptOnCreate", "Retain")
"""DeletionPolicy and UpdateReplacePolicy of what outlives a stack that was once created."""

DATA_KEY = {"DataKmsKeyArn": "arn:aws:kms:us-east-1:123456789012:key/data"}
NETWORK = {
    "SubnetIds": "subnet-0a1b2c3d4e5f60718,subnet-0a1b2c3d4e5f60719",
    "SecurityGroupIds": "sg-0a1b2c3d4e5f60718",
}
PRESCRIBED = (
    NETWORK
    | DATA_KEY
    | {
        "PermissionsBoundaryArn": "arn:aws:iam::123456789012:policy/platform/boundary",
        "RolePath": "/apps/orders/",
    }
)
"""All that an organization may prescribe."""

NO_ALARMS = {"CreateAlarms": "false"}
QUEUE_KEYS = [f"arn:aws:kms:us-east-1:123456789012:key/{name}" for name in ("orders", "earlier")]
KEYS = {"QueueKmsKeyArns": ",".join(QUEUE_KEYS)}


ALL_PARTS = (
    SPARK_JOB
    | {"SparkJobPolicyUri": "s3://rules/policy.yaml", "ArchiveRetentionDays": "90"}
    | PRESCRIBED
    | KEYS
    | OTHER_MAIN_QUEUES
    | OWN_QUEUES
    | OWN_PARKED_QUEUE
)
"""Parameters with which the stack has all of its roles and statements."""


def function_of(stack: Stack) -> dict[str, Any]:
    function = stack.resources["ReplayFunction"]["Properties"]
    assert isinstance(function, dict)
    return function


def environment_of(stack: Stack) -> dict[str, str]:
    variables = function_of(stack)["Environment"]["Variables"]
    assert isinstance(variables, dict)
    return variables


def event_of(stack: Stack) -> dict[str, Any]:
    event = stack.resources["ReplayFunctionDeadLetters"]["Properties"]
    assert isinstance(event, dict)
    return event


def statements_of(stack: Stack, role: str = "ReplayRole") -> list[dict[str, Any]]:
    """The statements of *role*: its own, and those of policies that name it."""
    of_its_own = stack.resources[role]["Properties"]["Policies"]
    shared = [one for one in stack.of_type("AWS::IAM::Policy").values() if role in one["Roles"]]
    return [
        statement
        for policy in (*of_its_own, *shared)
        for statement in policy["PolicyDocument"]["Statement"]
    ]


def statements_of_policy(stack: Stack, policy: str) -> list[dict[str, Any]]:
    statements = stack.resources[policy]["Properties"]["PolicyDocument"]["Statement"]
    assert isinstance(statements, list)
    return statements


def grants_of(stack: Stack, role: str = "ReplayRole") -> dict[str, set[str]]:
    """What *role* may do, by resource."""
    grants: dict[str, set[str]] = {}
    for statement in statements_of(stack, role):
        for resource in as_list(statement["Resource"]):
            grants.setdefault(resource, set()).update(as_list(statement["Action"]))
    return grants


def as_list(value: Any) -> list[Any]:
    """IAM takes one or a list."""
    return value if isinstance(value, list) else [value]


def pins_of(lock_file: str) -> dict[str, str]:
    text = (ROOT / lock_file).read_text("utf-8")
    return dict(re.findall(r"^([\w.-]+)==([\w.]+)", text, re.MULTILINE))
