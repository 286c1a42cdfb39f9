"""When alarms speak: their statistics and expressions over made-up metrics, as CloudWatch has them.

A metric is a list of periods, and a period a list of what was published in it.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from tests.contract.cloudformation import Stack
from tests.contract.template import FIFO, SPARK_JOB, TEMPLATE

ALARMS = Stack.of(TEMPLATE, SPARK_JOB).of_type("AWS::CloudWatch::Alarm")

HOUR = 3600
DAY = 24 * HOUR

Series = np.ndarray[Any, np.dtype[np.float64]]

Metric = list[list[float]]


def fill(values: Series, filler: float) -> Series:
    filled = values.copy()
    filled[np.isnan(filled)] = filler
    return filled


# https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/using-metric-math.html
FUNCTIONS: Mapping[str, Callable[..., Series]] = {
    "DIFF": lambda values: np.diff(values, prepend=np.nan),
    "FILL": fill,
    # Of two arguments: nothing where the condition is false.
    "IF": lambda condition, value: np.where(condition, value, np.nan),
    # Of a list of series: of those that have a value.
    "MAX": np.fmax.reduce,
    "MIN": np.fmin.reduce,
    "SUM": lambda series: np.where(np.isnan(series).all(0), np.nan, np.nansum(series, 0)),
}
STATISTICS: Mapping[str, Callable[[list[float]], float]] = {
    "Maximum": max,
    "Minimum": min,
    "Sum": sum,
}


def speaks(name: str, **metrics: Metric) -> bool:
    """Whether the alarm's last period breaches; a metric without an expression is ``value``."""
    alarm = ALARMS[name]
    queries = alarm.get("Metrics", ())
    expressions = [one["Expression"] for one in queries if "Expression" in one]
    statistics = {one["Id"]: one["MetricStat"]["Stat"] for one in queries if "MetricStat" in one}
    statistics = statistics or {"value": alarm["Statistic"]}
    assert statistics.keys() == metrics.keys()
    series = {key: series_of(metrics[key], STATISTICS[name]) for key, name in statistics.items()}
    [expression] = expressions or ["value"]
    values = eval(expression, {"__builtins__": {}}, {**FUNCTIONS, **series})  # noqa: S307 - ours
    last, threshold = values[-1], float(alarm["Threshold"])
    if np.isnan(last):
        assert alarm["TreatMissingData"] in ("notBreaching", "ignore")
        return False
    if alarm["ComparisonOperator"] == "GreaterThanOrEqualToThreshold":
        return bool(last >= threshold)
    assert alarm["ComparisonOperator"] == "LessThanOrEqualToThreshold"
    return bool(last <= threshold)


def series_of(metric: Metric, statistic: Callable[[list[float]], float]) -> Series:
    return np.array([statistic(period) if period else np.nan for period in metric], dtype=float)


def dlq(**published: list[float]) -> dict[str, Metric]:
    return {key: [published.get(key, [])] for key in ("expiry", "visible", "hidden", "age")}


CASES: list[tuple[str, dict[str, Metric], bool]] = [
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
    ("PendingAlarm", {"value": [[0, 1]]}, True),
    ("PendingAlarm", {"value": [[0]]}, False),
    ("PendingAlarm", {"value": [[]]}, False),
    ("NearestExpiryAlarm", dlq(expiry=[300 * HOUR, 48 * HOUR]), True),
    ("NearestExpiryAlarm", dlq(expiry=[300 * HOUR, 49 * HOUR], visible=[5], age=[60]), False),
    # The function sees nothing: paused; throttled or failing, also with a single message.
    ("NearestExpiryAlarm", dlq(visible=[5, 5], hidden=[0], age=[60]), True),
    ("NearestExpiryAlarm", dlq(visible=[0, 0], hidden=[0, 1]), True),
    ("NearestExpiryAlarm", dlq(visible=[1, 0]), True),
    ("NearestExpiryAlarm", dlq(visible=[0], hidden=[0]), False),
    ("NearestExpiryAlarm", dlq(), False),
    # Of 14 days a message may have spent 4 in main; 2 are left.
    ("NearestExpiryAlarm", dlq(expiry=[300 * HOUR], visible=[5], age=[8 * DAY]), True),
    ("NearestExpiryAlarm", dlq(expiry=[300 * HOUR], visible=[5], age=[8 * DAY - 1]), False),
    ("InFlightAlarm", {"main": [[100_000, 5]], "dead": [[0, 0]]}, True),
    ("InFlightAlarm", {"main": [[]], "dead": [[119_000]]}, True),
    ("InFlightAlarm", {"main": [[60_000]], "dead": [[60_000]]}, False),
    ("ReplayErrorsAlarm", {"value": [[0, 1]]}, True),
    ("ReplayErrorsAlarm", {"value": [[0, 0]]}, False),
    ("FailedSendsAlarm", {"value": [[1, 0]]}, True),
    ("FailedSendsAlarm", {"value": [[0, 0]]}, False),
    ("ArrivedAlarm", {"value": [[6, 4]]}, True),
    ("ArrivedAlarm", {"value": [[9], [9]]}, False),
    ("CircuitBreakerAlarm", {"value": [[0, 1]]}, True),
    ("CircuitBreakerAlarm", {"value": [[0, 0]]}, False),
    ("ReminderErrorsAlarm", {"value": [[1]]}, True),
    ("ReminderErrorsAlarm", {"value": [[0]]}, False),
    ("RunMissedAlarm", {"value": [[30 * HOUR]]}, True),
    # A run a day, and its age is published once a day, in the worst case just before the next.
    ("RunMissedAlarm", {"value": [[24 * HOUR + 1]]}, False),
    ("ReplayThrottlesAlarm", {"value": [[0, 1]]}, True),
    ("ReplayThrottlesAlarm", {"value": [[]]}, False),
    ("NothingReplayedAlarm", {"waiting": [[3, 4]], "moved": [[0, 0]]}, True),
    ("NothingReplayedAlarm", {"waiting": [[3, 4]], "moved": [[]]}, True),
    ("NothingReplayedAlarm", {"waiting": [[3, 4]], "moved": [[1, 0]]}, False),
    ("NothingReplayedAlarm", {"waiting": [[3, 0]], "moved": [[0, 0]]}, False),
    ("NothingReplayedAlarm", {"waiting": [[]], "moved": [[]]}, False),
]


@pytest.mark.parametrize(("name", "metrics", "expected"), CASES)
def test_an_alarm_speaks_when_it_should(
    name: str, metrics: dict[str, Metric], expected: bool
) -> None:
    assert speaks(name, **metrics) is expected


# https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricAlarm.html
@pytest.mark.parametrize("given", [{}, FIFO])
def test_cloudwatch_takes_the_length_and_the_metrics_of_every_alarm(given: dict[str, str]) -> None:
    for alarm in Stack.of(TEMPLATE, SPARK_JOB | given).of_type("AWS::CloudWatch::Alarm").values():
        stats = [one["MetricStat"] for one in alarm.get("Metrics", ()) if "MetricStat" in one]
        [period] = {one["Period"] for one in stats or [alarm]}

        assert len(stats) <= 10
        assert period * alarm["EvaluationPeriods"] <= (DAY if period < HOUR else 7 * DAY)


def test_every_alarm_is_tried_both_ways() -> None:
    tried = {(name, expected) for name, _, expected in CASES}

    assert tried == {(name, expected) for name in ALARMS for expected in (True, False)}
