"""A custom resource that uploads the Spark job's code to S3, where AWS Glue reads it.

The code is a part of this function's package, because the Serverless Application Repository only
installs functions and layers. The S3 key contains the hash of the code. So an update never changes
the files of a run in progress, and a rollback finds the files of the previous version. A Delete
does nothing: the bucket is kept when the stack is deleted, and the code is a few megabytes.
"""

import hashlib
import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
from botocore.config import Config

from functions.custom_resource import Event, answer_to

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

JOB = Path(__file__).parent / "job"
PACKAGE = "spark_reprocess.zip"
SCRIPT = "glue_job.py"

HASH_CHARACTERS = 16


def lambda_handler(event: Mapping[str, Any], context: object) -> None:
    """Publish the job on Create and Update, do nothing on Delete, and answer CloudFormation.

    Args:
        event: a custom resource's request; its properties are ``Bucket`` and ``Prefix``. The
            answer's data are ``ScriptUri`` and ``PackageUri``, ``s3://...``.
        context: Lambda's own; not used.
    """
    del context
    answer_to(event, _act)


def publish_job(client: "S3Client", bucket: str, prefix: str, job: Path) -> dict[str, str]:
    """Upload the files of *job* to a key with the hash of their contents; return their URIs."""
    contents = {name: (job / name).read_bytes() for name in (PACKAGE, SCRIPT)}
    digest = hashlib.sha256()
    for content in contents.values():
        digest.update(hashlib.sha256(content).digest())
    folder = f"{prefix}/{digest.hexdigest()[:HASH_CHARACTERS]}"
    for name, content in contents.items():
        client.put_object(Bucket=bucket, Key=f"{folder}/{name}", Body=content)
    uri = f"s3://{bucket}/{folder}"
    return {"ScriptUri": f"{uri}/{SCRIPT}", "PackageUri": f"{uri}/{PACKAGE}"}


def _act(event: Event) -> dict[str, str]:
    if event["RequestType"] == "Delete":
        return {}
    properties = event["ResourceProperties"]
    return publish_job(_client(), properties["Bucket"], properties["Prefix"], JOB)


@cache
def _client() -> "S3Client":
    return boto3.client(
        "s3",
        # The regional endpoint: the global one redirects requests for a new bucket.
        region_name=os.environ.get("AWS_REGION"),
        config=Config(connect_timeout=5, read_timeout=10, retries={"max_attempts": 3}),
    )
