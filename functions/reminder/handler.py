"""Publishes a daily notice while messages are parked, or a group is stopped, regressed or new.

A CloudWatch alarm notifies only when its state changes. This function repeats the notice every day.
It also notifies of failed runs of the scheduled Spark job, which no metric shows. For alarms it
publishes how long ago the schedule started the job, and how old a parked message can be.
"""

import json
import os
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

from dlq_replay.measures import (
    MAIN_QUEUE_DIMENSION,
    NAMESPACE,
    SERVICE,
    SERVICE_DIMENSION,
    Measurement,
    Metric,
    metric_lines,
)

if TYPE_CHECKING:
    from mypy_boto3_cloudwatch import CloudWatchClient
    from mypy_boto3_cloudwatch.type_defs import (
        MetricDataQueryTypeDef,
        MetricStatTypeDef,
        MetricTypeDef,
    )
    from mypy_boto3_glue import GlueClient
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.literals import QueueAttributeNameType

SUBJECT_MAX_CHARACTERS = 100
"""SNS refuses a longer subject: SNS API reference, Publish."""

LOOK_BACK = timedelta(days=15)
"""CloudWatch keeps values with a period of a minute for 15 days."""

MINUTE_SECONDS = 60
LONGEST_GAP = timedelta(minutes=10)
"""A queue that has messages publishes their number each minute. After a longer gap it was empty."""

DAY_SECONDS = 86_400

_REPORT = "report.html"
_MOST_FOLDERS = 20
"""How many folders are searched for the newest report."""

NEW_FOR = timedelta(hours=25)
"""How long a group is new: a notice comes once a day, not to the second."""

_MOST_GROUPS = 20
"""Groups that a notice names, at most."""

_NAMED = ("stopped", "regressed", "new")
"""Statuses of groups that a notice names, in its order."""

_MESSAGE_ID = re.compile(r"[A-Za-z0-9-]{1,100}")
_GROUP_ID = re.compile(r"g-[0-9a-f]{10}")

_COUNTS: "tuple[QueueAttributeNameType, ...]" = (
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
)
_COUNT_METRICS = ("ApproximateNumberOfMessagesVisible", "ApproximateNumberOfMessagesNotVisible")
_CONSOLES = {
    "aws": "console.aws.amazon.com",
    "aws-cn": "console.amazonaws.cn",
    "aws-us-gov": "console.amazonaws-us-gov.com",
}
"""Host names by partition. In another partition a notice has names instead of links."""


@dataclass(frozen=True, slots=True)
class Groups:
    """The groups of the last analysis that a notice names.

    Attributes:
        named: status, id and number of messages of each, in the order of the notice: by status, and
            then the most messages first. New are those that an analysis listed for the first time
            within ``NEW_FOR``.
    """

    named: tuple[tuple[str, str, int], ...] = ()

    @property
    def title(self) -> str:
        """How many there are: ``1 stopped, 1 regressed and 2 new groups``; empty for none."""
        counts = Counter(status for status, *_ in self.named)
        *others, last = [f"{count} {status}" for status, count in counts.items()] or [""]
        text = f"{', '.join(others)} and {last}" if others else last
        return text and f"{text} group{'' if counts.total() == 1 else 's'}"

    @property
    def lines(self) -> list[str]:
        """One line for each, and one for those that are left out."""
        lines = [
            f"  {group_id}  {status}, {n} message{'' if n == 1 else 's'}"
            for status, group_id, n in self.named
        ]
        left_out = len(lines) - _MOST_GROUPS
        more = [f"  and {left_out} more: see dlq groups"] if left_out > 0 else []
        return lines[:_MOST_GROUPS] + more


