"""The calls with which a ramp reads from AWS, and the queues to which it does not send."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from botocore.exceptions import ClientError

from dlq.aws.clients import ClientFactory, DescribedQueue, Limit, QueueCounts
from dlq.errors import InputError
from dlq.redrive.ramping import readings
from dlq.redrive.ramping.readings import (
    ReturnsProbe,
    begin_counters,
    find_probes,
    unread_limits,
)
from dlq.redrive.ramping.verdict_rules import Reading
from dlq.redrive.request import RedriveRequest
from dlq_replay.errors import TableError
from tests.support.builders import queue_arn, queue_url

ARN = "arn:aws:lambda:us-east-1:123456789012:function:replay"
SWEEP = "arn:aws:lambda:us-east-1:123456789012:function:sweep"
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
        mappings: the states of those of the function, or of the function and one DLQ.
        rules: the states of the rules that invoke the sweep, by name.
        fails: the calls that AWS refuses.
        asked: the requests for metrics, by name.
    """

    queues: dict[str, dict[str, str]] = field(default_factory=dict)
    mappings: list[str] = field(default_factory=lambda: ["Enabled"])
    pipes: list[str] = field(default_factory=list)
    rules: dict[str, str] = field(default_factory=dict)
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
        start = request["StartTime"].timestamp()
        end = request["EndTime"].timestamp()
        period = request["Period"]
        values_by_time: dict[float, list[float]] = {}
        for at, value in self.metrics.get(request["MetricName"], {}).items():
            if start <= at < end:
                begins_at = start + (at - start) // period * period
                values_by_time.setdefault(begins_at, []).append(value)

        assert (end - start) / period <= 1440
        assert request["Statistics"] == ["Sum", "Maximum"]
        points = []
        for at, values in values_by_time.items():
            timestamp = datetime.fromtimestamp(at, UTC)
            points.append({"Timestamp": timestamp, "Sum": sum(values), "Maximum": max(values)})
        return {"Datapoints": points}

    def check(self, call: str) -> None:
        if call in self.fails:
            denied = {"Error": {"Code": "AccessDenied", "Message": call}}
            raise ClientError(cast("Any", denied), call)

    def get_paginator(self, call: str) -> "FakeAws":
        self.check(call)
        return self

    def paginate(self, **request: str) -> "FakeAws":
        if "FunctionName" in request:
            assert request in (
                {"FunctionName": "replay"},
                {"FunctionName": "replay", "EventSourceArn": queue_arn("dlq")},
            )
        else:
            assert request == {"TargetPrefix": ARN, "CurrentState": "RUNNING"}
        return self

    def list_rule_names_by_target(self, TargetArn: str) -> Mapping[str, Any]:  # noqa: N803
        assert TargetArn == SWEEP
        return {"RuleNames": [*self.rules]}

    def describe_rule(self, Name: str) -> Mapping[str, Any]:  # noqa: N803
        return {"State": self.rules[Name]}

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


def probe_of(aws: FakeAws, **changes: Any) -> ReturnsProbe:
    given = {"parked_queue_urls": (queue_url("parked"),), "function_arn": ARN, **changes}
    queue = DescribedQueue(queue_url("main"), aws.queues["main"])
    return ReturnsProbe(RedriveRequest(**given), queue, cast("ClientFactory", aws))


