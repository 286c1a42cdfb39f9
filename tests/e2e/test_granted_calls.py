"""The roles of the template against the calls that the programs really make, both ways.

Every call is allowed by its program's role; and everything that a role allows is needed, by a call
that was seen or by one that AWS makes in the role's name.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import boto3
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from dlq.archive.ledger.disposition import Disposition
from dlq.archive.messages.dead_letter_schema import to_row
from dlq.archive.messages.message_store import write_messages
from dlq.archive.storage.files import open_archive
from dlq.aws.clients import DescribedQueue, sqs_client
from dlq.cli.command import load
from dlq.cli.command import main as dlq
from dlq.cli.on_glue import privacy_options, run_job
from dlq.cli.running import main
from dlq.cli.verbs.mcp import Tools
from dlq.redrive.ramping.readings import ReturnsProbe
from dlq.redrive.redrive import gone_objects
from dlq.redrive.request import RedriveRequest
from dlq.stack.glue_runs import (
    StoredCommand,
    argument_of,
    command_of,
    request_stop,
    store_command,
)
from dlq.stack.outputs import stack_options
from dlq_replay.aws import wiring
from dlq_replay.aws.breaker_table import read_deletions
from dlq_replay.aws.returns_table import ReturnsTable
from dlq_replay.aws.sqs import SqsQueue
from dlq_replay.aws.tagged_queues import TAG_KEY
from dlq_replay.wire.message import Message, SendEntry
from functions.publish_job.handler import PACKAGE, SCRIPT, publish_job, remove_job
from functions.reminder import handler as reminder
from functions.replay import sweep
from tests.contract.cloudformation import Stack
from tests.contract.permissions import Call, is_allowed
from tests.contract.template import (
    FIFO,
    MEMBERS,
    SPARK_JOB,
    SWEEP,
    TAG_CONDITION,
    TEMPLATE,
    as_list,
    environment_of,
    statements_of,
)
from tests.support.builders import context, counter, filler, message
from tests.support.failure_table import create_failure_table
from tests.support.glue_run import run_on_glue
from tests.support.ledgers import settle
from tests.support.recorded_aws import RecordedAws, serve_recorded_aws
from tests.support.replay_stack import invoke
from tests.support.small_jobs import REDRIVE_ALL, words_of_submit
from tests.support.sqs_driver import visible_count

ROOT = Path(__file__).parents[2]
ACCOUNT = "us-east-1:123456789012"
BUCKET = "archivebucket"
INVOICES = {"OtherMainQueueArns": f"arn:aws:sqs:{ACCOUNT}:Invoices"}
"""A further main queue, which shares the DLQ."""

BUCKET_ARN = f"arn:aws:s3:::{BUCKET}"


def sqs(action: str, queue: str) -> Call:
    return Call(f"sqs:{action}", f"arn:aws:sqs:{ACCOUNT}:{queue}")


def log_calls(group: str) -> list[Call]:
    arn = f"{group}.Arn"
    return [Call("logs:CreateLogStream", arn), Call("logs:PutLogEvents", arn)]


# What AWS does with the role by itself, and where its documents say so.
MADE_BY_LAMBDA = [
    # https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html#events-sqs-permissions
    sqs("ReceiveMessage", "DeadLetterQueue"),
    sqs("DeleteMessage", "DeadLetterQueue"),
    sqs("GetQueueAttributes", "DeadLetterQueue"),
    *log_calls("ReplayLogGroup"),
]
MADE_BY_GLUE = [
    # Its script and packages, its temporary folder, its log.
    Call("s3:GetObject", f"{BUCKET_ARN}/code/0123/glue_job.py"),
    Call("s3:GetObject", f"{BUCKET_ARN}/temporary/x"),
    Call("s3:PutObject", f"{BUCKET_ARN}/temporary/x"),
    Call("s3:DeleteObject", f"{BUCKET_ARN}/temporary/x"),
    *log_calls("SparkJobOutputLogGroup"),
    *log_calls("SparkJobErrorLogGroup"),
]


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[RecordedAws]:
    with serve_recorded_aws() as recorded:
        monkeypatch.setenv("AWS_ENDPOINT_URL", recorded.url)
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")  # as Lambda does
        # This server is slower than AWS's.
        monkeypatch.setattr(wiring, "breaker_client_config", lambda: Config(read_timeout=20))
        yield recorded
    wiring.wiring.cache_clear()
    wiring.wired_fleet.cache_clear()
    reminder._client.cache_clear()  # noqa: SLF001 - clients outlive an invocation, not a test


def make_queues(suffix: str = "") -> dict[str, SqsQueue]:
    client = boto3.client("sqs")
    fields: dict[str, Any] = {"Attributes": {"FifoQueue": "true"}} if suffix else {}
    names = ("MainQueue", "Invoices", "DeadLetterQueue", "ParkedQueue")
    queues = {}
    for name in names:
        url = client.create_queue(QueueName=name + suffix, **fields)["QueueUrl"]
        queues[name] = SqsQueue(client, url)

    dead_letters = queues["DeadLetterQueue"].describe()["QueueArn"]
    policy = json.dumps({"deadLetterTargetArn": dead_letters, "maxReceiveCount": 5})
    for name in ("MainQueue", "Invoices"):
        client.set_queue_attributes(QueueUrl=queues[name].url, Attributes={"RedrivePolicy": policy})
    return queues


def versioned_bucket() -> Any:
    """Make the archive's bucket; return the client."""
    client = boto3.client("s3")
    client.create_bucket(Bucket=BUCKET)
    client.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
    return client


