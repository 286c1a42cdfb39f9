"""The templates that stand beside the application: pipe, nested application."""

from collections.abc import Mapping

import pytest

from tests.contract.cloudformation import Stack, load_template
from tests.contract.template import (
    ROOT,
    TEMPLATE,
)

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
def test_every_parameter_is_described_and_bounded(name: str) -> None:
    bounds = {"AllowedPattern", "AllowedValues", "MinValue"}
    for parameter, rule in TEMPLATES[name]["Parameters"].items():
        assert rule["Description"], parameter
        assert rule["ConstraintDescription"].startswith("must be ")
        assert bounds & rule.keys()


def test_the_nested_application_is_given_parameters_that_it_has() -> None:
    stack = stack_of("nested-application")
    [nested] = stack.of_type("AWS::Serverless::Application").values()

    assert {"BackoffRate", "MaxAttempts"} <= nested["Parameters"].keys()
    assert Stack.of(TEMPLATE, nested["Parameters"]).broken_rules == []
    version = TEMPLATE["Metadata"]["AWS::ServerlessRepo::Application"]["SemanticVersion"]
    assert nested["Location"]["SemanticVersion"] == version
