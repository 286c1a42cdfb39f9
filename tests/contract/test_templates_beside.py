"""The templates that stand beside the application: pipe, nested application."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.contract.cloudformation import Stack, load_template
from tests.contract.template import (
    ROOT,
    TEMPLATE,
    as_list,
    grants_of,
    statements_of,
    statements_of_policy,
)
from tests.contract.translation import faults_of

DLQ = "arn:aws:sqs:us-east-1:123456789012:orders-dlq"
FUNCTION = "arn:aws:lambda:us-east-1:123456789012:function:replay"
KEYS = ",".join(f"arn:aws:kms:us-east-1:123456789012:key/{n}" for n in ("main", "dlq"))

GIVEN: Mapping[str, dict[str, str]] = {
    "pipe-trigger": {"ReplayFunctionArn": FUNCTION, "DLQArn": DLQ},
    "nested-application": {
        "ApplicationId": "arn:aws:serverlessrepo:us-east-1:123456789012:applications/replay"
    },
}
TEMPLATES = {name: load_template(ROOT / "templates" / f"{name}.yaml") for name in GIVEN}


def stack_of(name: str, **given: str) -> Stack:
    return Stack.of(TEMPLATES[name], GIVEN[name] | given)


def test_there_is_no_template_that_is_not_tested() -> None:
    assert {path.stem for path in (ROOT / "templates").glob("*.yaml")} == TEMPLATES.keys()


@pytest.mark.parametrize("name", TEMPLATES)
def test_cloudformation_s_rules_find_nothing(name: str) -> None:
    assert faults_of(TEMPLATES[name]) == []


@pytest.mark.parametrize("name", TEMPLATES)
def test_every_parameter_is_described_and_bounded(name: str) -> None:
    bounds = {"AllowedPattern", "AllowedValues", "MinValue"}
    for parameter, rule in TEMPLATES[name]["Parameters"].items():
        assert rule["Description"], parameter
        assert rule["ConstraintDescription"].startswith("must be ")
        assert bounds & rule.keys()


@pytest.mark.parametrize("name", TEMPLATES)
def test_no_right_has_a_star(name: str) -> None:
    stack = stack_of(name)
    for role in stack.of_type("AWS::IAM::Role"):
        for statement in statements_of(stack, role):
            assert "*" not in as_list(statement["Resource"])
            assert not any("*" in action for action in as_list(statement["Action"]))


def pipe_of(stack: Stack) -> dict[str, Any]:
    [pipe] = stack.of_type("AWS::Pipes::Pipe").values()
    return pipe


def test_the_pipe_waits_for_the_answer_that_names_what_must_stay() -> None:
    pipe = pipe_of(stack_of("pipe-trigger"))

    assert (pipe["Source"], pipe["Target"]) == (DLQ, FUNCTION)
    assert pipe["TargetParameters"]["LambdaFunctionParameters"] == {
        "InvocationType": "REQUEST_RESPONSE"
    }
    assert "InputTemplate" not in pipe["TargetParameters"]
    assert "Enrichment" not in pipe


def test_the_pipe_takes_the_batches_that_the_mapping_takes() -> None:
    standard = pipe_of(stack_of("pipe-trigger"))["SourceParameters"]["SqsQueueParameters"]
    fifo = pipe_of(stack_of("pipe-trigger", DLQArn=f"{DLQ}.fifo"))["SourceParameters"]

    assert standard == {"BatchSize": 100, "MaximumBatchingWindowInSeconds": 1}
    assert fifo["SqsQueueParameters"] == {"BatchSize": 10}


def test_the_pipe_may_poll_and_invoke_and_decrypt() -> None:
    assert grants_of(stack_of("pipe-trigger", KmsKeyArns=KEYS), "PipeRole") == {
        DLQ: {"sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"},
        FUNCTION: {"lambda:InvokeFunction"},
        **{key: {"kms:Decrypt"} for key in KEYS.split(",")},
    }


def test_operators_may_stop_and_start_this_pipe() -> None:
    stack = stack_of("pipe-trigger")
    [statement] = statements_of_policy(stack, "OperatorPolicy")

    assert statement["Resource"] == "DeadLetterPipe.Arn"
    # What ``dlq pause`` and ``dlq resume`` call, but for ListPipes.
    assert set(statement["Action"]) == {"pipes:DescribePipe", "pipes:StartPipe", "pipes:StopPipe"}
    assert stack.outputs["OperatorPolicyArn"]["Value"] == "OperatorPolicy"


def test_the_nested_application_is_given_parameters_that_it_has() -> None:
    stack = stack_of("nested-application")
    [nested] = stack.of_type("AWS::Serverless::Application").values()

    assert {"BackoffRate", "MaxAttempts"} <= nested["Parameters"].keys()
    assert Stack.of(TEMPLATE, nested["Parameters"]).broken_rules == []
    version = TEMPLATE["Metadata"]["AWS::ServerlessRepo::Application"]["SemanticVersion"]
    assert nested["Location"]["SemanticVersion"] == version
