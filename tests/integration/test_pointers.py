"""Messages whose bodies are in S3: what a dry run says of them."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import boto3
import pytest

from spark_reprocess.redrive.redrive import redrive
from spark_reprocess.redrive.redrive_values import RedriveOptions
from tests.integration.conftest import MakeQueue
from tests.integration.spark_world import archive_of, parked, reported
from tests.support.builders import message

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CLASS = "software.amazon.payloadoffloading.PayloadS3Pointer"


@pytest.mark.parametrize(
    ("bucket", "said"),
    [
        (None, ["3 not checked, their bucket is not that of --pointer-bucket"]),
        ("payloads", ["the objects of 1 are gone; 1 not checked, their bucket is not that of"]),
        ("no-bucket", ["3 not checked"]),
    ],
)
def test_a_dry_run_says_whether_bodies_in_s3_are_gone(
    spark: "SparkSession",
    make_queue: MakeQueue,
    tmp_path: Path,
    moto_endpoint: str,
    monkeypatch: pytest.MonkeyPatch,
    bucket: str | None,
    said: list[str],
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", moto_endpoint)
    s3 = boto3.client("s3", region_name="us-east-1")
    s3.create_bucket(Bucket="payloads")
    s3.put_object(Bucket="payloads", Key="orders/1", Body=b"{}")
    pointers = [("payloads", "orders/1"), ("payloads", "orders/2"), ("others", "orders/3")]
    letters = [
        message(f"m-{key}", json.dumps([_CLASS, {"s3BucketName": of, "s3Key": key}]))
        for of, key in pointers
    ]
    archive = archive_of(tmp_path, [parked(1), *letters])
    plan = reported(spark, archive)
    to = make_queue("main").url

    summary = redrive(
        spark, RedriveOptions(archive.root, plan=plan, to_queue_url=to, pointer_bucket=bucket)
    )

    [note] = [one for one in summary.notes if "S3" in one]
    assert note.startswith("3 of 4 sampled messages are pointers to S3: ")
    assert all(part in note for part in said)
