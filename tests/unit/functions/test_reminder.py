"""The daily notice: what waits, where to look, and silence when nothing does."""

import json
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.exceptions import ClientError
from botocore.stub import Stubber
from moto import mock_aws

from dlq.archive.group_records import write_seen
from dlq.archive.storage.files import open_archive
from dlq.explain.triage import GroupMemory, GroupState, after_analysis
from dlq_replay.replaying.measures import MAIN_QUEUE_DIMENSION
from functions.reminder import handler
from functions.reminder.handler import Waiting, last_scheduled_start
from tests.support.golden import assert_stored, stored_rows

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


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[Account]:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")  # as Lambda does
    with mock_aws():
        sqs = boto3.client("sqs")
        sns = boto3.client("sns")
        s3 = boto3.client("s3")

        s3.create_bucket(Bucket=BUCKET)
        parked_url = sqs.create_queue(QueueName="parked")["QueueUrl"]
        inbox_url = sqs.create_queue(QueueName="inbox")["QueueUrl"]
        inbox = sqs.get_queue_attributes(QueueUrl=inbox_url, AttributeNames=["QueueArn"])
        topic = sns.create_topic(Name="alarms")["TopicArn"]
        sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=inbox["Attributes"]["QueueArn"])

        variables = {
            "MAIN_QUEUE_NAME": "orders",
            "PARKED_QUEUE_URL": parked_url,
            "TOPIC_ARN": topic,
            "ARCHIVE_BUCKET": BUCKET,
            "STATUS_KEY": STATUS,
            "SEEN_PREFIX": "archive/groups/seen/",
            "QUEUE_TAG": "",
            "FIFO_PARKED_QUEUE_URL": "",
        }
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

        handler._client.cache_clear()  # noqa: SLF001 - clients outlive an invocation, not a test
        yield Account(sqs, s3, boto3.client("cloudwatch"), parked_url, inbox_url)
        handler._client.cache_clear()  # noqa: SLF001


def remind() -> None:
    handler.lambda_handler({"detail-type": "Scheduled Event"}, None)


def test_a_subject_is_never_longer_than_sns_takes() -> None:
    waiting = Waiting(MAIN_QUEUE_DIMENSION, "q" * 80, parked=10**9)

    assert len(waiting.subject) <= 100
    assert str(10**9) in waiting.subject


JOB_MADE = datetime(2026, 11, 1, tzinfo=UTC)
RUNS = [
    {"Id": "jr_3", "StartedOn": JOB_MADE + timedelta(days=3)},
    {"Id": "jr_2", "StartedOn": JOB_MADE + timedelta(days=2), "TriggerName": "daily"},
    {"Id": "jr_1", "StartedOn": JOB_MADE + timedelta(days=1), "TriggerName": "daily"},
]


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        # The newest was started by hand.
        (RUNS, JOB_MADE + timedelta(days=2)),
        (RUNS[:1], JOB_MADE),
        ([], JOB_MADE),
    ],
)
def test_only_runs_that_the_schedule_started_count(
    runs: list[dict[str, object]], expected: datetime
) -> None:
    glue = boto3.client("glue", region_name="us-east-1")
    with Stubber(glue) as answers:
        answers.add_response("get_job_runs", {"JobRuns": runs}, {"JobName": "redrive"})
        answers.add_response("get_job", {"Job": {"CreatedOn": JOB_MADE}}, {"JobName": "redrive"})

        assert last_scheduled_start(glue, "redrive") == expected


