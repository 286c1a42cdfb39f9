"""The managed policies that people attach to their roles."""

import json
import re
from typing import Any

import pytest

from tests.contract.cloudformation import Stack
from tests.contract.permissions import Call, is_allowed
from tests.contract.template import (
    KEYS,
    OTHER_MAIN_QUEUES,
    OWN_PARKED_QUEUE,
    OWN_QUEUES,
    PRESCRIBED,
    ROOT,
    SPARK_JOB,
    TEMPLATE,
    as_list,
    grants_of,
    statements_of_policy,
)

ALL = SPARK_JOB | PRESCRIBED | KEYS | OTHER_MAIN_QUEUES | OWN_QUEUES | OWN_PARKED_QUEUE
MESSAGE = "arn:aws:s3:::archivebucket/archive/messages/part-0.parquet"
LONGEST_CHARACTERS = 6_144
"""IAM quotas: of a managed policy, without white space."""


def grants(stack: Stack, policy: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for statement in statements_of_policy(stack, policy):
        for resource in as_list(statement["Resource"]):
            found.setdefault(resource, set()).update(as_list(statement["Action"]))
    return found


@pytest.mark.parametrize("given", [SPARK_JOB, ALL])
def test_operators_may_do_on_queues_and_archive_what_the_job_may(given: dict[str, str]) -> None:
    stack = Stack.of(TEMPLATE, given)
    of_operators = grants(stack, "OperatorPolicy") | grants(stack, "OperatorArchivePolicy")

    for resource, actions in grants_of(stack, "SparkJobRole").items():
        # Only a run on AWS Glue reads a command, and removes it.
        if re.match("arn:aws:(sqs|dynamodb)|.*archivebucket(/archive/(?!commands).*)?$", resource):
            assert actions - {"s3:ListBucketVersions"} <= of_operators[resource], resource


def test_the_page_about_failures_names_every_right_on_their_table() -> None:
    page = (ROOT / "docs" / "failures.md").read_text("utf-8").split("\n## Least privilege\n")[1]
    named = [set(re.findall(r"dynamodb:\w+", row)) for row in page.splitlines() if "`dyn" in row]

    stack = Stack.of(TEMPLATE)
    granted = (
        grants(stack, "RecordFailuresPolicy"),
        grants_of(stack, "ReplayRole"),
        grants_of(Stack.of(TEMPLATE, SPARK_JOB), "SparkJobRole"),
    )
    table = "arn:aws:dynamodb:us-east-1:123456789012:table/FailureTable"
    assert named[:3] == [one[table] for one in granted]


def test_erasing_needs_what_its_page_says() -> None:
    text = (ROOT / "templates" / "examples" / "eraser-policy.json").read_text("utf-8")
    for word, value in (
        ("BUCKET", "archivebucket"),
        ("REGION:ACCOUNT", "us-east-1:123456789012"),
        ("table/TABLE", "table/FailureTable"),
    ):
        text = text.replace(word, value)
    documented: dict[str, set[str]] = {}
    for statement in json.loads(text):
        for resource in as_list(statement["Resource"]):
            documented.setdefault(resource, set()).update(as_list(statement["Action"]))
    given = grants(Stack.of(TEMPLATE, SPARK_JOB), "EraserPolicy")

    stack_id = "arn:aws:cloudformation:eu-west-1:123456789012:stack/stack/1"
    assert given == documented | {stack_id: {"cloudformation:DescribeStacks"}}


@pytest.mark.parametrize("given", [{}, {"ArchiveRetentionDays": "90"}])
def test_only_erasers_and_the_job_of_the_retention_may_delete_what_is_archived(
    given: dict[str, str],
) -> None:
    stack = Stack.of(TEMPLATE, ALL | given)
    assert ("ExpireRole" in stack.resources) is bool(given)
    statements: dict[str, list[dict[str, Any]]] = {
        name: statements_of_policy(stack, name) for name in stack.of_type("AWS::IAM::ManagedPolicy")
    }
    for role, properties in stack.of_type("AWS::IAM::Role").items():
        statements[role] = [
            one
            for policy in properties["Policies"]
            for one in policy["PolicyDocument"]["Statement"]
        ]

    for action in ("s3:DeleteObject", "s3:DeleteObjectVersion"):
        may = {n for n, allowed in statements.items() if is_allowed(Call(action, MESSAGE), allowed)}
        deleters = {"EraserPolicy", "ExpireRole"}
        assert may == (deleters & statements.keys() if action.endswith("Version") else set())


LONGEST_NAMES = {
    "AWS::IAM::Role": 64,
    "AWS::Logs::LogGroup": 64,
    "AWS::S3::Bucket": 63,
    "AWS::SQS::Queue": 80,
    "AWS::Serverless::Function": 64,
}
ARNS = {
    "AWS::IAM::Role": "arn:aws:iam::123456789012:role/apps/orders/{}",
    "AWS::Logs::LogGroup": "arn:aws:logs:us-east-1:123456789012:log-group:/aws/lambda/{}:*",
    "AWS::Serverless::Function": "arn:aws:lambda:us-east-1:123456789012:function:{}",
}


class NamedStack(Stack):
    """A stack whose resources have names as CloudFormation makes them, of a long stack name."""

    def _physical_name(self, logical_id: str) -> str:
        longest = LONGEST_NAMES.get(self.template["Resources"][logical_id]["Type"], 255)
        return f"{'s' * 40}-{super()._physical_name(logical_id)}-A1B2C3D4E5F6"[:longest]

    def _get_att(self, path: list[str]) -> str:
        kind = self.template["Resources"][path[0]]["Type"]
        named = ARNS[kind].format(self._physical_name(path[0])) if kind in ARNS else None
        return named or super()._get_att(path)


@pytest.mark.parametrize("own", [{}, OWN_QUEUES | OWN_PARKED_QUEUE], ids=["created", "yours"])
def test_policies_have_room_for_the_queues_and_keys_that_the_page_names(
    own: dict[str, str],
) -> None:
    page = (ROOT / "docs" / "install.md").read_text("utf-8")
    [numbers] = re.findall(r"room for (\d+) other queues and (\d+) keys", page)
    queues, keys = (int(one) for one in numbers)
    given = SPARK_JOB | PRESCRIBED | own
    given |= {
        "OtherMainQueueArns": ",".join(
            f"arn:aws:sqs:us-east-1:210987654321:{'q' * 40}-{n:02}" for n in range(queues)
        ),
        "QueueKmsKeyArns": ",".join(
            f"arn:aws:kms:us-east-1:210987654321:key/1234abcd-12ab-34cd-56ef-1234567890{n:02}"
            for n in range(keys)
        ),
        "DataKmsKeyArn": f"arn:aws:kms:us-east-1:210987654321:key/{'d' * 36}",
    }

    for name, policy in NamedStack.of(TEMPLATE, given).of_type("AWS::IAM::ManagedPolicy").items():
        text = json.dumps(policy["PolicyDocument"], separators=(",", ":"))
        # One of the longest names of a Region.
        text = text.replace("us-east-1", "ap-southeast-1")
        assert len(text) <= LONGEST_CHARACTERS, (name, len(text))
