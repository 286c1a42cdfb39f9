"""Publishes notices: once a day what waits for a person, and at once what an alarm cannot say.

A CloudWatch alarm notifies only when its state changes, and says only what the template says. So
this function publishes

- every day, while messages are parked, or a group is halted, regressed or new: what waits;
- when an alarm on arriving or parked messages rings: a follow-up with counts, groups, a redrive;
- when a run of the Spark job ended: the groups that its analysis found halted, regressed or new;
- when a run failed: that, and its exit code.

For alarms it publishes each day how long ago the schedule started the job, and how old a parked
message can be.

``readings`` reads, ``notice`` makes the texts. No state is kept: an event that EventBridge delivers
twice, or a publish whose answer was lost, makes two notices.
"""

import json
import os
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import boto3
from botocore.config import Config

from dlq_replay.aws.answers import with_checked_answers
from dlq_replay.replaying.measures import Measured, Metric, publish
from functions.reminder.notice import (
    Notice,
    alarm_notice,
    daily_notice,
    failure_notice,
    run_notice,
)
from functions.reminder.readings import (
    dimension_of,
    last_scheduled_start,
    oldest_parked,
    parked_queue_urls,
    read_news,
    read_waiting,
    run_start,
)

_SCHEDULED = "Scheduled Event"
_EXIT_CODE = re.compile(r"\bended with exit code ([0-9]{1,3})\b")


def lambda_handler(event: Mapping[str, Any], context: object) -> None:
    """Publish the notice that *event* asks for, if there is anything to say.

    *event* is one of EventBridge; one without a type counts as the daily one. Lambda repeats an
    event after an exception, twice, and then keeps it in the queue ReminderFailures.

    Raises:
        ClientError, BotoCoreError: a count could not be read, or a notice not be published.
        KeyError, TypeError, ValueError: the event is not as AWS describes it.
    """
    del context
    kind = event.get("detail-type", _SCHEDULED)
    if kind == _SCHEDULED:
        notice = _of_the_day()
    elif kind == "CloudWatch Alarm State Change":
        notice = _of_an_alarm(event["detail"])
    elif kind == "Glue Job State Change":
        notice = _of_a_run(event["detail"])
    else:
        raise ValueError(f"no notice is for events of this type: {kind!r}")

    if notice:
        _publish(notice)


def _of_the_day() -> Notice | None:
    """Print the ages that alarms watch; return the notice of what waits, None if nothing does."""
    now = datetime.now(UTC)
    job = os.environ.get("SPARK_JOB")
    if job:
        _print_metric(Metric.LAST_RUN_AGE_SECONDS, now - last_scheduled_start(_client("glue"), job))

    waiting = read_waiting(_client("sqs"), _client("s3"), os.environ, now)
    if waiting.parked:
        ages = []
        for url in parked_queue_urls(os.environ):
            queue = url.rpartition("/")[2]
            ages.append(oldest_parked(_client("cloudwatch"), queue, waiting.drained_at))
        _print_metric(Metric.OLDEST_PARKED_SECONDS, max(ages))
    return daily_notice(waiting) if waiting.is_due else None


def _of_an_alarm(detail: Mapping[str, Any]) -> Notice | None:
    """Return the follow-up to an alarm, each time that it begins to ring; None when it ends."""
    alarm = detail["alarmName"]
    if detail["state"]["value"] != "ALARM":
        return None
    waiting = read_waiting(_client("sqs"), _client("s3"), os.environ, datetime.now(UTC))
    return alarm_notice(waiting, alarm)


def _of_a_run(detail: Mapping[str, Any]) -> Notice | None:
    """Return the notice of a run that ended; None if it failed in nothing, and changed nothing.

    The event's own message is not forwarded: the text of an exception may quote a message.
    """
    job = detail["jobName"]
    run_id = detail["jobRunId"]
    state = detail["state"]
    if state in ("FAILED", "TIMEOUT"):
        match = _EXIT_CODE.search(detail.get("message", ""))
        return failure_notice(job, run_id, state, match[1] if match else "")

    # The job of the retention analyzes nothing.
    if state != "SUCCEEDED" or job != os.environ["SPARK_JOB"]:
        return None
    began_at = run_start(_client("glue"), job, run_id)
    if began_at is None:
        return None
    now = datetime.now(UTC)
    changed = read_news(_client("sqs"), _client("s3"), os.environ, began_at, now)
    return run_notice(changed) if changed else None


def _print_metric(metric: Metric, age: timedelta) -> None:
    measured: Measured = {metric: [max(0, int(age.total_seconds()))]}
    dimension, value = dimension_of(os.environ)
    publish(measured, dimension, value, datetime.now(UTC).timestamp())


def _publish(notice: Notice) -> None:
    """Publish a notice, and to HTTPS its title and description for chat.

    The schema is that of custom notifications of Amazon Q Developer in chat applications.
    """
    content = {
        "textType": "client-markdown",
        "title": notice.title,
        "description": notice.description,
    }
    chat = {"version": "1.0", "source": "custom", "content": content}
    messages = {"default": notice.text, "email": notice.text, "https": json.dumps(chat)}
    _client("sns").publish(
        TopicArn=os.environ["TOPIC_ARN"],
        Subject=notice.subject,
        Message=json.dumps(messages),
        MessageStructure="json",
    )


@cache
def _client(service: str) -> Any:  # noqa: ANN401 - one of five clients
    make: Callable[..., Any] = with_checked_answers(boto3.session.Session()).client
    return make(service, config=Config(connect_timeout=5, read_timeout=10))
