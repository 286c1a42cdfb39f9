import json
import re
from dataclasses import replace
from typing import Any

import pytest

from tests.contract.cloudformation import PSEUDO_PARAMETERS, Stack
from tests.contract.permissions import Call, is_allowed
from tests.contract.template import (
    FIFO,
    KEYS,
    NETWORK,
    OTHER_MAIN_QUEUES,
    OWN_FIFO_QUEUES,
    OWN_PARKED_QUEUE,
    OWN_QUEUES,
    PRESCRIBED,
    RETAINED,
    SPARK_JOB,
    TEMPLATE,
    environment_of,
    event_of,
    function_of,
    grants_of,
    message_queues_of,
    pins_of,
    statements_of,
    statements_of_policy,
)

BUCKET_ARN = "arn:aws:s3:::archivebucket"
FAILURE_TABLE_ARN = "arn:aws:dynamodb:us-east-1:123456789012:table/FailureTable"


@pytest.mark.parametrize(
    ("given", "created"),
    [
        ({}, {"MainQueue", "DeadLetterQueue", "ParkedQueue"}),
        (FIFO, {"MainQueue", "DeadLetterQueue", "ParkedQueue"}),
        (OWN_PARKED_QUEUE, {"MainQueue", "DeadLetterQueue"}),
        (OWN_QUEUES, {"ParkedQueue"}),
        (OWN_QUEUES | OWN_PARKED_QUEUE, set()),
    ],
)
def test_the_stack_creates_the_queues_that_are_not_given(
    given: dict[str, str], created: set[str]
) -> None:
    stack = Stack.of(TEMPLATE, given)

    assert created == message_queues_of(stack).keys()
    assert {"DeadLetterQueueArn", "ParkedQueueArn", "MainQueueUrl"} <= stack.outputs.keys()


def test_the_urls_of_your_queues_are_built_from_their_arns() -> None:
    stack = Stack.of(TEMPLATE, OWN_QUEUES | OWN_PARKED_QUEUE)
    in_china = replace(
        stack, pseudo_parameters={**PSEUDO_PARAMETERS, "AWS::URLSuffix": "amazonaws.com.cn"}
    )
    account = "210987654321"
    host = "https://sqs.us-east-1.amazonaws.com"

    assert environment_of(stack)["MAIN_QUEUE_URL"] == OWN_QUEUES["MainQueueURL"]
    assert environment_of(stack)["DLQ_URL"] == f"{host}/{account}/orders-dlq"
    assert environment_of(stack)["PARKED_QUEUE_URL"] == f"{host}/{account}/orders-parked"
    assert environment_of(in_china)["DLQ_URL"] == f"{host}.cn/{account}/orders-dlq"


@pytest.mark.parametrize("queue_type", ["standard", "fifo"])
def test_created_queues_are_of_one_type_encrypted_and_outlive_the_stack(queue_type: str) -> None:
    stack = Stack.of(TEMPLATE, {"QueueType": queue_type})
    names = message_queues_of(stack).keys()

    assert len(names) == 3
    for queue in (stack.resources[name] for name in names):
        assert (queue["DeletionPolicy"], queue["UpdateReplacePolicy"]) == RETAINED
        assert queue["Properties"]["SqsManagedSseEnabled"] is True
        assert ("FifoQueue" in queue["Properties"]) == (queue_type == "fifo")


def test_dead_and_parked_letters_are_kept_as_long_as_sqs_allows() -> None:
    queues = Stack.of(TEMPLATE).of_type("AWS::SQS::Queue")

    assert queues["DeadLetterQueue"]["MessageRetentionPeriod"] == 1_209_600
    assert queues["ParkedQueue"]["MessageRetentionPeriod"] == 1_209_600


