"""Publishes a daily notice while messages are parked, or a group is halted, regressed or new.

A CloudWatch alarm notifies only when its state changes. This function repeats the notice every day.
E-mail gets plain text, chat the same in a code block. What it says of a group is what its report
shows, and no values of messages unless the stack's reports show them.

It also notifies of failed runs of the scheduled Spark job, which no metric shows. For alarms it
publishes how long ago the schedule started the job, and how old a parked message can be.
"""

import json
import os
import re
import textwrap
from collections import Counter, defaultdict
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

DESCRIPTION_MAX_CHARACTERS = 8_000
"""Amazon Q Developer in chat applications takes no longer description: "Custom notifications"."""

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

_MOST_QUEUES = 20
"""Source queues that a notice names, at most."""

_MOST_REPORTS = 10
"""Reports that are read for the texts of groups, at most: the newest."""

_LINE_CHARACTERS = 160
"""Characters of a text from the archive that a notice shows: a title of a report has no more."""

_COLUMNS = 80
"""Width of an e-mail."""

_NOT_KNOWN = "not known"
"""Shown in place of the source queue of a group that has none, or several."""

_MESSAGE_ID = re.compile(r"[A-Za-z0-9-]{1,100}")
_GROUP_ID = re.compile(r"g-[0-9a-f]{10}")
_REPORT_ID = re.compile(r"[0-9A-Za-z-]{1,60}")

_COUNTS: "tuple[QueueAttributeNameType, ...]" = (
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
)
_COUNT_METRICS = ("ApproximateNumberOfMessagesVisible", "ApproximateNumberOfMessagesNotVisible")


_WORDS = {MAIN_QUEUE_DIMENSION: "Main queue", QUEUE_TAG_DIMENSION: "Queues with the tag"}
"""The queues of a notice, by the dimension of their metrics."""


