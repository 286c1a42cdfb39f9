"""A custom resource that puts the Spark job's code into S3, where AWS Glue reads it.

The code travels inside this function's own artefact, since nothing but functions and layers is
carried along when an application is installed from the Serverless Application Repository. It is
stored under its own hash: an update never changes the files of a run that is under way, and a
rollback finds those of the version before.

Every event is answered, or CloudFormation would wait for its time-out. Deleting does nothing and
always succeeds: the bucket outlives the stack, and the code is a few megabytes in it.
"""

import hashlib
import json
import logging
import os
import time
import urllib.request
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
from botocore.config import Config

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

JOB = Path(__file__).parent / "job"
PACKAGE = "spark_reprocess.zip"
SCRIPT = "glue_job.py"

ANSWER_ATTEMPTS = 3
ANSWER_TIMEOUT_SECONDS = 5
HASH_CHARACTERS = 16

logger = logging.getLogger()
logger.setLevel(logging.INFO)


def lambda_handler(event: Mapping[str, Any], context: object) -> None:
    """Publish the job on Create and Update, do nothing on Delete, and answer CloudFormation.

    Args:
        event: a custom resource's request; its properties are ``Bucket`` and ``Prefix``. The
            answer's data are ``ScriptUri`` and ``PackageUri``, ``s3://...``.
        context: Lambda's own; not used.
    """
    del context
    answer_to(event, lambda: _publish(event), _put)


def answer_to(
    event: Mapping[str, Any],
    publish: Callable[[], Mapping[str, str]],
    put: Callable[[str, bytes], None],
) -> None:
    """Do what *event* asks for and send CloudFormation exactly one answer through *put*.

    Raises:
        OSError: the answer could not be sent.
    """
    status, reason, data = "SUCCESS", "", {}
    if event["RequestType"] != "Delete":
        try:
            data = dict(publish())
        except Exception as error:
            logger.exception("the Spark job was not published")
            status, reason = "FAILED", f"{type(error).__name__}: {error}"
    answer = {
        "Status": status,
        "Reason": reason,
        # The same through all updates, or CloudFormation would send a Delete for the old one.
        "PhysicalResourceId": event.get("PhysicalResourceId") or event["LogicalResourceId"],
        "StackId": event["StackId"],
        "RequestId": event["RequestId"],
        "LogicalResourceId": event["LogicalResourceId"],
        "Data": data,
    }
    put(event["ResponseURL"], json.dumps(answer).encode())


def publish_job(client: "S3Client", bucket: str, prefix: str, job: Path) -> dict[str, str]:
    """Upload the files of *job* below a prefix that their contents determine; return their URIs."""
    contents = {name: (job / name).read_bytes() for name in (PACKAGE, SCRIPT)}
    digest = hashlib.sha256()
    for content in contents.values():
        digest.update(hashlib.sha256(content).digest())
    folder = f"{prefix}/{digest.hexdigest()[:HASH_CHARACTERS]}"
    for name, content in contents.items():
        client.put_object(Bucket=bucket, Key=f"{folder}/{name}", Body=content)
    uri = f"s3://{bucket}/{folder}"
    return {"ScriptUri": f"{uri}/{SCRIPT}", "PackageUri": f"{uri}/{PACKAGE}"}


def _publish(event: Mapping[str, Any]) -> dict[str, str]:
    properties = event["ResourceProperties"]
    return publish_job(_client(), properties["Bucket"], properties["Prefix"], JOB)


@cache
def _client() -> "S3Client":
    return boto3.client(
        "s3",
        # Regional: the global endpoint redirects for a bucket that is minutes old.
        region_name=os.environ.get("AWS_REGION"),
        config=Config(connect_timeout=5, read_timeout=10, retries={"max_attempts": 3}),
    )


def _put(url: str, content: bytes) -> None:
    request = urllib.request.Request(  # noqa: S310 - CloudFormation's own https URL
        url, data=content, method="PUT", headers={"Content-Type": ""}
    )
    for attempt in range(1, ANSWER_ATTEMPTS + 1):
        try:
            with urllib.request.urlopen(request, timeout=ANSWER_TIMEOUT_SECONDS):  # noqa: S310
                return
        except OSError:
            if attempt == ANSWER_ATTEMPTS:
                raise
            logger.warning("CloudFormation did not take the answer; trying again")
            time.sleep(attempt)
