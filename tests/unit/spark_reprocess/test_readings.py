"""What a ramp asks AWS, and to which queues it does not send."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from botocore.exceptions import ClientError

from spark_reprocess.aws.clients import ClientFactory, Limit, Queue, QueueCounts
from spark_reprocess.errors import InputError
from spark_reprocess.ramp import Reading
from spark_reprocess.redrive import readings
from spark_reprocess.redrive.readings import Probe
from spark_reprocess.redrive.redrive_values import RedriveOptions
from tests.support.builders import queue_arn, queue_url

ARN = "arn:aws:lambda:us-east-1:123456789012:function:replay"
NOW = 1_700_000_000.0
HOUR_AGO = NOW - 3600
DLQ_POLICY = {"deadLetterTargetArn": queue_arn("parked"), "maxReceiveCount": 1000}
MAIN_POLICY = {"deadLetterTargetArn": queue_arn("dlq"), "maxReceiveCount": "3"}
MAIN = {"RedrivePolicy": json.dumps(MAIN_POLICY), "VisibilityTimeout": "40"}


@dataclass
class FakeAws:
    """One client for every service.

    Attributes:
        metrics: by name, values at their times.
        fails: the calls that AWS refuses.
        asked: the requests for metrics, by name.
    """

    queues: dict[str, dict[str, str]] = field(default_factory=dict)
    mappings: list[str] = field(default_factory=lambda: ["Enabled"])
    pipes: list[str] = field(default_factory=list)
    metrics: dict[str, dict[float, float]] = field(default_factory=dict)
    fails: frozenset[str] = frozenset()
    asked: dict[str, dict[str, Any]] = field(default_factory=dict)

    def __call__(self, _: str) -> "FakeAws":
        return self

    def get_queue_attributes(self, QueueUrl: str, **_: Any) -> Mapping[str, Any]:  # noqa: N803
        name = QueueUrl.rpartition("/")[2]
        self.check(f"attributes of {name}")
        return {"Attributes": self.queues[name]}

    def get_metric_statistics(self, **request: Any) -> Mapping[str, Any]:
        self.check(request["MetricName"])
        self.asked[request["MetricName"]] = request
        start, end = request["StartTime"].timestamp(), request["EndTime"].timestamp()
        period = request["Period"]
        points: dict[float, list[float]] = {}
        for at, value in self.metrics.get(request["MetricName"], {}).items():
            if start <= at < end:
                points.setdefault(start + (at - start) // period * period, []).append(value)
        assert (end - start) / period <= 1440
        assert request["Statistics"] == ["Sum", "Maximum"]
        return {
            "Datapoints": [
                {"Timestamp": datetime.fromtimestamp(at, UTC), "Sum": sum(v), "Maximum": max(v)}
                for at, v in points.items()
            ]
        }

    def check(self, call: str) -> None:
        if call in self.fails:
            denied = {"Error": {"Code": "AccessDenied", "Message": call}}
            raise ClientError(cast("Any", denied), call)

    def get_paginator(self, call: str) -> "FakeAws":
        self.check(call)
        return self

    def paginate(self, **request: str) -> "FakeAws":
        if "FunctionName" in request:
            assert request == {"FunctionName": "replay"}
        else:
            assert request == {"TargetPrefix": ARN, "CurrentState": "RUNNING"}
        return self

    def search(self, expression: str) -> list[str]:
        return {"EventSourceMappings[].State": self.mappings, "Pipes[].Target": self.pipes}[
            expression
        ]


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> FakeAws:
    dlq = {"RedrivePolicy": json.dumps(DLQ_POLICY)}
    aws = FakeAws({"parked": {}, "dlq": dlq, "main": dict(MAIN)})
    monkeypatch.setattr(readings, "aws_client", lambda *_, **__: aws)
    return aws


def probe_of(aws: FakeAws, **changes: Any) -> Probe:
    given = {"parked_queue_url": queue_url("parked"), "function_arn": ARN, **changes}
    queue = Queue(queue_url("main"), aws.queues["main"])
    return Probe(RedriveOptions("a", **given), queue, cast("ClientFactory", aws))


def test_reading_has_everything(aws: FakeAws) -> None:
    aws.queues["main"] |= {"ApproximateNumberOfMessages": "3"}
    aws.queues["dlq"] |= {"ApproximateNumberOfMessagesNotVisible": "2"}
    aws.metrics = {
        "ApproximateAgeOfOldestMessage": {NOW - 70: 4.0, HOUR_AGO - 60: 9.0},
        "NumberOfMessagesDeleted": {NOW - 70: 5.0, NOW - 65: 2.0, HOUR_AGO - 60: 1.0},
    }
    ages, counts = {(NOW - 70) // 60 * 60: 4.0}, (QueueCounts(3), QueueCounts(in_flight=2))

    probe = probe_of(aws, main_queue_url=queue_url("orders"))
    probe.check()
    assert probe.read(HOUR_AGO, NOW) == Reading(NOW, "", *counts, ages, 7)
    asked = {name: one["Dimensions"] for name, one in aws.asked.items()}
    assert asked["NumberOfMessagesDeleted"] == [{"Name": "QueueName", "Value": "main"}]
    assert asked["Errors"] == [{"Name": "FunctionName", "Value": "replay"}]
    # The function publishes for the stack's main queue what concerns its whole DLQ.
    assert {"Name": "MainQueue", "Value": "orders"} in asked["ReturnsNotCounted"]


NOT_FED = "nothing feeds the replay function"
NOT_SAID = "AWS does not say how the step went: AccessDenied: "


@pytest.mark.parametrize(
    ("changes", "obstacle"),
    [
        ({"mappings": []}, NOT_FED),
        ({"mappings": ["Disabled"]}, NOT_FED),
        ({"mappings": ["Disabled", "Enabled"]}, ""),
        ({"mappings": [], "pipes": [ARN]}, ""),
        ({"mappings": [], "pipes": [f"{ARN}-of-others"]}, NOT_FED),
        *(
            ({"fails": frozenset({call})}, f"{NOT_SAID}{call}")
            for call in ("list_event_source_mappings", "Errors", "NumberOfMessagesDeleted")
        ),
        # Faults of the last 15 minutes count, and returns that were not counted since the step.
        *(
            ({"metrics": {metric: {NOW - ago: 2.0}}}, f"the replay function had 2 {metric} since")
            for metric in ("Errors", "Throttles", "FailedTotal", "ReturnsNotCounted")
            for ago in (600, *([1800] if metric == "ReturnsNotCounted" else []))
        ),
        *(
            ({"metrics": {metric: {NOW - ago: 2.0}}}, "")
            for metric in ("Errors", "Throttles", "FailedTotal", "ReturnsNotCounted")
            for ago in (3700, *([] if metric == "ReturnsNotCounted" else [1800]))
        ),
        # A queue that does not answer has no counts.
        ({"fails": frozenset({"attributes of main"})}, ""),
    ],
)
def test_obstacles(aws: FakeAws, changes: dict[str, Any], obstacle: str) -> None:
    for name, value in changes.items():
        setattr(aws, name, value)
    reading = probe_of(aws).read(HOUR_AGO, NOW)

    assert (reading.obstacle == "") is (obstacle == "")
    assert reading.obstacle.startswith(obstacle)
    assert (reading.main is None) is bool(aws.fails)
    # Nobody looks at a function that is not named.
    if obstacle == NOT_FED:
        assert probe_of(aws, function_arn=None).read(HOUR_AGO, NOW).obstacle == ""


def test_limit_of_the_breaker_is_an_obstacle(aws: FakeAws, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readings, "read_limit", lambda *_: Limit(1, "paused"))

    assert probe_of(aws).read(HOUR_AGO, NOW).obstacle == "paused"


@pytest.mark.parametrize(("days", "period"), [(0.9, 60), (1.1, 300), (5.5, 600), (60, 3900)])
def test_step_of_days_ago_asks_for_no_more_points_than_cloudwatch_returns(
    aws: FakeAws, days: float, period: int
) -> None:
    began_at = NOW - days * 86_400
    aws.metrics = {"NumberOfMessagesDeleted": {began_at: 5.0, NOW: 2.0}}

    assert probe_of(aws).read(began_at, NOW).deleted == 7
    assert aws.asked["NumberOfMessagesDeleted"]["Period"] == period


ELSEWHERE = "the dead letters of queue main do not go to parked queue"


@pytest.mark.parametrize(
    ("queue", "parked", "fault"),
    [
        ("main", "parked", "main has no redrive policy"),
        ("dlq", "parked", f"{ELSEWHERE} parked: see the redrive policy of dlq"),
        ("", "theirs", f"{ELSEWHERE} theirs"),
        ("", None, "no --parked-queue-url"),
    ],
)
def test_queue_whose_failures_would_not_be_seen_is_refused(
    aws: FakeAws, queue: str, parked: str | None, fault: str
) -> None:
    aws.queues[queue] = {}

    with pytest.raises(InputError, match=fault):
        probe_of(aws, parked_queue_url=parked and queue_url(parked)).check()
