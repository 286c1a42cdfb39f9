"""Rules of the template that a diff of ``stacks.yaml`` cannot say."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from dlq.cli.running import parse
from dlq.erase.erase import EraseRequest
from dlq.stack.glue_runs import command_of
from dlq_replay import __version__
from dlq_replay.settings import FleetSettings, ReplaySettings
from scripts.generate_docs import EVENT_MESSAGES, FUNCTION_GB
from tests.contract.cloudformation import PSEUDO_PARAMETERS, Stack, load_template
from tests.contract.permissions import Call, is_allowed
from tests.contract.template import (
    ALL_OF_A_FLEET,
    ALL_PARTS,
    APPLICATION,
    DATA_KEY,
    FIFO,
    FLEET,
    KEYS,
    MEMBERS,
    NETWORK,
    OTHER_MAIN_QUEUES,
    OWN_PARKED_QUEUE,
    OWN_QUEUES,
    PRESCRIBED,
    ROOT,
    SPARK_JOB,
    SWEEP,
    TAG_CONDITION,
    TEMPLATE,
    as_list,
    environment_of,
    function_of,
    pins_of,
    statements_of,
)
from tests.simulation.outage import Outage, Scenario
from tests.support.golden import assert_stored, stored_texts

FAILURE_TABLE_ARN = "arn:aws:dynamodb:us-east-1:123456789012:table/FailureTable"
BESIDE = {path.stem: load_template(path) for path in (ROOT / "templates").glob("*.yaml")}


# --- The application


def test_the_application_has_the_version_of_the_project_and_of_the_tests() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

    assert __version__ == APPLICATION["SemanticVersion"]
    assert project["license"] == APPLICATION["SpdxLicenseId"]
    for lock in ("layers/core/requirements.txt", "requirements/constraints.txt"):
        shipped = pins_of(lock)
        assert shipped
        assert shipped.items() <= pins_of("requirements/dev.txt").items()


def test_the_application_is_described_within_the_repository_s_limits() -> None:
    assert re.fullmatch(r"[a-zA-Z0-9-]{1,140}", APPLICATION["Name"])
    assert re.fullmatch(r"[a-z0-9](([a-z0-9]|-(?!-)){0,125}[a-z0-9])?", APPLICATION["Author"])
    assert len(APPLICATION["Description"]) <= 256
    assert len(APPLICATION["Labels"]) <= 10
    assert all(len(label) <= 127 for label in APPLICATION["Labels"])
    assert (ROOT / APPLICATION["LicenseUrl"]).is_file()
    assert (ROOT / APPLICATION["ReadmeUrl"]).is_file()


def test_the_nested_application_is_given_parameters_that_it_has() -> None:
    application = "arn:aws:serverlessrepo:us-east-1:123456789012:applications/replay"
    stack = Stack.of(BESIDE["nested-application"], {"ApplicationId": application})
    [nested] = stack.of_type("AWS::Serverless::Application").values()

    assert {"BackoffRate", "MaxAttempts"} <= nested["Parameters"].keys()
    assert Stack.of(TEMPLATE, nested["Parameters"]).broken_rules == []
    assert nested["Location"]["SemanticVersion"] == APPLICATION["SemanticVersion"]


# --- Parameters


@pytest.mark.parametrize(
    ("name", "rule"),
    [pair for template in (TEMPLATE, *BESIDE.values()) for pair in template["Parameters"].items()],
)
def test_every_parameter_is_described_and_bounded(name: str, rule: Mapping[str, Any]) -> None:
    assert rule["Description"], name
    assert rule["ConstraintDescription"].startswith("must be ")
    assert {"AllowedPattern", "AllowedValues", "MinValue"} & rule.keys()
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
    of_fleet = Environment(environment_of(Stack.of(TEMPLATE, FLEET)))

    ReplaySettings.from_env(environment)
    FleetSettings.from_env(of_fleet)

    assert read == environment.keys() | of_fleet.keys()
    assert of_fleet.keys() - environment.keys() == {"QUEUE_TAG", "FIFO_PARKED_QUEUE_URL"}


@pytest.mark.parametrize(
    "given",
    [
        {},
        FIFO,
        {"MaxAttempts": "0"},
        {"MaxAttempts": "1000"},
        {"BackoffRate": "0.001"},
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


@pytest.mark.parametrize(
    "given", [{}, {"FifoParkedQueue": "true"}, OWN_PARKED_QUEUE, {"CreateFailureTable": "false"}]
)
def test_what_the_parameters_of_a_fleet_admit_are_valid_settings(given: dict[str, str]) -> None:
    settings = FleetSettings.from_env(environment_of(Stack.of(TEMPLATE, FLEET | given)))

    assert settings.queue_tag == "shop"
    assert (settings.fifo_parked_queue_url is not None) is ("FifoParkedQueue" in given)


@pytest.mark.parametrize("given", stored_texts("refused_parameters"))
def test_the_parameters_refuse_what_cannot_work(given: str) -> None:
    """Of a policy also what a command line would misread, or what would grant more than a file."""
    name, _, value = given.partition("=")
    with pytest.raises(ValueError, match="must be ") as raised:
        Stack.of(TEMPLATE, {name: value})

    assert_stored("refused_parameters", given, str(raised.value))


POLICY = {"SparkJobPolicyUri": "s3://rules/dlq/(orders)!policy.yaml"}
REASONS = {"NonRetryableErrors": "KeyError"}
EMAIL = {"AlarmEmail": "team@example.com"}
TOPIC = {"AlarmTopicArn": "arn:aws:sns:us-east-1:123456789012:on-call"}


ONE_OWN_QUEUE = [{name: value} for name, value in OWN_QUEUES.items()]


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
        (FLEET, []),
        (ALL_OF_A_FLEET, []),
        (FLEET | OWN_QUEUES, ["FleetQueuesJoinByTag"]),
        (FLEET | OTHER_MAIN_QUEUES, ["FleetQueuesJoinByTag"]),
        (FLEET | {"MainQueueName": "orders"}, ["YourQueuesGoTogether", "FleetQueuesJoinByTag"]),
        *((FLEET | own, ["YourQueuesGoTogether", "FleetQueuesJoinByTag"]) for own in ONE_OWN_QUEUE),
        ({"Sweep": "true"}, ["OnlyFleetsSweep"]),
        ({"FifoParkedQueue": "true"}, ["OnlyFleetsSweep"]),
    ],
)
def test_parameters_that_contradict_each_other_break_a_rule(
    given: dict[str, str], broken_rules: list[str]
) -> None:
    assert Stack.of(TEMPLATE, given).broken_rules == broken_rules


@pytest.mark.parametrize("given", [SPARK_JOB, SWEEP, ALL_OF_A_FLEET])
def test_a_fleet_has_no_main_queue_and_no_dead_letter_queue(given: dict[str, str]) -> None:
    stack = Stack.of(TEMPLATE, FLEET | given)

    queues = {"ParkedQueue", "ParkedFifoQueue", "ReminderFailures"}
    assert stack.of_type("AWS::SQS::Queue").keys() <= queues
    assert stack.of_type("AWS::Lambda::EventSourceMapping") == {}
    # A DLQ of the fleet may have a parked queue as the net under it.
    for name in queues - {"ReminderFailures"}:
        assert "RedriveAllowPolicy" not in stack.of_type("AWS::SQS::Queue").get(name, {})


@pytest.mark.parametrize("given", [{"MainQueueName": "odrers"}, FIFO])
def test_the_name_of_your_main_queue_and_the_type_of_new_queues_change_nothing_of_yours(
    given: dict[str, str],
) -> None:
    stack = Stack.of(TEMPLATE, OWN_QUEUES | given)

    assert stack.resources == Stack.of(TEMPLATE, OWN_QUEUES).resources


# https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/intrinsic-function-reference-rules.html
ALLOWED_IN_RULES = {
    "Fn::And",
    "Fn::Contains",
    "Fn::EachMemberEquals",
    "Fn::EachMemberIn",
    "Fn::Equals",
    "Fn::Not",
    "Fn::Or",
    "Fn::RefAll",
    "Fn::ValueOf",
    "Fn::ValueOfAll",
    "Ref",
}


def functions_in(node: Any) -> set[str]:
    if isinstance(node, list):
        return set().union(*map(functions_in, node))
    if not isinstance(node, dict):
        return set()
    named = {name for name in node if name in {"Ref", "Condition"} or name.startswith("Fn::")}
    return named | functions_in(list(node.values()))


def test_rules_have_no_function_that_cloudformation_refuses_there() -> None:
    """cfn-lint passes others, such as Fn::Join; a deployment fails on them."""
    for name, rule in TEMPLATE["Rules"].items():
        assert functions_in(rule) <= ALLOWED_IN_RULES, name
        assert all(functions_in(assertion["Assert"]) for assertion in rule["Assertions"]), name


# --- The function


def test_the_function_ends_before_any_queue_shows_its_messages_again() -> None:
    stack = Stack.of(TEMPLATE)
    timeout_seconds = function_of(stack)["Timeout"]
    visibility_seconds = stack.of_type("AWS::SQS::Queue")["DeadLetterQueue"]["VisibilityTimeout"]
    default_visibility_seconds = 30
    fifo_retry_window_seconds = 240

    assert timeout_seconds <= default_visibility_seconds
    assert 6 * timeout_seconds <= visibility_seconds <= fifo_retry_window_seconds


def test_the_url_of_your_dlq_has_the_domain_of_the_partition() -> None:
    in_china = replace(
        Stack.of(TEMPLATE, OWN_QUEUES),
        pseudo_parameters={**PSEUDO_PARAMETERS, "AWS::URLSuffix": "amazonaws.com.cn"},
    )
    url = "https://sqs.us-east-1.amazonaws.com.cn/210987654321/orders-dlq"

    assert environment_of(in_china)["DLQ_URL"] == url


@pytest.mark.parametrize("given", [SWEEP, ALL_OF_A_FLEET])
def test_a_sweep_is_the_replay_function_with_another_handler(given: dict[str, str]) -> None:
    functions = Stack.of(TEMPLATE, given).of_type("AWS::Serverless::Function")
    sweep = functions["SweepFunction"]
    own = {"Description", "Handler", "Timeout", "MemorySize", "EventInvokeConfig"}

    def shared(function: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in function.items() if name not in own}

    assert shared(sweep) == shared(functions["ReplayFunction"])
    assert sweep["Handler"] == "sweep.lambda_handler"
    # One begins each minute, and none is repeated beside the next.
    assert sweep["Timeout"] < 60
    assert sweep["EventInvokeConfig"]["MaximumRetryAttempts"] == 0


# --- The defaults


def test_the_documented_costs_are_those_of_the_template() -> None:
    stack = Stack.of(TEMPLATE)
    events = stack.resources["ReplayFunctionDeadLetters"]["Properties"]

    assert function_of(stack)["MemorySize"] == FUNCTION_GB * 1024
    assert int(events["BatchSize"]) == EVENT_MESSAGES


def test_the_worlds_of_outages_are_those_of_the_template() -> None:
    stack = Stack.of(TEMPLATE)
    main = stack.resources["MainQueue"]["Properties"]
    rules = ReplaySettings.from_env(environment_of(stack)).policy
    of_worlds = Outage(Scenario(rate=0)).policy

    assert (rules.max_attempts, rules.backoff) == (of_worlds.max_attempts, of_worlds.backoff)
    assert rules.max_age_seconds is of_worlds.max_age_seconds is None
    assert main["RedrivePolicy"]["maxReceiveCount"] == Outage.MAX_RECEIVES
    assert main.get("VisibilityTimeout", 30) == Scenario().visibility_seconds


# --- Rights

STAR_ALONE = {
    "cloudwatch:GetMetricData",
    "cloudwatch:GetMetricStatistics",
    "cloudwatch:PutMetricData",
    "events:ListRuleNamesByTarget",
    "lambda:ListEventSourceMappings",
    "pipes:ListPipes",
    "sqs:ListQueues",
    "tag:GetResources",
}
"""Actions for which AWS knows no resource."""


@pytest.mark.parametrize("given", [ALL_PARTS, ALL_OF_A_FLEET], ids=["one queue", "fleet"])
def test_a_star_stands_only_where_aws_knows_no_resource(given: dict[str, str]) -> None:
    stack = Stack.of(TEMPLATE, given | dict.fromkeys(NETWORK, ""))
    holders = stack.of_type("AWS::IAM::Role") | stack.of_type("AWS::IAM::ManagedPolicy")

    for statement in (statement for name in holders for statement in statements_of(stack, name)):
        assert not any("*" in action for action in as_list(statement["Action"])), statement
        assert (
            "*" not in as_list(statement["Resource"])
            or {*as_list(statement["Action"])} <= STAR_ALONE
        ), statement


def test_in_a_fleet_nobody_acts_on_a_queue_or_with_a_key_without_the_tag() -> None:
    stack = Stack.of(TEMPLATE, ALL_OF_A_FLEET)
    holders = stack.of_type("AWS::IAM::Role") | stack.of_type("AWS::IAM::ManagedPolicy")
    queue = MEMBERS.replace("*", "orders-dlq")
    key = "arn:aws:kms:us-east-1:123456789012:key/of-orders"
    through_sqs = {"kms:ViaService": "sqs.us-east-1.amazonaws.com"}

    def who_may(action: str, resource: str, tag: str | None) -> set[str]:
        context = {} if tag is None else {TAG_CONDITION: tag}
        call = Call(action, resource, through_sqs | context)
        return {name for name in holders if is_allowed(call, statements_of(stack, name))}

    receivers = {"ReplayRole", "OperatorPolicy"}
    readers = {"AnalystPolicy", "LookPolicy"}
    key_users = {"ReplayRole", "OperatorSourcesPolicy", "SparkJobRole"}
    for other_tag in (None, "shop2", "Shop", ""):
        for action in ("ReceiveMessage", "DeleteMessage", "SendMessage", "ChangeMessageVisibility"):
            assert who_may(f"sqs:{action}", queue, other_tag) == set(), other_tag
        assert who_may("kms:Decrypt", key, other_tag) == set(), other_tag
    assert who_may("sqs:DeleteMessage", queue, "shop") == receivers
    assert who_may("sqs:ReceiveMessage", queue, "shop") == receivers | {
        "AnalystPolicy",
        "LookPolicy",
    }
    assert who_may("sqs:SendMessage", queue, "shop") == receivers | {"SparkJobRole"}
    assert who_may("kms:GenerateDataKey", key, "shop") == key_users
    assert who_may("kms:Decrypt", key, "shop") == key_users | readers
    # Nobody joins a queue, or lets one leave.
    assert (
        who_may("sqs:TagQueue", queue, "shop") == who_may("sqs:UntagQueue", queue, "shop") == set()
    )


def test_in_a_fleet_only_people_and_the_spark_job_take_out_what_is_parked() -> None:
    stack = Stack.of(TEMPLATE, SPARK_JOB | SWEEP | {"FifoParkedQueue": "true"})
    holders = stack.of_type("AWS::IAM::Role") | stack.of_type("AWS::IAM::ManagedPolicy")

    def who_may(action: str, queue: str) -> set[str]:
        call = Call(f"sqs:{action}", MEMBERS.replace("*", queue))
        return {name for name in holders if is_allowed(call, statements_of(stack, name))}

    readers = {"OperatorPolicy", "SparkJobRole", "LookPolicy", "AnalystPolicy"}
    for queue in ("ParkedQueue", "ParkedFifoQueue.fifo"):
        assert who_may("DeleteMessage", queue) == {"OperatorPolicy", "SparkJobRole"}
        assert who_may("ReceiveMessage", queue) == readers
        assert who_may("SendMessage", queue) == {"OperatorPolicy", "ReplayRole"}
        counting = readers | {"ReplayRole", "ReminderRole"}
        assert who_may("GetQueueAttributes", queue) == counting


@pytest.mark.parametrize("breaker", ["true", "false"])
def test_in_the_table_each_changes_items_of_its_own_kind(breaker: str) -> None:
    """Consumers write failures, the function breakers and returns, a redrive begins returns."""
    stack = Stack.of(TEMPLATE, SPARK_JOB | {"CircuitBreaker": breaker})
    names = {"consumer": "RecordFailuresPolicy", "operator": "OperatorPolicy"}
    names |= {"function": "ReplayRole", "job": "SparkJobRole", "eraser": "EraserPolicy"}
    holders = {holder: statements_of(stack, name) for holder, name in names.items()}

    def who_may(action: str, *keys: str) -> set[str]:
        call = Call(f"dynamodb:{action}", FAILURE_TABLE_ARN, {"dynamodb:LeadingKeys": keys})
        return {name for name, allowed in holders.items() if is_allowed(call, allowed)}

    redriving = {"job", "operator"}
    everyone = holders.keys() - {"consumer", "eraser"}
    assert who_may("PutItem", "m-1") == {"consumer"}
    assert who_may("BatchWriteItem", "m-1", "m-2") == {"consumer", "eraser"}
    for ours in ("breaker#orders", "breaker#orders#unknown", "returns#plan#group"):
        assert who_may("PutItem", ours) == who_may("BatchWriteItem", "m-1", ours) == set()
        assert who_may("BatchGetItem", ours) == everyone
    assert who_may("UpdateItem", "breaker#orders") == {"function", "operator"}
    assert who_may("UpdateItem", "returns#plan#group") == redriving | {"function"}
    assert who_may("UpdateItem", "m-1") == who_may("UpdateItem", "returns#p#g", "m-1") == set()
    # Who reads dead letters may read why they failed.
    assert who_may("BatchGetItem", "m-1") == {"function", "operator", "eraser"}
    for action in ("DeleteItem", "Query", "Scan"):
        assert who_may(action, "returns#plan#group") == set()


def test_the_job_deletes_no_network_interface_but_those_that_glue_made_for_it() -> None:
    statements = statements_of(Stack.of(TEMPLATE, ALL_PARTS), "SparkJobRole")
    interface = "arn:aws:ec2:us-east-1:123456789012:network-interface/eni-1"
    subnets = "arn:aws:ec2:us-east-1:123456789012:subnet"
    ours = f"{subnets}/subnet-0a1b2c3d4e5f60718"
    other = f"{subnets}/subnet-1"
    tagged = {"aws:ResourceTag/aws-glue-service-resource": "glue"}
    tagging = {"aws:TagKeys": ("aws-glue-service-resource",)}

    def may(action: str, **context: Any) -> bool:
        call = Call(f"ec2:{action}", interface, context)
        return is_allowed(call, statements)

    assert may("DeleteNetworkInterface", **tagged, **{"ec2:Subnet": ours})
    assert not may("DeleteNetworkInterface", **tagged, **{"ec2:Subnet": other})
    assert not may("DeleteNetworkInterface", **{"ec2:Subnet": ours})
    assert may("CreateTags", **tagging, **{"ec2:Subnet": ours})
    assert not may("CreateTags", **tagging, **{"ec2:Subnet": other})
    # AWS may leave the subnet out of a request.
    assert may("DeleteNetworkInterface", **tagged)


@pytest.mark.parametrize("given", [ALL_PARTS, ALL_OF_A_FLEET], ids=["one queue", "fleet"])
def test_a_boundary_and_a_path_hold_for_every_role_and_policy(given: dict[str, str]) -> None:
    stack = Stack.of(TEMPLATE, given)
    roles = stack.of_type("AWS::IAM::Role")

    for name, resource in (roles | stack.of_type("AWS::IAM::ManagedPolicy")).items():
        assert resource["Path"] == PRESCRIBED["RolePath"], name
    for name, role in roles.items():
        assert role["PermissionsBoundary"] == PRESCRIBED["PermissionsBoundaryArn"], name


# --- The jobs


def command_line_of(job: str = "SparkJob", **given: str) -> list[str]:
    """Return the command line of the job: Glue's arguments, as the script reads them."""
    resources = Stack.of(TEMPLATE, SPARK_JOB | given).resources
    arguments = resources[job]["Properties"]["DefaultArguments"]
    passed = [argument for pair in arguments.items() for argument in pair]
    return command_of(["--JOB_NAME", "SparkJob", *passed, "--JOB_RUN_ID", "jr_1"])


