"""Asks AWS what a game day has to know, and receives its test message. Adapter.

Each call may raise ``NotObservedError``, which says what could not be had and why.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from dlq_cli.gameday.alarms import SNS_MANAGED_KEY, AlarmState, JobFacts, TopicFacts, alarm_of
from dlq_cli.gameday.joints import RECEIVABLE_MESSAGES, LogLine, read_log_line
from dlq_cli.stack.facts import QueueFacts
from dlq_cli.stack.rules import NET_MIN_RECEIVE_COUNT
from dlq_cli.stack.survey import denied_actions
from dlq_cli.stack_values import StackValues, stack_resources
from dlq_replay.errors import QueueError
from dlq_replay.gameday import gameday_of
from dlq_replay.measures import (
    MAIN_QUEUE_DIMENSION,
    NAMESPACE,
    SERVICE,
    SERVICE_DIMENSION,
)
from dlq_replay.message import Message
from dlq_replay.sqs import SqsQueue, describe
from spark_reprocess.clients import QueueCounts

_HIDDEN_SECONDS = 10
"""Of a received message. It comes back by itself where the program is killed."""

_SWEEP_TIME = timedelta(seconds=6)
"""A sweep ends before the first message that it received is visible again."""

_SWEEP_MESSAGES = 2 * RECEIVABLE_MESSAGES
"""SQS's counts are approximate, so a queue may have more than it said."""

_PERIOD_SECONDS = 60
_HISTORY = timedelta(days=14)
_DRAIN_ACTIONS = ("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes")
_ARCHIVE_ACTIONS = ("s3:PutObject", "s3:GetObject")


class NotObservedError(Exception):
    """Something could not be asked for; the text says what, and why."""


@contextmanager
def _observing(what: str) -> Iterator[None]:
    try:
        yield
    except (ClientError, BotoCoreError) as error:
        raise NotObservedError(f"{what}: {describe(error)}") from error
    except QueueError as error:
        raise NotObservedError(str(error)) from error


@dataclass(frozen=True, slots=True)
class Swept:
    """What a sweep of a queue found.

    Attributes:
        tests: the test messages of any game day. They are deleted, but for those in ``left``.
        left: those whose deletion SQS did not confirm.
    """

    tests: tuple[Message, ...] = ()
    left: tuple[Message, ...] = ()


