"""Says on the alarm topic, once a day, what waits for a human, for as long as anything does.

A CloudWatch alarm speaks when its state changes and is silent while it stays as it is. It is also
where a failed run of the scheduled Spark job is told, which no metric shows, and it publishes how
long ago the schedule started the job, for an alarm.
"""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

from dlq_replay.emf import metric_lines
from dlq_replay.measures import (
    MAIN_QUEUE_DIMENSION,
    NAMESPACE,
    SERVICE,
    SERVICE_DIMENSION,
    Measurement,
    Metric,
)

if TYPE_CHECKING:
    from mypy_boto3_cloudwatch import CloudWatchClient
    from mypy_boto3_glue import GlueClient
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.literals import QueueAttributeNameType

SUBJECT_MAX_CHARACTERS = 100
"""SNS refuses longer ones: SNS API reference, Publish."""

LOOK_BACK = timedelta(days=15)
"""CloudWatch keeps values by the minute for 15 days."""

MINUTE_SECONDS = 60
DAY_SECONDS = 86_400

_REPORT = "report.html"
_MOST_FOLDERS = 20
"""So many folders are looked into for the newest report."""

_MESSAGE_ID = re.compile(r"[A-Za-z0-9-]{1,100}")

_COUNTS: "tuple[QueueAttributeNameType, ...]" = (
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
)
_CONSOLES = {"cn-": "console.amazonaws.cn", "us-gov-": "console.amazonaws-us-gov.com"}
_CONSOLE = "console.aws.amazon.com"


@dataclass(frozen=True, slots=True)
class Waiting:
    """What waits for a human.

    Attributes:
        main_queue: the name of the queue that it is about.
        parked: messages in the parked queue, as SQS counts them: approximately.
        undecided: messages in the archive that nobody has decided about, at the end of the job's
            last run; None where no run of the last 15 days said so.
        oldest_undecided_seconds: how long the oldest of them has waited; None as above.
        report: the address of the job's newest report; None where there is none.
        blocked: undecided messages of a FIFO queue that wait behind another of their message group.
        blockers: message ids of those that most messages wait for, and how many each.
    """

    main_queue: str
    parked: int
    undecided: int | None = None
    oldest_undecided_seconds: int | None = None
    report: str | None = None
    blocked: int = 0
    blockers: tuple[tuple[str, int], ...] = ()

    @property
    def total(self) -> int:
        """How many messages wait, wherever they are."""
        return self.parked + (self.undecided or 0)

    @property
    def subject(self) -> str:
        """One line that tells how much waits."""
        text = f"{self.total} dead letters of {self.main_queue} wait for you"
        is_short = len(text) <= SUBJECT_MAX_CHARACTERS
        return text if is_short else f"{self.total} dead letters wait for you"

    @property
    def text(self) -> str:
        """Counts, the newest report, and what to do. Holds no part of a message."""
        lines = [f"Main queue: {self.main_queue}", f"In the parked queue: {self.parked}"]
        if self.undecided is not None:
            days = (self.oldest_undecided_seconds or 0) // DAY_SECONDS
            age = f", the oldest for {days} days" if days else ""
            lines.append(f"Undecided in the archive: {self.undecided}{age}")
        if self.blocked:
            most = ", ".join(f"{message_id} ({count})" for message_id, count in self.blockers)
            lines.append(
                f"Of them, {self.blocked} wait behind an earlier message of their message group, "
                f"which comes first: {most}"
            )
        if self.report is not None:
            lines.append(f"Latest report: {self.report}")
        return "\n".join([*lines, "", _ADVICE])


_ADVICE = """\
What to do, each with --stack and the name of the stack:
  dlq drain                   moves what is in the parked queue into the archive
  dlq analyze                 groups what is in the archive by what failed
  dlq groups                  shows the groups
  dlq redrive --group ID      shows what putting a group back would do, and says how to do it
  dlq decide ID discard       says in the plan that a group is written off; dlq redrive does it
This notice comes once a day until nothing waits."""


