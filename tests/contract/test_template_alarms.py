"""Alarms and dashboard: what they look at is published, when they ring, and each has a runbook."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dlq_replay.replaying.measures import (
    MAIN_QUEUE_DIMENSION,
    NAMESPACE,
    QUEUE_TAG_DIMENSION,
    SERVICE,
    SERVICE_DIMENSION,
    Metric,
)
from dlq_replay.rules.decision import ParkReason
from tests.contract.cloudformation import PSEUDO_PARAMETERS, Stack
from tests.contract.template import (
    FIFO,
    FLEET,
    OWN_PARKED_QUEUE,
    OWN_QUEUES,
    ROOT,
    SPARK_JOB,
    SWEEP,
    TEMPLATE,
)

WHOLE = Stack.of(TEMPLATE, SPARK_JOB)
ALARMS = WHOLE.of_type("AWS::CloudWatch::Alarm")
WHOLE_FLEET = Stack.of(TEMPLATE, SPARK_JOB | SWEEP | {"FifoParkedQueue": "true"})
FLEET_ALARMS = WHOLE_FLEET.of_type("AWS::CloudWatch::Alarm")
OF_BOTH = [*ALARMS.items(), *FLEET_ALARMS.items()]
HOUR = 3600
DAY = 24 * HOUR

# --- What they look at

PUBLISHED = {metric.value for metric in Metric} | {f"Parked_{reason}" for reason in ParkReason}

# https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-available-cloudwatch-metrics.html
# https://docs.aws.amazon.com/lambda/latest/dg/monitoring-metrics-types.html
PUBLISHED_BY_AWS = {
    ("AWS/SQS", "ApproximateAgeOfOldestMessage"),
    ("AWS/SQS", "ApproximateNumberOfMessagesDelayed"),
    ("AWS/SQS", "ApproximateNumberOfMessagesNotVisible"),
    ("AWS/SQS", "ApproximateNumberOfMessagesVisible"),
    ("AWS/SQS", "NumberOfMessagesDeleted"),
    ("AWS/SQS", "NumberOfMessagesReceived"),
    ("AWS/Lambda", "Duration"),
    ("AWS/Lambda", "Errors"),
    ("AWS/Lambda", "Invocations"),
    ("AWS/Lambda", "Throttles"),
}

Watched = tuple[str, str, dict[str, str]]


def watched_by_alarms(stack: Stack) -> Iterator[Watched]:
    for alarm in stack.of_type("AWS::CloudWatch::Alarm").values():
        queries = [query for query in alarm.get("Metrics", ()) if "MetricStat" in query]
        metrics = [query["MetricStat"]["Metric"] for query in queries]
        for metric in metrics or [alarm]:
            dimensions = {part["Name"]: part["Value"] for part in metric["Dimensions"]}
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


OF_ALL_MEMBERS = {
    Metric.ARRIVED_TOTAL,
    Metric.FAILED_TOTAL,
    Metric.NEAREST_EXPIRY_SECONDS,
    Metric.CIRCUIT_BREAKERS_OPEN,
    Metric.BREAKER_FAULTS,
    Metric.RETURNS_NOT_COUNTED,
    Metric.STUCK_QUEUES,
    Metric.PENDING_MESSAGES,
    Metric.OLDEST_PENDING_SECONDS,
    Metric.LAST_RUN_AGE_SECONDS,
    Metric.OLDEST_PARKED_SECONDS,
}
"""What is published for all queues of a fleet together. The rest is for each main queue."""


@pytest.mark.parametrize("watched", [watched_by_alarms, watched_by_dashboard])
@pytest.mark.parametrize(
    ("given", "queues"),
    [
        (FLEET, {"ParkedQueue"}),
        (SWEEP | {"FifoParkedQueue": "true"}, {"ParkedQueue", "ParkedFifoQueue.fifo"}),
        (SWEEP | OWN_PARKED_QUEUE, {"orders-parked"}),
    ],
)
def test_a_fleet_watches_what_is_published_for_all_its_queues(
    watched: Any, given: dict[str, str], queues: set[str]
) -> None:
    for namespace, name, dimensions in watched(Stack.of(TEMPLATE, SPARK_JOB | given)):
        if namespace == NAMESPACE:
            assert name in OF_ALL_MEMBERS
            assert dimensions == {SERVICE_DIMENSION: SERVICE, QUEUE_TAG_DIMENSION: "shop"}
        elif namespace == "AWS/SQS":
            assert (namespace, name) in PUBLISHED_BY_AWS
            assert dimensions.keys() == {"QueueName"}
            assert set(dimensions.values()) <= queues
        else:
            assert (namespace, name) in PUBLISHED_BY_AWS
            functions = {"ReplayFunction", "ReminderFunction"}
            functions |= {"SweepFunction"} if "Sweep" in given else set()
            assert dimensions["FunctionName"] in functions


@pytest.mark.parametrize(
    ("stack", "published"),
    [
        (WHOLE, PUBLISHED - {Metric.PARKED, Metric.STUCK_QUEUES}),
        (WHOLE_FLEET, OF_ALL_MEMBERS),
    ],
    ids=["one queue", "fleet"],
)
def test_the_dashboard_shows_what_is_published_and_its_expressions_use_their_own_lines(
    stack: Stack, published: set[str]
) -> None:
    shown = {name for space, name, _ in watched_by_dashboard(stack) if space == NAMESPACE}

    assert shown == published
    for widget in dashboard_of(stack):
        options = [line[-1] for line in widget["properties"].get("metrics", ())]
        used = re.findall(r"[a-z]\w*", " ".join(option.get("expression", "") for option in options))
        assert set(used) <= {option.get("id") for option in options}


# --- What they say

# https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricAlarm.html
LONGEST_DESCRIPTION = 1024
RUNBOOK = (ROOT / "docs/alarms.md").read_text("utf-8")


@pytest.mark.parametrize(("name", "alarm"), OF_BOTH)
def test_every_alarm_says_what_to_do_first_in_the_words_of_its_runbook(
    name: str, alarm: dict[str, Any]
) -> None:
    description = alarm["AlarmDescription"]
    parts = parts_of(name)
    _, _, advice = description.partition(" First: ")
    advice = advice.partition(" Reports: ")[0].replace("--stack dead-letters", "--stack STACK")

    assert list(parts) == ["Do first", "Can it wait", "Means", "Look at"]
    assert all(len(text.split()) >= 3 for text in parts.values())
    assert len(advice.split()) >= 5
    assert " ".join(advice.split()) in parts["Do first"].replace("`", "")
    assert len(description) <= LONGEST_DESCRIPTION
    assert not re.search(r"docs/|\.md\b", description), "a path without a host leads nowhere"
    assert alarm["AlarmActions"] == ["arn:aws:sns:us-east-1:123456789012:AlarmTopic"]


def test_a_missing_value_means_what_it_should() -> None:
    """Some values change only when they are published: by the job, or with dead letters."""
    lasting = {"PendingAlarm", "RunMissedAlarm"}
    for name, alarm in ALARMS.items():
        is_lasting = name in lasting | {"CircuitBreakerAlarm"}
        assert alarm["TreatMissingData"] == ("ignore" if is_lasting else "notBreaching")
    for name, alarm in FLEET_ALARMS.items():
        treatment = {"NoSweepAlarm": "breaching", **dict.fromkeys(lasting, "ignore")}
        assert alarm["TreatMissingData"] == treatment.get(name, "notBreaching")


def parts_of(name: str) -> dict[str, str]:
    section = re.split(r"^##+ ", RUNBOOK.partition(f"### {name}\n")[2], flags=re.MULTILINE)[0]
    before, *parts = re.split(r"^\*\*(.+?):\*\*", section, flags=re.MULTILINE)
    assert not before.strip()
    headings = parts[::2]
    texts = [" ".join(text.split()) for text in parts[1::2]]
    return dict(zip(headings, texts, strict=True))


def test_the_table_and_the_section_of_an_alarm_agree_whether_it_can_wait() -> None:
    rows = re.findall(r"^\| \[(\w+Alarm)\].* \| \**([^|*]+)\** \|$", RUNBOOK, re.MULTILINE)

    assert sorted(name for name, _ in rows) == sorted(ALARMS | FLEET_ALARMS)
    for name, wait in rows:
        assert parts_of(name)["Can it wait"].startswith(wait.strip())
    pages = {name for name, wait in rows if wait.strip() != "until the morning"}
    chat = (ROOT / "docs/chat.md").read_text("utf-8")
    assert pages == set(re.findall(r"`(\w+Alarm)`", chat.partition("## PagerDuty")[2]))


def test_the_documents_have_each_alarm_once_and_no_other() -> None:
    sections = re.findall(r"^### (\w+Alarm)$", RUNBOOK, re.MULTILINE)
    listed = re.findall(r"^\| \[(\w+Alarm)\]", RUNBOOK, re.MULTILINE)
    numbers = {12: "twelve", 13: "thirteen", 14: "fourteen"}

    assert sorted(sections) == sorted(ALARMS | FLEET_ALARMS)
    assert listed == sections
    assert len(FLEET_ALARMS) <= len(ALARMS)
    number = numbers[len(ALARMS)]
    assert f"one of {number} CloudWatch alarms" in " ".join(RUNBOOK.split())
    assert f"[{number.capitalize()} alarms]" in (ROOT / "README.md").read_text()


@pytest.mark.parametrize(
    ("partition", "domain"),
    [
        ("aws", "console.aws.amazon.com"),
        ("aws-cn", "console.amazonaws.cn"),
        ("aws-us-gov", "console.amazonaws-us-gov.com"),
        *((partition, None) for partition in ("aws-eusc", "aws-iso", "aws-iso-b")),
    ],
)
def test_links_lead_to_the_console_of_the_partition_where_one_is_known(
    partition: str, domain: str | None
) -> None:
    """Where none is known names stand for links: a deployment must not fail for want of one."""
    there = replace(WHOLE, pseudo_parameters={**PSEUDO_PARAMETERS, "AWS::Partition": partition})
    alarms = there.of_type("AWS::CloudWatch::Alarm")
    texts = [dashboard_of(there)[0]["properties"]["markdown"]]
    texts += [alarms[f"{name}Alarm"]["AlarmDescription"] for name in ("ParkedGrowing", "Pending")]
    bucket = f"https://us-east-1.{domain}/s3/buckets/archivebucket?" if domain else "s3://"

    assert all(bucket in text and "archive/reports/" in text for text in texts)
    assert domain or not any("https://" in text for text in texts)
    start = f"https://us-east-1.{domain}/cloudwatch/" if domain else "Dashboard"
    assert there.outputs["DashboardUrl"]["Value"].startswith(start)


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


# --- When they ring: expressions over made-up metrics, as CloudWatch has them

Series = np.ndarray[Any, np.dtype[np.float64]]
Metrics = dict[str, list[list[float]]]
"""By the id in the alarm: a list of periods, each a list of what was published in it."""


def fill(values: Series, filler: float) -> Series:
    return np.where(np.isnan(values), filler, values)


def choose(condition: Series, value: Series | float, other: Series | float = np.nan) -> Series:
    return np.where(condition, value, other).astype(np.float64)


# https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/using-metric-math.html
FUNCTIONS: Mapping[str, Callable[..., Series]] = {
    "DIFF": lambda values: np.diff(values, prepend=np.nan),
    "FILL": fill,
    # Of two arguments: nothing where the condition is false.
    "IF": choose,
    # Of a list of series: of those that have a value. docs/real-account.md asks an account.
    "MAX": np.fmax.reduce,
    "MIN": np.fmin.reduce,
}
STATISTICS: Mapping[str, Callable[[list[float]], float]] = {
    "Maximum": max,
    "Minimum": min,
    "Sum": sum,
}


def dlq(**published: list[float]) -> Metrics:
    return {key: [published.get(key, [])] for key in ("expiry", "visible", "received", "age")}


def limits(**published: list[float]) -> Metrics:
    return {key: [published.get(key, [])] for key in ("open", "visible", "held")}


CASES: list[tuple[str, Metrics, bool]] = [
    ("ParkedGrowingAlarm", {"visible": [[5, 5], [5, 15]], "hidden": [[0, 0], [0, 0]]}, True),
    ("ParkedGrowingAlarm", {"visible": [[5, 5], [5, 14]], "hidden": [[0, 0], [0, 0]]}, False),
    ("ParkedGrowingAlarm", {"visible": [[90, 90], [90, 90]], "hidden": [[0, 0], [0, 0]]}, False),
    # A drain hides what is there; that is no growth, and neither is it when it gives it back.
    ("ParkedGrowingAlarm", {"visible": [[50, 50], [50, 0]], "hidden": [[0, 0], [0, 50]]}, False),
    ("ParkedGrowingAlarm", {"visible": [[50, 0], [0, 0]], "hidden": [[0, 50], [50, 50]]}, False),
    ("ParkedGrowingAlarm", {"visible": [[0, 0], [0, 50]], "hidden": [[50, 50], [50, 0]]}, False),
    ("ParkedGrowingAlarm", {"visible": [[50, 0], [0, 0]], "hidden": [[0, 50], [0, 0]]}, False),
    # SQS says nothing about a queue that has been empty for long.
    ("ParkedGrowingAlarm", {"visible": [[], [0, 10]], "hidden": [[], [0, 0]]}, True),
    ("ParkedExpiryAlarm", {"age": [[12 * DAY]], "oldest": [[]]}, True),
    ("ParkedExpiryAlarm", {"age": [[12 * DAY - 1]], "oldest": [[]]}, False),
    # SQS leaves out what was received three times. The next value comes in a day.
    ("ParkedExpiryAlarm", {"age": [[60]], "oldest": [[11 * DAY]]}, True),
    ("ParkedExpiryAlarm", {"age": [[]], "oldest": [[11 * DAY]]}, True),
    ("ParkedExpiryAlarm", {"age": [[60]], "oldest": [[11 * DAY - 1]]}, False),
    ("ParkedExpiryAlarm", {"age": [[]], "oldest": [[]]}, False),
    ("NearestExpiryAlarm", dlq(expiry=[300 * HOUR, 48 * HOUR]), True),
    ("NearestExpiryAlarm", dlq(expiry=[300 * HOUR, 49 * HOUR], visible=[5], age=[60]), False),
    # The function sees nothing: paused; throttled or failing, also with a single message.
    ("NearestExpiryAlarm", dlq(visible=[5, 5], received=[0], age=[60]), True),
    ("NearestExpiryAlarm", dlq(visible=[0, 0], received=[0, 1]), True),
    ("NearestExpiryAlarm", dlq(visible=[1, 0]), True),
    ("NearestExpiryAlarm", dlq(visible=[0], received=[0]), False),
    # One message that could not be sent on is hidden for hours, by a long visibility timeout.
    ("NearestExpiryAlarm", dlq(visible=[0, 0], age=[3 * HOUR]), False),
    ("NearestExpiryAlarm", dlq(), False),
    # Of 14 days a message may have spent 4 in main; 2 are left.
    ("NearestExpiryAlarm", dlq(expiry=[300 * HOUR], visible=[5], age=[8 * DAY]), True),
    ("NearestExpiryAlarm", dlq(expiry=[300 * HOUR], visible=[5], age=[8 * DAY - 1]), False),
    ("CircuitBreakerAlarm", limits(open=[0, 1], visible=[5]), True),
    ("CircuitBreakerAlarm", limits(open=[0], visible=[5]), False),
    # SQS's counts are approximate; what a batch says counts.
    ("CircuitBreakerAlarm", limits(open=[1], visible=[0]), True),
    # No batch comes any more: the DLQ is empty, or it is not known whether it is.
    ("CircuitBreakerAlarm", limits(visible=[0, 0]), False),
    ("CircuitBreakerAlarm", limits(open=[1], visible=[0, 0], held=[0, 5]), True),
    ("CircuitBreakerAlarm", limits(open=[1]), True),
    ("InFlightAlarm", {"main": [[100_000, 5]], "dead": [[0, 0]]}, True),
    ("InFlightAlarm", {"main": [[]], "dead": [[119_000]]}, True),
    ("InFlightAlarm", {"main": [[60_000]], "dead": [[60_000]]}, False),
    ("NothingReplayedAlarm", {"waiting": [[3, 4]], "moved": [[0, 0]]}, True),
    ("NothingReplayedAlarm", {"waiting": [[3, 4]], "moved": [[]]}, True),
    ("NothingReplayedAlarm", {"waiting": [[3, 4]], "moved": [[1, 0]]}, False),
    ("NothingReplayedAlarm", {"waiting": [[3, 0]], "moved": [[0, 0]]}, False),
    ("NothingReplayedAlarm", {"waiting": [[]], "moved": [[]]}, False),
]
"""Of an alarm on a single metric, ``stacks.yaml`` has statistic, threshold and comparison."""


def parked(visible: list[list[float]], fifo: list[list[float]]) -> Metrics:
    none: list[list[float]] = [[0], [0]]
    return {"visible": visible, "hidden": none, "fifovisible": fifo, "fifohidden": none}


FLEET_CASES: list[tuple[str, Metrics, bool]] = [
    ("ParkedGrowingAlarm", parked([[5], [10]], [[1], [6]]), True),
    ("ParkedGrowingAlarm", parked([[], []], [[], [10]]), True),
    ("ParkedGrowingAlarm", parked([[5], [10]], [[6], [1]]), False),
    ("ParkedExpiryAlarm", {"age": [[60]], "fifoage": [[12 * DAY]], "oldest": [[]]}, True),
    ("ParkedExpiryAlarm", {"age": [[]], "fifoage": [[]], "oldest": [[11 * DAY]]}, True),
    ("ParkedExpiryAlarm", {"age": [[60]], "fifoage": [[60]], "oldest": [[60]]}, False),
    ("NearestExpiryAlarm", {"expiry": [[300 * HOUR, 48 * HOUR]]}, True),
    ("NearestExpiryAlarm", {"expiry": [[300 * HOUR, 49 * HOUR]]}, False),
    ("NearestExpiryAlarm", {"expiry": [[]]}, False),
    # A mapping's batch of another queue says 0 in between.
    ("CircuitBreakerAlarm", {"open": [[0, 1, 0]]}, True),
    ("CircuitBreakerAlarm", {"open": [[0, 0]]}, False),
    ("ReplayErrorsAlarm", {"mapped": [[0, 1]], "swept": [[0]]}, True),
    # No mapping reads anything, so Lambda says nothing of its function.
    ("ReplayErrorsAlarm", {"mapped": [[]], "swept": [[0, 1]]}, True),
    ("ReplayErrorsAlarm", {"mapped": [[]], "swept": [[0, 0]]}, False),
    ("NoSweepAlarm", {"begun": [[1, 1, 1, 1, 1]], "failed": [[1, 1, 1, 1, 1]]}, True),
    ("NoSweepAlarm", {"begun": [[1, 1, 1, 1, 1]], "failed": [[1, 1, 1, 1, 0]]}, False),
    # The rule is disabled, or gone.
    ("NoSweepAlarm", {"begun": [[]], "failed": [[]]}, True),
]
CASES_OF_BOTH = [(ALARMS, *case) for case in CASES]
CASES_OF_BOTH += [(FLEET_ALARMS, *case) for case in FLEET_CASES]


@pytest.mark.parametrize(("alarms", "name", "metrics", "rings"), CASES_OF_BOTH)
def test_an_alarm_rings_when_it_should(
    alarms: Mapping[str, Any], name: str, metrics: Metrics, rings: bool
) -> None:
    alarm = alarms[name]
    [expression] = [query["Expression"] for query in alarm["Metrics"] if "Expression" in query]
    queries = [query for query in alarm["Metrics"] if "MetricStat" in query]
    assert {query["Id"] for query in queries} == metrics.keys()
    series = {}
    for query in queries:
        statistic = STATISTICS[query["MetricStat"]["Stat"]]
        periods = metrics[query["Id"]]
        values = [statistic(period) if period else np.nan for period in periods]
        series[query["Id"]] = np.array(values, dtype=float)

    last = eval(expression, {"__builtins__": {}}, {**FUNCTIONS, **series})[-1]  # noqa: S307 - ours

    compare = {
        "GreaterThanOrEqualToThreshold": last >= float(alarm["Threshold"]),
        "LessThanOrEqualToThreshold": last <= float(alarm["Threshold"]),
        "LessThanThreshold": last < float(alarm["Threshold"]),
    }
    if np.isnan(last):
        assert (alarm["TreatMissingData"] == "breaching") is rings
    else:
        assert bool(compare[alarm["ComparisonOperator"]]) is rings


@pytest.mark.parametrize(
    ("alarms", "cases"), [(ALARMS, CASES), (FLEET_ALARMS, FLEET_CASES)], ids=["one queue", "fleet"]
)
def test_every_alarm_with_an_expression_is_tried_both_ways(
    alarms: Mapping[str, Any], cases: list[tuple[str, Metrics, bool]]
) -> None:
    with_expression = [name for name, alarm in alarms.items() if "Metrics" in alarm]

    tried = {(name, rings) for name, _, rings in cases}
    assert tried == {(name, rings) for name in with_expression for rings in (True, False)}


# https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricAlarm.html
@pytest.mark.parametrize("given", [{}, FIFO, SWEEP | {"FifoParkedQueue": "true"}])
def test_cloudwatch_takes_the_length_and_the_metrics_of_every_alarm(given: dict[str, str]) -> None:
    for alarm in Stack.of(TEMPLATE, SPARK_JOB | given).of_type("AWS::CloudWatch::Alarm").values():
        stats = [query["MetricStat"] for query in alarm.get("Metrics", ()) if "MetricStat" in query]
        [period] = {stat["Period"] for stat in stats or [alarm]}

        assert len(stats) <= 10
        assert period * alarm["EvaluationPeriods"] <= (DAY if period < HOUR else 7 * DAY)
        returned = [query for query in alarm.get("Metrics", ()) if query.get("ReturnData", True)]
        assert [query["Id"] for query in returned] == (["watched"] if stats else [])
