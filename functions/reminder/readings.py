"""What the function reads for its notices: SQS, CloudWatch, Glue, and records of the archive.

A count that cannot be read is an error. A record of the archive that is absent or unreadable is
left out of the notice, and nothing in a record may be a key of S3 but an id.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from botocore.exceptions import BotoCoreError, ClientError

from dlq_replay.replaying.measures import MAIN_QUEUE_DIMENSION, QUEUE_TAG_DIMENSION
from functions.reminder.notice import (
    NEW_FOR,
    Group,
    QueueStep,
    Redrive,
    Waiting,
    line_of,
    news,
    redrive_state,
)

if TYPE_CHECKING:
    from mypy_boto3_cloudwatch import CloudWatchClient
    from mypy_boto3_cloudwatch.type_defs import MetricDataQueryTypeDef
    from mypy_boto3_glue import GlueClient
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.literals import QueueAttributeNameType

LOOK_BACK = timedelta(days=15)
"""CloudWatch keeps values with a period of a minute for 15 days."""

LONGEST_GAP = timedelta(minutes=10)
"""A queue that has messages publishes their number each minute. After a longer gap it was empty."""

_MOST_REPORTS = 10
"""Reports that are read for the texts of groups, at most: the newest."""

_MOST_BLOCKERS = 5

_MOST_PAGES = 20
"""Pages of 1,000 keys that are listed of the locks or of the steps of a plan, at most."""

_MOST_LOCKS = 10
"""Locks that are read, at most: the newest. Those of analyses are skipped."""

_MOST_RAMPS = 5
"""Queues whose step is read, at most: those to which the plan went last."""

_MOST_COUNTED = 10**12
"""A greater number in a record is damage."""

_MESSAGE_ID = re.compile(r"[A-Za-z0-9-]{1,100}")
_GROUP_ID = re.compile(r"g-[0-9a-f]{10}")
_REPORT_ID = re.compile(r"[0-9A-Za-z-]{1,60}")
_LOCK = re.compile(r"(\d{6,12})\.(end\.)?json")
_PURPOSE = re.compile(r"plan (\d{8}T\d{6}Z-[0-9a-f]{11})")
_RUN_ID = re.compile(r"(\d{8}T\d{6})Z-[0-9a-f]{11}")
_STEP = re.compile(r"([A-Za-z0-9_-]{1,80}(?:\.fifo)?)/(\d{5,9})(\.sent)?\.json")

_COUNTS: "tuple[QueueAttributeNameType, ...]" = (
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
)
_COUNT_METRICS = ("ApproximateNumberOfMessagesVisible", "ApproximateNumberOfMessagesNotVisible")

_DAMAGE = (ValueError, KeyError, TypeError, AttributeError, OverflowError, OSError)
"""Exceptions of a record that somebody changed."""

_UNREADABLE = (*_DAMAGE, BotoCoreError, ClientError, RecursionError)
"""Exceptions of a record that is damaged, that S3 does not give, or whose JSON is too deep."""


class ListedKey(NamedTuple):
    """A key of the archive, and when S3 wrote it last."""

    key: str
    written_at: datetime


def read_waiting(
    sqs: "SQSClient", s3: "S3Client", environment: Mapping[str, str], now: datetime
) -> Waiting:
    """Read the numbers of waiting messages, the groups of the last analysis, and a redrive."""
    waiting = _read_parked(sqs, environment)
    bucket = environment.get("ARCHIVE_BUCKET")
    if not bucket:
        return waiting

    waiting = replace(
        waiting,
        archive=f"s3://{bucket}/{environment['ARCHIVE_PREFIX']}",
        redrive=read_redrive(s3, environment, now),
        **_of_last_run(_read_json(s3, bucket, f"{environment['ARCHIVE_PREFIX']}status.json")),
    )
    analyses = newest_analyses(s3, environment)
    groups = _groups(_read_json(s3, bucket, analyses[0].key)) if analyses else None
    if groups is None:
        return waiting

    aged = [_with_age(group, now) for group in groups]
    with_texts = _with_texts(s3, environment, aged)
    return replace(waiting, groups=with_texts, analyzed_at=analyses[0].written_at)


def read_news(
    sqs: "SQSClient",
    s3: "S3Client",
    environment: Mapping[str, str],
    run_began_at: datetime,
    now: datetime,
) -> Waiting | None:
    """Read what the analysis of a run has changed, as the groups; None if it changed nothing.

    The two newest records are compared. A record before them that is unreadable counts as none: a
    notice then names more groups, not fewer. *run_began_at* is Glue's time: a run without an
    analysis has written no record since.
    """
    analyses = newest_analyses(s3, environment)
    # S3's times are whole seconds.
    if not analyses or analyses[0].written_at < run_began_at.replace(microsecond=0):
        return None

    bucket = environment["ARCHIVE_BUCKET"]
    read = [_groups(_read_json(s3, bucket, analysis.key)) or [] for analysis in analyses]
    changed = news(read[0], read[1] if len(read) > 1 else [])
    if not changed:
        return None

    waiting = replace(
        _read_parked(sqs, environment),
        archive=f"s3://{bucket}/{environment['ARCHIVE_PREFIX']}",
        redrive=read_redrive(s3, environment, now),
        **_of_last_run(_read_json(s3, bucket, f"{environment['ARCHIVE_PREFIX']}status.json")),
    )
    return replace(waiting, groups=_with_texts(s3, environment, changed))


def _read_parked(sqs: "SQSClient", environment: Mapping[str, str]) -> Waiting:
    """Read the numbers of messages in the parked queues. Raises if SQS does not answer."""
    parked = {}
    for url in parked_queue_urls(environment):
        counts = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=_COUNTS)["Attributes"]
        parked[url] = sum(int(counts[name]) for name in _COUNTS)

    fullest = max(parked, key=lambda url: parked[url])
    is_default = fullest == environment["PARKED_QUEUE_URL"]
    dimension, queues = dimension_of(environment)
    return Waiting(
        dimension=dimension,
        queues=queues,
        stack=environment["STACK_NAME"],
        parked=sum(parked.values()),
        parked_queue="" if is_default else fullest.rpartition("/")[2],
    )


def parked_queue_urls(environment: Mapping[str, str]) -> list[str]:
    """Return the URLs of the parked queues: of a fleet with FIFO queues two, else one."""
    fifo_url = environment.get("FIFO_PARKED_QUEUE_URL")
    standard_url = environment["PARKED_QUEUE_URL"]
    return [standard_url, fifo_url] if fifo_url else [standard_url]


def dimension_of(environment: Mapping[str, str]) -> tuple[str, str]:
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


def run_start(glue: "GlueClient", job: str, run_id: str) -> datetime | None:
    """Return when a run of the job began; None if it is none of the newest."""
    for run in glue.get_job_runs(JobName=job)["JobRuns"]:
        if run["Id"] == run_id:
            return run["StartedOn"]
    return None


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


def newest_analyses(s3: "S3Client", environment: Mapping[str, str]) -> list[ListedKey]:
    """List the records of the groups after the two newest analyses, the newest first."""
    prefix = f"{environment['ARCHIVE_PREFIX']}groups/seen/"
    newest: list[ListedKey] = []
    pages = s3.get_paginator("list_objects_v2").paginate(
        Bucket=environment["ARCHIVE_BUCKET"], Prefix=prefix
    )
    for page in pages:
        listed = [ListedKey(item["Key"], item["LastModified"]) for item in page.get("Contents", ())]
        # The ids of reports, and so these keys, sort by time.
        newest = sorted([*newest, *listed], reverse=True)[:2]
    return newest


def _groups(seen: Any) -> list[Group] | None:  # noqa: ANN401 - JSON
    """Return the groups with pending messages, without texts; None if the record is unreadable."""
    groups = []
    try:
        for group_id, group in seen["groups"].items():
            first_seen_at = datetime.fromisoformat(group["first_seen_at"]).astimezone(UTC)
            status = group["status"]
            report_id = group["report_id"]
            # Only ids may go into a notice or a key, whatever the file contains.
            is_ours = _GROUP_ID.fullmatch(group_id) and _REPORT_ID.fullmatch(report_id)
            if is_ours and status != "gone":
                count = _number(group["count"])
                groups.append(Group(status, group_id, count, first_seen_at, report_id))
    except _DAMAGE:
        return None
    return groups


def _with_age(group: Group, now: datetime) -> Group:
    """Return a group as the daily notice names it: new for a day, whatever was analyzed since."""
    if group.status not in ("new", "known"):
        return group
    is_new = now - group.first_seen_at < NEW_FOR
    return replace(group, status="new" if is_new else "known")


def _with_texts(
    s3: "S3Client", environment: Mapping[str, str], groups: Sequence[Group]
) -> list[Group]:
    """Return the groups with their texts. A group whose report has none keeps its id alone."""
    shows_values = environment["SHOWS_SAMPLES"] == "true"
    texts: dict[str, dict[str, Any]] = {}
    report_ids = sorted({group.report_id for group in groups})
    for report_id in report_ids[-_MOST_REPORTS:]:
        key = f"{environment['ARCHIVE_PREFIX']}reports/{report_id}/notice.json"
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
            texts[group_id] = {name: line_of(group[name]) for name in names}
    except _DAMAGE:
        return {}
    return texts


def _of_last_run(status: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """Return the fields of ``Waiting`` that the last run wrote; none if a part is unreadable."""
    try:
        blockers = []
        for blocker in status["blockers"][:_MOST_BLOCKERS]:
            # Only ids may go into a notice, whatever the file contains.
            if not _MESSAGE_ID.fullmatch(blocker["message_id"]):
                return {}
            blockers.append((blocker["message_id"], _number(blocker["waiting"])))

        drained_at = status["drained_at"]
        return {
            "pending": _number(status["pending"]["messages"]),
            "oldest_pending_seconds": _number(status["pending"]["oldest_seconds"]),
            "blocked": _number(status["waiting"]),
            "blockers": blockers,
            "drained_at": drained_at and datetime.fromisoformat(drained_at).astimezone(UTC),
        }
    except _DAMAGE:
        return {}


def read_redrive(s3: "S3Client", environment: Mapping[str, str], now: datetime) -> Redrive | None:
    """Read the redrive that has not ended; None if there is none, or if it cannot be read.

    The newest lock of a run that sends or erases names the plan: whoever takes a lock to act closes
    all other runs. A ramp gives its lock back while it waits, so the run's own files say whether it
    has ended. Whether it still runs, S3's times say, for people alone.

    *now* is the time of Lambda's clock, which AWS sets as it does S3's.
    """
    try:
        return _Redrives(s3, environment).read(now)
    except _UNREADABLE:
        return None


class _Lock(NamedTuple):
    """The newest lock of a redrive.

    Attributes:
        changed_at: when it was last renewed, or released; S3's time.
    """

    plan_id: str
    run_id: str
    who: str
    began_at: datetime
    is_released: bool
    changed_at: datetime


class _Redrives:
    """Reads the redrive of an archive. Each method raises what ``read_redrive`` catches."""

    def __init__(self, s3: "S3Client", environment: Mapping[str, str]) -> None:
        self._s3 = s3
        self._bucket = environment["ARCHIVE_BUCKET"]
        self._prefix = environment["ARCHIVE_PREFIX"]

    def read(self, now: datetime) -> Redrive | None:
        """Return the redrive that has not ended; None if there is none."""
        lock = self._newest_lock()
        if lock is None:
            return None

        files = self._list(f"ledger/runs/{lock.plan_id}/")
        state = redrive_state(
            is_released=lock.is_released,
            is_recorded=f"{lock.run_id}.json" in files,
            has_ended=f"{lock.run_id}.closing" in files or f"{lock.run_id}.parquet" in files,
            quiet=now - lock.changed_at,
        )
        if state is None:
            return None

        redrive = Redrive(state, lock.plan_id, lock.who, lock.began_at, lock.changed_at)
        try:
            return self._with_steps(redrive)
        except _UNREADABLE:
            return redrive

    def _newest_lock(self) -> _Lock | None:
        """Return the newest lock of all that send or erase, if a redrive took it; else None."""
        written = self._list("locks/")
        numbers = set()
        for name in written:
            if match := _LOCK.fullmatch(name):
                numbers.add(match[1])

        newest_first = sorted(numbers, key=int, reverse=True)
        for number in newest_first[:_MOST_LOCKS]:
            lock = self._record(f"locks/{number}.json")
            holder = lock["holder"]
            if holder["use"] == "analyze":
                continue

            plan = _PURPOSE.fullmatch(holder["purpose"])
            run = _RUN_ID.fullmatch(holder["run_id"])
            # A restore and an erase have purposes of their own.
            if holder["use"] != "send" or not plan or not run:
                return None
            end = written.get(f"{number}.end.json")
            return _Lock(
                plan_id=plan[1],
                run_id=run[0],
                who=line_of(holder["who"]) or "somebody",
                began_at=datetime.strptime(f"{run[1]}+0000", "%Y%m%dT%H%M%S%z"),
                is_released=lock["ended"] is not None or end is not None,
                changed_at=end or written[f"{number}.json"],
            )
        return None

    def _with_steps(self, redrive: Redrive) -> Redrive:
        """Return the redrive with the newest steps of its plan, and what failed again."""
        folder = f"ledger/plan_id={redrive.plan_id}/steps/"
        written = self._list(folder)
        names = _newest_steps(written)
        last_first = sorted(names, key=lambda queue: written[names[queue]], reverse=True)

        steps = []
        returned: dict[str, int] = {}
        for queue in last_first[:_MOST_RAMPS]:
            name = names[queue]
            record = self._record(folder + name)
            steps.append(_step_of(queue, record, is_sent=name.endswith(".sent.json")))

            counts = [record["returned_before"]]
            if f"{queue}/returned.json" in written:
                counts.append(self._record(f"{folder}{queue}/returned.json")["returned"])
            for count in counts:
                # The queues of a plan share the counters of a group, which only grow.
                for group_id, number in count.items():
                    returned[group_id] = max(_number(number), returned.get(group_id, 0))
        return replace(
            redrive,
            steps=steps,
            more_queues=max(0, len(names) - _MOST_RAMPS),
            failed_again=sum(returned.values()),
        )

    def _list(self, folder: str) -> dict[str, datetime]:
        """List the files of a folder by their names in it, with the times when S3 wrote them.

        Raises:
            OverflowError: there are too many; the newest would be missing.
        """
        prefix = self._prefix + folder
        listed = {}
        pages = self._s3.get_paginator("list_objects_v2").paginate(
            Bucket=self._bucket, Prefix=prefix
        )
        for number, page in enumerate(pages):
            if number == _MOST_PAGES:
                raise OverflowError(folder)
            for item in page.get("Contents", ()):
                listed[item["Key"].removeprefix(prefix)] = item["LastModified"]
        return listed

    def _record(self, path: str) -> Any:  # noqa: ANN401 - JSON
        answer = self._s3.get_object(Bucket=self._bucket, Key=self._prefix + path)
        return json.loads(answer["Body"].read())


def _newest_steps(names: Iterable[str]) -> dict[str, str]:
    """Return by queue the name of the record of its newest step; as it was sent, if it was."""
    newest: dict[str, tuple[int, bool, str]] = {}
    for name in names:
        match = _STEP.fullmatch(name)
        if match:
            step = (int(match[2]), match[3] is not None, name)
            newest[match[1]] = max(step, newest.get(match[1], step))
    return {queue: name for queue, (_, _, name) in newest.items()}


def _step_of(queue: str, record: Mapping[str, Any], *, is_sent: bool) -> QueueStep:
    return QueueStep(
        queue=queue,
        number=_number(record["number"]),
        messages=_sum(record["messages"]),
        proven=_sum(record["proven"]),
        left=_sum(record["left"]),
        is_sent=is_sent,
    )


def _sum(counts: Mapping[str, Any]) -> int:
    return sum(_number(count) for count in counts.values())


def _number(value: object) -> int:
    """Return a count of a record.

    Raises:
        TypeError, ValueError: it is none.
    """
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(type(value).__name__)
    if not 0 <= value < _MOST_COUNTED:
        raise ValueError("a count out of range")
    return value


def _read_json(s3: "S3Client", bucket: str, key: str) -> Any:  # noqa: ANN401 - JSON
    """Read an object of the archive; None if it is absent or unreadable."""
    try:
        return json.loads(s3.get_object(Bucket=bucket, Key=key)["Body"].read())
    except (ClientError, ValueError, RecursionError):
        return None
