"""Publishes a daily notice while messages are parked, or a group is halted, regressed or new.

A CloudWatch alarm notifies only when its state changes. This function repeats the notice every day.
It also notifies of failed runs of the scheduled Spark job, which no metric shows. For alarms it
publishes how long ago the schedule started the job, and how old a parked message can be.
"""

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

from dlq_replay.aws.answers import with_checked_answers
from dlq_replay.replaying.measures import (
    MAIN_QUEUE_DIMENSION,
    QUEUE_TAG_DIMENSION,
    Measured,
    Metric,
    publish,
)

if TYPE_CHECKING:
    from mypy_boto3_cloudwatch import CloudWatchClient
    from mypy_boto3_cloudwatch.type_defs import MetricDataQueryTypeDef
    from mypy_boto3_glue import GlueClient
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.literals import QueueAttributeNameType

SUBJECT_MAX_CHARACTERS = 100
"""SNS refuses a longer subject: SNS API reference, Publish."""

LOOK_BACK = timedelta(days=15)
"""CloudWatch keeps values with a period of a minute for 15 days."""

LONGEST_GAP = timedelta(minutes=10)
"""A queue that has messages publishes their number each minute. After a longer gap it was empty."""

NEW_FOR = timedelta(hours=25)
"""Time for which a group is new: a notice comes once a day, not to the second."""

_MOST_GROUPS = 20
"""Groups that a notice names, at most."""

_NAMED = ("halted", "regressed", "new")
"""Statuses of groups that a notice names, in its order."""

_MESSAGE_ID = re.compile(r"[A-Za-z0-9-]{1,100}")
_GROUP_ID = re.compile(r"g-[0-9a-f]{10}")

_COUNTS: "tuple[QueueAttributeNameType, ...]" = (
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
)
_COUNT_METRICS = ("ApproximateNumberOfMessagesVisible", "ApproximateNumberOfMessagesNotVisible")


_WORDS = {MAIN_QUEUE_DIMENSION: "Main queue", QUEUE_TAG_DIMENSION: "Queues with the tag"}
"""The queues of a notice, by the dimension of their metrics."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Messages that wait for a decision.

    Attributes:
        dimension: the dimension of the stack's metrics: of a main queue, or of a fleet's tag.
        queues: the name of the main queue, or the value of the tag.
        parked: approximate number of messages in the parked queues.
        groups: groups of the last analysis that a notice names: status, id and number of messages,
            in the order of the notice. None where no analysis left a record.
        pending: messages in the archive without a decision, at the end of the last run of the
            job; None where no run left a record.
        oldest_pending_seconds: how long the oldest of them had waited then.
        blocked: pending messages of a FIFO queue that wait behind another of their message group.
        blockers: ids of the messages that most others wait for, each with the number of others.
        drained_at: when the last run that emptied the parked queue began; None as above.
    """

    dimension: str
    queues: str
    parked: int
    groups: Sequence[tuple[str, str, int]] | None = None
    pending: int | None = None
    oldest_pending_seconds: int = 0
    blocked: int = 0
    blockers: Sequence[tuple[str, int]] = ()
    drained_at: datetime | None = None

    @property
    def is_due(self) -> bool:
        """True if a notice is due, also for parked messages, which no earlier notice named.

        Groups of other statuses were named before.
        """
        if self.parked > 0:
            return True
        if self.groups is None:
            return bool(self.pending)
        return bool(self.groups)

    @property
    def title(self) -> str:
        """The number of groups by status: ``1 halted, 2 new``; empty for none."""
        counts = Counter(status for status, *_ in self.groups or ())
        return ", ".join(f"{count} {status}" for status, count in counts.items())

    @property
    def subject(self) -> str:
        """The subject of the notice: the number of groups to decide about, or of messages."""
        if self.groups:
            waiting = f"{self.title}: groups of dead letters"
        else:
            waiting = f"{self.parked + (self.pending or 0)} dead letters wait"
        words = _WORDS[self.dimension].lower()
        return f"{waiting}, {words} {self.queues}"[:SUBJECT_MAX_CHARACTERS]

    @property
    def text(self) -> str:
        """The notice: counts, groups, and what to do. Without any part of a message."""
        words = _WORDS[self.dimension]
        lines = [f"{words}: {self.queues}", f"In the parked queue: {self.parked}"]
        if self.pending is not None:
            days = self.oldest_pending_seconds // 86_400
            age = f", the oldest for {days} days" if days else ""
            lines.append(f"Pending in the archive: {self.pending}{age}")

        if self.blocked:
            most = ", ".join(f"{message_id} ({count})" for message_id, count in self.blockers)
            lines.append(
                f"Of them, {self.blocked} wait behind an earlier message of their message group, "
                f"which comes first: {most}"
            )

        if self.groups:
            lines.append(f"Groups of the last analysis, with their messages: {self.title}")
            shown = self.groups[:_MOST_GROUPS]
            lines += [f"  {group_id}  {status}, {count}" for status, group_id, count in shown]
            if len(self.groups) > len(shown):
                lines.append(f"  and {len(self.groups) - len(shown)} more: see dlq groups")
            if self.groups[0][0] == "halted":
                lines.append(_OF_HALTED)

        return "\n".join([*lines, "", _ADVICE])