def test_the_age_of_the_last_run_is_published_before_anything_can_fail(
    account: Account, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    boto3.client("glue").create_job(Name="redrive", Role="r", Command={"Name": "glueetl"})
    monkeypatch.setenv("SPARK_JOB", "redrive")
    monkeypatch.setenv("PARKED_QUEUE_URL", account.parked_url + "-gone")

    with pytest.raises(ClientError):
        remind()

    line = json.loads(capsys.readouterr().out)
    assert line["MainQueue"] == "orders"
    assert 0 <= line["LastRunAgeSeconds"][0] < 60
    assert line["_aws"]["CloudWatchMetrics"][0]["Metrics"] == [
        {"Name": "LastRunAgeSeconds", "Unit": "Seconds"}
    ]


def count_as_sqs_does(
    account: Account, name: str, counts: Mapping[int, int], queue: str = "parked"
) -> None:
    """Publish numbers of a parked queue's messages, by the minutes that have gone by since."""
    now = datetime.now(UTC)
    data: list[Any] = []
    for ago, count in counts.items():
        datum = {
            "MetricName": f"ApproximateNumberOfMessages{name}",
            "Dimensions": [{"Name": "QueueName", "Value": queue}],
            "Timestamp": now - timedelta(minutes=ago),
            "Value": count,
        }
        data.append(datum)
    account.cloudwatch.put_metric_data(Namespace="AWS/SQS", MetricData=data)


def oldest_parked_minutes(capsys: pytest.CaptureFixture[str]) -> int | None:
    remind()
    if not (out := capsys.readouterr().out):
        return None
    line = json.loads(out)
    assert line["MainQueue"] == "orders"
    [seconds] = line["OldestParkedSeconds"]
    return round(float(seconds) / 60)


def test_a_parked_message_is_as_old_as_the_time_since_the_queue_was_empty(
    account: Account, capsys: pytest.CaptureFixture[str]
) -> None:
    """SQS's own age leaves out what drains have received three times without an end."""
    count_as_sqs_does(account, "Visible", dict.fromkeys(range(121, 300), 0))
    assert oldest_parked_minutes(capsys) is None

    account.park(1)
    # From minute 60 to 55 a drain had the message, in between SQS counted it nowhere.
    visible = dict.fromkeys([*range(3, 54), *range(61, 121)], 1)
    count_as_sqs_does(account, "Visible", visible | dict.fromkeys(range(54, 61), 0))
    count_as_sqs_does(account, "NotVisible", dict.fromkeys(range(55, 60), 1))
    # What was there before was taken out; from minute 300 on SQS says nothing of an empty queue.
    count_as_sqs_does(account, "Visible", dict.fromkeys(range(400, 430), 9))

    assert oldest_parked_minutes(capsys) in (120, 121)


@pytest.mark.parametrize(
    ("drained_at", "expected"),
    [("{:%Y-%m-%dT%H:%M:%S+00:00}", (30,)), (7, (120, 121)), (None, (120, 121))],
)
def test_a_run_that_emptied_the_parked_queue_counts_where_more_came_at_once(
    account: Account,
    capsys: pytest.CaptureFixture[str],
    drained_at: object,
    expected: tuple[int, ...],
) -> None:
    account.park(1)
    count_as_sqs_does(account, "Visible", dict.fromkeys(range(121), 40))
    if isinstance(drained_at, str):
        drained_at = drained_at.format(datetime.now(UTC) - timedelta(minutes=30))
    account.run(0, drained_at=drained_at)

    assert oldest_parked_minutes(capsys) in expected


def test_a_fleet_s_oldest_parked_message_is_that_of_either_parked_queue(
    account: Account, capsys: pytest.CaptureFixture[str]
) -> None:
    of_a_fleet(account)
    count_as_sqs_does(account, "Visible", dict.fromkeys(range(31), 1))
    count_as_sqs_does(account, "Visible", dict.fromkeys(range(61), 1), "parked.fifo")

    remind()

    line = json.loads(capsys.readouterr().out)
    assert line["QueueTag"] == "shop"
    assert round(line["OldestParkedSeconds"][0] / 60) in (60, 61)


REPORT = "20261101T000000Z-aaaaaa"


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
    with tempfile.TemporaryDirectory() as folder:
        archive = open_archive(folder)
        write_seen(archive, REPORT, after)
        (path,) = archive.list("groups")
        account.s3.put_object(Bucket=BUCKET, Key=f"archive/{path}", Body=archive.read(path) or b"")


def a_group(group_id: str, count: int = 3, sent_days_ago: int = 0) -> dict[str, Any]:
    sent_at = datetime.now(UTC) - timedelta(days=sent_days_ago)
    return {"group_id": group_id, "count": count, "last_parked_at": sent_at}


def seen(account: Account, content: bytes, report_id: str = REPORT) -> None:
    """Leave this as the record of the groups of an analysis."""
    key = f"archive/groups/seen/{report_id}.json"
    account.s3.put_object(Bucket=BUCKET, Key=key, Body=content)


def regressed(*group_ids: str, count: int = 1) -> bytes:
    group = {"status": "regressed", "first_seen_at": None, "count": count}
    return json.dumps({"groups": dict.fromkeys(group_ids, group)}).encode()


def several_groups(account: Account) -> None:
    account.run(40)
    analyzed(
        account,
        a_group("g-000000000a", 0),
        a_group("g-000000000b", 1),
        a_group("g-000000000c", 2),
        a_group("g-000000000d", 3, sent_days_ago=2),
        resolved=["g-000000000c", "g-000000000d"],
    )


def a_halted_group(account: Account) -> None:
    groups = [a_group(f"g-000000000{letter}") for letter in "abc"]
    analyzed(account, *groups, resolved=["g-000000000b"], halted=["g-000000000a"])


def two_analyses(account: Account) -> None:
    seen(account, regressed("g-000000000b", count=2), "20261101T000000Z-bbbbbb")
    seen(account, regressed("g-000000000b"), "20261031T000000Z-ffffff")


def known_groups(account: Account) -> None:
    account.run(7)
    analyzed(account, a_group("g-000000000a"))


def known_groups_and_a_drain(account: Account) -> None:
    """Messages in the parked queue wait for an analysis, also while a run has received them."""
    known_groups(account)
    account.park(2)
    account.sqs.receive_message(QueueUrl=account.parked_url, MaxNumberOfMessages=10)


def blocked(account: Account, message_id: object) -> None:
    account.park(1)
    account.run(9, waiting=7, blockers=[{"message_id": message_id, "waiting": 7}])


def a_status(account: Account, content: bytes) -> None:
    account.park(1)
    account.s3.put_object(Bucket=BUCKET, Key=STATUS, Body=content)


def a_record(account: Account, content: bytes) -> None:
    account.run(7)
    seen(account, content)


def parked_yesterday(account: Account) -> None:
    account.park(3)
    remind()


def without_a_job(account: Account) -> None:
    account.park(1)
    account.run(7)
    os.environ["ARCHIVE_BUCKET"] = ""


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


def failed_run(_: Account, exit_code: int) -> None:
    """Nothing of what its error says gets into a notice."""
    text = f"SystemExit: run ended with exit code {exit_code}; secret of mona@example.com"
    detail = {"jobName": "SparkJob", "state": "FAILED", "jobRunId": "jr_1a/b", "message": text}
    handler.lambda_handler({"detail-type": "Glue Job State Change", "detail": detail}, None)


NOTICES: dict[str, Callable[[Account], None]] = {
    "nothing": lambda _: None,
    "parked messages on two days": parked_yesterday,
    "a parked message without a job": without_a_job,
    "parked messages of a fleet": of_a_fleet,
    "a run of which too much failed again": partial(failed_run, exit_code=3),
    "a run that failed with an unknown exit code": partial(failed_run, exit_code=77),
    "pending messages": lambda account: account.run(7, 3 * 86_400),
    "messages behind another": partial(blocked, message_id="0a-1"),
    # Only ids of messages and of groups get into a notice.
    "messages behind a body": partial(blocked, message_id="a body, perhaps"),
    "messages behind a number": partial(blocked, message_id=5),
    "a card number among groups": partial(seen, content=regressed("card 4111", "g-000000000b")),
    **{
        f"a status that is {content.decode()}": partial(a_status, content=content)
        for content in (b"no JSON", b"[]", b'{"pending": null, "blockers": []}')
    },
    "new and regressed groups": several_groups,
    "a halted group": a_halted_group,
    "two analyses": two_analyses,
    "known groups": known_groups,
    "known groups and a drain": known_groups_and_a_drain,
    "thirty groups": lambda account: analyzed(
        account, *(a_group(f"g-{number:010x}") for number in range(100, 130))
    ),
    **{
        f"a record that is {content.decode()}": partial(a_record, content=content)
        for content in (
            b"{",
            b"[]",
            b'{"groups": {"g-000000000b": {}}}',
            b'{"groups": {"g-000000000b": null}}',
            b'{"groups": {"g-000000000b": {"status": "new", "first_seen_at": 7, "count": 1}}}',
        )
    },
}


@stored_rows("notices", NOTICES)
def test_notice_reads_as_it_is_stored(account: Account, name: str) -> None:
    NOTICES[name](account)
    remind()

    notices = [f"{subject}\n\n{text}" for subject, text in account.notices()]
    assert not re.search("secret|mona", str(notices))
    assert_stored("notices", name, "\n---\n".join(notices))