@dataclass(frozen=True, slots=True)
class Watch:
    """The calls of a game day, but for those of the survey.

    Attributes:
        client: makes the client of a service, one for each.
        values: the outputs of the stack.
        now: the time of day, with a time zone.
    """

    client: Callable[[str], Any]
    values: StackValues
    now: Callable[[], datetime]

    def queue(self, url: str) -> SqsQueue:
        """Return a queue to send to and receive from."""
        return SqsQueue(self.client("sqs"), url)

    def why_not_received(self, queue: QueueFacts) -> str:
        """Return why nothing may be received from *queue*; empty if it may be.

        It may be where the queue has at most 100 messages, which a sweep hides together, and where
        no message can reach the limit of receives by it.
        """
        with _observing(queue.name):
            attributes = self.queue(queue.url).describe()
        facts = QueueFacts(queue.role, queue.url, attributes)
        count = QueueCounts.of(attributes).visible
        if count > RECEIVABLE_MESSAGES:
            return f"{queue.name} has {count:,} messages, so nothing is received from it"
        limit = facts.max_receive_count
        if limit is not None and limit < NET_MIN_RECEIVE_COUNT:
            return f"{queue.name} moves messages after {limit} receives, so nothing is received"
        return ""

    def sweep(self, queue: QueueFacts) -> Swept:
        """Receive the messages of *queue*, delete test messages, give all others back.

        Ask ``why_not_received`` first. Messages that are not given back, because SQS refuses or the
        program is killed, are visible again after 10 s.
        """
        source = self.queue(queue.url)
        tests: list[Message] = []
        others: list[Message] = []
        ends = self.now() + _SWEEP_TIME
        try:
            while len(tests) + len(others) < _SWEEP_MESSAGES and self.now() < ends:
                with _observing(queue.name):
                    received = source.receive(
                        wait_seconds=1, visibility_timeout_seconds=_HIDDEN_SECONDS
                    )
                if not received:
                    break
                for one in received:
                    if isinstance(one, Message):
                        (others if gameday_of(one) is None else tests).append(one)
        finally:
            source.change_visibility([(one, 0) for one in others])
        return Swept(tuple(tests), tuple(source.delete(tests)))

    def log_line(self, group: str, message_id: str, since: datetime) -> LogLine | None:
        """Return the newest line about a message in a log group; None if there is none."""
        with _observing(f"log group {group}"):
            pages = self.client("logs").get_paginator("filter_log_events")
            lines = [
                line
                for page in pages.paginate(
                    logGroupName=group,
                    filterPattern=f'"{message_id}"',
                    startTime=int(since.timestamp() * 1000),
                )
                for event in page["events"]
                if (line := read_log_line(event["message"], message_id))
            ]
        return lines[-1] if lines else None

    def metric_total(self, metric: str, main_queue: str, since: datetime) -> float:
        """Return the sum of a metric of the function since the minute of that moment began."""
        start = since.replace(second=0, microsecond=0)
        with _observing(f"metric {metric}"):
            answer = self.client("cloudwatch").get_metric_statistics(
                Namespace=NAMESPACE,
                MetricName=metric,
                Dimensions=[
                    {"Name": SERVICE_DIMENSION, "Value": SERVICE},
                    {"Name": MAIN_QUEUE_DIMENSION, "Value": main_queue},
                ],
                StartTime=start,
                EndTime=self.now() + timedelta(seconds=_PERIOD_SECONDS),
                Period=_PERIOD_SECONDS,
                Statistics=["Sum"],
            )
        return float(sum(point["Sum"] for point in answer["Datapoints"]))

    def alarms(self) -> list[AlarmState]:
        """Return the alarms of the stack."""
        with _observing("alarms"):
            names = [
                resource["PhysicalResourceId"]
                for resource in stack_resources(self.client, self.values.stack)
                if resource["ResourceType"] == "AWS::CloudWatch::Alarm"
            ]
            if not names:
                return []
            client = self.client("cloudwatch")
            answer = client.describe_alarms(AlarmNames=names, MaxRecords=100)
            return [alarm_of(raw) for raw in answer["MetricAlarms"]]

    def topics(self, alarms: Sequence[AlarmState]) -> list[TopicFacts]:
        """Return the topics that *alarms* notify."""
        alarm_by_topic = {topic: one for one in alarms for topic in one.topics}
        if not alarm_by_topic:
            return []
        failures = self._last_failures(alarms)
        return [
            self._topic(topic, alarm, failures.get(topic, ""))
            for topic, alarm in sorted(alarm_by_topic.items())
        ]

    def _topic(self, arn: str, alarm: AlarmState, last_failure: str) -> TopicFacts:
        with _observing(f"topic {arn}"):
            client = self.client("sns")
            attributes = client.get_topic_attributes(TopicArn=arn)["Attributes"]
        key = attributes.get("KmsMasterKeyId", "")
        return TopicFacts(
            arn=arn,
            policy=attributes["Policy"],
            key=key,
            key_policy=self._key_policy(key),
            confirmed=int(attributes.get("SubscriptionsConfirmed", 0)),
            pending=int(attributes.get("SubscriptionsPending", 0)),
            alarm=alarm.arn,
            last_failure=last_failure,
        )

    def _key_policy(self, key: str) -> str | None:
        """Read the policy of a key; None where that is not allowed, or there is no key of yours."""
        if not key or key.endswith(SNS_MANAGED_KEY):
            return None
        client = self.client("kms")
        try:
            key_id = client.describe_key(KeyId=key)["KeyMetadata"]["KeyId"]
            return str(client.get_key_policy(KeyId=key_id, PolicyName="default")["Policy"])
        except (ClientError, BotoCoreError):
            return None

    def _last_failures(self, alarms: Sequence[AlarmState]) -> dict[str, str]:
        """Return the error of each topic whose newest notice failed, by the topic's ARN."""
        newest: dict[str, tuple[datetime, str]] = {}
        for alarm in alarms:
            for at, topic, error in self.actions(alarm, self.now() - _HISTORY):
                if topic not in newest or at > newest[topic][0]:
                    newest[topic] = (at, error)
        return {topic: error for topic, (_, error) in newest.items() if error}

    def actions(self, alarm: AlarmState, since: datetime) -> list[tuple[datetime, str, str]]:
        """Return what an alarm did: when, the notified topic, and the error, empty if none."""
        with _observing(f"history of {alarm.name}"):
            answer = self.client("cloudwatch").describe_alarm_history(
                AlarmName=alarm.name,
                HistoryItemType="Action",
                StartDate=since,
                EndDate=self.now() + timedelta(seconds=_PERIOD_SECONDS),
                ScanBy="TimestampDescending",
                MaxRecords=10,
            )
        found = ((one["Timestamp"], _json(one)) for one in answer["AlarmHistoryItems"])
        return [
            (at, str(data["notificationResource"]), _error_of(data))
            for at, data in found
            if "notificationResource" in data
        ]

    def set_alarm(self, alarm: AlarmState, state: Any, reason: str) -> None:  # noqa: ANN401 - AWS's
        """Set the state of an alarm. CloudWatch sets it back at its next evaluation."""
        with _observing(f"setting the state of {alarm.name}"):
            self.client("cloudwatch").set_alarm_state(
                AlarmName=alarm.name, StateValue=state, StateReason=reason
            )

    def job(self, parked: QueueFacts) -> JobFacts | None:
        """Return the Spark job of the stack; None without one."""
        name = self.values.spark_job
        if name is None:
            return None
        with _observing(f"job {name}"):
            client = self.client("glue")
            role = client.get_job(JobName=name)["Job"]["Role"]
            triggers = client.get_triggers(DependentJobName=name)["Triggers"]
            runs = client.get_job_runs(JobName=name, MaxResults=1)["JobRuns"]
        newest = runs[0] if runs else {}
        return JobFacts(
            name=name,
            role=role,
            denied=self._denied_to_job(role, parked),
            triggers={one["Name"]: one["State"] for one in triggers if one["Type"] == "SCHEDULED"},
            last_state=newest.get("JobRunState", ""),
            last_error=newest.get("ErrorMessage", ""),
        )

    def _denied_to_job(self, role: str, parked: QueueFacts) -> tuple[str, ...] | None:
        over_tls = ("aws:SecureTransport", "boolean", "true")
        asked: list[tuple[str, tuple[str, ...]]] = [(parked.arn, _DRAIN_ACTIONS)]
        if self.values.archive:
            partition = parked.arn.split(":")[1]
            place = self.values.archive.removeprefix("s3://")
            asked.append((f"arn:{partition}:s3:::{place}/messages/x", _ARCHIVE_ACTIONS))
        try:
            return tuple(
                f"{action} on {resource}"
                for resource, actions in asked
                for action in denied_actions(self.client, role, actions, resource, over_tls)
            )
        except (ClientError, BotoCoreError):
            return None


def _json(item: Any) -> dict[str, Any]:  # noqa: ANN401 - an item of DescribeAlarmHistory
    try:
        read = json.loads(item.get("HistoryData") or "{}")
    except ValueError:
        return {}
    return read if isinstance(read, dict) else {}


def _error_of(data: dict[str, Any]) -> str:
    if data.get("actionState") != "Failed":
        return ""
    return str(data.get("error") or "no reason is given")