@dataclass(frozen=True, slots=True)
class Waiting:
    """Messages that wait for a decision.

    Attributes:
        main_queue: name of the main queue.
        parked: approximate number of messages in the parked queue.
        pending: messages in the archive without a decision, at the end of the last run of the
            job; None if no run in the last 15 days recorded it.
        oldest_pending_seconds: how long the oldest of them has waited; None as above.
        report: URL of the newest report, or its S3 URI; None if there is none.
        blocked: pending messages of a FIFO queue that wait behind another of their message group.
        blockers: ids of the messages that most others wait for, each with the number of others.
        groups: what the last analysis found; None where none left a record.
        drained_at: when the last run that emptied the parked queue began; None as above.
    """

    main_queue: str
    parked: int
    pending: int | None = None
    oldest_pending_seconds: int | None = None
    report: str | None = None
    blocked: int = 0
    blockers: tuple[tuple[str, int], ...] = ()
    groups: Groups | None = None
    drained_at: datetime | None = None

    @property
    def is_due(self) -> bool:
        """Whether somebody has to know.

        Groups of other statuses were named before, and the alarm on pending
        messages still stands. What is in the parked queue no analysis has seen.
        """
        if self.groups is None:
            return self.total > 0
        return self.parked > 0 or bool(self.groups.title)

    @property
    def total(self) -> int:
        """How many messages wait, in the parked queue and in the archive."""
        return self.parked + (self.pending or 0)

    @property
    def subject(self) -> str:
        """The subject of the notice: how many groups need somebody, or how many messages wait."""
        what, does = f"{self.total} dead letters", " wait for you"
        if self.groups and self.groups.title:
            what, does = f"{self.groups.title} of dead letters", ""
        subject = f"{what} of {self.main_queue}{does}"
        return subject if len(subject) <= SUBJECT_MAX_CHARACTERS else f"{what}{does}"

    @property
    def text(self) -> str:
        """The notice: counts, the newest report, and what to do. Without any part of a message."""
        lines = [f"Main queue: {self.main_queue}", f"In the parked queue: {self.parked}"]
        if self.pending is not None:
            days = (self.oldest_pending_seconds or 0) // DAY_SECONDS
            age = f", the oldest for {days} days" if days else ""
            lines.append(f"Pending in the archive: {self.pending}{age}")
        if self.blocked:
            most = ", ".join(f"{message_id} ({count})" for message_id, count in self.blockers)
            lines.append(
                f"Of them, {self.blocked} wait behind an earlier message of their message group, "
                f"which comes first: {most}"
            )
        if self.groups and self.groups.title:
            lines += [f"In the last analysis: {self.groups.title}", *self.groups.lines]
            if self.groups.named[0][0] == "stopped":
                lines.append(_OF_STOPPED)
        if self.report is not None:
            lines.append(f"Latest report: {self.report}")
        until = _UNTIL_NOTHING_WAITS if self.groups is None else _UNTIL_NO_GROUP_IS_NEW
        return "\n".join([*lines, "", _ADVICE, until])


_ADVICE = """\
What to do, each with --stack and the name of the stack:
  dlq collect                 archives what is in the parked queue, and groups it by what failed
  dlq groups                  shows the groups
  dlq redrive --group ID      shows what a redrive of a group would do, and says how to do it
  dlq decide ID discard       says in the plan that a group is written off; dlq redrive does it
  dlq decide ID --resolved    says that a group is fixed; what is parked later makes it regressed"""

_OF_STOPPED = (
    "Stopped: too much of a redrive came back. Nothing more of the group is sent until somebody "
    "decides again: dlq decide ID redrive"
)
_UNTIL_NOTHING_WAITS = "This notice comes once a day until nothing waits."
_UNTIL_NO_GROUP_IS_NEW = (
    "This notice comes once a day while messages are in the parked queue, or a group is "
    "stopped, regressed or new."
)


def lambda_handler(event: Mapping[str, Any], context: object) -> None:
    """Publish what waits, if anything does; or publish that a run of the Spark job failed.

    Args:
        event: a scheduled event, or a "Glue Job State Change".
        context: Lambda's own; not used.

    Raises:
        ClientError, BotoCoreError: a count could not be read, or the notice could not be published.
            Lambda retries.
    """
    del context
    if event.get("detail-type") == "Glue Job State Change":
        _publish(*_failed_run(event["detail"], os.environ))
        return
    if job := os.environ.get("SPARK_JOB"):
        age = datetime.now(UTC) - last_scheduled_start(_client("glue"), job)
        _print_metric(Metric.LAST_RUN_AGE_SECONDS, age)
    waiting = read_waiting(_client("sqs"), _client("cloudwatch"), _client("s3"), os.environ)
    if waiting.parked:
        queue = os.environ["PARKED_QUEUE_URL"].rpartition("/")[2]
        age = oldest_parked(_client("cloudwatch"), queue, waiting.drained_at)
        _print_metric(Metric.OLDEST_PARKED_SECONDS, age)
    if waiting.is_due:
        _publish(waiting.subject, waiting.text)


