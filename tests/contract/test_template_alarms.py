"""Alarms and dashboard: they look at what the code publishes, and each has its runbook."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from dlq_replay.decision import ParkReason
from dlq_replay.measures import (
    MAIN_QUEUE_DIMENSION,
    NAMESPACE,
    SERVICE,
    SERVICE_DIMENSION,
    Metric,
    parked_metric,
)
from tests.contract.cloudformation import PSEUDO_PARAMETERS, Stack
from tests.contract.template import FIFO, OWN_PARKED_QUEUE, OWN_QUEUES, ROOT, SPARK_JOB, TEMPLATE

WHOLE = Stack.of(TEMPLATE, SPARK_JOB)
ALARMS = WHOLE.of_type("AWS::CloudWatch::Alarm")
TOPIC = "arn:aws:sns:us-east-1:123456789012:on-call"

PUBLISHED = {metric.value for metric in Metric} | {parked_metric(one) for one in ParkReason}

# https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-available-cloudwatch-metrics.html
# https://docs.aws.amazon.com/lambda/latest/dg/monitoring-metrics-types.html
PUBLISHED_BY_AWS = {
    ("AWS/SQS", "ApproximateAgeOfOldestMessage"),
    ("AWS/SQS", "ApproximateNumberOfMessagesDelayed"),
    ("AWS/SQS", "ApproximateNumberOfMessagesNotVisible"),
    ("AWS/SQS", "ApproximateNumberOfMessagesVisible"),
    ("AWS/SQS", "NumberOfMessagesDeleted"),
    ("AWS/Lambda", "Duration"),
    ("AWS/Lambda", "Errors"),
    ("AWS/Lambda", "Invocations"),
    ("AWS/Lambda", "Throttles"),
}

Watched = tuple[str, str, dict[str, str]]


def watched_by_alarms(stack: Stack) -> Iterator[Watched]:
    for alarm in stack.of_type("AWS::CloudWatch::Alarm").values():
        queries = [
            one["MetricStat"]["Metric"] for one in alarm.get("Metrics", ()) if "MetricStat" in one
        ]
        for metric in queries or [alarm]:
            dimensions = {one["Name"]: one["Value"] for one in metric["Dimensions"]}
            yield metric["Namespace"], metric["MetricName"], dimensions


def dashboard_of(stack: Stack) -> list[dict[str, Any]]:
    [dashboard] = stack.of_type("AWS::CloudWatch::Dashboard").values()
    widgets = json.loads(dashboard["DashboardBody"])["widgets"]
    assert isinstance(widgets, list)
    return widgets


def watched_by_dashboard(stack: Stack) -> Iterator[Watched]:
    for widget in dashboard_of(stack):
        for line in widget["properties"].get("metrics", ()):
            match line:
                case [{"expression": _}]:
                    pass
                case [namespace, name, *dimensions, dict()]:
                    pairs = zip(dimensions[::2], dimensions[1::2], strict=True)
                    yield namespace, name, dict(pairs)
                case _:
                    raise AssertionError(line)


@pytest.mark.parametrize("watched", [watched_by_alarms, watched_by_dashboard])
@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({}, ("MainQueue", "DeadLetterQueue", "ParkedQueue")),
        (OWN_QUEUES | OWN_PARKED_QUEUE, ("orders", "orders-dlq", "orders-parked")),
        (FIFO, ("MainQueue.fifo", "DeadLetterQueue.fifo", "ParkedQueue.fifo")),
    ],
)
def test_every_metric_that_is_watched_is_published_under_this_name(
    watched: Any, given: dict[str, str], names: tuple[str, ...]
) -> None:
    for namespace, name, dimensions in watched(Stack.of(TEMPLATE, SPARK_JOB | given)):
        if namespace == NAMESPACE:
            assert name in PUBLISHED
            assert dimensions == {SERVICE_DIMENSION: SERVICE, MAIN_QUEUE_DIMENSION: names[0]}
        else:
            assert (namespace, name) in PUBLISHED_BY_AWS
            of_sqs = namespace == "AWS/SQS"
            assert dimensions.keys() == {"QueueName" if of_sqs else "FunctionName"}
            functions = {"ReplayFunction", "ReminderFunction"}
            assert set(dimensions.values()) <= (set(names) if of_sqs else functions)


def test_the_dashboard_shows_every_metric_that_is_published() -> None:
    shown = {name for space, name, _ in watched_by_dashboard(WHOLE) if space == NAMESPACE}

    assert shown == PUBLISHED - {Metric.PARKED}


def test_the_dashboard_s_expressions_refer_to_lines_of_the_same_widget() -> None:
    for widget in dashboard_of(WHOLE):
        options = [line[-1] for line in widget["properties"].get("metrics", ())]
        ids = {one["id"] for one in options if "id" in one}
        for one in options:
            used = set(re.findall(r"[a-z]\w*", one.get("expression", "")))
            assert used <= ids, one


def test_the_recovery_rate_of_a_replay_compares_arrivals_before_and_after_it() -> None:
    [widget] = [w for w in dashboard_of(WHOLE) if "Recovery" in w["properties"].get("title", "")]
    options = {one[-1]["id"]: one[-1] for one in widget["properties"]["metrics"] if "id" in one[-1]}

    last = int(TEMPLATE["Parameters"]["MaxAttempts"]["Default"])
    for number in range(1, last + 1):
        rate = options[f"r{number}"]
        assert rate["expression"] == f"100 * (1 - a{number} / a{number - 1})"
        assert rate["label"] == f"replay {number}"
        assert options[f"a{number}"]["stat"] == f"PR({number - 0.5}:{number + 0.5})"
    assert options["a0"]["stat"] == "PR(:0.5)"


def test_widgets_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for widget in dashboard_of(WHOLE):
        columns = range(widget["x"], widget["x"] + widget["width"])
        rows = range(widget["y"], widget["y"] + widget["height"])
        cells = {(column, row) for column in columns for row in rows}
        assert not cells & taken
        assert max(columns) < 24
        taken |= cells


# https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricAlarm.html
LONGEST_DESCRIPTION = 1024


@pytest.mark.parametrize("name", ALARMS)
def test_every_alarm_says_what_to_do_first_in_the_words_of_its_runbook(name: str) -> None:
    alarm = ALARMS[name]
    description = alarm["AlarmDescription"]
    parts = parts_of(name)
    _, _, advice = description.partition(" First: ")
    advice = advice.partition(" Reports: ")[0].replace("--stack dead-letters", "--stack STACK")

    assert list(parts) == ["Do first", "Means", "Look at"]
    assert all(len(text.split()) >= 3 for text in parts.values())
    assert len(advice.split()) >= 5
    assert " ".join(advice.split()) in parts["Do first"].replace("`", "")
    assert len(description) <= LONGEST_DESCRIPTION
    assert not re.search(r"docs/|\.md\b", description), "a path without a host leads nowhere"
    assert alarm["AlarmActions"] == [TOPIC.replace("on-call", "AlarmTopic")]
    # These values change when they are published, and only then: by the job, or with dead letters.
    lasting = {"PendingAlarm", "RunMissedAlarm", "CircuitBreakerAlarm"}
    assert alarm["TreatMissingData"] == ("ignore" if name in lasting else "notBreaching")


def test_the_documents_count_the_alarms() -> None:
    numbers = {12: "twelve", 13: "thirteen", 14: "fourteen"}

    assert f"one of {numbers[len(ALARMS)]} CloudWatch alarms" in (ROOT / "README.md").read_text()


RUNBOOK = (ROOT / "docs/alarms.md").read_text("utf-8")


def test_the_runbook_has_one_section_for_each_alarm_and_none_for_others() -> None:
    sections = re.findall(r"^### (\w+Alarm)$", RUNBOOK, re.MULTILINE)
    listed = re.findall(r"^\| \[(\w+Alarm)\]", RUNBOOK, re.MULTILINE)

    assert sorted(sections) == sorted(ALARMS)
    assert listed == sections


def parts_of(name: str) -> dict[str, str]:
    section = re.split(r"^##+ ", RUNBOOK.partition(f"### {name}\n")[2], flags=re.MULTILINE)[0]
    before, *parts = re.split(r"^\*\*(.+?):\*\*", section, flags=re.MULTILINE)
    assert not before.strip()
    return {
        name: " ".join(text.split()) for name, text in zip(parts[::2], parts[1::2], strict=True)
    }


@pytest.mark.parametrize(
    ("partition", "domain"),
    [
        ("aws", "console.aws.amazon.com"),
        ("aws-cn", "console.amazonaws.cn"),
        ("aws-us-gov", "console.amazonaws-us-gov.com"),
        *((one, None) for one in ("aws-eusc", "aws-iso", "aws-iso-b")),
    ],
)
def test_links_lead_to_the_console_of_the_partition_where_one_is_known(
    partition: str, domain: str | None
) -> None:
    """Where none is known names stand for links: a deployment must not fail for want of one."""
    there = in_partition(partition)
    dashboard = there.outputs["DashboardUrl"]["Value"]

    for text in texts_with_links(there):
        if domain:
            assert f"https://us-east-1.{domain}/s3/buckets/archivebucket?" in text
            assert "prefix=archive/reports/" in text
        else:
            assert "https://" not in text
            assert "s3://archivebucket/archive/reports/" in text
    if domain:
        assert dashboard.startswith(f"https://us-east-1.{domain}/cloudwat")
    else:
        assert dashboard == "Dashboard"


def in_partition(partition: str) -> Stack:
    pseudo_parameters = {**PSEUDO_PARAMETERS, "AWS::Partition": partition}
    return replace(WHOLE, pseudo_parameters=pseudo_parameters)


def texts_with_links(stack: Stack) -> list[str]:
    alarms = stack.of_type("AWS::CloudWatch::Alarm")
    names = ("ParkedGrowingAlarm", "ParkedExpiryAlarm", "PendingAlarm")
    markdown = dashboard_of(stack)[0]["properties"]["markdown"]
    return [*(alarms[name]["AlarmDescription"] for name in names), markdown]


def test_an_alarm_watches_one_result_of_its_expressions() -> None:
    for alarm in ALARMS.values():
        queries = alarm.get("Metrics", ())
        returned = [one for one in queries if one.get("ReturnData", True)]
        assert [one["Id"] for one in returned] in ([], ["watched"])
        if returned:
            used = set(re.findall(r"[a-z]\w*", returned[0]["Expression"]))
            assert used == {one["Id"] for one in queries} - {"watched"}


@pytest.mark.parametrize(
    ("schedule", "is_watched"),
    [
        ("cron(0 5 * * ? *)", True),
        ("cron(30 */6 ? * * *)", True),
        ("cron(0 5 ? * MON-FRI *)", False),
        ("cron(0 5 1 * ? *)", False),
        ("cron(0 5 * 1-6 ? *)", False),
        ("cron(0 5 * * ? 2027)", False),
    ],
)
def test_a_missed_run_is_an_alarm_where_the_schedule_has_one_each_day(
    schedule: str, is_watched: bool
) -> None:
    stack = Stack.of(TEMPLATE, SPARK_JOB | {"SparkJobSchedule": schedule})

    assert ("RunMissedAlarm" in stack.resources) is is_watched