_ADVICE = """\
What to do, each with --stack and the name of the stack:
  dlq collect                 archives what is in the parked queue, and groups it by what failed
  dlq groups                  shows the groups
  dlq redrive --group ID      shows what a redrive of a group would do, and says how to do it
  dlq decide ID discard       says in the plan that a group is written off; dlq redrive does it
  dlq decide ID --resolved    says that a group is fixed; what is parked later makes it regressed
This notice comes once a day while messages are in the parked queue, a group is halted, regressed
or new, or messages wait that nothing has grouped."""

_OF_HALTED = (
    "Halted: too much of a redrive failed again. Nothing more of the group is sent until somebody "
    "decides again: dlq decide ID redrive"
)


def lambda_handler(event: Mapping[str, Any], context: object) -> None:
    """Publish a notice of waiting messages, if there are any, or of a failed run of the Spark job.

    *event* is a scheduled event, or a "Glue Job State Change". Lambda retries after an exception: a
    count could not be read, or the notice could not be published.
    """
    del context
    if event.get("detail-type") == "Glue Job State Change":
        _publish(*_failed_run(event["detail"]))
        return

    job = os.environ.get("SPARK_JOB")
    if job:
        age = datetime.now(UTC) - last_scheduled_start(_client("glue"), job)
        _print_metric(Metric.LAST_RUN_AGE_SECONDS, age)

    waiting = read_waiting(_client("sqs"), _client("s3"), os.environ)
    if waiting.parked:
        ages = []
        for url in _parked_queue_urls(os.environ):
            queue = url.rpartition("/")[2]
            ages.append(oldest_parked(_client("cloudwatch"), queue, waiting.drained_at))
        _print_metric(Metric.OLDEST_PARKED_SECONDS, max(ages))
    if waiting.is_due:
        _publish(waiting.subject, waiting.text)


def read_waiting(sqs: "SQSClient", s3: "S3Client", environment: Mapping[str, str]) -> Waiting:
    """Read the numbers of waiting messages and the groups of the last analysis."""
    parked = 0
    for url in _parked_queue_urls(environment):
        counts = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=_COUNTS)["Attributes"]
        parked += sum(int(counts[name]) for name in _COUNTS)
    dimension, queues = _dimension(environment)
    waiting = Waiting(dimension, queues, parked)
    bucket = environment.get("ARCHIVE_BUCKET")
    if not bucket:
        return waiting

    status = _read_json(s3, bucket, environment["STATUS_KEY"])
    newest_key = ""
    pages = s3.get_paginator("list_objects_v2").paginate(
        Bucket=bucket, Prefix=environment["SEEN_PREFIX"]
    )
    for page in pages:
        for listed in page.get("Contents", ()):
            # The ids of reports, and so these keys, sort by time.
            newest_key = max(newest_key, listed["Key"])

    groups = _groups(_read_json(s3, bucket, newest_key)) if newest_key else None
    return replace(waiting, groups=groups, **_of_last_run(status))


def _parked_queue_urls(environment: Mapping[str, str]) -> list[str]:
    """Return the URLs of the parked queues: of a fleet with FIFO queues two, else one."""
    fifo_url = environment.get("FIFO_PARKED_QUEUE_URL")
    standard_url = environment["PARKED_QUEUE_URL"]
    return [standard_url, fifo_url] if fifo_url else [standard_url]


def _dimension(environment: Mapping[str, str]) -> tuple[str, str]:
    """Return name and value of the dimension of the stack's metrics."""
    tag = environment.get("QUEUE_TAG")
    if tag:
        return QUEUE_TAG_DIMENSION, tag
    return MAIN_QUEUE_DIMENSION, environment["MAIN_QUEUE_NAME"]


