"""The template for StackSets: without a transform, and with code from a bucket of each Region."""

import json
import subprocess
import sys
from pathlib import Path

from cfnlint.api import lint

from scripts.processed_template import code_folders, pack, process
from tests.contract.cloudformation import load_template
from tests.contract.template import ALL_OF_A_FLEET, ROOT, TEMPLATE

KEYS = {name: f"{name}-0123456789abcdef.zip" for name, _ in code_folders(TEMPLATE)}
PROCESSED = process(TEMPLATE, KEYS, "code")
MAX_BODY_BYTES = 51_200
MAX_FILE_BYTES = 1_000_000
"""CloudFormation's quotas for a template in a request, and for one in S3."""


def test_it_is_an_ordinary_template_that_cloudformation_s_rules_accept() -> None:
    types = {resource["Type"] for resource in PROCESSED["Resources"].values()}

    assert "Transform" not in PROCESSED
    assert not [name for name in types if name.startswith("AWS::Serverless::")]
    assert [str(match) for match in lint(json.dumps(PROCESSED), regions=["us-east-1"])] == []


def test_it_has_to_be_in_s3_and_fits() -> None:
    assert MAX_BODY_BYTES < len(json.dumps(PROCESSED)) < MAX_FILE_BYTES


def test_all_code_comes_from_a_bucket_of_the_stack_s_region() -> None:
    codes = []
    for resource in PROCESSED["Resources"].values():
        if resource["Type"] in {"AWS::Lambda::Function", "AWS::Lambda::LayerVersion"}:
            properties = resource["Properties"]
            codes.append(properties.get("Code") or properties["Content"])

    assert {code["S3Key"] for code in codes} == set(KEYS.values())
    assert len(codes) == len(KEYS) > 4
    for code in codes:
        assert code["S3Bucket"] == {"Fn::Sub": "code-${AWS::Region}"}


def test_one_is_for_every_region_and_all_parameters() -> None:
    """SAM reads the values of some; CloudFormation will not run it again for others."""
    with_parameters = json.loads(json.dumps(TEMPLATE))
    for name, value in ALL_OF_A_FLEET.items():
        with_parameters["Parameters"][name]["Default"] = value
    resources = json.dumps(PROCESSED["Resources"])

    assert process(with_parameters, KEYS, "code")["Resources"] == PROCESSED["Resources"]
    assert "us-east-1" not in resources
    assert "arn:aws:" not in resources


def test_new_code_makes_a_new_layer_and_a_new_version_of_the_publisher() -> None:
    """A version and a layer keep the code that they were made of."""
    changed = {name: key.replace("0123", "4567") for name, key in KEYS.items()}
    new = process(TEMPLATE, changed, "code")["Resources"]

    replaced = PROCESSED["Resources"].keys() - new
    types = {PROCESSED["Resources"][name]["Type"] for name in replaced}
    assert types == {"AWS::Lambda::LayerVersion", "AWS::Lambda::Version"}


def test_the_name_of_code_changes_with_it(tmp_path: Path) -> None:
    template = {
        "Resources": {
            "Replay": {"Type": "AWS::Serverless::Function", "Properties": {"CodeUri": "replay"}},
            "Queue": {"Type": "AWS::SQS::Queue", "Properties": {}},
        }
    }
    handler = tmp_path / "replay" / "lib" / "handler.py"
    handler.parent.mkdir(parents=True)

    keys = []
    for code in ("first", "second", "first"):
        handler.write_text(code)
        keys.append(pack(template, tmp_path, tmp_path / "code")["Replay"])

    first, second, again = keys
    assert first == again != second
    assert {path.name for path in (tmp_path / "code").iterdir()} == {first, second}


def test_a_prefix_that_no_bucket_may_have_is_refused() -> None:
    command = (sys.executable, "-m", "scripts.processed_template", "Code_", "dist/processed")
    ended = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True)

    assert ended.returncode == 1
    assert "PREFIX=Code_: must be" in ended.stderr


def test_the_stack_set_gives_parameters_of_the_template() -> None:
    path = ROOT / "templates" / "examples" / "stack_set.yaml"
    stack_set = load_template(path)["Resources"]["Fleets"]["Properties"]
    given = {parameter["ParameterKey"] for parameter in stack_set["Parameters"]}

    assert {"QueueTag", "Sweep"} <= given <= TEMPLATE["Parameters"].keys()
    assert stack_set["Capabilities"] == ["CAPABILITY_IAM"]
    assert [str(match) for match in lint(path.read_text("utf-8"), regions=["us-east-1"])] == []
