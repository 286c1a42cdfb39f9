"""The managed policies that people attach to their roles."""

import json
import re

import pytest

from tests.contract.cloudformation import Stack
from tests.contract.permissions import Call, is_allowed
from tests.contract.template import (
    ALL_PARTS,
    OWN_PARKED_QUEUE,
    OWN_QUEUES,
    PRESCRIBED,
    ROOT,
    SPARK_JOB,
    TEMPLATE,
    by_resource,
    statements_of,
)

MESSAGE = "arn:aws:s3:::archivebucket/archive/messages/part-0.parquet"
LONGEST_CHARACTERS = 6_144
"""IAM quotas: of a managed policy, without white space."""


@pytest.mark.parametrize("given", [SPARK_JOB, ALL_PARTS])
def test_operators_may_do_on_queues_and_archive_what_the_job_may(given: dict[str, str]) -> None:
    stack = Stack.of(TEMPLATE, given)
    policies = ("OperatorPolicy", "OperatorArchivePolicy")
    of_operators = by_resource(one for name in policies for one in statements_of(stack, name))

    for resource, actions in by_resource(statements_of(stack, "SparkJobRole")).items():
        # Only a run on AWS Glue reads a command, and removes it.
        if re.match("arn:aws:(sqs|dynamodb)|.*archivebucket(/archive/(?!commands).*)?$", resource):
            assert actions - {"s3:ListBucketVersions"} <= of_operators[resource], resource


def test_the_page_about_failures_names_every_right_on_their_table() -> None:
    page = (ROOT / "docs" / "failures.md").read_text("utf-8").split("\n## Least privilege\n")[1]
    named = [set(re.findall(r"dynamodb:\w+", row)) for row in page.splitlines() if "`dyn" in row]

    stack = Stack.of(TEMPLATE, SPARK_JOB)
    table = "arn:aws:dynamodb:us-east-1:123456789012:table/FailureTable"
    holders = ("RecordFailuresPolicy", "ReplayRole", "SparkJobRole")
    assert named[:3] == [by_resource(statements_of(stack, one))[table] for one in holders]


def test_erasing_needs_what_its_page_says() -> None:
    text = (ROOT / "templates" / "examples" / "eraser-policy.json").read_text("utf-8")
    for word, value in (
        ("BUCKET", "archivebucket"),
        ("REGION:ACCOUNT", "us-east-1:123456789012"),
        ("table/TABLE", "table/FailureTable"),
    ):
        text = text.replace(word, value)
    documented = by_resource(json.loads(text))
    given = by_resource(statements_of(Stack.of(TEMPLATE, SPARK_JOB), "EraserPolicy"))

    stack_id = "arn:aws:cloudformation:eu-west-1:123456789012:stack/stack/1"
    assert given == documented | {stack_id: {"cloudformation:DescribeStacks"}}


@pytest.mark.parametrize("days", ["", "90"])
def test_only_erasers_and_the_job_of_the_retention_may_delete_what_is_archived(days: str) -> None:
    stack = Stack.of(TEMPLATE, ALL_PARTS | {"ArchiveRetentionDays": days})
    assert ("ExpireRole" in stack.resources) is bool(days)
    holders = stack.of_type("AWS::IAM::ManagedPolicy") | stack.of_type("AWS::IAM::Role")

    def who_may(action: str) -> set[str]:
        call = Call(action, MESSAGE)
        return {name for name in holders if is_allowed(call, statements_of(stack, name))}

    assert who_may("s3:DeleteObjectVersion") == {"EraserPolicy", "ExpireRole"} & holders.keys()
    assert who_may("s3:DeleteObject") == set()


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
