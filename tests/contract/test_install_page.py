"""docs/install.md: its examples for other tools are sound, and name what the template has."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from dlq_replay import __version__
from tests.contract.cloudformation import Stack, load_template
from tests.contract.template import (
    PRESCRIBED,
    ROOT,
    SPARK_JOB,
    TEMPLATE,
    as_list,
    statements_of,
)

PAGE = (ROOT / "docs" / "install.md").read_text("utf-8")
README = (ROOT / "README.md").read_text("utf-8")


def block(language: str) -> str:
    [text] = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    return str(text)


@pytest.mark.parametrize("page", [PAGE, README], ids=["install.md", "README.md"])
def test_the_command_that_deploys_gives_values_that_the_template_takes(page: str) -> None:
    command = next(
        one for one in re.findall(r"```sh\n(.*?)```", page, re.DOTALL) if "deploy" in one
    )
    words = command.replace("\\\n", " ").partition("--parameter-overrides")[2].split()
    given = dict(word.split("=", 1) for word in words)

    stack = Stack.of(TEMPLATE, given)
    assert stack.broken_rules == []
    assert not stack.of_type("AWS::SQS::Queue").keys() & {"MainQueue", "DeadLetterQueue"}
    assert {"ArchiveUri", "SparkJobName", "AlarmTopicArn"} <= stack.outputs.keys()


@pytest.mark.parametrize("page", [PAGE, README], ids=["install.md", "README.md"])
def test_the_wheel_has_the_version_that_is_built(page: str) -> None:
    assert f"./dist/sqs_dlq_replay-{__version__}-py3-none-any.whl[spark]" in page


def parameters_of_serverless(tmp_path: Path) -> set[str]:
    path = tmp_path / "serverless.yml"
    path.write_text(block("yaml"), "utf-8")
    resources: dict[str, Any] = load_template(path)["resources"]["Resources"]
    return set(resources["Replay"]["Properties"]["Parameters"])


def test_other_tools_give_parameters_of_the_template(tmp_path: Path) -> None:
    terraform = re.search(r"parameters = \{(.*?)\}", block("hcl"), re.DOTALL)
    cdk = re.search(r"parameters=\{(.*?)\}", block("python"), re.DOTALL)
    assert terraform
    assert cdk
    given = [
        set(re.findall(r"^\s+(\w+)\s+=", terraform[1], re.MULTILINE)),
        set(re.findall(r'"(\w+)":', cdk[1])),
        parameters_of_serverless(tmp_path),
    ]

    for names in given:
        assert {"MainQueueURL", "DLQArn"} <= names <= TEMPLATE["Parameters"].keys()


def test_they_read_outputs_of_the_template() -> None:
    named = re.findall(r'outputs\["(\w+)"\]|Outputs\.(\w+)', PAGE)

    assert named
    assert {one or other for one, other in named} <= TEMPLATE["Outputs"].keys()


def section_of(title: str) -> str:
    return PAGE.partition(f"### {title}\n")[2].partition("\n### ")[0]


PRESCRIBING = Stack.of(TEMPLATE, SPARK_JOB | PRESCRIBED)
ROLES = {
    "replay function": "ReplayRole",
    "daily notice": "ReminderRole",
    "publisher of the job's code": "PublishJobRole",
    "Spark job": "SparkJobRole",
}


def services_of(role: str) -> set[str]:
    return {
        action.partition(":")[0]
        for statement in statements_of(PRESCRIBING, role)
        for action in as_list(statement["Action"])
    }


def test_the_endpoints_are_those_of_the_services_that_roles_may_call() -> None:
    """KMS is called by the other services; Lambda and Glue make network interfaces."""
    rows = re.findall(r"^\| (`[^|]*?) \| \w+ \| (.*) \|$", section_of("In a VPC"), re.MULTILINE)
    listed = {
        (role, endpoint)
        for endpoints, users in rows
        for words, role in ROLES.items()
        if words in users
        for endpoint in re.findall(r"`(\w+)`", endpoints)
    }
    endpoint_of = {"cloudwatch": "monitoring"}
    called = {
        (role, endpoint_of.get(service, service))
        for role in ROLES.values()
        for service in services_of(role) - {"kms", "logs"}
    }
    # Glue itself calls its API, writes the log from the VPC; STS needs no right. Only one function
    # calls EC2 by itself.
    called -= {("SparkJobRole", "glue")}
    called -= {(role, "ec2") for role in ("ReplayRole", "ReminderRole", "SparkJobRole")}
    called |= {("SparkJobRole", "logs"), ("SparkJobRole", "sts")}

    assert listed == called


def test_a_boundary_is_told_every_service_that_a_role_uses() -> None:
    used = {service for role in ROLES.values() for service in services_of(role)}

    assert used == set(re.findall(r"`([a-z0-9]+)`", section_of("A boundary")))


def test_every_parameter_that_is_prescribed_is_listed() -> None:
    groups = TEMPLATE["Metadata"]["AWS::CloudFormation::Interface"]["ParameterGroups"]
    [group] = [one["Parameters"] for one in groups if "organization" in one["Label"]["default"]]
    section = PAGE.partition("## What your organization prescribes")[2].partition("\n### ")[0]

    assert set(group) <= set(re.findall(r"`(\w+)", section))


def test_python_compiles_the_example_for_the_cdk() -> None:
    compile(block("python"), "docs/install.md", "exec")


def test_the_attributes_of_the_dlq_are_json() -> None:
    [attributes] = re.findall(r"--attributes '(\{.*?\})'", PAGE, re.DOTALL)

    assert json.loads(json.loads(attributes)["RedrivePolicy"])["maxReceiveCount"] == 1000


def test_the_defaults_that_differ_are_the_template_s() -> None:
    section = PAGE.partition("## Switch from")[2]
    rows = dict(re.findall(r"^\| `(\w+)` \| (\d+) \|", section, re.MULTILINE))

    assert rows == {name: str(TEMPLATE["Parameters"][name]["Default"]) for name in rows}
    assert yaml.safe_load(rows["MaxAttempts"]) == 20