def lambda_handler(event: Mapping[str, Any], context: object) -> None:
    """Publish what waits, if anything does; or that a run of the Spark job failed.

    Args:
        event: a scheduled event, or a "Glue Job State Change".
        context: Lambda's own; not used.

    Raises:
        ClientError, BotoCoreError: a count or the topic is out of reach; Lambda tries again.
    """
    del context
    if event.get("detail-type") == "Glue Job State Change":
        _publish(*_failed_run(event["detail"], os.environ))
        return
    if job := os.environ.get("SPARK_JOB"):
        _publish_last_run_age(_client("glue"), job, os.environ["MAIN_QUEUE_NAME"])
    waiting = look(_client("sqs"), _client("cloudwatch"), _client("s3"), os.environ)
    if waiting.total:
        _publish(waiting.subject, waiting.text)


def look(
    sqs: "SQSClient",
    cloudwatch: "CloudWatchClient",
    s3: "S3Client",
    environment: Mapping[str, str],
) -> Waiting:
    """Ask what waits now."""
    main_queue = environment["MAIN_QUEUE_NAME"]
    return Waiting(
        main_queue,
        _parked(sqs, environment["PARKED_QUEUE_URL"]),
        _latest(cloudwatch, Metric.UNDECIDED_MESSAGES, main_queue),
        _latest(cloudwatch, Metric.OLDEST_UNDECIDED_SECONDS, main_queue),
        _newest_report(
            s3, environment.get("ARCHIVE_BUCKET"), environment.get("REPORTS_PREFIX", "")
        ),
        *_blocked(s3, environment.get("ARCHIVE_BUCKET"), environment.get("STATUS_KEY")),
    )


def last_scheduled_start(glue: "GlueClient", job: str) -> datetime:
    """Return when a trigger last started the job; before its first start, when it was created.

    Runs that a person started do not count: they do other work.
    """
    for page in glue.get_paginator("get_job_runs").paginate(JobName=job):
        # The newest come first.
        for run in page["JobRuns"]:
            if run.get("TriggerName"):
                return run["StartedOn"]
    return glue.get_job(JobName=job)["Job"]["CreatedOn"]


def _publish_last_run_age(glue: "GlueClient", job: str, main_queue: str) -> None:
    now = datetime.now(UTC)
    age_seconds = max(0, int((now - last_scheduled_start(glue, job)).total_seconds()))
    metric = Metric.LAST_RUN_AGE_SECONDS
    dimensions = {SERVICE_DIMENSION: SERVICE, MAIN_QUEUE_DIMENSION: main_queue}
    measurement = Measurement(metric.value, metric.unit, (age_seconds,))
    for line in metric_lines([measurement], dimensions, now.timestamp()):
        print(line)  # noqa: T201 - Lambda hands standard output to CloudWatch


def _parked(sqs: "SQSClient", queue_url: str) -> int:
    answer = sqs.get_queue_attributes(QueueUrl=queue_url, AttributeNames=_COUNTS)
    return sum(int(answer["Attributes"][name]) for name in _COUNTS)


def _latest(cloudwatch: "CloudWatchClient", metric: Metric, main_queue: str) -> int | None:
    now = datetime.now(UTC)
    answer = cloudwatch.get_metric_data(
        MetricDataQueries=[
            {
                "Id": "latest",
                "MetricStat": {
                    "Metric": {
                        "Namespace": NAMESPACE,
                        "MetricName": metric.value,
                        "Dimensions": [
                            {"Name": SERVICE_DIMENSION, "Value": SERVICE},
                            {"Name": MAIN_QUEUE_DIMENSION, "Value": main_queue},
                        ],
                    },
                    # As short as CloudWatch keeps them apart: the newest value is the last run's.
                    "Period": MINUTE_SECONDS,
                    "Stat": "Maximum",
                },
            }
        ],
        StartTime=now - LOOK_BACK,
        # The minute that is under way counts too.
        EndTime=now + timedelta(seconds=MINUTE_SECONDS),
        ScanBy="TimestampDescending",
    )
    values = answer["MetricDataResults"][0]["Values"]
    return int(values[0]) if values else None


