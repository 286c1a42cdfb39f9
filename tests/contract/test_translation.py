"""CloudFormation and SAR would take the template as SAM's translator expands it."""

import copy
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from cfnlint.api import lint
from samtranslator.parser.parser import Parser
from samtranslator.translator.translator import Translator

from tests.contract.cloudformation import Stack
from tests.contract.template import (
    ALL_OF_A_FLEET,
    ALL_PARTS,
    NETWORK,
    PRESCRIBED,
    RETAINED,
    ROOT,
    SPARK_JOB,
    SWEEP,
    TEMPLATE,
    as_list,
    statements_of,
)

PATHS = {"AWS::Serverless::Function": "CodeUri", "AWS::Serverless::LayerVersion": "ContentUri"}
PUBLISHER = "PublishJobFunction"


def expand(given: Mapping[str, str], code_of_publisher: str = "0123456789abcdef") -> Any:
    """Return what CloudFormation gets, with *given* as the parameters' defaults.

    Local folders become addresses in S3 first, as ``sam package`` has it.
    """
    packaged: dict[str, Any] = copy.deepcopy(dict(TEMPLATE))
    for name, resource in packaged["Resources"].items():
        if path := PATHS.get(resource["Type"]):
            code = code_of_publisher if name == PUBLISHER else "0123456789abcdef"
            resource["Properties"][path] = f"s3://artefacts/{code}"
    for name, value in given.items():
        packaged["Parameters"][name]["Default"] = value
    values = {name: rule["Default"] for name, rule in packaged["Parameters"].items()}
    # None: no role here gets a managed policy, so their ARNs are not needed.
    return Translator(None, Parser()).translate(packaged, values)


def test_cloudformation_reads_the_file_as_it_is() -> None:
    """CloudFormation refuses YAML aliases: "YAML aliases are not allowed in templates"."""
    with (ROOT / "template.yaml").open(encoding="utf-8") as template:
        assert not [event for event in yaml.parse(template) if getattr(event, "anchor", None)]


WITH_TEXTS = {
    "SparkJobPolicySha256": "0a" * 32,
    "SparkJobExecute": "true",
    "ConsumerLogGroupArns": "arn:aws:logs:us-east-1:123456789012:log-group:/shop/orders:*",
    "PointerBucketName": "payloads",
    "NonRetryableErrors": "ValidationError",
    "AlarmTopicArn": "arn:aws:sns:us-east-1:123456789012:on-call",
}
EVERYTHING = ALL_PARTS | WITH_TEXTS
EVERYTHING_OF_A_FLEET = ALL_OF_A_FLEET | WITH_TEXTS


@pytest.mark.parametrize(
    "given", [EVERYTHING, EVERYTHING_OF_A_FLEET, SWEEP], ids=["one queue", "fleet", "small fleet"]
)
def test_cloudformation_s_rules_find_nothing_in_what_sam_makes_of_every_parameter(
    given: dict[str, str],
) -> None:
    """``make validate`` looks at the defaults."""
    matches = lint(json.dumps(expand(given)), regions=["us-east-1"])
    assert [str(match) for match in matches] == []


def test_everything_that_can_be_given_is_given_there() -> None:
    defaults = {name: str(rule["Default"]) for name, rule in TEMPLATE["Parameters"].items()}
    has_a_default_that_is_a_value = {name for name, default in defaults.items() if default}
    not_together = {"AlarmEmail"}
    not_needed = {"MainQueueName", "MaxAgeSeconds"}

    assert Stack.of(TEMPLATE, EVERYTHING).broken_rules == []
    assert Stack.of(TEMPLATE, EVERYTHING_OF_A_FLEET).broken_rules == []
    given = EVERYTHING.keys() | EVERYTHING_OF_A_FLEET.keys()
    missing = TEMPLATE["Parameters"].keys() - given - has_a_default_that_is_a_value
    assert missing == not_together | not_needed


def test_the_repository_accepts_every_type_that_sam_makes_with_the_documented_capabilities() -> (
    None
):
    """Of the families that an application of this kind could need.

    See https://docs.aws.amazon.com/serverlessrepo/latest/devguide/list-supported-resources.html;
    which types need which capability: SAR API reference, CreateApplicationVersion.
    """
    # Conditions are not resolved: a fleet's resources are here, too.
    made = expand(SPARK_JOB | PRESCRIBED)["Resources"].values()
    types = {resource["Type"] for resource in made}
    needed = set()
    if types & {"AWS::IAM::Role", "AWS::IAM::ManagedPolicy"}:
        needed.add("CAPABILITY_IAM")
    if types & {"AWS::Lambda::Permission", "AWS::SQS::QueuePolicy", "AWS::S3::BucketPolicy"}:
        needed.add("CAPABILITY_RESOURCE_POLICY")
    if types & {"AWS::Serverless::Application"}:
        needed.add("CAPABILITY_AUTO_EXPAND")

    assert types <= set(Path(__file__).with_name("accepted_types.txt").read_text().split())
    named = re.findall(r"CAPABILITY_[A-Z_]+", (ROOT / "README-SAR.md").read_text("utf-8"))
    assert set(named) == needed


@pytest.mark.parametrize("given", [EVERYTHING, EVERYTHING_OF_A_FLEET], ids=["one queue", "fleet"])
def test_no_role_could_give_itself_or_others_more(given: dict[str, str]) -> None:
    """SAR refuses an application for such a role, see "Using AWS SAM with the AWS SAR"."""
    stack = Stack.of(TEMPLATE, given)
    for name, role in stack.of_type("AWS::IAM::Role").items():
        for statement in statements_of(stack, name):
            for action in as_list(statement["Action"]):
                assert not action.startswith("iam:"), name
        # None of AWS's own: only what this template says itself.
        written = stack.of_type("AWS::IAM::ManagedPolicy").keys()
        assert set(role.get("ManagedPolicyArns", [])) <= written, name