@pytest.mark.parametrize(
    ("given", "parked_arn"),
    [
        ({}, "arn:aws:sqs:us-east-1:123456789012:ParkedQueue"),
        (OWN_PARKED_QUEUE, OWN_PARKED_QUEUE["ParkedQueueArn"]),
    ],
)
def test_messages_fall_from_main_to_the_dlq_and_from_there_into_the_net(
    given: dict[str, str], parked_arn: str
) -> None:
    queues = Stack.of(TEMPLATE, given).of_type("AWS::SQS::Queue")

    assert queues["MainQueue"]["RedrivePolicy"] == {
        "deadLetterTargetArn": "arn:aws:sqs:us-east-1:123456789012:DeadLetterQueue",
        "maxReceiveCount": 5,
    }
    assert queues["DeadLetterQueue"]["RedrivePolicy"] == {
        "deadLetterTargetArn": parked_arn,
        "maxReceiveCount": 1000,
    }


def test_a_queue_that_nobody_dead_letters_into_admits_nobody() -> None:
    queues = Stack.of(TEMPLATE).of_type("AWS::SQS::Queue")

    for name in ("MainQueue", "ReminderFailures"):
        assert queues[name]["RedriveAllowPolicy"] == {"redrivePermission": "denyAll"}


def test_a_created_parked_queue_admits_your_dlq_alone() -> None:
    here = {
        name: value.replace("210987654321", "123456789012") for name, value in OWN_QUEUES.items()
    }
    parked = Stack.of(TEMPLATE, here).of_type("AWS::SQS::Queue")["ParkedQueue"]

    assert parked["RedriveAllowPolicy"] == {
        "redrivePermission": "byQueue",
        "sourceQueueArns": [here["DLQArn"]],
    }


@pytest.mark.parametrize("given", [{}, OWN_QUEUES], ids=["created", "in another account"])
def test_queues_whose_sources_cannot_be_written_admit_all(given: dict[str, str]) -> None:
    """A created DLQ and its sources would each need the ARN of the other, which is a circle."""
    queues = Stack.of(TEMPLATE, given).of_type("AWS::SQS::Queue")

    for name in queues.keys() & {"DeadLetterQueue", "ParkedQueue"}:
        assert "RedriveAllowPolicy" not in queues[name]


def test_the_function_ends_before_any_queue_shows_its_messages_again() -> None:
    stack = Stack.of(TEMPLATE)
    timeout_seconds = function_of(stack)["Timeout"]
    visibility_seconds = stack.of_type("AWS::SQS::Queue")["DeadLetterQueue"]["VisibilityTimeout"]
    default_visibility_seconds = 30
    fifo_retry_window_seconds = 240

    assert timeout_seconds <= default_visibility_seconds
    assert 6 * timeout_seconds <= visibility_seconds <= fifo_retry_window_seconds


def test_lambda_does_not_cut_the_loop_that_max_attempts_bounds() -> None:
    assert function_of(Stack.of(TEMPLATE))["RecursiveLoop"] == "Allow"


def test_a_standard_dlq_is_polled_in_large_batches_with_partial_responses() -> None:
    event = event_of(Stack.of(TEMPLATE))

    assert event == {
        "FunctionName": "ReplayFunction",
        "EventSourceArn": "arn:aws:sqs:us-east-1:123456789012:DeadLetterQueue",
        "BatchSize": "100",
        "MaximumBatchingWindowInSeconds": 1,
        "Enabled": True,
        "FunctionResponseTypes": ["ReportBatchItemFailures"],
        "ScalingConfig": {"MaximumConcurrency": "5"},
    }


def test_a_fifo_dlq_is_polled_in_the_batches_that_fifo_allows() -> None:
    event = event_of(Stack.of(TEMPLATE, OWN_FIFO_QUEUES))

    assert event == {
        "FunctionName": "ReplayFunction",
        "EventSourceArn": OWN_FIFO_QUEUES["DLQArn"],
        "BatchSize": 10,
        "Enabled": True,
        "FunctionResponseTypes": ["ReportBatchItemFailures"],
        "ScalingConfig": {"MaximumConcurrency": "5"},
    }


