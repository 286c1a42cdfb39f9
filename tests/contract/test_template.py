import re
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dlq_replay.settings import OPTIONAL_VARIABLES, REQUIRED_VARIABLES, ReplaySettings
from tests.contract.cloudformation import PSEUDO_PARAMETERS, Stack, load_template

ROOT = Path(__file__).parents[2]
TEMPLATE = load_template(ROOT / "template.yaml")
APPLICATION = TEMPLATE["Metadata"]["AWS::ServerlessRepo::Application"]

# The families that an application of this kind could need, from
# https://docs.aws.amazon.com/serverlessrepo/latest/devguide/list-supported-resources.html
ACCEPTED_BY_SERVERLESS_REPO = {
    "AWS::CloudFormation::CustomResource",
    "AWS::CloudWatch::Alarm",
    "AWS::CloudWatch::Dashboard",
    "AWS::DynamoDB::Table",
    "AWS::Events::Rule",
    "AWS::Glue::Job",
    "AWS::Glue::Trigger",
    "AWS::IAM::ManagedPolicy",
    "AWS::IAM::Policy",
    "AWS::IAM::Role",
    "AWS::KMS::Alias",
    "AWS::KMS::Key",
    "AWS::Lambda::Alias",
    "AWS::Lambda::EventInvokeConfig",
    "AWS::Lambda::EventSourceMapping",
    "AWS::Lambda::Function",
    "AWS::Lambda::LayerVersion",
    "AWS::Lambda::Permission",
    "AWS::Lambda::Version",
    "AWS::Logs::LogGroup",
    "AWS::Logs::MetricFilter",
    "AWS::S3::Bucket",
    "AWS::S3::BucketPolicy",
    "AWS::SNS::Topic",
    "AWS::SNS::TopicPolicy",
    "AWS::SQS::Queue",
    "AWS::SQS::QueuePolicy",
    "AWS::SSM::Parameter",
    "AWS::Serverless::Application",
    "AWS::Serverless::Function",
    "AWS::Serverless::LayerVersion",
    "AWS::Serverless::SimpleTable",
    "AWS::Serverless::StateMachine",
    "AWS::StepFunctions::StateMachine",
}

OWN_QUEUES = {
    "MainQueueURL": "https://sqs.eu-west-1.amazonaws.com/210987654321/orders",
    "MainQueueName": "orders",
    "DLQArn": "arn:aws:sqs:eu-west-1:210987654321:orders-dlq",
}
OWN_PARKED_QUEUE = {"ParkedQueueArn": "arn:aws:sqs:eu-west-1:210987654321:orders-parked"}
FIFO = {"QueueType": "fifo"}


def function_of(stack: Stack) -> dict[str, Any]:
    function = stack.resources["ReplayFunction"]["Properties"]
    assert isinstance(function, dict)
    return function


def environment_of(stack: Stack) -> dict[str, str]:
    variables = function_of(stack)["Environment"]["Variables"]
    assert isinstance(variables, dict)
    return variables


def event_of(stack: Stack) -> dict[str, Any]:
    event = function_of(stack)["Events"]["DeadLetters"]["Properties"]
    assert isinstance(event, dict)
    return event


def statements_of(stack: Stack) -> list[dict[str, Any]]:
    roles = stack.of_type("AWS::IAM::Role").values()
    return [
        statement
        for role in roles
        for policy in role["Policies"]
        for statement in policy["PolicyDocument"]["Statement"]
    ]


def grants_of(stack: Stack) -> dict[str, set[str]]:
    grants: dict[str, set[str]] = {}
    for statement in statements_of(stack):
        actions = statement["Action"]
        granted = {actions} if isinstance(actions, str) else set(actions)
        grants.setdefault(statement["Resource"], set()).update(granted)
    return grants


def parameter_rows(document: str) -> dict[str, list[str]]:
    rows = re.findall(r"^\| `(\w+)` \|(.*)\|$", (ROOT / document).read_text("utf-8"), re.MULTILINE)
    return {name: [cell.strip() for cell in cells.split("|")] for name, cells in rows}


def pins_of(lock_file: str) -> dict[str, str]:
    text = (ROOT / lock_file).read_text("utf-8")
    return dict(re.findall(r"^([\w.-]+)==([\w.]+)", text, re.MULTILINE))


def test_the_serverless_application_repository_accepts_every_resource_type() -> None:
    types = {resource["Type"] for resource in TEMPLATE["Resources"].values()}

    assert types <= ACCEPTED_BY_SERVERLESS_REPO