def read_waiting(
    sqs: "SQSClient",
    cloudwatch: "CloudWatchClient",
    s3: "S3Client",
    environment: Mapping[str, str],
) -> Waiting:
    """Return what waits now."""
    main_queue, bucket = environment["MAIN_QUEUE_NAME"], environment.get("ARCHIVE_BUCKET")
    status = _read_json(s3, bucket, environment.get("STATUS_KEY"))
    folder = _newest_report(s3, bucket, environment.get("REPORTS_PREFIX", ""))
    parked_queue_url = environment["PARKED_QUEUE_URL"]
    counts = sqs.get_queue_attributes(QueueUrl=parked_queue_url, AttributeNames=_COUNTS)
    return Waiting(
        main_queue,
        sum(int(counts["Attributes"][name]) for name in _COUNTS),
        _latest(cloudwatch, Metric.PENDING_MESSAGES, main_queue),
        _latest(cloudwatch, Metric.OLDEST_PENDING_SECONDS, main_queue),
        place_of_folder(environment["TOPIC_ARN"], bucket, folder) if bucket and folder else None,
        *_blocked(status),
        _groups(s3, bucket, environment.get("SEEN_PREFIX"), folder),
        _drained_at(status),
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


def oldest_parked(
    cloudwatch: "CloudWatchClient", queue: str, drained_at: datetime | None
) -> timedelta:
    """Return how long a message can have been in the parked queue, at most.

    A message came after the queue was last empty, and after the start of the last run that emptied
    it: messages may come faster than the counts show. SQS's own age of the oldest leaves out what
    was received three times.

    Args:
        cloudwatch: a client of the queue's account and Region.
        queue: the name of the parked queue.
        drained_at: when the last run that emptied it began; None if none did.
    """
    now = datetime.now(UTC)
    times = set()
    for page in cloudwatch.get_paginator("get_metric_data").paginate(
        MetricDataQueries=[
            _query(f"of{number}", "AWS/SQS", name, {"QueueName": queue})
            for number, name in enumerate(_COUNT_METRICS)
        ],
        StartTime=now - LOOK_BACK,
        EndTime=now,
    ):
        for result in page["MetricDataResults"]:
            counts = zip(result["Timestamps"], result["Values"], strict=True)
            times |= {time for time, count in counts if count}
    since = now
    for time in sorted(times, reverse=True):
        if since - time > LONGEST_GAP:
            break
        since = time
    return now - max(since, drained_at or since)


def _print_metric(metric: Metric, age: timedelta) -> None:
    dimensions = {SERVICE_DIMENSION: SERVICE, MAIN_QUEUE_DIMENSION: os.environ["MAIN_QUEUE_NAME"]}
    measurement = Measurement(metric.value, metric.unit, (max(0, int(age.total_seconds())),))
    for line in metric_lines([measurement], dimensions, datetime.now(UTC).timestamp()):
        print(line)  # noqa: T201 - Lambda hands standard output to CloudWatch


def _latest(cloudwatch: "CloudWatchClient", metric: Metric, main_queue: str) -> int | None:
    now = datetime.now(UTC)
    dimensions = {SERVICE_DIMENSION: SERVICE, MAIN_QUEUE_DIMENSION: main_queue}
    answer = cloudwatch.get_metric_data(
        MetricDataQueries=[_query("latest", NAMESPACE, metric.value, dimensions)],
        StartTime=now - LOOK_BACK,
        # Includes the current minute.
        EndTime=now + timedelta(seconds=MINUTE_SECONDS),
        ScanBy="TimestampDescending",
    )
    values = answer["MetricDataResults"][0]["Values"]
    return int(values[0]) if values else None


def _query(
    query_id: str, namespace: str, name: str, dimensions: Mapping[str, str]
) -> "MetricDataQueryTypeDef":
    metric: MetricTypeDef = {
        "Namespace": namespace,
        "MetricName": name,
        "Dimensions": [{"Name": key, "Value": value} for key, value in dimensions.items()],
    }
    # The shortest period, so that the newest value is that of the last run.
    stat: MetricStatTypeDef = {"Metric": metric, "Period": MINUTE_SECONDS, "Stat": "Maximum"}
    return {"Id": query_id, "MetricStat": stat}


def _newest_report(s3: "S3Client", bucket: str | None, prefix: str) -> str | None:
    """Return the prefix of the newest report. The ids of reports sort by time."""
    if not bucket:
        return None
    pages = s3.get_paginator("list_objects_v2").paginate(
        Bucket=bucket, Prefix=prefix, Delimiter="/"
    )
    folders = [one["Prefix"] for page in pages for one in page.get("CommonPrefixes", [])]
    # An analysis that failed, or wrote its report elsewhere, leaves a folder without a report.
    for folder in sorted(folders, reverse=True)[:_MOST_FOLDERS]:
        found = s3.list_objects_v2(Bucket=bucket, Prefix=f"{folder}{_REPORT}", MaxKeys=1)
        if found.get("KeyCount"):
            return folder
    return None


def _groups(
    s3: "S3Client", bucket: str | None, prefix: str | None, folder: str | None
) -> Groups | None:
    """Return what the analysis of the newest report found; None if it left nothing readable."""
    if not prefix or not folder:
        return None
    report_id = folder.rstrip("/").rpartition("/")[2]
    raw, now = _read_json(s3, bucket, f"{prefix}{report_id}.json"), datetime.now(UTC)
    found = []
    try:
        for group_id, group in raw["groups"].items():
            status = group["status"]
            if status in ("new", "known"):
                is_new = now - datetime.fromisoformat(group["first_seen_at"]) < NEW_FOR
                status = "new" if is_new else "known"
            # Only ids may go into a notice, whatever the file contains.
            if status in _NAMED and _GROUP_ID.fullmatch(group_id):
                found.append((status, group_id, int(group["count"])))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    found.sort(key=lambda one: (_NAMED.index(one[0]), -one[2], one[1]))
    return Groups(tuple(found))


def _read_json(s3: "S3Client", bucket: str | None, key: str | None) -> Any:  # noqa: ANN401 - JSON
    """Return what an object of the archive holds; None if nothing readable is there."""
    if not bucket or not key:
        return None
    try:
        return json.loads(s3.get_object(Bucket=bucket, Key=key)["Body"].read())
    except (ClientError, ValueError):
        return None


def _drained_at(status: Any) -> datetime | None:  # noqa: ANN401 - JSON
    try:
        return datetime.fromisoformat(status["drained_at"]).astimezone(UTC)
    except (ValueError, KeyError, TypeError):
        return None


def _blocked(status: Any) -> tuple[int, tuple[tuple[str, int], ...]]:  # noqa: ANN401 - JSON
    """Return ``blocked`` and ``blockers`` as the last run wrote them; 0 and () if unreadable."""
    try:
        found = [(one["message_id"], int(one["waiting"])) for one in status["blockers"]]
        # Only ids may go into a notice, whatever the file contains.
        if not all(_MESSAGE_ID.fullmatch(message_id) for message_id, _ in found):
            return 0, ()
        return int(status["waiting"]), tuple(found)
    except (ValueError, KeyError, TypeError):
        return 0, ()


def place_of_folder(topic_arn: str, bucket: str, folder: str) -> str:
    """Return the URL of a folder in the S3 console, or its S3 URI where no console is known.

    Args:
        topic_arn: an ARN of the same Region.
        bucket: the name of the bucket.
        folder: the prefix, with the slash at its end.
    """
    _, partition, _, region, *_ = topic_arn.split(":")
    domain = _CONSOLES.get(partition)
    if domain is None:
        return f"s3://{bucket}/{folder}"
    return f"https://{region}.{domain}/s3/buckets/{bucket}?region={region}&prefix={folder}"


def _failed_run(detail: Mapping[str, Any], environment: Mapping[str, str]) -> tuple[str, str]:
    """Return subject and text of the notice: which run failed, and the stream of its log.

    The event's own message is not forwarded: the text of an exception may quote a message.
    """
    state, run = detail["state"], detail["jobRunId"]
    lines = [f"Job: {detail['jobName']}", f"Run: {run}", f"State: {state}"]
    if (code := _EXIT_CODE.search(detail.get("message", ""))) and code[1] in _MEANINGS:
        lines.append(f"Exit code: {code[1]}, {_MEANINGS[code[1]]}")
    if group := environment.get("SPARK_JOB_LOG_GROUP"):
        lines.append(f"Log: {run} in {group}")
    text = "\n".join([*lines, "", "No message is lost: the next run continues."])
    return f"The scheduled run over the parked queue ended as {state}", text


_EXIT_CODE = re.compile(r"\bended with exit code ([0-9]{1,3})\b")
_MEANINGS = {
    "1": "Spark itself failed",
    "2": "bad arguments or input, or a drain that was stopped by an error",
    "3": "stopped by a bad step",
    "4": "some messages could not be sent",
}
"""Exit codes of the job. Of the event's message, only the code that ``glue_job`` wrote is used."""


def _publish(subject: str, text: str) -> None:
    _client("sns").publish(TopicArn=os.environ["TOPIC_ARN"], Subject=subject, Message=text)


@cache
def _client(service: str) -> Any:  # noqa: ANN401 - one of five clients
    return boto3.client(service, config=Config(connect_timeout=5, read_timeout=10))  # type: ignore[call-overload]
