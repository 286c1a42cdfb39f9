"""What ``sam package`` makes of the built application: what a deployment and SAR would get."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import boto3
import pytest
import yaml

from tests.contract.cloudformation import load_template
from tests.contract.translation import faults_of, translate
from tests.support.needs import needs_build
from tests.support.recorded_aws import serve_recorded_aws

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

ROOT = Path(__file__).parents[2]
BUILT = ROOT / ".aws-sam" / "build" / "template.yaml"
SAM = ROOT / ".tools" / "sam" / "bin" / "sam"
BUCKET = "artefacts"

pytestmark = needs_build


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with serve_recorded_aws() as aws:
        yield aws.url


@pytest.fixture(scope="module")
def s3(endpoint: str) -> "S3Client":
    client = boto3.client("s3", region_name="us-east-1", endpoint_url=endpoint)
    client.create_bucket(Bucket=BUCKET)
    return client


@pytest.fixture(scope="module")
def packaged_file(s3: "S3Client", endpoint: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("packaged") / "template.yaml"
    subprocess.run(
        [
            *(SAM, "package", "--template-file", BUILT, "--s3-bucket", BUCKET),
            *("--no-resolve-s3", "--output-template-file", target, "--region", "us-east-1"),
        ],
        cwd=ROOT,
        env={**os.environ, "AWS_ENDPOINT_URL": endpoint, "SAM_CLI_TELEMETRY": "0"},
        check=True,
        capture_output=True,
    )
    return target


@pytest.fixture(scope="module")
def packaged(packaged_file: Path) -> dict[str, Any]:
    return load_template(packaged_file)


def test_every_local_file_is_in_the_bucket(packaged: dict[str, Any], s3: "S3Client") -> None:
    application = packaged["Metadata"]["AWS::ServerlessRepo::Application"]
    properties = [resource["Properties"] for resource in packaged["Resources"].values()]
    uris = [application["LicenseUrl"], application["ReadmeUrl"]]
    uris += [one[path] for one in properties for path in ("CodeUri", "ContentUri") if path in one]

    assert len(uris) == 6
    for uri in uris:
        bucket, key = urlsplit(uri).netloc, urlsplit(uri).path.lstrip("/")
        assert bucket == BUCKET
        assert s3.head_object(Bucket=bucket, Key=key)["ContentLength"] > 0


def test_all_of_it_is_small_enough_for_lambda_and_for_the_repository(
    packaged: dict[str, Any], s3: "S3Client"
) -> None:
    objects = s3.list_objects_v2(Bucket=BUCKET)["Contents"]

    assert sum(one["Size"] for one in objects) < 50 * 2**20
    # CloudFormation's limit of a template in S3.
    assert len(yaml.safe_dump(packaged)) < 2**20


def test_cloudformation_s_rules_find_nothing_in_what_would_be_deployed(
    packaged: dict[str, Any],
) -> None:
    artefacts = {
        name: resource["Properties"].get("CodeUri", resource["Properties"].get("ContentUri"))
        for name, resource in packaged["Resources"].items()
        if resource["Type"].startswith("AWS::Serverless::")
    }

    assert faults_of(translate(packaged, {"CreateSparkJob": "true"}, artefacts)) == []
