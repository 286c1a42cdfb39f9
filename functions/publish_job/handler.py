"""A custom resource that uploads the Spark job's code to S3, where AWS Glue reads it.

The code is a part of this function's package, because the Serverless Application Repository only
installs functions and layers. The S3 key contains the hash of the code. So an update never changes
the files of a run in progress, and a rollback finds the files of the previous version. A Delete
removes all versions of the code: S3 deletes no bucket that has any, and the rollback of a failed
first deployment deletes the bucket.

The answer also names the Availability Zone of the job's subnet: AWS Glue needs it, and no function
of CloudFormation gives it. Every request is answered exactly once, also after an error: without an
answer a deployment waits until it times out. A failed Delete would block the deletion of the stack,
so a Delete is always answered with success.
"""

import hashlib
import json
import logging
import os
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import boto3
from botocore.config import Config
from urllib3 import PoolManager, Retry

from dlq_replay.aws.answers import with_checked_answers

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import ObjectIdentifierTypeDef

JOB = Path(__file__).parent / "job"
PACKAGE = "spark_reprocess.zip"
SCRIPT = "glue_job.py"

logger = logging.getLogger()
logger.setLevel(logging.INFO)


def lambda_handler(event: Mapping[str, Any], context: object) -> None:
    """Publish the job on Create and Update, remove it on Delete, and answer CloudFormation.

    The properties of *event* are ``Bucket``, ``Prefix`` and, for a job in a VPC, ``SubnetId``. The
    answer's data are ``ScriptUri`` and ``PackageUri``, ``s3://...``, and with a subnet
    ``AvailabilityZone``.
    """
    del context
    status = "SUCCESS"
    reason = ""
    data: dict[str, str] = {}
    try:
        data = _act(event)
    except Exception as error:
        logger.exception("the request failed")
        reason = f"{type(error).__name__}: {error}"
        status = "SUCCESS" if event["RequestType"] == "Delete" else "FAILED"

    answer = {
        "Status": status,
        "Reason": reason,
        # Must not change in an update, or CloudFormation would send a Delete for the old id.
        "PhysicalResourceId": event.get("PhysicalResourceId") or event["LogicalResourceId"],
        "StackId": event["StackId"],
        "RequestId": event["RequestId"],
        "LogicalResourceId": event["LogicalResourceId"],
        "Data": data,
    }
    put_answer(event["ResponseURL"], json.dumps(answer).encode())


def publish_job(client: "S3Client", bucket: str, prefix: str, job: Path) -> dict[str, str]:
    """Upload the files of *job* to a key with the hash of their contents; return their URIs."""
    contents = {name: (job / name).read_bytes() for name in (PACKAGE, SCRIPT)}
    digest = hashlib.sha256()
    for content in contents.values():
        digest.update(hashlib.sha256(content).digest())

    folder = f"{prefix}/{digest.hexdigest()[:16]}"
    for name, content in contents.items():
        client.put_object(Bucket=bucket, Key=f"{folder}/{name}", Body=content)
    uri = f"s3://{bucket}/{folder}"
    return {"ScriptUri": f"{uri}/{SCRIPT}", "PackageUri": f"{uri}/{PACKAGE}"}


def remove_job(client: "S3Client", bucket: str, prefix: str) -> None:
    """Delete every version and every delete marker below the folder *prefix* of *bucket*.

    Safe to repeat. All other objects of the bucket stay.

    Raises:
        RuntimeError: S3 refused to delete some of them.
        ValueError: *prefix* is empty.
    """
    if not prefix.strip("/"):
        raise ValueError("no prefix: the code is never at the top of the bucket")

    # A page has 1,000 versions at most, as many as one call deletes: S3 API reference,
    # DeleteObjects. Each round lists the first page again, because the listed versions are gone.
    folder = f"{prefix}/"
    while True:
        page = client.list_object_versions(Bucket=bucket, Prefix=folder)
        versions: list[ObjectIdentifierTypeDef] = []
        for version in (*page.get("Versions", ()), *page.get("DeleteMarkers", ())):
            if not version["Key"].startswith(folder):
                continue
            versions.append({"Key": version["Key"], "VersionId": version["VersionId"]})
        if not versions:
            return

        answer = client.delete_objects(Bucket=bucket, Delete={"Objects": versions, "Quiet": True})
        errors = [f"{error.get('Key')}: {error.get('Code')}" for error in answer.get("Errors", ())]
        if errors:
            raise RuntimeError(f"S3 refused, of s3://{bucket}: {', '.join(errors[:5])}")


def put_answer(url: str, content: bytes) -> None:
    """Send an answer to the ``ResponseURL`` of an event; raise HTTPError after three tries."""
    every_error = range(400, 600)
    retries = Retry(2, backoff_factor=1, status_forcelist=every_error, allowed_methods=None)
    http = PoolManager(timeout=5, retries=retries)
    http.request("PUT", url, body=content, headers={"Content-Type": ""})


def _act(event: Mapping[str, Any]) -> dict[str, str]:
    properties = event["ResourceProperties"]
    if event["RequestType"] == "Delete":
        remove_job(_client("s3"), properties["Bucket"], properties["Prefix"])
        return {}

    answer = {}
    subnet_id = properties.get("SubnetId")
    if subnet_id:
        [subnet] = _client("ec2").describe_subnets(SubnetIds=[subnet_id])["Subnets"]
        answer["AvailabilityZone"] = str(subnet["AvailabilityZone"])
    return answer | publish_job(_client("s3"), properties["Bucket"], properties["Prefix"], JOB)


@cache
def _client(service: Literal["ec2", "s3"]) -> Any:  # noqa: ANN401 - no stubs for EC2
    make: Callable[..., Any] = with_checked_answers(boto3.session.Session()).client
    return make(
        service,
        # The regional endpoint: the global one redirects requests for a new bucket.
        region_name=os.environ.get("AWS_REGION"),
        config=Config(connect_timeout=5, read_timeout=10, retries={"max_attempts": 3}),
    )