def missing(calls: Iterable[Call], stack: Stack, role: str) -> set[Call]:
    statements = statements_of(stack, role)
    return {call for call in calls if not is_allowed(call, statements)}


def unused(calls: Iterable[Call], stack: Stack, role: str) -> set[tuple[str, str]]:
    """Return what *role* may do that no call needs: pairs of one action and one resource."""
    pairs = {}
    for statement in statements_of(stack, role):
        for action in as_list(statement["Action"]):
            for resource in as_list(statement["Resource"]):
                alone = [{**statement, "Action": action, "Resource": resource}]
                pairs[action, resource] = alone

    made = list(calls)
    return {p for p, alone in pairs.items() if not any(is_allowed(call, alone) for call in made)}


def unused_actions(calls: Iterable[Call], stack: Stack, holder: str) -> set[str]:
    """Return the actions that *holder* may take on anything, and that no call is."""
    granted: set[str] = set()
    for statement in statements_of(stack, holder):
        granted.update(as_list(statement["Action"]))
    return granted - {call.action for call in calls}


def handle(stack: Stack, monkeypatch: pytest.MonkeyPatch, *letters: Message) -> None:
    for name, value in environment_of(stack).items():
        monkeypatch.setenv(name, value)
    wiring.wiring.cache_clear()
    invoke(*letters)