@dataclass(frozen=True, slots=True)
class Group:
    """A group of dead letters with pending messages.

    Attributes:
        status: a notice names the group if this is one of ``_NAMED``.
        count: its messages at the last analysis.
        report_id: the report that has its texts.
        title, difference: its words in that report; empty if not known, or not to be shown.
        queue: the name of its source queue; empty if it is not known.
    """

    status: str
    group_id: str
    count: int
    first_seen_at: datetime
    report_id: str
    title: str = ""
    difference: str = ""
    queue: str = ""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Messages that wait for a decision.

    Attributes:
        dimension: the dimension of the stack's metrics: of a main queue, or of a fleet's tag.
        queues: the name of the main queue, or the value of the tag.
        stack: the name of the stack.
        parked: approximate number of messages in the parked queues.
        groups: groups of the last analysis. None where no analysis left a record.
        pending: messages in the archive without a decision, at the end of the last run of the
            job; None where no run left a record.
        oldest_pending_seconds: how long the oldest of them had waited then.
        blocked: pending messages of a FIFO queue that wait behind another of their message group.
        blockers: ids of the messages that most others wait for, each with the number of others.
        drained_at: when the last run that emptied the parked queue began; None as above.
    """

    dimension: str
    queues: str
    stack: str
    parked: int
    groups: Sequence[Group] | None = None
    pending: int | None = None
    oldest_pending_seconds: int = 0
    blocked: int = 0
    blockers: Sequence[tuple[str, int]] = ()
    drained_at: datetime | None = None

    @property
    def named(self) -> list[Group]:
        """The groups that a notice names, in its order."""
        named = [group for group in self.groups or () if group.status in _NAMED]
        return sorted(
            named, key=lambda group: (_NAMED.index(group.status), -group.count, group.group_id)
        )

    @property
    def by_queue(self) -> dict[str, list[Group]]:
        """The groups of each source queue; first the queue with most groups that a notice names.

        Empty for a stack with one queue.
        """
        by_queue = defaultdict[str, list[Group]](list)
        for group in self.groups or ():
            by_queue[group.queue or _NOT_KNOWN].append(group)
        if self.dimension == MAIN_QUEUE_DIMENSION and len(by_queue) == 1:
            return {}

        named = Counter(group.queue or _NOT_KNOWN for group in self.named)
        names = sorted(by_queue, key=lambda name: (-named[name], -_messages(by_queue[name]), name))
        return {name: by_queue[name] for name in names}

    @property
    def is_due(self) -> bool:
        """True if a notice is due, also for parked messages, which no earlier notice named.

        Groups of other statuses were named before.
        """
        if self.parked > 0:
            return True
        if self.groups is None:
            return bool(self.pending)
        return bool(self.named)

    @property
    def title(self) -> str:
        """The number of groups by status: ``1 halted, 2 new``; empty for none."""
        counts = Counter(group.status for group in self.named)
        return ", ".join(f"{count} {status}" for status, count in counts.items())

    @property
    def headline(self) -> str:
        """The number of groups to decide about, or of messages. It has no text of the archive."""
        if self.title:
            return f"{self.title}: groups of dead letters"
        waiting = self.parked + (self.pending or 0)
        return f"{_counted(waiting, 'dead letter')} waiting"

    @property
    def subject(self) -> str:
        """The subject of the notice: the headline, and the queues."""
        words = _WORDS[self.dimension].lower()
        if self.dimension == QUEUE_TAG_DIMENSION and self.named:
            queues = {group.queue for group in self.named}
            words = f"{_counted(len(queues), 'queue')} with the tag"
        return f"{self.headline}, {words} {self.queues}"[:SUBJECT_MAX_CHARACTERS]

    def text(self, most_groups: int = _MOST_GROUPS) -> str:
        """Return the notice: counts, queues, up to *most_groups* groups, and what to do."""
        by_queue = self.by_queue
        parts = [self._counts(), self._queues(by_queue)]
        named = self.named
        if named:
            parts.append("Groups, each with its messages at the last analysis:")
        for group in named[:most_groups]:
            parts.append(self._group(group, names_queue=bool(by_queue)))
        if len(named) > most_groups:
            parts.append(f"and {len(named) - most_groups} more: see dlq groups")
        if named and named[0].status == "halted":
            parts.append(_OF_HALTED)
        parts.append(_ADVICE.format(stack=self.stack))
        return "\n\n".join(filter(None, parts))

    @property
    def description(self) -> str:
        """The notice for chat, with as many groups as fit."""
        for most_groups in range(_MOST_GROUPS, 0, -1):
            description = _for_chat(self.text(most_groups))
            if len(description) <= DESCRIPTION_MAX_CHARACTERS:
                return description
        return _for_chat(self.text(0))

    def _counts(self) -> str:
        lines = [
            f"{_WORDS[self.dimension]}: {self.queues}",
            f"In the parked queue: {self.parked}",
        ]
        if self.pending is not None:
            days = self.oldest_pending_seconds // 86_400
            age = f", the oldest for {days} days" if days else ""
            lines.append(f"Pending in the archive: {self.pending}{age}")

        if self.blocked:
            most = ", ".join(f"{message_id} ({count})" for message_id, count in self.blockers)
            sentence = (
                f"Of them, {self.blocked} wait behind an earlier message of their message group, "
                f"which comes first: {most}"
            )
            lines.append(_wrapped(sentence))
        return "\n".join(lines)

    def _queues(self, by_queue: Mapping[str, Sequence[Group]]) -> str:
        """Return a line for each source queue; empty for none."""
        if not by_queue:
            return ""

        lines = ["Source queues at the last analysis:"]
        for name, groups in list(by_queue.items())[:_MOST_QUEUES]:
            counts = [_counted(len(groups), "group"), _counted(_messages(groups), "message")]
            counts.append(f"{sum(group.status == 'new' for group in groups)} new")
            lines.append(f"  {name}: {', '.join(counts)}")
        if len(by_queue) > _MOST_QUEUES:
            lines.append(f"  and {len(by_queue) - _MOST_QUEUES} more: see dlq groups")
        return "\n".join(lines)

    def _group(self, group: Group, *, names_queue: bool) -> str:
        lines = [_wrapped(f"{group.status}  {group.count:,}  {group.title or group.group_id}")]
        if names_queue:
            lines.append(f"  queue: {group.queue or _NOT_KNOWN}")
        if group.difference:
            lines.append(_wrapped(f"  differs: {group.difference}"))
        lines.append(f"  first seen: {group.first_seen_at:%Y-%m-%d %H:%M} UTC")
        lines.append(f"  dlq redrive --group {group.group_id} --stack {self.stack}")
        return "\n".join(lines)


def _messages(groups: Sequence[Group]) -> int:
    return sum(group.count for group in groups)


def _counted(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def _wrapped(text: str) -> str:
    return textwrap.fill(text, _COLUMNS, subsequent_indent="    ", break_on_hyphens=False)


_ADVICE = """\
What to do, each with --stack {stack}:
  dlq collect               archives and groups what is in the parked queue
  dlq groups                shows the groups
  dlq redrive --group ID    shows what a redrive would do, and says how to do it
  dlq decide ID discard     writes a group off in the plan; dlq redrive does it
  dlq decide ID --resolved  a group is fixed: it is regressed if more is parked

