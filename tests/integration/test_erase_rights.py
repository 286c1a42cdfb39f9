"""The rights that the documentation names for an erase, against the calls that it really makes."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
import pytest

from spark_reprocess.archive.dead_letter_schema import to_row
from spark_reprocess.archive.files import open_archive
from spark_reprocess.archive.message_store import write_messages
from spark_reprocess.command_line.cli import main
from tests.builders import NOW, message, queue_url
from tests.contract.permissions import is_allowed
from tests.contract.template import as_list
from tests.integration.spark_world import analyzed, parked
from tests.recorded_aws import serve_recorded_aws

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = Path(__file__).parents[2] / "docs" / "erase.md"
NAMES = {"BUCKET": "erasebucket", "REGION": "us-east-1", "ACCOUNT": "123456789012"}


def documented() -> list[dict[str, Any]]:
    section = PAGE.read_text().split("## Rights")[1]
    block = re.findall(r"```json\n(.*?)```", section, re.DOTALL)[0]
    for name, value in {**NAMES, "TABLE": "failures"}.items():
        block = re.sub(rf"\b{name}\b", value, block)
    return list(json.loads(block))


def test_the_documented_rights_are_those_that_an_erase_needs(
    spark: "SparkSession", monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve_recorded_aws() as aws:
        monkeypatch.setenv("AWS_ENDPOINT_URL", aws.url)
        s3, dynamodb = boto3.client("s3"), boto3.client("dynamodb")
        s3.create_bucket(Bucket=NAMES["BUCKET"])
        s3.put_bucket_versioning(
            Bucket=NAMES["BUCKET"], VersioningConfiguration={"Status": "Enabled"}
        )
        archive = open_archive(f"s3://{NAMES['BUCKET']}/archive")
        drained_at = datetime.fromtimestamp(NOW, UTC)
        rows = [to_row(m, queue_url("parked"), drained_at) for m in (parked(0), message("m-jane"))]
        write_messages(archive, "20261121T000001Z-aaaaaa", 0, rows)
        deleted = write_messages(archive, "20261121T000002Z-bbbbbb", 0, rows)
        analyzed(spark, archive)
        s3.delete_object(Bucket=NAMES["BUCKET"], Key=f"archive/{deleted}")
        dynamodb.create_table(
            TableName="failures",
            KeySchema=[{"AttributeName": "message_id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "message_id", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        aws.calls.clear()
        argv = ["erase", "--archive", archive.root, "--id", "m-jane", "--failure-table", "failures"]

        assert main([*argv, "--execute", "--reason", "asked to"]) == 0

        made = [call for call in aws.calls if call.action != "sts:GetCallerIdentity"]
        statements = documented()
        assert {call for call in made if not is_allowed(call, statements)} == set()
        actions = {action for one in statements for action in as_list(one["Action"])}
        assert {call.action for call in made} == actions