@pytest.mark.parametrize(
    "uri", ["s3://rules/p", "s3://ru.les/a/b=c/p_1-2.yaml", POLICY["SparkJobPolicyUri"]]
)
def test_the_job_is_told_its_policy_and_the_hash_that_it_must_have(uri: str) -> None:
    command = command_line_of(SparkJobPolicyUri=uri, SparkJobPolicySha256="0aB1" * 16)

    assert command[-5:] == ["--policy", uri, "--policy-sha256", "0aB1" * 16, "--no-samples"]
    _, request = parse(command).options
    assert request.policy_sha256 == "0aB1" * 16


@pytest.mark.parametrize(
    "given",
    [
        {},
        OWN_QUEUES | OWN_PARKED_QUEUE,
        POLICY | {"SparkJobExecute": "true"},
        {"SparkJobSamples": "true"},
    ],
)
def test_the_job_understands_what_it_is_told(given: dict[str, str]) -> None:
    command = parse(command_line_of(**given))

    assert command.name == "run"
    archive, request = command.options
    assert archive == "s3://archivebucket/archive"
    assert request.execute is ("SparkJobExecute" in given)
    assert request.has_samples is ("SparkJobSamples" in given)


def test_the_job_of_a_fleet_is_told_its_tag_and_its_parked_queues() -> None:
    _, of_one = parse(command_line_of(**FLEET)).options
    _, of_two = parse(command_line_of(**SWEEP, FifoParkedQueue="true")).options

    url = "https://sqs.us-east-1.amazonaws.com/123456789012/"
    assert of_one.queue_tag == of_two.queue_tag == "shop"
    assert of_one.main_queue_url is of_one.sweep_function_arn is None
    assert of_one.parked_queue_urls == (f"{url}ParkedQueue",)
    assert of_two.parked_queue_urls == (f"{url}ParkedQueue", f"{url}ParkedFifoQueue.fifo")
    assert of_two.function_arn == "ReplayFunction.Arn"
    assert of_two.sweep_function_arn == "SweepFunction.Arn"


def test_what_is_decided_expires_by_the_command_of_the_second_job() -> None:
    command = parse(command_line_of("ExpireJob", ArchiveRetentionDays="90"))

    assert command.name == "erase"
    request = EraseRequest(older_than_days=90, wait_seconds=1800, execute=True)
    assert command.options == ("s3://archivebucket/archive", request)