def _newest_report(s3: "S3Client", bucket: str | None, prefix: str) -> str | None:
    """Return the console's address of the newest report: their ids sort by time."""
    if not bucket:
        return None
    pages = s3.get_paginator("list_objects_v2").paginate(
        Bucket=bucket, Prefix=prefix, Delimiter="/"
    )
    folders = [one["Prefix"] for page in pages for one in page.get("CommonPrefixes", [])]
    # An analysis that wrote its report elsewhere, or that failed, leaves a folder without one.
    for folder in sorted(folders, reverse=True)[:_MOST_FOLDERS]:
        found = s3.list_objects_v2(Bucket=bucket, Prefix=f"{folder}{_REPORT}", MaxKeys=1)
        if found.get("KeyCount"):
            return console_link(s3.meta.region_name, bucket, folder)
    return None


def _blocked(
    s3: "S3Client", bucket: str | None, key: str | None
) -> tuple[int, tuple[tuple[str, int], ...]]:
    """Read what the last run wrote of waiting messages; nothing where it cannot be read."""
    if not bucket or not key:
        return 0, ()
    try:
        raw = json.loads(s3.get_object(Bucket=bucket, Key=key)["Body"].read())
        found = [(one["message_id"], int(one["waiting"])) for one in raw["blockers"]]
        # Nothing but ids goes into a notice, whatever the file holds.
        if not all(_MESSAGE_ID.fullmatch(message_id) for message_id, _ in found):
            return 0, ()
        return int(raw["waiting"]), tuple(found)
    except (ClientError, ValueError, KeyError, TypeError):
        return 0, ()


def console_link(region: str, bucket: str, folder: str) -> str:
    """Return the address of a folder in the S3 console, which asks for a sign-in."""
    return f"{_console(region)}/s3/buckets/{bucket}?region={region}&prefix={folder}"


def log_link(region: str, group: str, run_id: str) -> str:
    """Return the address of a run's log in the CloudWatch console, which asks for a sign-in."""
    place = f"log-groups/log-group/{_twice_quoted(group)}/log-events/{_twice_quoted(run_id)}"
    return f"{_console(region)}/cloudwatch/home?region={region}#logsV2:{place}"


def _console(region: str) -> str:
    domain = next((d for prefix, d in _CONSOLES.items() if region.startswith(prefix)), _CONSOLE)
    return f"https://{region}.{domain}"


def _twice_quoted(text: str) -> str:
    """Quote as the CloudWatch console does behind ``#``."""
    return quote(quote(text, safe=""), safe="").replace("%", "$")


def _failed_run(detail: Mapping[str, Any], environment: Mapping[str, str]) -> tuple[str, str]:
    """Say which run failed and where its log is.

    The event's own message is not sent on: an exception's text may quote a message.
    """
    state, run = detail["state"], detail["jobRunId"]
    lines = [f"Job: {detail['jobName']}", f"Run: {run}", f"State: {state}"]
    if (code := _EXIT_CODE.search(detail.get("message", ""))) and code[1] in _MEANINGS:
        lines.append(f"Exit code: {code[1]}, {_MEANINGS[code[1]]}")
    if group := environment.get("SPARK_JOB_LOG_GROUP"):
        lines.append(f"Log: {log_link(environment['AWS_REGION'], group, run)}")
    text = "\n".join([*lines, "", "Nothing is lost: the next run, or the same one again, goes on."])
    return f"The scheduled run over the parked queue ended as {state}", text


_EXIT_CODE = re.compile(r"\bended with exit code ([0-9]{1,3})\b")
_MEANINGS = {
    "1": "Spark itself failed",
    "2": "bad arguments or input, or a drain that was stopped by an error",
    "3": "stopped by the canary",
    "4": "some messages could not be sent",
}
"""Of the exit codes of the job; ``glue_job`` names the code, and no other word of it is used."""


def _publish(subject: str, text: str) -> None:
    _client("sns").publish(TopicArn=os.environ["TOPIC_ARN"], Subject=subject, Message=text)


@cache
def _client(service: str) -> Any:  # noqa: ANN401 - one of five clients
    return boto3.client(service, config=Config(connect_timeout=5, read_timeout=10))  # type: ignore[call-overload]
