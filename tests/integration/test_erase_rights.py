"""An erase in a versioned bucket, with the rights that the documentation names for it."""

import fnmatch
import json
import re
from contextlib import redirect_stdout
from dataclasses import dataclass
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from dlq.archive.ledger.disposition import Disposition
from dlq.archive.messages.dead_letter_schema import to_row
from dlq.archive.messages.message_store import write_messages
from dlq.archive.storage.files import open_archive
from dlq.aws.clients import aws_client
from dlq.cli.command import main
from dlq.local_engine import LocalEngine
from dlq.stack.glue_runs import StoredCommand, store_command
from dlq_replay.wire.message import Message
from tests.contract.permissions import Call, is_allowed
from tests.contract.template import as_list
from tests.integration.spark_world import analyzed, parked
from tests.support.builders import NOW, context, message, queue_url
from tests.support.failure_table import create_failure_table
from tests.support.ledgers import settle
from tests.support.recorded_aws import serve_recorded_aws

POLICY = Path(__file__).parents[2] / "templates" / "examples" / "eraser-policy.json"
NAMES = {"BUCKET": "erasebucket", "REGION": "us-east-1", "ACCOUNT": "123456789012"}


def documented() -> list[dict[str, Any]]:
    block = POLICY.read_text()
    for name, value in {**NAMES, "TABLE": "failures"}.items():
        block = re.sub(rf"\b{name}\b", value, block)
    return list(json.loads(block))


@dataclass(frozen=True)
class Erased:
    """The rest in the bucket after an erase of m-jane, which two drains had, and the calls.

    Attributes:
        printed: what the command wrote to stdout.
        contents: by path and version; of deleted files, too.
        delete_markers: the paths of deleted files of which a version is left.
        with_jane: a deleted file of messages that had her.
        without: a deleted file of messages that had her not.
        report: the folder of the report that quoted her, whose page was deleted.
        calls: all that the erase made, and an expiry that removed claims before it.
    """

    printed: str
    contents: dict[tuple[str, str], bytes]
    delete_markers: list[str]
    with_jane: str
    without: str
    report: str
    calls: list[Call]


@pytest.fixture(scope="module")
def erased() -> Erased:
    with serve_recorded_aws() as aws, pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", aws.url)
        patch.setenv("AWS_ENDPOINT_URL_S3", aws.url)
        s3 = aws_client("s3")
        dynamodb = aws_client("dynamodb")
        bucket = NAMES["BUCKET"]
        s3.create_bucket(Bucket=bucket)
        s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
        archive = open_archive(f"s3://{bucket}/archive", creates=True)
        drained_at = datetime.fromtimestamp(NOW, UTC)

        def drained(drain_id: str, *messages: Message) -> str:
            rows = [to_row(message, queue_url("parked"), drained_at) for message in messages]
            return write_messages(archive, drain_id, 0, rows)

        jane = message("m-jane", "Jane was here", context(first_id="f-jane"))
        drained("20261121T000001Z-aaaaaa", parked(0), jane)
        with_jane = drained("20261121T000002Z-bbbbbb", jane, parked(2))
        without = drained("20261121T000003Z-cccccc", parked(4))
        report = f"reports/{analyzed(LocalEngine(), archive).plan_id}"
        for path in (with_jane, without, f"{report}/report.html"):
            s3.delete_object(Bucket=bucket, Key=f"archive/{path}")
        create_failure_table(dynamodb, "failures")
        settle(archive, "p-old", {"m-000": Disposition.SENT})
        aws.calls.clear()
        with redirect_stdout(StringIO()):
            assert (
                main(["erase", "--archive", archive.root, "--older-than-days", "15", "--execute"])
                == 0
            )
        expired = list(aws.calls)
        store_command(archive, StoredCommand(("collect", "--where", "body LIKE 'Jane%'")))
        before = []
        for stored in s3.list_objects_v2(Bucket=bucket)["Contents"]:
            answer = s3.get_object(Bucket=bucket, Key=stored["Key"])
            before.append(answer["Body"].read())
        # A file of messages, and a command.
        assert sum(b"Jane" in content for content in before) >= 2
        aws.calls.clear()
        argv = ["erase", "--archive", archive.root, "--id", "m-jane", "--failure-table", "failures"]

        with redirect_stdout(StringIO()) as printed:
            assert main([*argv, "--execute", "--reason", "asked to"]) == 0

        calls = [*expired, *aws.calls]
        listed = s3.list_object_versions(Bucket=bucket)
        contents = {}
        for version in listed["Versions"]:
            key = version["Key"]
            version_id = version["VersionId"]
            content = s3.get_object(Bucket=bucket, Key=key, VersionId=version_id)["Body"].read()
            contents[key.removeprefix("archive/"), version_id] = content
        marked = [marker["Key"] for marker in listed.get("DeleteMarkers", [])]
        delete_markers = [key.removeprefix("archive/") for key in marked]
        printed_text = printed.getvalue()
        # moto's tables are those of the process: other tests have one of this name.
        dynamodb.delete_table(TableName="failures")
        return Erased(printed_text, contents, delete_markers, with_jane, without, report, calls)


def test_the_documented_rights_are_those_that_an_erase_needs(erased: Erased) -> None:
    made = [call for call in erased.calls if call.action != "sts:GetCallerIdentity"]
    statements = documented()
    assert {call for call in made if not is_allowed(call, statements)} == set()
    actions = {action for statement in statements for action in as_list(statement["Action"])}
    assert {call.action for call in made} == actions
    written = {call.resource for call in made if call.action == "s3:PutObject"}
    [puts] = [statement for statement in statements if statement["Action"] == "s3:PutObject"]
    assert [pattern for pattern in puts["Resource"] if not fnmatch.filter(written, pattern)] == []
    # Who may write more than an erase does could decide what a redrive sends.
    for path in ("ledger/plan_id=p/claim.json", "reports/r/messages.parquet/part-0", "format"):
        put = Call("s3:PutObject", f"arn:aws:s3:::{NAMES['BUCKET']}/archive/{path}")
        assert not is_allowed(put, statements), path


def test_versions_of_deleted_files_go_where_they_hold_the_message(erased: Erased) -> None:
    assert "1 deleted file of which" in erased.printed
    messages = [path for path, _ in erased.contents if path.startswith("messages/")]
    assert erased.without in messages
    assert erased.with_jane not in messages
    assert len(messages) == 2
    reports = {path for path, _ in erased.contents if path.startswith("reports/")}
    table = {path for path in reports if path.startswith(f"{erased.report}/messages.parquet/")}
    assert f"{erased.report}/messages.parquet/manifest.json" in table
    assert reports - table == {f"{erased.report}/.writable", f"{erased.report}/plan.yaml"}
    folders = ("messages/", "reports/")
    marks = [marker for marker in erased.delete_markers if marker.startswith(folders)]
    assert marks == [erased.without]
    for path, content in erased.contents.items():
        assert b"Jane" not in content, path
