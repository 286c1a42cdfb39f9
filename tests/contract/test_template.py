from dataclasses import replace

import pytest

from tests.contract.cloudformation import PSEUDO_PARAMETERS, Stack
from tests.contract.permissions import Call, is_allowed
from tests.contract.template import (
    KEYS,
    OTHER_MAIN_QUEUES,
    OWN_QUEUES,
    PRESCRIBED,
    SPARK_JOB,
    TEMPLATE,
    as_list,
    environment_of,
    function_of,
    pins_of,
    statements_of,
    statements_of_policy,
)

FAILURE_TABLE_ARN = "arn:aws:dynamodb:us-east-1:123456789012:table/FailureTable"


def test_the_url_of_your_dlq_has_the_domain_of_the_partition() -> None:
    in_china = replace(
        Stack.of(TEMPLATE, OWN_QUEUES),
        pseudo_parameters={**PSEUDO_PARAMETERS, "AWS::URLSuffix": "amazonaws.com.cn"},
    )
    url = "https://sqs.us-east-1.amazonaws.com.cn/210987654321/orders-dlq"

    assert environment_of(in_china)["DLQ_URL"] == url


def test_the_function_ends_before_any_queue_shows_its_messages_again() -> None:
    stack = Stack.of(TEMPLATE)
    timeout_seconds = function_of(stack)["Timeout"]
    visibility_seconds = stack.of_type("AWS::SQS::Queue")["DeadLetterQueue"]["VisibilityTimeout"]
    default_visibility_seconds = 30
    fifo_retry_window_seconds = 240

    assert timeout_seconds <= default_visibility_seconds
    assert 6 * timeout_seconds <= visibility_seconds <= fifo_retry_window_seconds


STAR_ALONE = {
    *("cloudwatch:GetMetricData", "cloudwatch:GetMetricStatistics", "cloudwatch:PutMetricData"),
    *("lambda:ListEventSourceMappings", "pipes:ListPipes"),
}
"""Actions for which AWS knows no resource."""


def test_a_star_stands_only_where_aws_knows_no_resource() -> None:
    stack = Stack.of(
        TEMPLATE, SPARK_JOB | KEYS | OTHER_MAIN_QUEUES | {"ArchiveRetentionDays": "90"}
    )
    statements = [
        one for name in stack.of_type("AWS::IAM::Role") for one in statements_of(stack, name)
    ]
    for name in stack.of_type("AWS::IAM::ManagedPolicy"):
        statements += statements_of_policy(stack, name)

    for one in statements:
        assert not any("*" in action for action in as_list(one["Action"])), one
        assert "*" not in as_list(one["Resource"]) or {*as_list(one["Action"])} <= STAR_ALONE, one


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


def test_the_layer_fits_every_architecture_that_the_function_may_have() -> None:
    stack = Stack.of(TEMPLATE)
    [layer] = stack.of_type("AWS::Serverless::LayerVersion").values()

    assert (
        layer["CompatibleArchitectures"] == TEMPLATE["Parameters"]["Architecture"]["AllowedValues"]
    )
    assert layer["CompatibleRuntimes"] == [function_of(stack)["Runtime"]]


@pytest.mark.parametrize("lock", ["layers/core/requirements.txt", "requirements/constraints.txt"])
def test_what_is_shipped_has_the_versions_that_the_tests_run_with(lock: str) -> None:
    shipped = pins_of(lock)

    assert shipped
    assert shipped.items() <= pins_of("requirements/demo.txt").items()