def test_the_application_has_the_version_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

    assert project["version"] == APPLICATION["SemanticVersion"]
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


@pytest.mark.parametrize("document", ["README.md", "README-SAR.md"])
def test_every_parameter_has_a_row_in_the_parameter_table(document: str) -> None:
    assert TEMPLATE["Parameters"].keys() <= parameter_rows(document).keys()


def test_the_buyer_s_page_states_the_defaults() -> None:
    defaults = {n: str(r["Default"]) or "empty" for n, r in TEMPLATE["Parameters"].items()}

    assert defaults == {name: cells[0] for name, cells in parameter_rows("README-SAR.md").items()}


def test_the_environment_is_what_the_settings_read() -> None:
    read_by_powertools = {"POWERTOOLS_SERVICE_NAME", "POWERTOOLS_METRICS_NAMESPACE"}
    read_by_settings = {*REQUIRED_VARIABLES, *OPTIONAL_VARIABLES}

    assert read_by_settings | read_by_powertools == environment_of(Stack.of(TEMPLATE)).keys()


@pytest.mark.parametrize("queue_type", [{}, FIFO])
def test_the_defaults_are_valid_settings(queue_type: dict[str, str]) -> None:
    settings = ReplaySettings.from_env(environment_of(Stack.of(TEMPLATE, queue_type)))

    assert settings.policy.max_attempts == 6
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
    ],
)
def test_what_the_parameters_admit_are_valid_settings(given: dict[str, str]) -> None:
    ReplaySettings.from_env(environment_of(Stack.of(TEMPLATE, given)))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MaxAttempts", "-1"),
        ("MaxAttempts", "1001"),
        ("BackoffRate", "0"),
        ("BackoffRate", "0.000"),
        ("BackoffRate", "-2"),
        ("BackoffRate", "1e3"),
        ("BackoffCapSeconds", "1.5"),
        ("MessageRetentionPeriod", "59"),
        ("MaxAgeSeconds", "0"),
        ("MainQueueURL", "orders"),
        ("MainQueueName", "orders.standard"),
        ("DLQArn", "https://sqs.eu-west-1.amazonaws.com/210987654321/orders-dlq"),
        ("ParkedQueueArn", "arn:aws:sns:eu-west-1:210987654321:orders"),
        ("QueueType", "FIFO"),
        ("MaximumConcurrency", "1"),
        ("LogRetentionDays", "2"),
    ],
)
def test_the_parameters_refuse_what_cannot_work(name: str, value: str) -> None:
    with pytest.raises(ValueError, match=f"{name}=.*must be"):
        Stack.of(TEMPLATE, {name: value})


def test_an_empty_cap_leaves_the_backoff_bounded_by_the_retention() -> None:
    given = {"BackoffCapSeconds": "", "MessageRetentionPeriod": "86400"}

    assert environment_of(Stack.of(TEMPLATE, given))["BACKOFF_CAP_SECONDS"] == "86400"


@pytest.mark.parametrize("missing", list(OWN_QUEUES))
def test_your_queues_are_given_together_or_not_at_all(missing: str) -> None:
    incomplete = {name: value for name, value in OWN_QUEUES.items() if name != missing}

    assert Stack.of(TEMPLATE, incomplete).broken_rules == ["YourQueuesGoTogether"]
    assert Stack.of(TEMPLATE, OWN_QUEUES).broken_rules == []
    assert Stack.of(TEMPLATE).broken_rules == []


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

    assert created == stack.of_type("AWS::SQS::Queue").keys()
    assert {"DeadLetterQueueArn", "ParkedQueueArn", "MainQueueUrl"} <= stack.outputs.keys()


def test_the_urls_of_your_queues_are_built_from_their_arns() -> None:
    stack = Stack.of(TEMPLATE, OWN_QUEUES | OWN_PARKED_QUEUE)
    in_china = replace(
        stack, pseudo_parameters={**PSEUDO_PARAMETERS, "AWS::URLSuffix": "amazonaws.com.cn"}
    )
    account = "210987654321"
    host = "https://sqs.eu-west-1.amazonaws.com"

    assert environment_of(stack)["MAIN_QUEUE_URL"] == OWN_QUEUES["MainQueueURL"]
    assert environment_of(stack)["DLQ_URL"] == f"{host}/{account}/orders-dlq"
    assert environment_of(stack)["PARKED_QUEUE_URL"] == f"{host}/{account}/orders-parked"
    assert environment_of(in_china)["DLQ_URL"] == f"{host}.cn/{account}/orders-dlq"


