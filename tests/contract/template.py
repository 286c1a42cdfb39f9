"""The template as the contract tests look at it: parts of a stack, and the documents beside it."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tests.contract.cloudformation import Stack, load_template

ROOT = Path(__file__).parents[2]
TEMPLATE = load_template(ROOT / "template.yaml")
APPLICATION = TEMPLATE["Metadata"]["AWS::ServerlessRepo::Application"]

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


MORE_PARTS = (
    SPARK_JOB
    | {"SparkJobPolicyUri": "s3://rules/policy.yaml", "ArchiveRetentionDays": "90"}
    | PRESCRIBED
    | KEYS
    | OWN_PARKED_QUEUE
)
ALL_PARTS = MORE_PARTS | OTHER_MAIN_QUEUES | OWN_QUEUES
"""Parameters with which the stack has all of its roles and statements."""

FLEET = {"QueueTag": "shop"}
SWEEP = FLEET | {"Sweep": "true"}
ALL_OF_A_FLEET = MORE_PARTS | SWEEP | {"FifoParkedQueue": "true"}
"""The same for a fleet, which has no queues of its own but parked ones."""

MEMBERS = "arn:aws:sqs:us-east-1:123456789012:*"
TAG_CONDITION = "aws:ResourceTag/dlq-replay"


def function_of(stack: Stack) -> dict[str, Any]:
    function = stack.resources["ReplayFunction"]["Properties"]
    assert isinstance(function, dict)
    return function


def environment_of(stack: Stack) -> dict[str, str]:
    variables = function_of(stack)["Environment"]["Variables"]
    assert isinstance(variables, dict)
    return variables


def policies_of(stack: Stack, name: str = "ReplayRole") -> list[dict[str, Any]]:
    """The inline policies of a role, with those that name it; or a managed policy itself."""
    properties = stack.resources[name]["Properties"]
    physical_name = stack.resolve({"Ref": name})
    policies = stack.of_type("AWS::IAM::Policy").values()
    shared = [policy for policy in policies if physical_name in policy["Roles"]]
    own = properties.get("Policies", [properties])
    return [policy["PolicyDocument"] for policy in (*own, *shared)]


def statements_of(stack: Stack, name: str = "ReplayRole") -> list[dict[str, Any]]:
    """All that a role may do, or that a managed policy allows."""
    managed = stack.resources[name]["Properties"].get("ManagedPolicyArns", [])
    documents = [document for holder in (name, *managed) for document in policies_of(stack, holder)]
    return [statement for document in documents for statement in document["Statement"]]


def by_resource(statements: Iterable[Mapping[str, Any]]) -> dict[str, set[str]]:
    """The actions that are allowed on each resource."""
    grants: dict[str, set[str]] = {}
    for statement in statements:
        for resource in as_list(statement["Resource"]):
            grants.setdefault(resource, set()).update(as_list(statement["Action"]))
    return grants


def as_list(value: Any) -> list[Any]:
    """IAM takes one or a list."""
    return value if isinstance(value, list) else [value]


def pins_of(lock_file: str) -> dict[str, str]:
    locked = (ROOT / lock_file).read_text("utf-8")
    return dict(re.findall(r"^([\w.-]+)==([\w.]+)", locked, re.MULTILINE))
