"""``rehearse --allow``: reads that are made with the operator's own credentials."""

from pathlib import Path

import boto3
import pytest

from dlq_cli.rehearse.aws_requests import Request, call_of
from dlq_cli.rehearse.forwarding import Forwarder
from spark_reprocess.archive.rehearsals import newest_rehearsal, read_verdicts
from spark_reprocess.errors import InputError
from tests.needs import needs_namespaces
from tests.rehearsals import archived, order, plan_of, rehearse, write_app

APP = """
import boto3

dynamodb, s3 = boto3.client("dynamodb"), boto3.client("s3")

def lambda_handler(event, context):
    item = dynamodb.get_item(TableName="allowed", Key={"id": {"S": "DE"}})["Item"]
    content = s3.get_object(Bucket="allowed", Key="a/b c")["Body"].read()
    assert (item["vat"], content) == ({"N": "19"}, b"real")
    dynamodb.put_item(TableName="allowed", Item={"id": {"S": "new"}})
"""


@needs_namespaces
def test_allowed_reads_are_made_and_nothing_is_written(
    moto_endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", moto_endpoint)
    dynamodb, s3 = boto3.client("dynamodb"), boto3.client("s3")
    dynamodb.create_table(
        TableName="allowed",
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        BillingMode="PAY_PER_REQUEST",
    )
    dynamodb.put_item(TableName="allowed", Item={"id": {"S": "DE"}, "vat": {"N": "19"}})
    s3.create_bucket(Bucket="allowed")
    s3.put_object(Bucket="allowed", Key="a/b c", Body=b"real")
    archive = archived(tmp_path, [order(1)])
    plan = plan_of(archive)
    code, group_id = write_app(tmp_path, APP), plan.groups[0].group_id

    assert rehearse(archive, group_id, code) == 1
    allowed = ("--allow", "dynamodb:GetItem", "--allow", "s3:GetObject")
    assert rehearse(archive, group_id, code, *allowed) == 0

    rehearsal = newest_rehearsal(archive, plan.plan_id, group_id)
    assert rehearsal is not None
    assert rehearsal.recorded == {"dynamodb:PutItem": 1}
    assert read_verdicts(archive, rehearsal)["verdict"].to_pylist() == ["pass"]
    assert dynamodb.scan(TableName="allowed")["Count"] == 1


def test_rest_read_by_another_method_than_get_is_not_made() -> None:
    headers = {
        "authorization": "AWS4-HMAC-SHA256 Credential=a/20261122/eu-west-1/batch/aws4_request"
    }
    request = Request("POST", "/v1/listjobs", headers, b"{}")
    call = call_of(request)
    assert call is not None
    assert call.name == "batch:ListJobs"

    with pytest.raises(InputError, match="no GET or HEAD"):
        Forwarder(boto3.session.Session())(request, call)