@pytest.mark.parametrize(
    "given",
    [{}, OWN_QUEUES, OWN_QUEUES | OWN_PARKED_QUEUE, OWN_QUEUES | OTHER_MAIN_QUEUES],
)
def test_no_statement_reaches_beyond_what_it_names(given: dict[str, str]) -> None:
    stack = Stack.of(TEMPLATE, given | SPARK_JOB | KEYS)
    roles = stack.of_type("AWS::IAM::Role").keys()
    wide = {
        (resource, *sorted(actions))
        for role in roles
        for resource, actions in grants_of(stack, role).items()
        if "*" in resource or any("*" in action for action in actions)
    }

    assert wide == {
        ("*", "cloudwatch:PutMetricData"),
        ("*", "cloudwatch:GetMetricData"),
        ("*", "cloudwatch:GetMetricStatistics"),
        ("arn:aws:s3:::archivebucket/archive/*", "s3:GetObject", "s3:PutObject"),
        ("arn:aws:s3:::archivebucket/archive/groups/seen/*", "s3:GetObject"),
        ("arn:aws:s3:::archivebucket/archive/probes/*", "s3:DeleteObject"),
        ("arn:aws:s3:::archivebucket/code/*", "s3:GetObject"),
        ("arn:aws:s3:::archivebucket/code/*", "s3:DeleteObjectVersion", "s3:PutObject"),
        (
            "arn:aws:s3:::archivebucket/temporary/*",
            "s3:DeleteObject",
            "s3:GetObject",
            "s3:PutObject",
        ),
    }


def test_the_function_may_do_on_each_queue_what_it_does_there_and_no_more() -> None:
    queue = "arn:aws:sqs:us-east-1:210987654321:"

    assert grants_of(Stack.of(TEMPLATE, OWN_QUEUES | OWN_PARKED_QUEUE)) == {
        f"{queue}orders": {"sqs:SendMessage", "sqs:GetQueueAttributes"},
        f"{queue}orders-dlq": {
            "sqs:ReceiveMessage",
            "sqs:DeleteMessage",
            "sqs:ChangeMessageVisibility",
            "sqs:GetQueueAttributes",
            "sqs:SendMessage",
        },
        f"{queue}orders-parked": {"sqs:SendMessage", "sqs:GetQueueAttributes"},
        FAILURE_TABLE_ARN: {"dynamodb:BatchGetItem", "dynamodb:UpdateItem"},
        "*": {"cloudwatch:GetMetricStatistics"},
        "ReplayLogGroup.Arn": {"logs:CreateLogStream", "logs:PutLogEvents"},
    }


@pytest.mark.parametrize("role", ["ReplayRole", "SparkJobRole"])
def test_other_main_queues_are_sent_to_and_nothing_else(role: str) -> None:
    given = OWN_QUEUES | OWN_PARKED_QUEUE | SPARK_JOB
    alone = grants_of(Stack.of(TEMPLATE, given), role)
    shared = grants_of(Stack.of(TEMPLATE, given | OTHER_MAIN_QUEUES), role)
    arns = OTHER_MAIN_QUEUES["OtherMainQueueArns"].split(",")

    assert shared == alone | {arn: {"sqs:SendMessage", "sqs:GetQueueAttributes"} for arn in arns}


def test_in_the_table_the_function_changes_breakers_and_consumers_change_the_rest() -> None:
    stack = Stack.of(TEMPLATE)
    [update] = [
        s for s in statements_of(stack, "ReplayRole") if s["Sid"] == "ChangeCircuitBreakers"
    ]
    [record] = statements_of_policy(stack, "RecordFailuresPolicy")
    assert record["Resource"] == FAILURE_TABLE_ARN
    assert record["Action"] == ["dynamodb:PutItem", "dynamodb:BatchWriteItem"]

    def may(statement: Any, action: str, *keys: str) -> bool:
        call = Call(action, FAILURE_TABLE_ARN, {"dynamodb:LeadingKeys": keys})
        return is_allowed(call, [statement])

    assert may(update, "dynamodb:UpdateItem", "breaker#orders", "breaker#orders#unknown")
    assert not may(update, "dynamodb:UpdateItem", "m-1")
    assert may(record, "dynamodb:PutItem", "m-1")
    assert not may(record, "dynamodb:BatchWriteItem", "breaker#orders#unknown", "m-1")


