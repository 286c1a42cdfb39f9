"""docs/install.md: its examples for other tools are sound, and name what the template has."""

import json
import re
from typing import Any

import pytest

from dlq_replay import __version__
from tests.contract.cloudformation import Stack, load_template
from tests.contract.template import ROOT, TEMPLATE

PAGE = (ROOT / "docs" / "install.md").read_text("utf-8")
README = (ROOT / "README.md").read_text("utf-8")


EXAMPLES = ROOT / "templates" / "examples"
TERRAFORM, CDK = ((EXAMPLES / name).read_text("utf-8") for name in ("orders.tf", "cdk_app.py"))


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


def parameters_of_serverless() -> set[str]:
    resources: dict[str, Any] = load_template(EXAMPLES / "serverless.yml")["resources"]["Resources"]
    return set(resources["Replay"]["Properties"]["Parameters"])


def test_other_tools_give_parameters_of_the_template() -> None:
    terraform = re.search(r"parameters = \{(.*?)\}", TERRAFORM, re.DOTALL)
    cdk = re.search(r"parameters=\{(.*?)\}", CDK, re.DOTALL)
    assert terraform
    assert cdk
    given = [
        set(re.findall(r"^\s+(\w+)\s+=", terraform[1], re.MULTILINE)),
        set(re.findall(r'"(\w+)":', cdk[1])),
        parameters_of_serverless(),
    ]

    for names in given:
        assert {"MainQueueURL", "DLQArn"} <= names <= TEMPLATE["Parameters"].keys()


def test_they_read_outputs_of_the_template() -> None:
    serverless = (EXAMPLES / "serverless.yml").read_text("utf-8")
    named = re.findall(r'outputs\["(\w+)"\]|Outputs\.(\w+)', TERRAFORM + CDK + serverless)

    assert named
    assert {one or other for one, other in named} <= TEMPLATE["Outputs"].keys()


def test_python_compiles_the_example_for_the_cdk() -> None:
    compile(CDK, "cdk_app.py", "exec")


def test_the_attributes_of_the_dlq_are_json() -> None:
    [attributes] = re.findall(r"--attributes '(\{.*?\})'", PAGE, re.DOTALL)

    assert json.loads(json.loads(attributes)["RedrivePolicy"])["maxReceiveCount"] == 1000