This notice comes once a day while messages are in the parked queue, a group is
halted, regressed or new, or messages wait that nothing has grouped."""

_OF_HALTED = """\
Halted: too much of a redrive failed again. Nothing more of the group is sent
until somebody decides again: dlq decide ID redrive"""

_CHAT_CHARACTERS = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "`": "'"})
"""Slack reads entities within code, too. Nothing else has a meaning there but the backtick."""


def _for_chat(text: str) -> str:
    """Return *text* as a code block of Slack and Teams; it has no link where code is not known."""
    escaped = text.translate(_CHAT_CHARACTERS).replace("](", "] (")
    return f"```\n{escaped}\n```"


def lambda_handler(event: Mapping[str, Any], context: object) -> None:
    """Publish a notice of waiting messages, if there are any, or of a failed run of the Spark job.

    *event* is a scheduled event, or a "Glue Job State Change". Lambda retries after an exception: a
    count could not be read, or the notice could not be published.
    """
    del context
    if event.get("detail-type") == "Glue Job State Change":
        subject, text = _failed_run(event["detail"])
        _publish(subject, text, subject, _for_chat(text))
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
        _publish(waiting.subject, waiting.text(), waiting.headline, waiting.description)


def read_waiting(sqs: "SQSClient", s3: "S3Client", environment: Mapping[str, str]) -> Waiting:
    """Read the numbers of waiting messages and the groups of the last analysis."""
    parked = 0
    for url in _parked_queue_urls(environment):
        counts = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=_COUNTS)["Attributes"]
        parked += sum(int(counts[name]) for name in _COUNTS)
    dimension, queues = _dimension(environment)
    waiting = Waiting(dimension, queues, environment["STACK_NAME"], parked)
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
    if groups is not None:
        groups = _with_texts(s3, environment, groups)
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


def _groups(seen: Any) -> list[Group] | None:  # noqa: ANN401 - JSON
    """Return the groups with pending messages, without texts; None if the record is unreadable."""
    now = datetime.now(UTC)
    groups = []
    try:
        for group_id, group in seen["groups"].items():
            first_seen_at = datetime.fromisoformat(group["first_seen_at"]).astimezone(UTC)
            status = group["status"]
            if status in ("new", "known"):
                status = "new" if now - first_seen_at < NEW_FOR else "known"
            report_id = group["report_id"]
            # Only ids may go into a notice or a key, whatever the file contains.
            is_ours = _GROUP_ID.fullmatch(group_id) and _REPORT_ID.fullmatch(report_id)
            if is_ours and status != "gone":
                count = int(group["count"])
                groups.append(Group(status, group_id, count, first_seen_at, report_id))
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
        return None
    return groups


def _with_texts(
    s3: "S3Client", environment: Mapping[str, str], groups: Sequence[Group]
) -> list[Group]:
    """Return the groups with their texts. A group whose report has none keeps its id alone."""
    shows_values = environment["SHOWS_SAMPLES"] == "true"
    texts: dict[str, dict[str, Any]] = {}
    report_ids = sorted({group.report_id for group in groups})
    for report_id in report_ids[-_MOST_REPORTS:]:
        key = f"{environment['REPORTS_PREFIX']}{report_id}/notice.json"
        record = _read_json(s3, environment["ARCHIVE_BUCKET"], key)
        texts |= _texts(record, shows_values=shows_values)
    return [replace(group, **texts.get(group.group_id, {})) for group in groups]


def _texts(record: Any, *, shows_values: bool) -> dict[str, dict[str, str]]:  # noqa: ANN401 - JSON
    """Return the texts of groups by id, from a report's record; none if it is unreadable.

    Of a report with values of messages only the queues, unless *shows_values*.
    """
    names = ["title", "difference", "queue"]
    texts: dict[str, dict[str, str]] = {}
    try:
        may_have_values = record["shows_values"] is not False
        if may_have_values and not shows_values:
            names = ["queue"]
        for group_id, group in record["groups"].items():
            texts[group_id] = {name: _line(group[name]) for name in names}
    except (KeyError, TypeError, AttributeError):
        return {}
    return texts


def _line(text: object) -> str:
    """Return a text of the archive in one line without control characters, cut if it is long.

    Raises:
        TypeError: it is no text.
    """
    if not isinstance(text, str):
        raise TypeError(type(text).__name__)
    printable = "".join(character if character.isprintable() else " " for character in text)
    line = " ".join(printable.split())
    return line if len(line) <= _LINE_CHARACTERS else f"{line[: _LINE_CHARACTERS - 1]}…"


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
    except (ClientError, ValueError, RecursionError):
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


def _publish(subject: str, text: str, title: str, description: str) -> None:
    """Publish *text*, and to HTTPS a title and a description for chat.

    The schema is that of custom notifications of Amazon Q Developer in chat applications.
    """
    content = {"textType": "client-markdown", "title": title, "description": description}
    chat = {"version": "1.0", "source": "custom", "content": content}
    messages = {"default": text, "email": text, "https": json.dumps(chat)}
    _client("sns").publish(
        TopicArn=os.environ["TOPIC_ARN"],
        Subject=subject,
        Message=json.dumps(messages),
        MessageStructure="json",
    )


@cache
def _client(service: str) -> Any:  # noqa: ANN401 - one of five clients
    make: Callable[..., Any] = with_checked_answers(boto3.session.Session()).client
    return make(service, config=Config(connect_timeout=5, read_timeout=10))