def test_without_a_breaker_the_function_changes_nothing_in_the_table() -> None:
    stack = Stack.of(TEMPLATE, {"CircuitBreaker": "false"})

    assert grants_of(stack)[FAILURE_TABLE_ARN] == {"dynamodb:BatchGetItem"}
    assert "*" not in grants_of(stack)
    assert environment_of(stack)["BREAKER"] == "off"
    assert "CircuitBreakerAlarm" not in stack.resources
    assert environment_of(Stack.of(TEMPLATE, {"CreateFailureTable": "false"}))["BREAKER"] == "off"


def test_the_failure_table_can_be_left_out() -> None:
    stack = Stack.of(TEMPLATE, {"CreateFailureTable": "false"})

    assert not stack.of_type("AWS::DynamoDB::Table")
    assert "RecordFailuresPolicy" not in stack.resources
    assert not {"FailureTableName", "RecordFailuresPolicyArn"} & stack.outputs.keys()
    assert FAILURE_TABLE_ARN not in grants_of(stack)
    assert environment_of(stack)["FAILURE_TABLE"] == ""


def test_failure_reasons_expire_and_cost_nothing_at_rest() -> None:
    [table] = Stack.of(TEMPLATE).of_type("AWS::DynamoDB::Table").values()

    assert table["BillingMode"] == "PAY_PER_REQUEST"
    assert table["TimeToLiveSpecification"] == {"AttributeName": "expires_at", "Enabled": True}
    assert table["KeySchema"] == [{"AttributeName": "message_id", "KeyType": "HASH"}]


def test_what_roles_and_functions_of_yours_use_is_not_deleted_under_them() -> None:
    """IAM deletes no attached policy; no function can be configured with a deleted layer."""
    stack = Stack.of(TEMPLATE, SPARK_JOB)

    for name, resource in stack.resources.items():
        if resource["Type"] not in {"AWS::IAM::ManagedPolicy", "AWS::Serverless::LayerVersion"}:
            continue
        assert (resource["DeletionPolicy"], resource["UpdateReplacePolicy"]) == RETAINED, name


def test_the_roles_are_the_template_s_own_so_that_sam_attaches_no_managed_policy() -> None:
    stack = Stack.of(TEMPLATE, SPARK_JOB)
    functions = stack.of_type("AWS::Serverless::Function")

    assert {name: function["Role"] for name, function in functions.items()} == {
        "ReplayFunction": "ReplayRole.Arn",
        "ReminderFunction": "ReminderRole.Arn",
        "PublishJobFunction": "PublishJobRole.Arn",
    }
    assert not any("Policies" in function for function in functions.values())
    assert not any("ManagedPolicyArns" in r for r in stack.of_type("AWS::IAM::Role").values())


def test_a_boundary_and_a_path_hold_for_every_role_and_policy() -> None:
    stack = Stack.of(TEMPLATE, SPARK_JOB | PRESCRIBED)
    roles = stack.of_type("AWS::IAM::Role")

    for name, one in (roles | stack.of_type("AWS::IAM::ManagedPolicy")).items():
        assert one["Path"] == "/apps/orders/", name
    for name, role in roles.items():
        assert role["PermissionsBoundary"] == PRESCRIBED["PermissionsBoundaryArn"], name
    for role in Stack.of(TEMPLATE, SPARK_JOB).of_type("AWS::IAM::Role").values():
        assert role["Path"] == "/"
        assert "PermissionsBoundary" not in role