def test_the_replay_function_on_standard_queues(
    aws: RecordedAws, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A cap of days, so that of so many letters some have to be held.
    waits = {"BackoffRate": "9999", "BackoffCapSeconds": "999999"}
    stack = Stack.of(TEMPLATE, waits | INVOICES)
    queues = make_queues()
    create_failure_table(boto3.client("dynamodb"), "FailureTable")
    returns = ReturnsTable(boto3.client("dynamodb"), "FailureTable", lambda: 1_800_000_000)
    returns.begin("plan", ["group"])
    aws.calls.clear()

    # Before a breaker opens for messages without a recorded error.
    metric_client = partial(boto3.client, "cloudwatch")
    read_deletions(metric_client, "MainQueue", 1_800_000_000, 1_800_000_600)
    due = message("due", attributes=context(due_seconds=1, source_queue="MainQueue"))
    invoice = message("invoice", attributes=context(due_seconds=1, source_queue="Invoices"))
    ours = context(source_queue="MainQueue")
    exhausted = message("exhausted", attributes={**counter("1000"), **ours})
    main = f"arn:aws:sqs:{ACCOUNT}:MainQueue"
    full = message("full", attributes=filler(10), DeadLetterQueueSourceArn=main)
    new = [message(f"m-{n}", DeadLetterQueueSourceArn=main) for n in range(30)]
    redriven = context(plan_id="plan", group_id="group", source_queue="MainQueue")
    back = message("back", attributes=redriven, DeadLetterQueueSourceArn=main)
    handle(stack, monkeypatch, due, invoice, exhausted, full, back, *new)

    assert missing(aws.calls, stack, "ReplayRole") == set()
    assert returns.read("plan", ["group"])["group"].returned == 1
    # Holds by visibility are the way of FIFO queues.
    assert unused(aws.calls + MADE_BY_LAMBDA, stack, "ReplayRole") == {
        ("sqs:ChangeMessageVisibility", f"arn:aws:sqs:{ACCOUNT}:DeadLetterQueue")
    }
    assert visible_count(queues["ParkedQueue"]) == 2
    assert visible_count(queues["Invoices"]) == 1


def test_the_replay_function_on_fifo_queues(
    aws: RecordedAws, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack = Stack.of(TEMPLATE, FIFO | {"BackoffRate": "9999", "BackoffCapSeconds": "999999"})
    dlq = make_queues(".fifo")["DeadLetterQueue"]
    for n in range(8):
        dlq.send([SendEntry("x", message_group_id=f"g-{n}", deduplication_id=f"d-{n}")])
    letters = [message for message in dlq.receive(wait_seconds=0) if isinstance(message, Message)]
    aws.calls.clear()

    handle(stack, monkeypatch, *letters)

    assert missing(aws.calls, stack, "ReplayRole") == set()
    assert sqs("ChangeMessageVisibility", "DeadLetterQueue.fifo") in aws.calls


def send_dead_letters(dlq: SqsQueue) -> None:
    """One that is due, one to be parked, one of a queue that is no member, and many to be held."""

    def letter(body: str, source: str = "MainQueue", **fields: Any) -> SendEntry:
        return SendEntry(body, context(body, source_queue=source, **fields))

    exhausted = letter("exhausted")
    letters = [
        letter("due", due_seconds=1),
        exhausted._replace(attributes={**exhausted.attributes, **counter("1000")}),
        letter("invoice", "Invoices", due_seconds=1),
        *(letter(f"m-{n}") for n in range(30)),
    ]
    for start in range(0, len(letters), 10):
        dlq.send(letters[start : start + 10])


def test_a_sweep_of_a_fleet(aws: RecordedAws, monkeypatch: pytest.MonkeyPatch) -> None:
    waits = {"BackoffRate": "9999", "BackoffCapSeconds": "999999"}
    stack = Stack.of(TEMPLATE, SWEEP | waits)
    queues = make_queues()
    tag_members(queues)
    create_failure_table(boto3.client("dynamodb"), "FailureTable")

    send_dead_letters(queues["DeadLetterQueue"])
    aws.calls.clear()

    # Before a breaker opens for messages without a recorded error.
    read_deletions(partial(boto3.client, "cloudwatch"), "MainQueue", 1_800_000_000, 1_800_000_600)
    variables = stack.resources["SweepFunction"]["Properties"]["Environment"]["Variables"]
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    sweep.lambda_handler({}, Remaining(seconds=20))

    calls = list(map(with_tag, aws.calls))
    assert missing(calls, stack, "ReplayRole") == set()
    assert visible_count(queues["ParkedQueue"]) == 1
    assert visible_count(queues["Invoices"]) == 0
    # Holds by visibility are the way of FIFO queues, SQS uses keys in the caller's name, and only
    # messages that SQS moved come back of a redrive.
    unneeded = unused(calls + log_calls("ReplayLogGroup"), stack, "ReplayRole")
    keys = "arn:aws:kms:us-east-1:123456789012:key/*"
    assert unneeded == {
        ("sqs:ChangeMessageVisibility", MEMBERS),
        ("dynamodb:UpdateItem", "arn:aws:dynamodb:us-east-1:123456789012:table/FailureTable"),
        ("kms:Decrypt", keys),
        ("kms:GenerateDataKey", keys),
    }


MEMBER_NAMES = ("MainQueue", "DeadLetterQueue")
"""Invoices has the same DLQ, and has not joined."""


def tag_members(queues: Mapping[str, SqsQueue]) -> None:
    for name in MEMBER_NAMES:
        boto3.client("sqs").tag_queue(QueueUrl=queues[name].url, Tags={TAG_KEY: "shop"})


def with_tag(call: Call) -> Call:
    """Return a call with the tag of its queue, as SQS knows it."""
    is_of_member = call.resource in {f"arn:aws:sqs:{ACCOUNT}:{name}" for name in MEMBER_NAMES}
    return replace(call, context={TAG_CONDITION: "shop"}) if is_of_member else call


class Remaining:
    """The context of an invocation that has so much time from now on."""

    def __init__(self, seconds: float) -> None:
        self.end = time.monotonic() + seconds

    def get_remaining_time_in_millis(self) -> int:
        return int(1000 * (self.end - time.monotonic()))


PLAN = "20261101T000000Z-00000000000"
LOCK = {
    "holder": {"use": "send", "purpose": f"plan {PLAN}", "run_id": PLAN, "who": "ann@desk"},
    "ended": None,
}
STEP = {"number": 1, "messages": {}, "proven": {}, "left": {}, "returned_before": {}}
GROUP = {"status": "new", "count": 1, "first_seen_at": "2026-11-01T00Z", "report_id": "r-1"}


def test_notices(aws: RecordedAws, monkeypatch: pytest.MonkeyPatch) -> None:
    stack = Stack.of(TEMPLATE, SPARK_JOB)
    make_queues()["ParkedQueue"].send([SendEntry("x")])
    boto3.client("sns").create_topic(Name="AlarmTopic")
    boto3.client("s3").create_bucket(Bucket=BUCKET)
    glue = boto3.client("glue")
    glue.create_job(Name="SparkJob", Role="r", Command={"Name": "glueetl"})
    run_id = glue.start_job_run(JobName="SparkJob")["JobRunId"]
    contents = {
        "status.json": "",
        "groups/seen/r-1.json": json.dumps({"groups": {"g-0123456789": GROUP}}),
        "locks/000001.json": json.dumps(LOCK),
        f"ledger/plan_id={PLAN}/steps/orders/00001.json": json.dumps(STEP),
    }
    for key, content in contents.items():
        boto3.client("s3").put_object(Bucket=BUCKET, Key=f"archive/{key}", Body=content.encode())
    variables = stack.resources["ReminderFunction"]["Properties"]["Environment"]["Variables"]
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    reminder._client.cache_clear()  # noqa: SLF001
    aws.calls.clear()

    alarm = {"alarmName": "ArrivedAlarm", "state": {"value": "ALARM"}}
    run = {"jobName": "SparkJob", "jobRunId": run_id, "state": "SUCCEEDED"}
    reminder.lambda_handler({}, None)
    reminder.lambda_handler({"detail-type": "CloudWatch Alarm State Change", "detail": alarm}, None)
    reminder.lambda_handler({"detail-type": "Glue Job State Change", "detail": run}, None)

    assert aws.calls.count(Call("sns:Publish", variables["TOPIC_ARN"])) == 3
    assert missing(aws.calls, stack, "ReminderRole") == set()
    # https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-retain-records.html
    made_by_lambda = [*log_calls("ReminderLogGroup"), sqs("SendMessage", "ReminderFailures")]
    assert unused(aws.calls + made_by_lambda, stack, "ReminderRole") == set()


def test_who_looks_may_do_what_the_command_does(aws: RecordedAws) -> None:
    stack = Stack.of(TEMPLATE, {})
    parked = make_queues()["ParkedQueue"]
    parked.send([SendEntry("{}")])
    aws.calls.clear()

    for name in ("ParkedQueue", parked.url):
        assert dlq(["look", name]) == 0

    assert missing(aws.calls, stack, "LookPolicy") == set()
    # Which stack it is.
    assert unused_actions(aws.calls, stack, "LookPolicy") == {"cloudformation:DescribeStacks"}


class ToolsOfStack(Tools):
    """Tools whose commands run in this process, with the options that a stack would fill in."""

    values: Mapping[str, str]

    def _run(self, verb: str, *words: str) -> dict[str, Any]:
        # A look takes from a stack nothing but the queue.
        filled_in = () if verb == "look" else stack_options(load(verb))
        names = [name for name in filled_in if name in self.values]
        options = [f"{name}={self.values[name]}" for name in names]
        answer = StringIO()
        errors = StringIO()
        with redirect_stdout(answer), redirect_stderr(errors):
            exit_code = dlq([verb, *options, *words, "--json"])
        assert answer.getvalue(), (verb, exit_code, errors.getvalue())
        return {"exit_code": exit_code, "answer": json.loads(answer.getvalue())}

    def all_that_read(self, queue: str) -> None:
        """Use each tool once, but for the one that writes a proposal."""
        self.status()
        [group] = json.loads(self.groups().split("\n")[2])["answer"]["groups"]
        self.show(group["group_id"])
        self.show("m-1", with_body=True)
        self.find("4711", queue)
        self.look(queue)
        self.redrive_dry_run(group["group_id"])


def archive_an_order(source: str) -> None:
    archive = open_archive(f"s3://{BUCKET}/archive", creates=True)
    body = '{"order": 4711}'
    ours = context(body, reason="attempts_exhausted", source_queue=source)
    row = to_row(message("m-1", body, ours), "https://q/ParkedQueue", datetime.now(UTC))
    write_messages(archive, "20260101T000000Z-aaaaaa", 0, [row])
    assert dlq(["collect", "--only", "analyze", "--archive", f"s3://{BUCKET}/archive"]) == 0


def test_an_agent_may_do_what_its_tools_do(aws: RecordedAws) -> None:
    stack = Stack.of(TEMPLATE, SPARK_JOB)
    queues = make_queues()
    versioned_bucket()
    create_failure_table(boto3.client("dynamodb"), "FailureTable")
    archive_an_order("MainQueue")
    queues["ParkedQueue"].send([SendEntry("{}")])
    ToolsOfStack.values = {
        "--archive": f"s3://{BUCKET}/archive",
        "--parked-queue-url": queues["ParkedQueue"].url,
        "--main-queue-url": queues["MainQueue"].url,
        "--dlq-url": queues["DeadLetterQueue"].url,
        "--failure-table": "FailureTable",
    }
    aws.calls.clear()

    ToolsOfStack().all_that_read("ParkedQueue")

    assert missing(aws.calls, stack, "AnalystPolicy") == set()
    # Which stack it is.
    assert unused_actions(aws.calls, stack, "AnalystPolicy") == {"cloudformation:DescribeStacks"}


def test_an_agent_of_a_fleet_may_do_what_its_tools_do(aws: RecordedAws) -> None:
    stack = Stack.of(TEMPLATE, SPARK_JOB | SWEEP)
    queues = make_queues()
    tag_members(queues)
    versioned_bucket()
    create_failure_table(boto3.client("dynamodb"), "FailureTable")
    boto3.client("events").put_rule(Name="SweepRule", ScheduleExpression="rate(1 minute)")
    archive_an_order("MainQueue")
    queues["DeadLetterQueue"].send([SendEntry("{}")])
    ToolsOfStack.values = {
        "--archive": f"s3://{BUCKET}/archive",
        "--parked-queue-url": queues["ParkedQueue"].url,
        "--failure-table": "FailureTable",
        "--queue-tag": "shop",
        "--sweep-rule": "SweepRule",
    }
    aws.calls.clear()

    ToolsOfStack().all_that_read("DeadLetterQueue")

    calls = list(map(with_tag, aws.calls))
    assert missing(calls, stack, "AnalystPolicy") == set()
    # SQS uses keys in the caller's name.
    others = {"cloudformation:DescribeStacks", "kms:Decrypt"}
    assert unused_actions(calls, stack, "AnalystPolicy") == others


def test_publishing_the_job_and_removing_it(aws: RecordedAws, tmp_path: Path) -> None:
    stack = Stack.of(TEMPLATE, SPARK_JOB)
    client = versioned_bucket()
    for name in (PACKAGE, SCRIPT):
        (tmp_path / name).write_bytes(b"")
    properties = stack.resources["JobCode"]["Properties"]
    aws.calls.clear()

    publish_job(client, properties["Bucket"], properties["Prefix"], tmp_path)
    remove_job(client, properties["Bucket"], properties["Prefix"])

    assert missing(aws.calls, stack, "PublishJobRole") == set()
    assert unused(aws.calls + log_calls("PublishJobLogGroup"), stack, "PublishJobRole") == set()


def test_who_starts_runs_on_glue_may_do_what_the_command_does(
    aws: RecordedAws, capsys: pytest.CaptureFixture[str]
) -> None:
    stack = Stack.of(TEMPLATE, SPARK_JOB)
    versioned_bucket()
    glue = boto3.client("glue")
    glue.create_job(Name="SparkJob", Role="r", Command={"Name": "glueetl"})
    archive = open_archive(f"s3://{BUCKET}/archive")
    aws.calls.clear()

    assert privacy_options(glue, "SparkJob") == []
    # It ended before it read its command.
    words = ["collect", "--where", "body LIKE '%anna%'"]
    assert run_job(glue, "SparkJob", archive, words, lambda _: None) == 1
    [run] = glue.get_job_runs(JobName="SparkJob")["JobRuns"]
    request_stop(archive, run["Id"])
    # moto lacks this call; it is recorded all the same.
    with suppress(ClientError):
        glue.batch_stop_job_run(JobName="SparkJob", JobRunIds=[run["Id"]])

    assert archive.list("commands") == archive.outdated("commands") == []
    assert "without an answer" in capsys.readouterr().err
    statements = statements_of(stack, "RunSparkJobPolicy")
    assert {call for call in aws.calls if not is_allowed(call, statements)} == set()
    granted = {action for statement in statements for action in as_list(statement["Action"])}
    # Which stack it is.
    others = {"cloudformation:DescribeStacks"}
    assert granted - {call.action for call in aws.calls} == others


def test_removing_what_is_decided(aws: RecordedAws) -> None:
    """The command of the template, as Glue gives it; it needs no Spark session."""
    stack = Stack.of(TEMPLATE, SPARK_JOB | {"ArchiveRetentionDays": "90"})
    arguments = stack.resources["ExpireJob"]["Properties"]["DefaultArguments"]
    client = versioned_bucket()
    archive = open_archive(f"s3://{BUCKET}/archive", creates=True)
    long_ago = datetime(2026, 1, 1, tzinfo=UTC)
    rows = [to_row(message(f"m-{n}"), "https://q", long_ago) for n in range(5)]
    for second, brought in enumerate((rows[:3], rows[3:])):
        write_messages(archive, f"20260101T00000{second}Z-aaaaaa", 0, brought)
    decided = {row["message_id"]: Disposition.SENT for row in rows[1:]}
    settle(archive, "p-1", decided, seconds=long_ago.timestamp())
    store_command(archive, StoredCommand(("status",)))
    aws.calls.clear()

    words = [argument for pair in arguments.items() for argument in pair]
    run_on_glue([*words, "--JOB_RUN_ID", "jr_1"], main)

    answer = client.list_object_versions(Bucket=BUCKET, Prefix="archive/messages/")
    [path] = archive.list("messages")
    table = pq.read_table(pa.BufferReader(archive.read(path) or b""))
    assert table["message_id"].to_pylist() == ["m-0"]
    assert (len(answer["Versions"]), answer.get("DeleteMarkers", [])) == (1, [])
    assert archive.list("commands") == []
    assert missing(aws.calls, stack, "ExpireRole") == set()
    assert unused(aws.calls + MADE_BY_GLUE, stack, "ExpireRole") == set()


def test_the_job_of_a_fleet(aws: RecordedAws) -> None:
    """The command of the template, on this machine: the next test has what Spark does."""
    policy = {"SparkJobPolicyUri": "s3://policybucket/policy.yaml", "SparkJobExecute": "true"}
    stack = Stack.of(TEMPLATE, SPARK_JOB | SWEEP | policy)
    arguments = stack.resources["SparkJob"]["Properties"]["DefaultArguments"]
    queues = make_queues()
    tag_members(queues)
    s3 = versioned_bucket()
    s3.create_bucket(Bucket="policybucket")
    at_once = f"{REDRIVE_ALL}run: {{ramp: false}}\n"
    s3.put_object(Bucket="policybucket", Key="policy.yaml", Body=at_once)
    for source in ("MainQueue", "Invoices"):
        attributes = context("{}", reason="attempts_exhausted", source_queue=source)
        queues["ParkedQueue"].send([SendEntry("{}", attributes)])
    create_failure_table(boto3.client("dynamodb"), "FailureTable")
    events = boto3.client("events")
    events.put_rule(Name="SweepRule", ScheduleExpression="rate(1 minute)")
    sweep_arn = "arn:aws:lambda:us-east-1:123456789012:function:sweep"
    events.put_targets(Rule="SweepRule", Targets=[{"Id": "sweep", "Arn": sweep_arn}])
    aws.calls.clear()

    assert dlq(command_of(["--command-line", arguments["--command-line"]])) == 0
    # A ramp also asks for what this reads.
    main = DescribedQueue(queues["MainQueue"].url, queues["MainQueue"].describe())
    function_arn = sweep_arn.replace("sweep", "replay")
    asked = RedriveRequest(
        queue_tag="shop", function_arn=function_arn, sweep_function_arn=sweep_arn
    )
    ReturnsProbe(asked, main, sqs_client).read(time.time() - 600, time.time())

    calls = list(map(with_tag, aws.calls))
    # Nobody sends to a queue without the tag.
    assert visible_count(queues["MainQueue"]) == 1
    assert visible_count(queues["Invoices"]) == 0
    assert missing(calls, stack, "SparkJobRole") == {Call("sts:GetCallerIdentity", "*")}
    of_fleet = ("sqs:", "tag:", "events:")
    pairs = unused(calls, stack, "SparkJobRole")
    assert {pair for pair in pairs if pair[0].startswith(of_fleet)} == set()


def tasks_of_stages(log: Path) -> list[int]:
    """Return the number of tasks of each stage, by Spark's event log."""
    # Beside them lie checksums, under names that begin with a dot.
    files = [path for path in log.rglob("[!.]*") if path.is_file()]
    events = [json.loads(line) for path in files for line in path.read_text().splitlines()]
    stages = [event for event in events if event["Event"] == "SparkListenerStageCompleted"]
    return [event["Stage Info"]["Number of Tasks"] for event in stages]


TWICE = """
import runpy
import sys

runpy.run_path("glue_job.py", run_name="__main__")
del sys.argv[-2:]
runpy.run_path("glue_job.py", run_name="__main__")
"""
"""Runs the script beside it, and again in the JVM that has started, without the last argument."""


def fill(parked: SqsQueue) -> None:
    """Park one message of the main queue, and nine of another."""
    for n in range(10):
        body = f'{{"order": {n}}}'
        source = "Invoices" if n else "MainQueue"
        attributes = context(body, reason="attempts_exhausted", source_queue=source)
        parked.send([SendEntry(body, attributes)])


def run_twice(folder: Path, log: Path, *arguments: str) -> None:
    """Run the packed job as Glue does, and once more without the last argument.

    Args:
        folder: where the job is packed.
        log: the folder of Spark's event log.
        arguments: of the job; the last two are an option and its value.
    """
    subprocess.run([sys.executable, ROOT / "scripts" / "package_job.py", folder], check=True)
    (folder / "twice.py").write_text(TWICE)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    words = words_of_submit(
        folder / "twice.py",
        "local[2]",
        spark__sql__codegen__factoryMode="NO_CODEGEN",
        spark__eventLog__enabled="true",
        spark__eventLog__compress="false",
        spark__eventLog__dir=log.as_uri(),
    )
    subprocess.run(
        [Path(sys.executable).with_name("spark-submit"), *words, "--JOB_NAME", "job", *arguments],
        cwd=folder,
        env={**environment, "PYSPARK_PYTHON": sys.executable},
        check=True,
    )


def calls_beside_the_run(main_queue: SqsQueue) -> list[Call]:
    """Make the calls that other runs of the job make; return those that moto does not see."""
    # A ramp also asks for what this reads.
    main = DescribedQueue(main_queue.url, main_queue.describe())
    function = "arn:aws:lambda:us-east-1:123456789012:function:replay"
    request = RedriveRequest(main_queue_url=main.url, function_arn=function)
    ReturnsProbe(request, main, sqs_client).read(time.time() - 600, time.time())

    # A dry run looks up bodies in S3, which needs a right to list to say that one is gone.
    assert gone_objects(boto3.client("s3"), "payloads", ["gone"]) == 1
    return [Call("s3:ListBucket", "arn:aws:s3:::payloads")]


def test_the_spark_job_from_its_package(aws: RecordedAws, tmp_path: Path) -> None:
    """The command of the template, as Glue gives it; the second run meets the claims of the first.

    The first has it in the archive, as those of people do.
    moto knows a queue by the path of its URL alone, so that the template's URLs do.
    """
    policy = {"SparkJobPolicyUri": "s3://policybucket/policy.yaml", "SparkJobExecute": "true"}
    logs = {"ConsumerLogGroupArns": f"arn:aws:logs:{ACCOUNT}:log-group:/shop/orders:*"}
    logs["PointerBucketName"] = "payloads"
    stack = Stack.of(TEMPLATE, SPARK_JOB | policy | INVOICES | logs)
    arguments = stack.resources["SparkJob"]["Properties"]["DefaultArguments"]
    queues = make_queues()
    s3 = boto3.client("s3")
    for bucket in (BUCKET, "policybucket", "payloads"):
        s3.create_bucket(Bucket=bucket)
    # The DLQ feeds no parked queue, so no ramp is possible.
    at_once = f"{REDRIVE_ALL}run: {{ramp: false}}\n"
    s3.put_object(Bucket="policybucket", Key="policy.yaml", Body=at_once)
    fill(queues["ParkedQueue"])
    create_failure_table(boto3.client("dynamodb"), "FailureTable")
    boto3.client("logs").create_log_group(logGroupName="/shop/orders")
    archive = open_archive(f"s3://{BUCKET}/archive", creates=True)
    command = command_of(["--command-line", arguments["--command-line"]])
    stored = store_command(archive, StoredCommand(tuple(command)))
    log = tmp_path / "log"
    log.mkdir()
    aws.calls.clear()

    words = [argument for pair in arguments.items() for argument in pair]
    run_twice(tmp_path, log, *words, "--command-line", argument_of(archive, stored))

    assert visible_count(queues["MainQueue"]) == 1
    assert visible_count(queues["Invoices"]) == 9
    assert archive.list("commands") == []
    # Of ten messages Spark makes no 200 tasks, a cluster's default, in any stage.
    assert max(tasks_of_stages(log)) < 10
    aws.calls.extend(calls_beside_the_run(queues["MainQueue"]))
    # STS says to everybody who they are, whatever their policies.
    # https://docs.aws.amazon.com/STS/latest/APIReference/API_GetCallerIdentity.html
    assert missing(aws.calls, stack, "SparkJobRole") == {Call("sts:GetCallerIdentity", "*")}
    assert unused(aws.calls + MADE_BY_GLUE, stack, "SparkJobRole") == set()
