import re
from dataclasses import replace

import pytest

from tests.contract.cloudformation import PSEUDO_PARAMETERS, Stack
from tests.contract.permissions import Call, is_allowed
from tests.contract.template import (
    KEYS,
    NETWORK,
    OTHER_MAIN_QUEUES,
    OWN_PARKED_QUEUE,
    OWN_QUEUES,
    PRESCRIBED,
    RETAINED,
    SPARK_JOB,
    TEMPLATE,
    environment_of,
    function_of,
    grants_of,
    pins_of,
    statements_of,
    statements_of_policy,
)

BUCKET_ARN = "arn:aws:s3:::archivebucket"
FAILURE_TABLE_ARN = "arn:aws:dynamodb:us-east-1:123456789012:table/FailureTable"


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


def test_the_function_ends_before_any_queue_shows_its_messages_again() -> None:
    stack = Stack.of(TEMPLATE)
    timeout_seconds = function_of(stack)["Timeout"]
    visibility_seconds = stack.of_type("AWS::SQS::Queue")["DeadLetterQueue"]["VisibilityTimeout"]
    default_visibility_seconds = 30
    fifo_retry_window_seconds = 240

    assert timeout_seconds <= default_visibility_seconds
    assert 6 * timeout_seconds <= visibility_seconds <= fifo_retry_window_seconds


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
        ("*", "cloudwatch:GetMetricData"),
        ("*", "cloudwatch:GetMetricStatistics"),
        (
            "*",
            "cloudwatch:GetMetricStatistics",
            "cloudwatch:PutMetricData",
            "lambda:ListEventSourceMappings",
            "pipes:ListPipes",
        ),
        ("arn:aws:s3:::archivebucket/archive/*", "s3:GetObject", "s3:PutObject"),
        ("arn:aws:s3:::archivebucket/archive/commands/*", "s3:DeleteObjectVersion"),
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


@pytest.mark.parametrize("breaker", ["true", "false"])
def test_in_the_table_each_changes_items_of_its_own_kind(breaker: str) -> None:
    """Consumers write failures, the function breakers and returns, a redrive begins returns."""
    stack = Stack.of(TEMPLATE, SPARK_JOB | {"CircuitBreaker": breaker})
    holders = {
        "consumer": statements_of_policy(stack, "RecordFailuresPolicy"),
        "function": statements_of(stack, "ReplayRole"),
        "job": statements_of(stack, "SparkJobRole"),
        "operator": statements_of_policy(stack, "OperatorPolicy"),
    }

    def who_may(action: str, *keys: str) -> set[str]:
        call = Call(f"dynamodb:{action}", FAILURE_TABLE_ARN, {"dynamodb:LeadingKeys": keys})
        return {name for name, allowed in holders.items() if is_allowed(call, allowed)}

    redriving, everyone = {"job", "operator"}, holders.keys() - {"consumer"}
    assert who_may("PutItem", "m-1") == who_may("BatchWriteItem", "m-1", "m-2") == {"consumer"}
    for ours in ("breaker#orders", "breaker#orders#unknown", "returns#plan#group"):
        assert who_may("PutItem", ours) == who_may("BatchWriteItem", "m-1", ours) == set()
        assert who_may("BatchGetItem", ours) == everyone
    assert who_may("UpdateItem", "breaker#orders") == {"function"}
    assert who_may("UpdateItem", "returns#plan#group") == redriving | {"function"}
    assert who_may("UpdateItem", "breaker#orders", "returns#plan#group") == {"function"}
    assert who_may("UpdateItem", "m-1") == who_may("UpdateItem", "returns#p#g", "m-1") == set()
    # Who reads dead letters may read why they failed.
    assert who_may("BatchGetItem", "m-1") == {"function", "operator"}
    for action in ("DeleteItem", "Query", "Scan"):
        assert who_may(action, "returns#plan#group") == set()


def test_what_roles_and_functions_of_yours_use_is_not_deleted_under_them() -> None:
    """IAM deletes no attached policy; no function can be configured with a deleted layer."""
    stack = Stack.of(TEMPLATE, SPARK_JOB)

    for name, resource in stack.resources.items():
        if resource["Type"] not in {"AWS::IAM::ManagedPolicy", "AWS::Serverless::LayerVersion"}:
            continue
        assert (resource["DeletionPolicy"], resource["UpdateReplacePolicy"]) == RETAINED, name


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


def test_without_network_and_keys_nothing_mentions_them() -> None:
    stack = Stack.of(TEMPLATE, SPARK_JOB)
    in_network_or_keys = (
        "VpcConfig|ec2:|Connections|SubnetId|KmsKeyId|KmsMasterKeyId|SSESpecification|kms:V"
    )

    assert not re.search(in_network_or_keys, str(stack.resources))
    assert not stack.of_type("AWS::Glue::Connection")


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
