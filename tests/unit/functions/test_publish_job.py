"""The custom resource: CloudFormation gets one answer, whatever happens."""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from moto import mock_aws
from urllib3.exceptions import HTTPError

from functions.publish_job import handler
from functions.publish_job.handler import PACKAGE, SCRIPT, publish_job, put_answer, remove_job
from tests.support.served import served

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


def answer_to(event: Mapping[str, Any], **replaced: Any) -> dict[str, Any]:
    """Return the one answer of the handler, with these parts of it *replaced*."""
    sent: list[tuple[str, bytes]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(handler, "put_answer", lambda *answer: sent.append(answer))
        for name, value in replaced.items():
            patch.setattr(handler, name, value)
        handler.lambda_handler(event, None)
    [(url, content)] = sent
    assert url == URL
    return dict(json.loads(content))


def fails(_: Mapping[str, Any]) -> dict[str, str]:
    raise PermissionError("no")


PUBLISHED = {"Status": "SUCCESS", "Reason": "", "Data": URIS}
REFUSED = {"Status": "FAILED", "Reason": "PermissionError: no"}
NEVER_MADE = {"PhysicalResourceId": "never-made", "StackId": "other"}


@pytest.mark.parametrize(
    ("kind", "fields", "act", "differs"),
    [
        ("Create", {}, lambda _: URIS, PUBLISHED),
        # An update keeps the id, so that nothing is deleted after it.
        ("Update", {"PhysicalResourceId": "JobCode"}, lambda _: URIS, PUBLISHED),
        ("Create", {}, fails, REFUSED),
        ("Update", {}, fails, REFUSED),
        # CloudFormation deletes what was never made, too, and must not wait for it.
        ("Delete", NEVER_MADE, fails, {"Status": "SUCCESS", **NEVER_MADE}),
    ],
)
def test_every_request_has_one_answer(
    kind: str, fields: dict[str, str], act: Any, differs: dict[str, Any]
) -> None:
    answer = answer_to(request(kind, **fields), _act=act)

    assert answer == {
        "Reason": answer["Reason"],
        "PhysicalResourceId": "JobCode",
        "StackId": "arn:stack",
        "RequestId": "r-1",
        "LogicalResourceId": "JobCode",
        "Data": {},
        **differs,
    }


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


def test_other_code_has_another_address_and_leaves_the_first_in_place(
    s3: "S3Client", tmp_path: Path
) -> None:
    # Bytes that move from one file to the other are other code, too.
    contents = [(b"12", b"3"), (b"1", b"23"), (b"2", b"3"), (b"12", b"3")]
    uris = []
    for number, content in enumerate(contents):
        job = job_in(tmp_path / str(number), *content)
        uris.append(publish_job(s3, BUCKET, "code", job))

    assert len({uri for each in uris for uri in each.values()}) == 6
    assert uris[3] == uris[0]
    for (package, script), each in zip(contents, uris, strict=True):
        assert (read(s3, each["PackageUri"]), read(s3, each["ScriptUri"])) == (package, script)


def test_nothing_is_published_unless_the_job_s_subnet_is_there_and_then_its_zone_is_answered(
    s3: "S3Client", tmp_path: Path
) -> None:
    ec2 = boto3.client("ec2", region_name="us-east-1")
    subnets = ec2.describe_subnets()["Subnets"]
    zones = {subnet["SubnetId"]: subnet["AvailabilityZone"] for subnet in subnets}
    clients = {"s3": s3, "ec2": ec2}
    world = {"_client": clients.__getitem__, "JOB": job_in(tmp_path / "job")}
    event = request("Create")

    event["ResourceProperties"]["SubnetId"] = "subnet-0a1b2c3d4e5f60718"
    refused = answer_to(event, **world)
    assert refused["Status"] == "FAILED"
    assert "InvalidSubnetID.NotFound" in refused["Reason"]
    assert "Contents" not in s3.list_objects_v2(Bucket=BUCKET)

    event["ResourceProperties"]["SubnetId"], zone = zones.popitem()
    data = answer_to(event, **world)["Data"]
    assert data.keys() == {"ScriptUri", "PackageUri", "AvailabilityZone"}
    assert data["AvailabilityZone"] == zone


def versions_in(client: "S3Client") -> list[tuple[str, str]]:
    pages = client.get_paginator("list_object_versions").paginate(Bucket=BUCKET)
    listing: Any = pages.build_full_result()
    kinds = ("Versions", "DeleteMarkers")
    return sorted((version["Key"], kind) for kind in kinds for version in listing.get(kind, []))


@pytest.fixture
def versioned(s3: "S3Client") -> "S3Client":
    """A bucket whose versions are listed in pages of two."""
    s3.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
    in_pages: Any = lambda params, **_: {**params, "MaxKeys": 2}  # noqa: E731 - with its type
    s3.meta.events.register("provide-client-params.s3.ListObjectVersions", in_pages)
    return s3


def test_all_versions_and_delete_markers_of_the_code_go_and_nothing_else(
    versioned: "S3Client", tmp_path: Path
) -> None:
    """S3 then deletes the bucket, as the rollback of a failed first deployment does."""
    job = job_in(tmp_path / "job")
    for _ in range(2):
        uris = publish_job(versioned, BUCKET, "code", job)
    versioned.delete_object(Bucket=BUCKET, Key=uris["ScriptUri"].removeprefix(f"s3://{BUCKET}/"))
    others = ["archive/messages/code/a", "codebook/a", "cod", "archive/code/glue_job.py"]
    for key in others:
        versioned.put_object(Bucket=BUCKET, Key=key, Body=b"message")
    assert len(versions_in(versioned)) == 5 + len(others)

    remove_job(versioned, BUCKET, "code")

    assert versions_in(versioned) == sorted((key, "Versions") for key in others)
    remove_job(versioned, BUCKET, "code")


@pytest.mark.parametrize("prefix", ["", "/"])
def test_nothing_is_removed_without_a_prefix(versioned: "S3Client", prefix: str) -> None:
    versioned.put_object(Bucket=BUCKET, Key="archive/a", Body=b"message")

    with pytest.raises(ValueError, match="no prefix"):
        remove_job(versioned, BUCKET, prefix)

    assert versions_in(versioned) == [("archive/a", "Versions")]


class ForgetfulS3:
    """Lists what was not asked for, and refuses what a test says."""

    def __init__(self, refuse: str = "") -> None:
        self.refuse = refuse
        self.deleted: list[str] = []

    def list_object_versions(self, **_: str) -> dict[str, Any]:
        keys = ["code/a", "archive/a", "code/b"]
        return {"Versions": [{"Key": key, "VersionId": "1"} for key in keys]}

    def delete_objects(self, Bucket: str, Delete: dict[str, Any]) -> dict[str, Any]:  # noqa: N803
        assert Bucket == BUCKET
        keys = [version["Key"] for version in Delete["Objects"]]
        self.deleted += keys
        refused = [key for key in keys if key == self.refuse]
        return {"Errors": [{"Key": key, "Code": "AccessDenied"} for key in refused]}


def test_a_refused_version_keeps_no_others_and_a_key_outside_the_prefix_is_never_deleted() -> None:
    s3: Any = ForgetfulS3(refuse="code/a")

    with pytest.raises(RuntimeError, match="refused, of s3://archive: code/a: AccessDenied"):
        remove_job(s3, BUCKET, "code")

    assert s3.deleted == ["code/a", "code/b"]


@pytest.mark.parametrize("bucket", [BUCKET, "gone"])
def test_a_delete_is_answered_whether_or_not_the_bucket_is_there(
    versioned: "S3Client", bucket: str
) -> None:
    versioned.put_object(Bucket=BUCKET, Key="code/1/glue_job.py", Body=b"")
    event = request("Delete", PhysicalResourceId="JobCode")
    event["ResourceProperties"]["Bucket"] = bucket

    answer = answer_to(event, _client={"s3": versioned}.__getitem__)

    assert (answer["Status"], answer["Data"]) == ("SUCCESS", {})
    assert bool(answer["Reason"]) == (bucket == "gone")
    assert versions_in(versioned) == (
        [] if bucket == BUCKET else [("code/1/glue_job.py", "Versions")]
    )


# The answer's way to CloudFormation, over HTTP.


class CloudFormation(BaseHTTPRequestHandler):
    """Refuses the first *refusals* of its *requests*."""

    refusals: int
    requests: list[tuple[str, str | None, bytes]]

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.requests.append((self.path, self.headers["Content-Type"], body))
        self.send_response(503 if len(self.requests) <= self.refusals else 200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.parametrize(
    ("refusals", "outcome"),
    [(0, nullcontext()), (2, nullcontext()), (9, pytest.raises(HTTPError, match="503"))],
)
def test_an_answer_is_put_in_three_tries_without_a_content_type(
    refusals: int, outcome: AbstractContextManager[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The address is signed for none, and S3 refuses what was not signed."""
    monkeypatch.setattr(time, "sleep", lambda _: None)
    attributes: dict[str, Any] = {"refusals": refusals, "requests": []}
    server = HTTPServer(("127.0.0.1", 0), type("Refusing", (CloudFormation,), attributes))
    with served(server), outcome:
        put_answer(f"http://127.0.0.1:{server.server_port}/answer?signature=x", b"{}")

    assert attributes["requests"] == [("/answer?signature=x", "", b"{}")] * min(refusals + 1, 3)
