"""The custom resource: CloudFormation gets one answer, whatever happens."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from moto import mock_aws

from functions.custom_resource import answer_to
from functions.publish_job import handler
from functions.publish_job.handler import PACKAGE, SCRIPT, publish_job

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

BUCKET = "archive"
URL = "https://cloudformation.example/answer"
URIS = {"ScriptUri": "s3://archive/code/1/glue_job.py"}


def request(kind: str, **fields: str) -> dict[str, Any]:
    return {
        "RequestType": kind,
        "RequestId": "r-1",
        "StackId": "arn:stack",
        "LogicalResourceId": "JobCode",
        "ResponseURL": URL,
        "ResourceProperties": {"Bucket": BUCKET, "Prefix": "code"},
        **fields,
    }


def answers(event: Mapping[str, Any], publish: Any) -> list[dict[str, Any]]:
    sent: list[tuple[str, bytes]] = []
    answer_to(event, publish, lambda url, content: sent.append((url, content)))
    assert {url for url, _ in sent} == {URL}
    return [json.loads(content) for _, content in sent]


def publishes(_: Mapping[str, Any]) -> Mapping[str, str]:
    return URIS


def fails(_: Mapping[str, Any]) -> Mapping[str, str]:
    raise PermissionError("no")


@pytest.mark.parametrize("kind", ["Create", "Update"])
def test_what_was_published_is_answered(kind: str) -> None:
    [answer] = answers(request(kind), publishes)

    assert answer == {
        "Status": "SUCCESS",
        "Reason": "",
        "PhysicalResourceId": "JobCode",
        "StackId": "arn:stack",
        "RequestId": "r-1",
        "LogicalResourceId": "JobCode",
        "Data": URIS,
    }


@pytest.mark.parametrize("kind", ["Create", "Update"])
def test_what_went_wrong_is_answered_too(kind: str) -> None:
    [answer] = answers(request(kind), fails)

    assert (answer["Status"], answer["Reason"]) == ("FAILED", "PermissionError: no")


def test_a_delete_touches_nothing_not_even_the_bundle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handler, "publish_job", fails)
    [answer] = answers(request("Delete", PhysicalResourceId="JobCode"), handler._act)  # noqa: SLF001

    assert (answer["Status"], answer["Reason"], answer["Data"]) == ("SUCCESS", "", {})


def test_a_delete_that_goes_wrong_succeeds_all_the_same() -> None:
    [answer] = answers(request("Delete", PhysicalResourceId="JobCode"), fails)

    assert (answer["Status"], answer["Data"]) == ("SUCCESS", {})


def test_a_delete_of_what_was_never_made_succeeds() -> None:
    [answer] = answers(request("Delete", PhysicalResourceId="never-made", StackId="other"), fails)

    assert answer["Status"] == "SUCCESS"
    assert (answer["PhysicalResourceId"], answer["StackId"]) == ("never-made", "other")


def test_an_update_keeps_the_id_so_that_nothing_is_deleted_after_it() -> None:
    [answer] = answers(request("Update", PhysicalResourceId="JobCode"), publishes)

    assert answer["PhysicalResourceId"] == "JobCode"


@pytest.fixture
def s3() -> Iterator["S3Client"]:
    with mock_aws():
        client = boto3.client("s3", region_name="us-east-1")
        client.create_bucket(Bucket=BUCKET)
        yield client


def job_in(folder: Path, package: bytes = b"zip", script: bytes = b"py") -> Path:
    folder.mkdir()
    (folder / PACKAGE).write_bytes(package)
    (folder / SCRIPT).write_bytes(script)
    return folder


def read(client: "S3Client", uri: str) -> bytes:
    key = uri.removeprefix(f"s3://{BUCKET}/")
    return client.get_object(Bucket=BUCKET, Key=key)["Body"].read()


def test_script_and_package_are_where_the_answer_says(s3: "S3Client", tmp_path: Path) -> None:
    uris = publish_job(s3, BUCKET, "code", job_in(tmp_path / "job"))

    assert read(s3, uris["ScriptUri"]) == b"py"
    assert read(s3, uris["PackageUri"]) == b"zip"


def test_other_code_has_another_address_and_leaves_the_first_in_place(
    s3: "S3Client", tmp_path: Path
) -> None:
    first = publish_job(s3, BUCKET, "code", job_in(tmp_path / "a", package=b"1"))
    second = publish_job(s3, BUCKET, "code", job_in(tmp_path / "b", package=b"2"))
    again = publish_job(s3, BUCKET, "code", job_in(tmp_path / "c", package=b"1"))

    assert not set(first.values()) & set(second.values())
    assert first == again
    assert read(s3, first["PackageUri"]) == b"1"


def test_bytes_that_move_from_one_file_to_the_other_are_other_code(
    s3: "S3Client", tmp_path: Path
) -> None:
    first = publish_job(s3, BUCKET, "code", job_in(tmp_path / "a", b"12", b"3"))
    second = publish_job(s3, BUCKET, "code", job_in(tmp_path / "b", b"1", b"23"))

    assert first != second
