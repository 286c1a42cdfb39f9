import re
import tomllib
from collections.abc import Mapping
from typing import Any

import pytest

from dlq_replay import __version__
from dlq_replay.settings import ReplaySettings
from tests.contract.cloudformation import Stack
from tests.contract.template import (
    APPLICATION,
    DATA_KEY,
    FIFO,
    KEYS,
    NETWORK,
    OTHER_MAIN_QUEUES,
    OWN_QUEUES,
    ROOT,
    SPARK_JOB,
    TEMPLATE,
    environment_of,
)
from tests.support.golden import assert_stored, stored_texts


def test_the_application_has_the_version_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

    assert __version__ == APPLICATION["SemanticVersion"]
    assert project["license"] == APPLICATION["SpdxLicenseId"]


def test_the_application_is_described_within_the_repository_s_limits() -> None:
    assert re.fullmatch(r"[a-zA-Z0-9-]{1,140}", APPLICATION["Name"])
    assert re.fullmatch(r"[a-z0-9](([a-z0-9]|-(?!-)){0,125}[a-z0-9])?", APPLICATION["Author"])
    assert len(APPLICATION["Description"]) <= 256
    assert len(APPLICATION["Labels"]) <= 10
    assert all(len(label) <= 127 for label in APPLICATION["Labels"])
    assert (ROOT / APPLICATION["LicenseUrl"]).is_file()
    assert (ROOT / APPLICATION["ReadmeUrl"]).is_file()


@pytest.mark.parametrize(("name", "rule"), TEMPLATE["Parameters"].items())
def test_every_parameter_is_described_and_bounded(name: str, rule: Mapping[str, Any]) -> None:
    bounds = {"AllowedPattern", "AllowedValues", "MinValue", "MaxValue"}

    assert rule["Description"], name
    assert rule["ConstraintDescription"].startswith("must be ")
    assert bounds & rule.keys()
    assert ("MinValue" in rule) == ("MaxValue" in rule)


def test_every_parameter_is_in_exactly_one_group() -> None:
    interface = TEMPLATE["Metadata"]["AWS::CloudFormation::Interface"]
    grouped = [name for group in interface["ParameterGroups"] for name in group["Parameters"]]

    assert sorted(TEMPLATE["Parameters"]) == sorted(grouped)


def test_the_environment_is_what_the_settings_read() -> None:
    class Environment(dict[str, str]):
        def get(self, name: str, default: Any = None) -> Any:
            read.add(name)
            return super().get(name, default)

    read = {"POWERTOOLS_SERVICE_NAME"}
    environment = Environment(environment_of(Stack.of(TEMPLATE)))

    ReplaySettings.from_env(environment)

    assert read == environment.keys()


@pytest.mark.parametrize("queue_type", [{}, FIFO])
def test_the_defaults_are_valid_settings(queue_type: dict[str, str]) -> None:
    settings = ReplaySettings.from_env(environment_of(Stack.of(TEMPLATE, queue_type)))

    assert settings.policy.max_attempts == 20
    assert settings.policy.max_age_seconds is None


@pytest.mark.parametrize(
    "given",
    [
        {"MaxAttempts": "0"},
        {"MaxAttempts": "1000"},
        {"BackoffRate": "0.001"},
        {"BackoffRate": "2"},
        {"BackoffRate": "9999.999"},
        {"BackoffCapSeconds": "0"},
        {"BackoffCapSeconds": "999999"},
        {"BackoffCapSeconds": "", "MessageRetentionPeriod": "60"},
        {"BackoffCapSeconds": "", "MessageRetentionPeriod": "1209600"},
        {"MaxAgeSeconds": "1"},
        {"MaxAgeSeconds": "9999999"},
        {"LogLevel": "CRITICAL"},
        OTHER_MAIN_QUEUES | OWN_QUEUES,
    ],
)
def test_what_the_parameters_admit_are_valid_settings(given: dict[str, str]) -> None:
    ReplaySettings.from_env(environment_of(Stack.of(TEMPLATE, given)))