def test_reading_has_everything(aws: FakeAws) -> None:
    aws.queues["main"] |= {"ApproximateNumberOfMessages": "3"}
    aws.queues["dlq"] |= {"ApproximateNumberOfMessagesNotVisible": "2"}
    aws.metrics = {
        "ApproximateAgeOfOldestMessage": {NOW - 70: 4.0, HOUR_AGO - 60: 9.0},
        "NumberOfMessagesDeleted": {NOW - 70: 5.0, NOW - 65: 2.0, HOUR_AGO - 60: 1.0},
    }
    ages = {(NOW - 70) // 60 * 60: 4.0}
    main = QueueCounts(3)
    dlq = QueueCounts(in_flight=2)

    probe = probe_of(aws, main_queue_url=queue_url("orders"))
    probe.check()
    assert probe.read(HOUR_AGO, NOW) == Reading(NOW, "", 0, main, dlq, ages, 7)
    asked = {name: request["Dimensions"] for name, request in aws.asked.items()}
    assert asked["NumberOfMessagesDeleted"] == [{"Name": "QueueName", "Value": "main"}]
    assert asked["Errors"] == [{"Name": "FunctionName", "Value": "replay"}]
    # The function publishes for the stack's main queue what concerns its whole DLQ.
    assert {"Name": "MainQueue", "Value": "orders"} in asked["ReturnsNotCounted"]


NOT_FED = "nothing feeds the replay function"
NOT_SAID = "AWS does not say how the step went: AccessDenied: "


def failing(call: str) -> dict[str, Any]:
    """AWS that refuses this call."""
    return {"fails": frozenset({call})}


def two_faults(metric: str, at: float) -> dict[str, Any]:
    """A replay function whose metric counted two faults at this time."""
    return {"metrics": {metric: {at: 2.0}}}


@pytest.mark.parametrize(
    ("changes", "obstacle"),
    [
        ({"mappings": []}, NOT_FED),
        ({"mappings": ["Disabled"]}, NOT_FED),
        ({"mappings": ["Disabled", "Enabled"]}, ""),
        ({"mappings": [], "pipes": [ARN]}, ""),
        ({"mappings": [], "pipes": [f"{ARN}-of-others"]}, NOT_FED),
        (failing("list_event_source_mappings"), f"{NOT_SAID}list_event_source_mappings"),
        (failing("Errors"), f"{NOT_SAID}Errors"),
        (failing("NumberOfMessagesDeleted"), f"{NOT_SAID}NumberOfMessagesDeleted"),
        # Faults of the last 15 minutes count.
        (two_faults("Errors", NOW - 600), "the replay function had 2 Errors in"),
        (two_faults("Throttles", NOW - 600), "the replay function had 2 Throttles in"),
        (two_faults("FailedTotal", NOW - 600), "the replay function had 2 FailedTotal in"),
        (two_faults("Errors", NOW - 1800), ""),
        (two_faults("Throttles", NOW - 1800), ""),
        (two_faults("FailedTotal", NOW - 1800), ""),
        (two_faults("ReturnsNotCounted", NOW - 1800), ""),
        # A queue that does not answer has no counts.
        (failing("attributes of main"), ""),
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


FLEET = {"queue_tag": "payments", "sweep_function_arn": SWEEP}


@pytest.mark.parametrize(
    ("changes", "obstacle"),
    [
        ({"mappings": [], "rules": {"every-minute": "ENABLED"}}, ""),
        ({"mappings": [], "rules": {"every-minute": "DISABLED"}}, NOT_FED),
        ({"mappings": [], "rules": {}}, NOT_FED),
        ({"mappings": ["Enabled"], "rules": {}}, ""),
        # What the function leaves of other queues says nothing of this one.
        ({"metrics": {"FailedTotal": {NOW - 600: 2.0}}}, ""),
        ({"metrics": {"Failed": {NOW - 600: 2.0}}}, "the replay function had 2 Failed in"),
    ],
)
def test_obstacles_of_a_queue_of_a_fleet(
    aws: FakeAws, changes: dict[str, Any], obstacle: str
) -> None:
    for name, value in changes.items():
        setattr(aws, name, value)
    # The owner of a member need not let its DLQ feed the parked queue.
    aws.queues["dlq"] = {}

    probe = probe_of(aws, **FLEET)
    probe.check()
    reading = probe.read(HOUR_AGO, NOW)

    assert (reading.obstacle == "") is (obstacle == "")
    assert reading.obstacle.startswith(obstacle)
    assert {"Name": "QueueTag", "Value": "payments"} in aws.asked["ReturnsNotCounted"]["Dimensions"]
    if not obstacle:
        assert {"Name": "MainQueue", "Value": "main"} in aws.asked["Failed"]["Dimensions"]


@pytest.mark.parametrize(
    ("limit", "obstacle"),
    [
        (Limit(1, "paused"), "paused"),
        (Limit(fault="denied"), "the limit of replays cannot be read: denied"),
    ],
)
def test_limit_of_the_breaker_is_an_obstacle(
    aws: FakeAws, monkeypatch: pytest.MonkeyPatch, limit: Limit, obstacle: str
) -> None:
    monkeypatch.setattr(readings, "read_limit", lambda *_: limit)

    assert probe_of(aws).read(HOUR_AGO, NOW).obstacle == obstacle


@pytest.mark.parametrize(("ago", "uncounted"), [(60, 2), (1800, 2), (3700, 0)])
def test_returns_that_were_not_counted_since_the_step_are_lost(
    aws: FakeAws, ago: int, uncounted: int
) -> None:
    aws.metrics = {"ReturnsNotCounted": {NOW - ago: 2.0}}

    reading = probe_of(aws).read(HOUR_AGO, NOW)

    assert (reading.uncounted, reading.obstacle) == (uncounted, "")


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
        probe_of(aws, parked_queue_urls=(queue_url(parked),) if parked else ()).check()


TABLE_FAULTS = [
    "AccessDeniedException: no right",
    "throttled: DynamoDB left a read unprocessed",
    "ReadTimeoutError: no answer",
]


@dataclass
class FaultyTable:
    """The failure table; *fault* is why it does not answer, empty if it does."""

    fault: str = ""
    begun: list[str] = field(default_factory=list)

    def read(self, *_: Any) -> dict[str, Any]:
        self._check()
        return {}

    def begin(self, _: str, group_ids: list[str]) -> set[str]:
        self._check()
        new = [group_id for group_id in group_ids if group_id not in self.begun]
        self.begun += new
        return {*new}

    def _check(self) -> None:
        if self.fault:
            raise TableError(self.fault)


Table = Callable[..., FaultyTable]


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Table:
    """Make the table that a redrive reads; its limits have a fault of their own."""

    def make(fault: str = "", fault_of_limit: str = "") -> FaultyTable:
        made = FaultyTable(fault)
        monkeypatch.setattr(readings, "returns_table", lambda *_: made)
        monkeypatch.setattr(readings, "read_limit", lambda *_: Limit(fault=fault_of_limit))
        return made

    return make


def probes_of(aws: FakeAws, **changes: Any) -> tuple[dict[str, ReturnsProbe], str]:
    given = {"parked_queue_urls": (queue_url("parked"),), "failure_table": "failures", **changes}
    main = DescribedQueue(queue_url("main"), aws.queues["main"])
    options = RedriveRequest(main_queue_url=main.url, **given)
    return find_probes(options, {main.url: main}, cast("ClientFactory", aws))


@pytest.mark.parametrize("ramp", [None, True])
@pytest.mark.parametrize("execute", [False, True])
@pytest.mark.parametrize("fault", TABLE_FAULTS)
@pytest.mark.parametrize("is_of_limit", [False, True])
def test_redrive_whose_failure_table_cannot_be_read_is_refused(
    aws: FakeAws,
    table: Table,
    fault: str,
    ramp: bool | None,
    *,
    execute: bool,
    is_of_limit: bool,
) -> None:
    table(*(("", fault) if is_of_limit else (fault,)))

    sentence = f"table failures cannot be read: {fault}; nothing was sent: --at-once sends"
    with pytest.raises(InputError, match=f"^{sentence}"):
        probes_of(aws, ramp=ramp, execute=execute)


def test_everything_goes_at_once_where_it_is_asked_for_or_no_table_is_named(
    aws: FakeAws, table: Table
) -> None:
    table(TABLE_FAULTS[0], TABLE_FAULTS[0])

    assert probes_of(aws, ramp=False) == ({}, "")
    assert probes_of(aws, ramp=False, failure_table=None) == ({}, "")
    assert probes_of(aws, failure_table=None) == (
        {},
        "everything at once: no --failure-table counts what fails again",
    )
    with pytest.raises(InputError, match=r"^--ramp: no --failure-table .*; nothing was sent: --at"):
        probes_of(aws, ramp=True, failure_table=None)


def test_queue_that_has_no_ramp_is_redriven_at_once_only_if_somebody_says_so(
    aws: FakeAws, table: Table
) -> None:
    table()
    assert [*probes_of(aws)[0]] == [queue_url("main")]

    aws.queues["main"] = {}
    why = "queue main has no redrive policy, so what fails stays there"
    assert probes_of(aws) == ({}, f"not by ramp, so only with --at-once: {why}")
    for asked in ({"execute": True}, {"ramp": True}):
        with pytest.raises(InputError, match=f"^{why}; nothing was sent: --at-once sends"):
            probes_of(aws, **asked)


def test_redrive_whose_returns_nobody_would_count_is_refused(table: Table) -> None:
    denied = table(TABLE_FAULTS[0])
    options = RedriveRequest(main_queue_url=queue_url("main"), failure_table="failures")
    why = f"table failures cannot be written: {TABLE_FAULTS[0]}"

    with pytest.raises(InputError, match=f"^{why}; nothing was sent: --at-once sends"):
        begin_counters(options, "p", {"g-1"})
    at_once = replace(options, ramp=False)
    assert begin_counters(at_once, "p", {"g-1"}) == (
        set(),
        f"what fails again after this run is not counted: {why}",
    )
    denied.fault = ""
    assert begin_counters(options, "p", {"g-2", "g-1"}) == ({"g-1", "g-2"}, "")
    assert begin_counters(options, "p", {"g-3", "g-1"}) == ({"g-3"}, "")
    assert begin_counters(replace(options, failure_table=None), "p", {"g-4"}) == (set(), "")
    assert denied.begun == ["g-1", "g-2", "g-3"]


def test_limit_that_cannot_be_read_is_named_where_everything_goes_at_once(table: Table) -> None:
    options = RedriveRequest(failure_table="failures", ramp=False)
    table("", "throttled")

    assert unread_limits(options, ["u"]) == (
        "no limit of a circuit breaker is kept to: it cannot be read: throttled"
    )
    table()
    assert unread_limits(options, ["u"]) == ""
