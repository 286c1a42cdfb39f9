"""What a ramp asks AWS, and to which queues it does not send."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from botocore.exceptions import ClientError

from spark_reprocess.aws.clients import ClientFactory, QueueCounts
from spark_reprocess.aws.limits import Limit
from spark_reprocess.errors import InputError
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
def aws() -> FakeAws:
    own = {"parked": {}, "dlq": {"RedrivePolicy": json.dumps(DLQ_POLICY)}, "main": dict(MAIN)}
    return FakeAws(own)


def checked(aws: FakeAws, parked: str | None = queue_url("parked"), **changes: Any) -> Probe:
    given = {"parked_queue_url": parked, "function_arn": ARN, **changes}
    options, make = RedriveOptions("a", **given), cast("ClientFactory", aws)
    probe = Probe.of(options, queue_url("main"), aws.queues["main"], make)
    return replace(probe, make_aws_client=aws)


def test_reading_has_everything(aws: FakeAws) -> None:
    aws.queues["main"] |= {"ApproximateNumberOfMessages": "3"}
    aws.queues["dlq"] |= {"ApproximateNumberOfMessagesNotVisible": "2"}
    aws.metrics = {
        "ApproximateAgeOfOldestMessage": {NOW - 70: 4.0, HOUR_AGO - 60: 9.0},
        "NumberOfMessagesDeleted": {NOW - 70: 5.0, NOW - 65: 2.0, HOUR_AGO - 60: 1.0},
    }
    reading = checked(aws).read(HOUR_AGO, NOW)

    assert reading.obstacle == ""
    assert (reading.main, reading.dead_letters) == (QueueCounts(3), QueueCounts(in_flight=2))
    assert reading.ages == {(NOW - 70) // 60 * 60: 4.0}
    assert reading.deleted == 7


@pytest.mark.parametrize(
    ("mappings", "pipes", "is_fed"),
    [
        ([], [], False),
        (["Disabled"], [], False),
        (["Disabled", "Enabled"], [], True),
        ([], [ARN], True),
        ([], [f"{ARN}-of-others"], False),
    ],
)
def test_something_must_feed_the_function(
    aws: FakeAws, mappings: list[str], pipes: list[str], *, is_fed: bool
) -> None:
    aws.mappings, aws.pipes = mappings, pipes

    assert ("nothing feeds" in checked(aws).read(HOUR_AGO, NOW).obstacle) != is_fed
    assert checked(aws, function_arn=None).read(HOUR_AGO, NOW).obstacle == ""


@pytest.mark.parametrize(
    ("fails", "obstacle"),
    [
        *(
            (call, f"AWS does not say how the step went: AccessDenied: {call}")
            for call in ("list_event_source_mappings", "Errors", "NumberOfMessagesDeleted")
        ),
        # A queue that does not answer has no counts.
        ("attributes of main", ""),
    ],
)
def test_what_aws_does_not_say_is_an_obstacle(aws: FakeAws, fails: str, obstacle: str) -> None:
    probe = checked(aws)
    aws.fails = frozenset({fails})
    reading = probe.read(HOUR_AGO, NOW)

    assert (reading.obstacle, reading.main) == (obstacle, None)


def test_limit_of_the_breaker_is_an_obstacle(aws: FakeAws, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readings, "read_limit", lambda *_: Limit(1, "paused"))

    assert checked(aws).read(HOUR_AGO, NOW).obstacle == "paused"


@pytest.mark.parametrize(
    ("metric", "age_seconds", "is_fault"),
    [
        *[(name, 600, True) for name in ("Errors", "Throttles", "FailedTotal")],
        *[(name, 1800, False) for name in ("Errors", "Throttles", "FailedTotal")],
        *[("ReturnsNotCounted", 1800, True), ("ReturnsNotCounted", 3700, False)],
    ],
)
def test_faults_of_the_last_15_minutes_count_and_uncounted_returns_since_the_step(
    aws: FakeAws, metric: str, age_seconds: float, *, is_fault: bool
) -> None:
    aws.metrics = {metric: {NOW - age_seconds: 2.0}}

    obstacle = checked(aws).read(HOUR_AGO, NOW).obstacle
    assert obstacle.startswith("the replay function had 2 " if is_fault else " ") is is_fault


def test_metrics_of_the_functions_dlq_are_those_of_the_stacks_main_queue(aws: FakeAws) -> None:
    checked(aws, main_queue_url=queue_url("orders")).read(HOUR_AGO, NOW)

    dimensions = {
        name: {one["Name"]: one["Value"] for one in aws.asked[name]["Dimensions"]}
        for name in aws.asked
    }
    assert dimensions["ReturnsNotCounted"]["MainQueue"] == "orders"
    assert dimensions["NumberOfMessagesDeleted"] == {"QueueName": "main"}
    assert dimensions["Errors"] == {"FunctionName": "replay"}


@pytest.mark.parametrize(("days", "period"), [(0.9, 60), (1.1, 300), (5.5, 600), (60, 3900)])
def test_step_of_days_ago_asks_for_no_more_points_than_cloudwatch_returns(
    aws: FakeAws, days: float, period: int
) -> None:
    began_at = NOW - days * 86_400
    aws.metrics = {"NumberOfMessagesDeleted": {began_at: 5.0, NOW: 2.0}}
    reading = checked(aws).read(began_at, NOW)

    assert reading.deleted == 7
    assert aws.asked["NumberOfMessagesDeleted"]["Period"] == period


@pytest.mark.parametrize(
    ("queue", "attributes", "parked", "fault"),
    [
        ("main", {}, "parked", "main has no redrive policy"),
        ("main", dict(MAIN), None, "no --parked-queue-url"),
        ("dlq", {}, "parked", "not go to parked queue parked: see the redrive policy of dlq"),
        (
            "dlq",
            {"RedrivePolicy": json.dumps(DLQ_POLICY)},
            "theirs",
            "not go to parked queue their",
        ),
    ],
)
def test_queue_whose_failures_would_not_be_seen_is_refused(
    aws: FakeAws, queue: str, attributes: dict[str, str], parked: str | None, fault: str
) -> None:
    aws.queues[queue] = attributes

    with pytest.raises(InputError, match=fault):
        checked(aws, parked and queue_url(parked))
