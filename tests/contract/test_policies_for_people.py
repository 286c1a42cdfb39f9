"""The managed policies that people attach to their roles."""

import json
import re
from itertools import chain
from typing import Any

import botocore.session
import pytest

from tests.contract.cloudformation import Stack
from tests.contract.permissions import Call, is_allowed
from tests.contract.template import (
    ALL_OF_A_FLEET,
    ALL_PARTS,
    MEMBERS,
    PRESCRIBED,
    ROOT,
    SPARK_JOB,
    SWEEP,
    TAG_CONDITION,
    TEMPLATE,
    as_list,
    by_resource,
    policies_of,
    statements_of,
)

MESSAGE = "arn:aws:s3:::archivebucket/archive/messages/part-0.parquet"
LONGEST_MANAGED = 6_144
LONGEST_INLINE = 10_240
"""IAM quotas, without white space: of a managed policy, and of all inline policies of a role."""


@pytest.mark.parametrize("given", [SPARK_JOB, ALL_PARTS, SPARK_JOB | SWEEP, ALL_OF_A_FLEET])
def test_operators_may_do_on_queues_and_archive_what_the_job_may(given: dict[str, str]) -> None:
    stack = Stack.of(TEMPLATE, given)
    policies = ["OperatorPolicy", "OperatorArchivePolicy"]
    policies += [name for name in ["OperatorSourcesPolicy"] if name in stack.resources]
    statements = [statements_of(stack, name) for name in policies]
    of_operators = by_resource(chain.from_iterable(statements))

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
    assert named[:3] == [by_resource(statements_of(stack, holder))[table] for holder in holders]


def test_erasing_needs_what_its_page_says() -> None:
    text = (ROOT / "templates" / "examples" / "eraser-policy.json").read_text("utf-8")
    for placeholder, value in (
        ("BUCKET", "archivebucket"),
        ("REGION:ACCOUNT", "us-east-1:123456789012"),
        ("table/TABLE", "table/FailureTable"),
    ):
        text = text.replace(placeholder, value)
    documented = by_resource(json.loads(text))
    given = by_resource(statements_of(Stack.of(TEMPLATE, SPARK_JOB), "EraserPolicy"))

    stack_id = "arn:aws:cloudformation:eu-west-1:123456789012:stack/stack/1"
    assert given == documented | {stack_id: {"cloudformation:DescribeStacks"}}


def test_looking_needs_what_its_page_says() -> None:
    text = (ROOT / "templates" / "examples" / "look-policy.json").read_text("utf-8")
    documented: set[str] = set()
    for statement in json.loads(text):
        documented.update(as_list(statement["Action"]))

    of_policy: set[str] = set()
    for statement in statements_of(Stack.of(TEMPLATE, ALL_PARTS), "LookPolicy"):
        of_policy.update(as_list(statement["Action"]))
    others = {"cloudformation:DescribeStacks", "logs:FilterLogEvents"}
    assert of_policy - others == documented

    page = (ROOT / "docs" / "look.md").read_text("utf-8")
    assert {action for action in of_policy if f"`{action}`" not in page} == set()


@pytest.mark.parametrize("policy", ["LookPolicy", "AnalystPolicy"])
@pytest.mark.parametrize("given", [ALL_PARTS, ALL_OF_A_FLEET], ids=["one queue", "fleet"])
def test_who_looks_can_neither_send_nor_delete(given: dict[str, str], policy: str) -> None:
    stack = Stack.of(TEMPLATE, given)
    for queue in ("DeadLetterQueue", "ParkedQueue", "ParkedFifoQueue.fifo", "MainQueue"):
        for action in ("SendMessage", "DeleteMessage", "PurgeQueue", "StartMessageMoveTask"):
            arn = MEMBERS.replace("*", queue)
            call = Call(f"sqs:{action}", arn, {TAG_CONDITION: "shop"})
            assert not is_allowed(call, statements_of(stack, policy)), call


READS = re.compile(
    r"\w+:(Describe|List)\w+|sqs:(Get|Receive)\w+|dynamodb:BatchGetItem|s3:GetObject|kms:Decrypt"
    r"|cloudwatch:GetMetricData|tag:GetResources"
)


@pytest.mark.parametrize("given", [{}, ALL_PARTS, SPARK_JOB | SWEEP, ALL_OF_A_FLEET])
def test_an_agent_can_write_nothing_at_all(given: dict[str, str]) -> None:
    """What it writes into the archive could decide what a redrive sends."""
    granted: set[str] = set()
    for statement in statements_of(Stack.of(TEMPLATE, given), "AnalystPolicy"):
        granted.update(as_list(statement["Action"]))

    # This one gives back what was received.
    assert {action for action in granted if not READS.fullmatch(action)} == {
        "sqs:ChangeMessageVisibility"
    }


@pytest.mark.parametrize("given", [ALL_PARTS, ALL_OF_A_FLEET], ids=["one queue", "fleet"])
def test_an_agent_receives_from_no_main_queue_without_the_tag(given: dict[str, str]) -> None:
    statements = statements_of(Stack.of(TEMPLATE, given), "AnalystPolicy")
    main_queue = MEMBERS.replace("*", "MainQueue")

    assert not is_allowed(Call("sqs:ReceiveMessage", main_queue), statements)
    assert not is_allowed(Call("sqs:ChangeMessageVisibility", main_queue), statements)