def test_sam_adds_no_role_and_no_policy_of_its_own() -> None:
    written = {n for n, r in TEMPLATE["Resources"].items() if r["Type"].startswith("AWS::IAM::")}
    translated = expand(SPARK_JOB)["Resources"]

    assert written == {n for n, r in translated.items() if r["Type"].startswith("AWS::IAM::")}


def test_resources_have_no_names_of_their_own_that_would_need_more_capabilities() -> None:
    """A named role needs CAPABILITY_NAMED_IAM, and a stack with fixed names exists only once."""
    for name, resource in expand(SPARK_JOB)["Resources"].items():
        fixed = {"RoleName", "ManagedPolicyName", "QueueName", "FunctionName", "TableName"}
        given = {key for key in fixed if isinstance(resource["Properties"].get(key), str)}
        assert not given, name


def test_a_first_deployment_that_fails_leaves_nothing() -> None:
    """Retain would keep it even then; a function takes its versions along when it is deleted."""
    resources = expand(SPARK_JOB)["Resources"]
    retained = {}
    versions = set()
    for name, resource in resources.items():
        if resource.get("DeletionPolicy", "Delete") != "Delete":
            retained[name] = resource
            if resource["Type"] == "AWS::Lambda::Version":
                versions.add(name)

    # A rollback calls the version before.
    assert len(versions) == 1
    assert {retained[name]["DeletionPolicy"] for name in versions} == {"Retain"}
    assert {resource["Type"] for resource in retained.values()} >= {
        "AWS::IAM::ManagedPolicy",
        "AWS::Lambda::LayerVersion",
        "AWS::S3::Bucket",
        "AWS::SQS::Queue",
    }
    for name in retained.keys() - versions:
        assert (
            retained[name]["DeletionPolicy"],
            retained[name]["UpdateReplacePolicy"],
        ) == RETAINED, name


def referred(node: Any) -> Iterator[str]:
    """The logical ids that a part of a template refers to or depends on."""
    if isinstance(node, list):
        for child in node:
            yield from referred(child)

    if not isinstance(node, dict):
        return

    for name, value in node.items():
        match name:
            case "Ref":
                yield value
            case "Fn::GetAtt":
                yield value[0]
            case "DependsOn":
                yield from as_list(value)
            case "Fn::Sub":
                text = as_list(value)[0]
                for reference in re.findall(r"\$\{([^}]+)}", text):
                    yield reference.split(".")[0]
                yield from referred(as_list(value)[1:])
            case _:
                yield from referred(value)


@pytest.mark.parametrize(
    ("given", "last"),
    [
        (SPARK_JOB | PRESCRIBED, "ReplayFunctionDeadLetters"),
        # Without its permission the rule of the sweeps starts nothing.
        (SPARK_JOB | PRESCRIBED | SWEEP | {"FifoParkedQueue": "true"}, "SweepPermission"),
    ],
    ids=["one queue", "fleet"],
)
def test_nothing_is_polled_before_all_the_rest_is_there(given: dict[str, str], last: str) -> None:
    """A deployment that fails deletes the queues that it created, with all that is in them.

    What CloudFormation creates last it deletes first, so the polling also ends first.
    """
    resources = expand(given)["Resources"]
    stack = Stack.of(TEMPLATE, given)
    present = {name for name, resource in resources.items() if is_present(resource, stack)}
    created_before: set[str] = set()
    waiting = [last]
    while waiting:
        dependencies = {name for name in referred(resources[waiting.pop()]) if name in present}
        waiting += dependencies - created_before
        created_before |= dependencies

    assert present - created_before == {last}


def is_present(resource: Mapping[str, Any], stack: Stack) -> bool:
    condition = resource.get("Condition")
    return condition is None or bool(stack.resolve({"Condition": condition}))


def test_the_custom_resource_calls_the_function_of_today_and_again_for_new_code() -> None:
    """CloudFormation refuses an update of ServiceToken: "Modifying service token is not allowed".

    See AWS::CloudFormation::CustomResource in its template reference.
    """
    elsewhere = {"RolePath": "/apps/", **NETWORK}
    first = expand(SPARK_JOB, "aaaa")["Resources"]
    moved = expand(SPARK_JOB | elsewhere, "aaaa")["Resources"]
    other = expand(SPARK_JOB, "bbbb")["Resources"]

    # A version keeps its role and network, so it must not be what is called.
    assert moved["JobCode"]["Properties"] == first["JobCode"]["Properties"]
    bundles = [resources["JobCode"]["Properties"]["Bundle"] for resources in (first, other)]
    assert bundles[0] != bundles[1]
    types = {name: resource["Type"] for name, resource in first.items()}
    custom = [name for name in types if types[name] == "AWS::CloudFormation::CustomResource"]
    assert custom == ["JobCode"]
    for resources in (first, moved, other):
        job_code = resources["JobCode"]["Properties"]
        assert job_code["ServiceToken"] == {"Fn::GetAtt": [PUBLISHER, "Arn"]}
        assert resources[PUBLISHER]["Type"] == "AWS::Lambda::Function"
        version = resources[job_code["Bundle"]["Ref"]]
        assert version["Type"] == "AWS::Lambda::Version"
        assert version["Properties"]["FunctionName"] == {"Ref": PUBLISHER}
