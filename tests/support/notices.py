"""An account with what the reminder function reads, and what it publishes."""

import json
import os
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from dlq.archive.group_records import write_seen
from dlq.archive.storage.files import open_archive
from dlq.explain.findings import GroupFinding
from dlq.explain.outputs import notice_json
from dlq.explain.triage import GroupMemory, GroupState, after_analysis
from functions.reminder import handler
from tests.support.findings_builder import some_findings

if TYPE_CHECKING:
    from mypy_boto3_cloudwatch import CloudWatchClient
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_sqs import SQSClient

BUCKET = "archive"
STATUS = "archive/status.json"


@dataclass
class Account:
    """An account with the stack's queue, bucket and topic, and an inbox behind the topic."""

    sqs: "SQSClient"
    s3: "S3Client"
    cloudwatch: "CloudWatchClient"
    parked_url: str
    inbox_url: str

    def park(self, count: int) -> None:
        for number in range(count):
            self.sqs.send_message(QueueUrl=self.parked_url, MessageBody=f"secret {number}")

    def run(self, pending: int, oldest_seconds: int = 0, **status: object) -> None:
        """Leave what a run of the job that ended now leaves."""
        content = {
            "waiting": 0,
            "blockers": [],
            "pending": {"messages": pending, "oldest_seconds": oldest_seconds},
            "drained_at": None,
            **status,
        }
        self.s3.put_object(Bucket=BUCKET, Key=STATUS, Body=json.dumps(content).encode())

    def notices(self) -> list[tuple[str, str]]:
        received = self.sqs.receive_message(QueueUrl=self.inbox_url, MaxNumberOfMessages=10)
        bodies = [json.loads(notice["Body"]) for notice in received.get("Messages", [])]
        return [(body["Subject"], body["Message"]) for body in bodies]


def remind() -> None:
    handler.lambda_handler({"detail-type": "Scheduled Event"}, None)


REPORT = "20261101T000000Z-aaaaaa"
EARLIER_REPORT = "20261031T000000Z-ffffff"
LONG_AGO = datetime(2026, 3, 4, 5, 6, tzinfo=UTC)


def analyzed(
    account: Account,
    *groups: dict[str, Any],
    resolved: Sequence[str] = (),
    halted: Sequence[str] = (),
) -> None:
    """An analysis of now that finds these groups; one of three days ago found ``g-000000000a``.

    The groups *resolved* were resolved a day ago, and those *halted* are halted.
    """
    now = datetime.now(UTC)
    earlier_groups = [a_group("g-000000000a")]
    before, _ = after_analysis(GroupMemory(), "r-0", now - timedelta(days=3), earlier_groups)
    state = GroupState(1, resolved_at=now - timedelta(days=1))
    bad = GroupState(1, "redrive", halted="3 of 20 messages failed again, 0 allowed", halts=1)
    states = {**dict.fromkeys(resolved, state), **dict.fromkeys(halted, bad)}
    memory = replace(before, states=states)
    after, _ = after_analysis(memory, REPORT, now - timedelta(hours=2), groups)
    # The same day in each run: a notice says since when.
    dated = {}
    for group_id, group in after.groups.items():
        is_new = group.first_seen_at > now - timedelta(days=1)
        dated[group_id] = group if is_new else replace(group, first_seen_at=LONG_AGO)
    after = replace(after, groups=dated)
    with tempfile.TemporaryDirectory() as folder:
        archive = open_archive(folder)
        write_seen(archive, REPORT, after)
        (path,) = archive.list("groups")
        account.s3.put_object(Bucket=BUCKET, Key=f"archive/{path}", Body=archive.read(path) or b"")


def a_group(group_id: str, count: int = 3, sent_days_ago: int = 0) -> dict[str, Any]:
    sent_at = datetime.now(UTC) - timedelta(days=sent_days_ago)
    return {"group_id": group_id, "count": count, "last_parked_at": sent_at}


def reported(
    account: Account,
    *findings: GroupFinding,
    shows_values: bool = False,
    report_id: str = REPORT,
) -> None:
    """Leave what the report of an analysis has for a notice."""
    texts = notice_json(some_findings(*findings), shows_values=shows_values)
    described(account, texts.encode(), report_id)


def described(account: Account, content: bytes, report_id: str = REPORT) -> None:
    key = f"archive/reports/{report_id}/notice.json"
    account.s3.put_object(Bucket=BUCKET, Key=key, Body=content)


def seen(account: Account, content: bytes, report_id: str = REPORT) -> None:
    """Leave this as the record of the groups of an analysis."""
    key = f"archive/groups/seen/{report_id}.json"
    account.s3.put_object(Bucket=BUCKET, Key=key, Body=content)


def regressed(*group_ids: str, count: int = 1) -> bytes:
    group = {
        "status": "regressed",
        "first_seen_at": LONG_AGO.isoformat(),
        "count": count,
        "report_id": REPORT,
    }
    return json.dumps({"groups": dict.fromkeys(group_ids, group)}).encode()


def of_a_fleet(account: Account) -> None:
    """A fleet has no main queue, and two parked queues: three messages are in the FIFO one."""
    made = account.sqs.create_queue(
        QueueName="parked.fifo",
        Attributes={"FifoQueue": "true", "ContentBasedDeduplication": "true"},
    )
    fifo_url = made["QueueUrl"]
    for number in range(3):
        body = f"secret {number}"
        account.sqs.send_message(QueueUrl=fifo_url, MessageBody=body, MessageGroupId="g")
    account.park(2)
    os.environ["QUEUE_TAG"] = "shop"
    os.environ["FIFO_PARKED_QUEUE_URL"] = fifo_url
    del os.environ["MAIN_QUEUE_NAME"]


def chat_of(request: dict[str, Any]) -> tuple[str, str]:
    """Return title and description of the message for chat; check what they may not have."""
    assert request["MessageStructure"] == "json"
    messages = json.loads(request["Message"])
    assert set(messages) == {"default", "email", "https"}
    assert messages["default"] == messages["email"]

    chat = json.loads(messages["https"])
    assert (chat["version"], chat["source"]) == ("1.0", "custom")
    content = chat["content"]
    assert set(content) == {"textType", "title", "description"}
    assert content["textType"] == "client-markdown"
    return content["title"], content["description"]


def is_one_block(description: str) -> bool:
    """Whether all of it is code, also for Slack, whose entities are read there."""
    block = re.fullmatch("```\n([^`<>]*)\n```", description)
    return block is not None and not re.search("&(?!(amp|lt|gt);)|]\\(", block[1])


MARKUP = (
    "*bold* _italic_ ~struck~ `code` ```block``` > quote # heading",
    "[pay here](https://evil.example) <https://evil.example|pay here> ![x](y)",
    "<!channel> <@U123> @here &lt;!channel&gt; &amp;",
)