def test_functions_and_job_run_in_the_network_that_is_given() -> None:
    stack = Stack.of(TEMPLATE, SPARK_JOB | NETWORK)
    subnets = NETWORK["SubnetIds"].split(",")
    groups = [NETWORK["SecurityGroupIds"]]
    [connection] = stack.of_type("AWS::Glue::Connection").values()

    for function in stack.of_type("AWS::Serverless::Function").values():
        assert function["VpcConfig"] == {"SubnetIds": subnets, "SecurityGroupIds": groups}
    assert connection["ConnectionInput"]["ConnectionType"] == "NETWORK"
    assert connection["ConnectionInput"]["PhysicalConnectionRequirements"] == {
        "AvailabilityZone": "JobCode.AvailabilityZone",
        "SubnetId": subnets[0],
        "SecurityGroupIdList": groups,
    }
    assert stack.resources["JobCode"]["Properties"]["SubnetId"] == subnets[0]
    job = stack.resources["SparkJob"]["Properties"]
    assert job["Connections"] == {"Connections": ["SparkJobNetwork"]}


def test_without_a_network_nothing_mentions_one() -> None:
    stack = Stack.of(TEMPLATE, SPARK_JOB)

    assert not stack.of_type("AWS::Glue::Connection")
    assert not re.search("VpcConfig|ec2:|Connections|SubnetId", json.dumps(stack.resources))


@pytest.mark.parametrize("role", ["ReplayRole", "PublishJobRole", "ReminderRole"])
def test_lambda_makes_network_interfaces_and_the_code_of_a_function_cannot(role: str) -> None:
    """https://docs.aws.amazon.com/lambda/latest/dg/permissions-source-function-arn.html."""
    statements = statements_of(Stack.of(TEMPLATE, SPARK_JOB | NETWORK), role)
    function = "arn:aws:lambda:us-east-1:123456789012:function:replay"
    for action in ("Create", "Delete"):
        made_by_lambda = Call(f"ec2:{action}NetworkInterface", "*")
        made_by_code = replace(made_by_lambda, context={"lambda:SourceFunctionArn": function})
        assert is_allowed(made_by_lambda, statements)
        assert not is_allowed(made_by_code, statements)


def test_the_code_of_the_publisher_alone_may_ask_for_the_zone_of_the_subnet() -> None:
    stack = Stack.of(TEMPLATE, SPARK_JOB | NETWORK)
    by_code = {"lambda:SourceFunctionArn": "arn:aws:lambda:us-east-1:123456789012:function:f"}
    asks = Call("ec2:DescribeSubnets", "*", by_code)
    roles = ("ReplayRole", "PublishJobRole", "ReminderRole")

    assert [one for one in roles if is_allowed(asks, statements_of(stack, one))] == [
        "PublishJobRole"
    ]


def test_glue_makes_network_interfaces_in_the_first_subnet_alone() -> None:
    statements = statements_of(Stack.of(TEMPLATE, SPARK_JOB | NETWORK), "SparkJobRole")
    first, second = NETWORK["SubnetIds"].split(",")

    def may_use(subnet: str) -> bool:
        arn = f"arn:aws:ec2:us-east-1:123456789012:subnet/{subnet}"
        return is_allowed(Call("ec2:CreateNetworkInterface", arn), statements)

    assert (may_use(first), may_use(second)) == (True, False)


def test_the_layer_fits_every_architecture_that_the_function_may_have() -> None:
    stack = Stack.of(TEMPLATE)
    [layer] = stack.of_type("AWS::Serverless::LayerVersion").values()

    assert (
        layer["CompatibleArchitectures"] == TEMPLATE["Parameters"]["Architecture"]["AllowedValues"]
    )
    assert layer["CompatibleRuntimes"] == [function_of(stack)["Runtime"]]


def test_the_layer_ships_the_versions_that_the_tests_run_with() -> None:
    shipped = pins_of("layers/core/requirements.txt")

    assert "aws-lambda-powertools" in shipped
    assert shipped.items() <= pins_of("requirements/demo.txt").items()