@pytest.mark.parametrize("given", stored_texts("refused_parameters"))
def test_the_parameters_refuse_what_cannot_work(given: str) -> None:
    """Of a policy also what a command line would misread, or what would grant more than a file."""
    name, _, value = given.partition("=")
    with pytest.raises(ValueError, match="must be ") as raised:
        Stack.of(TEMPLATE, {name: value})

    assert_stored("refused_parameters", given, str(raised.value))


POLICY = {"SparkJobPolicyUri": "s3://rules/policy.yaml"}
REASONS = {"NonRetryableErrors": "KeyError"}
EMAIL = {"AlarmEmail": "team@example.com"}
TOPIC = {"AlarmTopicArn": "arn:aws:sns:us-east-1:123456789012:on-call"}


@pytest.mark.parametrize(
    ("given", "broken_rules"),
    [
        ({}, []),
        (OWN_QUEUES, []),
        *(({name: value}, ["YourQueuesGoTogether"]) for name, value in OWN_QUEUES.items()),
        ({"MainQueueName": "orders"}, ["YourQueuesGoTogether"]),
        (OWN_QUEUES | {"MainQueueName": "odrers"}, []),
        (REASONS, []),
        (REASONS | {"CreateFailureTable": "false"}, ["ReasonsNeedATable"]),
        (SPARK_JOB | NETWORK, []),
        *((SPARK_JOB | {name: value}, ["NetworkIsComplete"]) for name, value in NETWORK.items()),
        (EMAIL, []),
        (EMAIL | TOPIC, ["OneTopicForAlarms"]),
        (SPARK_JOB | {"SparkJobPolicySha256": "0" * 64}, ["HashNeedsAPolicy"]),
        (SPARK_JOB | POLICY | {"SparkJobPolicySha256": "0aB1" * 16}, []),
        (SPARK_JOB | {"SparkJobExecute": "true"}, ["ExecutionNeedsAPolicy"]),
        (SPARK_JOB | POLICY | {"SparkJobExecute": "true"}, []),
        (SPARK_JOB, []),
        (KEYS, []),
        (SPARK_JOB | KEYS, ["KeyedMessagesNeedAKeyedArchive"]),
        (SPARK_JOB | KEYS | DATA_KEY, []),
    ],
)
def test_parameters_that_contradict_each_other_break_a_rule(
    given: dict[str, str], broken_rules: list[str]
) -> None:
    assert Stack.of(TEMPLATE, given).broken_rules == broken_rules


@pytest.mark.parametrize("given", [{"MainQueueName": "odrers"}, FIFO])
def test_the_name_of_your_main_queue_and_the_type_of_new_queues_change_nothing_of_yours(
    given: dict[str, str],
) -> None:
    stack = Stack.of(TEMPLATE, OWN_QUEUES | given)

    assert stack.resources == Stack.of(TEMPLATE, OWN_QUEUES).resources


# https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/intrinsic-function-reference-rules.html
ALLOWED_IN_RULES = {
    *("Fn::And", "Fn::Contains", "Fn::EachMemberEquals", "Fn::EachMemberIn", "Fn::Equals"),
    *("Fn::Not", "Fn::Or", "Fn::RefAll", "Fn::ValueOf", "Fn::ValueOfAll", "Ref"),
}


def functions_in(node: Any) -> set[str]:
    if isinstance(node, list):
        return {name for one in node for name in functions_in(one)}
    if not isinstance(node, dict):
        return set()
    named = {name for name in node if name in {"Ref", "Condition"} or name.startswith("Fn::")}
    return named | functions_in(list(node.values()))


def test_rules_have_no_function_that_cloudformation_refuses_there() -> None:
    """cfn-lint passes others, such as Fn::Join; a deployment fails on them."""
    for name, rule in TEMPLATE["Rules"].items():
        assert functions_in(rule) <= ALLOWED_IN_RULES, name
        assert all(functions_in(one["Assert"]) for one in rule["Assertions"]), name