@pytest.mark.parametrize("queue_type", ["standard", "fifo"])
def test_created_queues_are_of_one_type_encrypted_and_outlive_the_stack(queue_type: str) -> None:
    stack = Stack.of(TEMPLATE, {"QueueType": queue_type})
    queues = [one for one in stack.resources.values() if one["Type"] == "AWS::SQS::Queue"]

    assert len(queues) == 3
    for queue in queues:
        assert queue["DeletionPolicy"] == "Retain"
        assert queue["UpdateReplacePolicy"] == "Retain"
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
        "Queue": "arn:aws:sqs:us-east-1:123456789012:DeadLetterQueue",
        "BatchSize": 100,
        "MaximumBatchingWindowInSeconds": 1,
        "FunctionResponseTypes": ["ReportBatchItemFailures"],
        "ScalingConfig": {"MaximumConcurrency": "5"},
    }


def test_a_fifo_dlq_is_polled_in_the_batches_that_fifo_allows() -> None:
    event = event_of(Stack.of(TEMPLATE, OWN_QUEUES | FIFO))

    assert event == {
        "Queue": OWN_QUEUES["DLQArn"],
        "BatchSize": 10,
        "FunctionResponseTypes": ["ReportBatchItemFailures"],
        "ScalingConfig": {"MaximumConcurrency": "5"},
    }


@pytest.mark.parametrize("given", [{}, OWN_QUEUES, OWN_QUEUES | OWN_PARKED_QUEUE])
def test_no_statement_reaches_beyond_what_it_names(given: dict[str, str]) -> None:
    grants = grants_of(Stack.of(TEMPLATE, given))

    assert not [resource for resource in grants if "*" in resource]
    assert not [action for actions in grants.values() for action in actions if "*" in action]


def test_the_function_may_do_on_each_queue_what_it_does_there_and_no_more() -> None:
    queue = "arn:aws:sqs:eu-west-1:210987654321:"

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
        "FailureTable.Arn": {"dynamodb:BatchGetItem"},
        "ReplayLogGroup.Arn": {"logs:CreateLogStream", "logs:PutLogEvents"},
    }


def test_the_failure_table_can_be_left_out() -> None:
    stack = Stack.of(TEMPLATE, {"CreateFailureTable": "false"})

    assert not stack.of_type("AWS::DynamoDB::Table")
    assert not stack.of_type("AWS::IAM::ManagedPolicy")
    assert not {"FailureTableName", "RecordFailuresPolicyArn"} & stack.outputs.keys()
    assert "FailureTable.Arn" not in grants_of(stack)
    assert environment_of(stack)["FAILURE_TABLE"] == ""


def test_failure_reasons_expire_and_cost_nothing_at_rest() -> None:
    [table] = Stack.of(TEMPLATE).of_type("AWS::DynamoDB::Table").values()

    assert table["BillingMode"] == "PAY_PER_REQUEST"
    assert table["TimeToLiveSpecification"] == {"AttributeName": "expires_at", "Enabled": True}
    assert table["KeySchema"] == [{"AttributeName": "message_id", "KeyType": "HASH"}]


def test_the_consumer_may_write_reasons_and_nothing_else() -> None:
    [policy] = Stack.of(TEMPLATE).of_type("AWS::IAM::ManagedPolicy").values()
    [statement] = policy["PolicyDocument"]["Statement"]

    assert statement["Resource"] == "FailureTable.Arn"
    assert statement["Action"] == ["dynamodb:PutItem", "dynamodb:BatchWriteItem"]


def test_non_retryable_errors_need_the_table() -> None:
    given = {"NonRetryableErrors": "KeyError"}

    assert Stack.of(TEMPLATE, given).broken_rules == []
    assert Stack.of(TEMPLATE, given | {"CreateFailureTable": "false"}).broken_rules == [
        "ReasonsNeedATable"
    ]


def test_the_role_is_the_template_s_own_so_that_sam_attaches_no_managed_policy() -> None:
    stack = Stack.of(TEMPLATE)
    [role] = stack.of_type("AWS::IAM::Role").values()

    assert function_of(stack)["Role"] == "ReplayRole.Arn"
    assert "Policies" not in function_of(stack)
    assert "ManagedPolicyArns" not in role


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
