"""Writes a template without a transform, for StackSets, and the code that it names.

    python -m scripts.processed_template PREFIX FOLDER

reads what ``sam build`` made, and writes FOLDER/template.json and FOLDER/code/*.zip. Lambda takes
code only from its own Region, so a stack takes it from the bucket PREFIX-REGION.
"""

import copy
import hashlib
import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import boto3
from samtranslator.parser.parser import Parser
from samtranslator.translator.translator import Translator
from samtranslator.yaml_helper import yaml_parse

from dlq_replay.aws.answers import with_checked_answers
from scripts.package_job import write_zip

BUILT_TEMPLATE = Path(".aws-sam/build/template.yaml")

CODE_PROPERTIES = {
    "AWS::Serverless::Function": "CodeUri",
    "AWS::Serverless::LayerVersion": "ContentUri",
}

PREFIX = re.compile(r"[a-z0-9][a-z0-9-]{0,40}")
"""With a hyphen and the name of a Region it is at most 63 characters long, as a bucket's name."""

_NO_BUCKET = "replaced-by-process"


def code_folders(template: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each function and layer of a SAM template, and the folder of its code."""
    for name, resource in template["Resources"].items():
        code_property = CODE_PROPERTIES.get(resource["Type"])
        if code_property:
            yield name, resource["Properties"][code_property]


def pack(template: Mapping[str, Any], root: Path, target: Path) -> dict[str, str]:
    """Write a zip of each function and layer to *target*; folders of code are relative to *root*.

    Returns:
        The file name of each, by its logical id. It changes with the code, or CloudFormation would
        update nothing.
    """
    target.mkdir(parents=True, exist_ok=True)
    keys: dict[str, str] = {}
    for name, folder in code_folders(template):
        paths = filter(Path.is_file, (root / folder).rglob("*"))
        unnamed = target / f"{name}.zip"
        write_zip(unnamed, {path.relative_to(root / folder).as_posix(): path for path in paths})
        digest = hashlib.sha256(unnamed.read_bytes()).hexdigest()
        keys[name] = f"{name}-{digest[:16]}.zip"
        unnamed.replace(target / keys[name])
    return keys


def process(template: Mapping[str, Any], keys: Mapping[str, str], prefix: str) -> dict[str, Any]:
    """Return what CloudFormation makes of a SAM template; it is the same in every Region.

    Args:
        template: in the long form of YAML.
        keys: of the code of each function and layer, in the buckets.
        prefix: of the buckets' names.
    """
    packaged = copy.deepcopy(dict(template))
    for name, _ in code_folders(template):
        resource = packaged["Resources"][name]
        code_property = CODE_PROPERTIES[resource["Type"]]
        # SAM would resolve the Region in the code of a function with an alias.
        resource["Properties"][code_property] = f"s3://{_NO_BUCKET}/{keys[name]}"

    # SAM wants a Region, and puts it nowhere.
    session = with_checked_answers(boto3.Session(region_name="us-east-1"))
    translator = Translator(None, Parser(), boto_session=session)
    processed: dict[str, Any] = translator.translate(packaged, {})
    for resource in processed["Resources"].values():
        properties = resource.get("Properties", {})
        code = properties.get("Code") or properties.get("Content")
        if code and code.get("S3Bucket") == _NO_BUCKET:
            code["S3Bucket"] = {"Fn::Sub": f"{prefix}-${{AWS::Region}}"}
    return processed


def main(prefix: str, folder: Path) -> None:
    """Write template and code; print the commands that follow."""
    if not PREFIX.fullmatch(prefix):
        sys.exit(f"PREFIX={prefix}: must be lowercase letters, digits and hyphens, at most 41")

    template = yaml_parse(BUILT_TEMPLATE.read_text("utf-8"))
    keys = pack(template, BUILT_TEMPLATE.parent, folder / "code")
    processed = process(template, keys, prefix)
    (folder / "template.json").write_text(json.dumps(processed), "utf-8")
    print(f"aws s3 sync {folder}/code s3://{prefix}-REGION --region REGION   # in each Region")  # noqa: T201
    print(f"aws s3 cp {folder}/template.json s3://BUCKET/sqs-dlq-replay.json")  # noqa: T201


if __name__ == "__main__":
    if len(sys.argv) != 3:  # noqa: PLR2004
        sys.exit(__doc__)
    main(sys.argv[1], Path(sys.argv[2]))