@pytest.mark.parametrize("given", [SWEEP, ALL_OF_A_FLEET])
def test_operators_of_a_fleet_pause_and_resume_its_sweep_alone(given: dict[str, str]) -> None:
    statements = statements_of(Stack.of(TEMPLATE, given), "OperatorPolicy")
    changes = {"EnableRule", "DisableRule"}

    for action in ("DescribeRule", *changes, "PutRule", "DeleteRule", "PutTargets"):
        is_given = action in changes | {"DescribeRule"}
        rules = "arn:aws:events:us-east-1:123456789012:rule"
        of_sweep = Call(f"events:{action}", f"{rules}/SweepRule")
        of_job = Call(f"events:{action}", f"{rules}/SparkJobEndedRule")
        assert is_allowed(of_sweep, statements) is is_given
        assert not is_allowed(of_job, statements)
    for function in ("ReplayFunction", "SweepFunction"):
        assert is_allowed(Call("lambda:GetFunctionConfiguration", f"{function}.Arn"), statements)
    for action in ("tag:GetResources", "cloudwatch:GetMetricData"):
        assert is_allowed(Call(action, "*"), statements)


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
    "AWS::Events::Rule": 64,
    "AWS::IAM::Role": 64,
    "AWS::Logs::LogGroup": 64,
    "AWS::S3::Bucket": 63,
    "AWS::SQS::Queue": 80,
    "AWS::Serverless::Function": 64,
}
LONGEST_PATH = f"/{'/'.join(['p' * 50] * 10)}/"
"""IAM allows 512 characters, the template ten parts."""

ARNS = {
    "AWS::Events::Rule": "arn:aws:events:us-east-1:123456789012:rule/{}",
    "AWS::IAM::Role": f"arn:aws:iam::123456789012:role{LONGEST_PATH}{{}}",
    "AWS::Logs::LogGroup": "arn:aws:logs:us-east-1:123456789012:log-group:/aws/lambda/{}:*",
    "AWS::Serverless::Function": "arn:aws:lambda:us-east-1:123456789012:function:{}",
}


class NamedStack(Stack):
    """A stack whose resources have names as CloudFormation makes them, of a long stack name."""

    def _physical_name(self, logical_id: str) -> str:
        longest = LONGEST_NAMES.get(self.template["Resources"][logical_id]["Type"], 255)
        name = f"-{super()._physical_name(logical_id)}-A1B2C3D4E5F6"
        return "s" * min(128, longest - len(name)) + name

    def _get_att(self, path: list[str]) -> str:
        kind = self.template["Resources"][path[0]]["Type"]
        named = ARNS[kind].format(self._physical_name(path[0])) if kind in ARNS else None
        return named or super()._get_att(path)


def numbered(start: str, letter: str, width: int, count: int, end: str = "") -> str:
    """A list of so many ARNs, whose last part has so many characters."""
    return ",".join(f"{start}{letter * (width - 2)}{number:02}{end}" for number in range(count))


def widest_parameters() -> dict[str, str]:
    """Parameters that make policies as long as they can be, with what docs/install.md promises."""
    page = (ROOT / "docs" / "install.md").read_text("utf-8")
    [numbers] = re.findall(r"room for (\d+) other queues and (\d+) keys", page)
    queues, keys = (int(number) for number in numbers)
    # SQS allows 80 characters; the id of a key has 36.
    key = "arn:aws:kms:us-east-1:210987654321:key/"
    queue = "arn:aws:sqs:us-east-1:210987654321:"
    log_group = "arn:aws:logs:us-east-1:123456789012:log-group:"
    return {
        **SPARK_JOB,
        **PRESCRIBED,
        "RolePath": LONGEST_PATH,
        "OtherMainQueueArns": numbered(queue, "q", 80, queues),
        "QueueKmsKeyArns": numbered(key, "k", 36, keys),
        "DataKmsKeyArn": f"{key}{'d' * 36}",
        "ConsumerLogGroupArns": numbered(log_group, "l", 512, 5, end=":*"),
        "PointerBucketName": "b" * 63,
        "SparkJobPolicyUri": f"s3://{'r' * 63}/{'k' * 900}",
        "ArchiveRetentionDays": "90",
    }


LONGEST_QUEUES = {
    "MainQueueURL": f"https://sqs.us-east-1.amazonaws.com/210987654321/{'m' * 80}",
    "DLQArn": f"arn:aws:sqs:us-east-1:210987654321:{'d' * 80}",
    "ParkedQueueArn": f"arn:aws:sqs:us-east-1:210987654321:{'p' * 80}",
}


def longest_region() -> tuple[str, str]:
    """The partition and Region whose names make the longest ARNs."""
    session = botocore.session.get_session()
    regions = []
    for partition in session.get_available_partitions():
        for region in session.get_available_regions("sqs", partition):
            regions.append((partition, region))
    return max(regions, key=lambda names: len("".join(names)))


OF_A_FLEET = {
    **SWEEP,
    "QueueTag": "t" * 128,
    "FifoParkedQueue": "true",
    "OtherMainQueueArns": "",
    "ParkedQueueArn": LONGEST_QUEUES["ParkedQueueArn"],
}


@pytest.mark.parametrize("own", [{}, LONGEST_QUEUES, OF_A_FLEET], ids=["created", "yours", "fleet"])
def test_iam_has_room_for_every_policy_with_the_longest_parameters(own: dict[str, str]) -> None:
    partition, region = longest_region()
    stack = NamedStack.of(TEMPLATE, widest_parameters() | own)

    def length(document: dict[str, Any]) -> int:
        text = json.dumps(document, separators=(",", ":"))
        return len(text.replace("arn:aws:", f"arn:{partition}:").replace("us-east-1", region))

    for name, policy in stack.of_type("AWS::IAM::ManagedPolicy").items():
        assert length(policy["PolicyDocument"]) <= LONGEST_MANAGED, name
    for name in stack.of_type("AWS::IAM::Role"):
        assert sum(map(length, policies_of(stack, name))) <= LONGEST_INLINE, name