def last_scheduled_start(glue: "GlueClient", job: str) -> datetime:
    """Return the time when a trigger last started the job; else the time of the job's creation.

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
    """Return the longest time that a message can have been in the parked queue.

    A message came after the queue was last empty, and after the start of the last run that emptied
    it: messages may come faster than the counts show. SQS's own age of the oldest message leaves
    out messages that were received three times.

    *drained_at* is when the last run that emptied it began; None if none did.
    """
    now = datetime.now(UTC)
    queries = [_query(number, metric, queue) for number, metric in enumerate(_COUNT_METRICS)]
    pages = cloudwatch.get_paginator("get_metric_data").paginate(
        MetricDataQueries=queries, StartTime=now - LOOK_BACK, EndTime=now
    )
    times_with_messages: set[datetime] = set()
    for page in pages:
        for result in page["MetricDataResults"]:
            for time, count in zip(result["Timestamps"], result["Values"], strict=True):
                if count:
                    times_with_messages.add(time)

    since = now
    for time in sorted(times_with_messages, reverse=True):
        if since - time > LONGEST_GAP:
            break
        since = time
    return now - max(since, drained_at or since)


def _query(number: int, metric: str, queue: str) -> "MetricDataQueryTypeDef":
    return {
        "Id": f"of{number}",
        "MetricStat": {
            "Metric": {
                "Namespace": "AWS/SQS",
                "MetricName": metric,
                "Dimensions": [{"Name": "QueueName", "Value": queue}],
            },
            "Period": 60,
            "Stat": "Maximum",
        },
    }


def _print_metric(metric: Metric, age: timedelta) -> None:
    measured: Measured = {metric: [max(0, int(age.total_seconds()))]}
    dimension, value = _dimension(os.environ)
    publish(measured, dimension, value, datetime.now(UTC).timestamp())


def _groups(seen: Any) -> list[tuple[str, str, int]] | None:  # noqa: ANN401 - JSON
    """Return the groups that a notice names from an analysis's record; None if it is unreadable."""
    now = datetime.now(UTC)
    groups = []
    try:
        for group_id, group in seen["groups"].items():
            status = group["status"]
            if status in ("new", "known"):
                is_new = now - datetime.fromisoformat(group["first_seen_at"]) < NEW_FOR
                status = "new" if is_new else "known"
            # Only ids may go into a notice, whatever the file contains.
            if status in _NAMED and _GROUP_ID.fullmatch(group_id):
                groups.append((status, group_id, int(group["count"])))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return sorted(groups, key=lambda group: (_NAMED.index(group[0]), -group[2], group[1]))


def _of_last_run(status: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """Return the fields of ``Waiting`` that the last run wrote; none if a part is unreadable."""
    try:
        blockers = []
        for blocker in status["blockers"]:
            # Only ids may go into a notice, whatever the file contains.
            if not _MESSAGE_ID.fullmatch(blocker["message_id"]):
                return {}
            blockers.append((blocker["message_id"], int(blocker["waiting"])))

        drained_at = status["drained_at"]
        return {
            "pending": int(status["pending"]["messages"]),
            "oldest_pending_seconds": int(status["pending"]["oldest_seconds"]),
            "blocked": int(status["waiting"]),
            "blockers": blockers,
            "drained_at": drained_at and datetime.fromisoformat(drained_at).astimezone(UTC),
        }
    except (ValueError, KeyError, TypeError):
        return {}


def _read_json(s3: "S3Client", bucket: str, key: str) -> Any:  # noqa: ANN401 - JSON
    """Read an object of the archive; None if it is absent or unreadable."""
    try:
        return json.loads(s3.get_object(Bucket=bucket, Key=key)["Body"].read())
    except (ClientError, ValueError):
        return None


def _failed_run(detail: Mapping[str, Any]) -> tuple[str, str]:
    """Return subject and text of the notice, with the run that failed and its exit code.

    The event's own message is not forwarded: the text of an exception may quote a message.
    """
    state = detail["state"]
    lines = [f"Job: {detail['jobName']}", f"Run: {detail['jobRunId']}", f"State: {state}"]
    match = _EXIT_CODE.search(detail.get("message", ""))
    if match and match[1] in _MEANINGS:
        lines.append(f"Exit code: {match[1]}, {_MEANINGS[match[1]]}")
    text = "\n".join([*lines, "", "No message is lost: the next run continues."])
    return f"The scheduled run over the parked queue ended as {state}", text


_EXIT_CODE = re.compile(r"\bended with exit code ([0-9]{1,3})\b")
_MEANINGS = {
    "1": "Spark itself failed",
    "2": "bad arguments or input, or a drain that was stopped by an error",
    "3": "too much of a redrive failed again",
    "4": "some messages could not be sent",
}
"""Exit codes of the job. Of the event's message, only the code that ``glue_job`` wrote is used."""


def _publish(subject: str, text: str) -> None:
    _client("sns").publish(TopicArn=os.environ["TOPIC_ARN"], Subject=subject, Message=text)


@cache
def _client(service: str) -> Any:  # noqa: ANN401 - one of five clients
    make: Callable[..., Any] = with_checked_answers(boto3.session.Session()).client
    return make(service, config=Config(connect_timeout=5, read_timeout=10))
