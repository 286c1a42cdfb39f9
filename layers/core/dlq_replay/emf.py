"""Formats metrics as log lines in CloudWatch's embedded metric format (EMF). Pure.

https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html
"""

import json
from collections.abc import Iterable, Iterator, Mapping

from dlq_replay.measures import NAMESPACE, Measurement

VALUES_PER_LINE = 100
"""EMF's limit for one metric in one line. Further values go into further lines."""


def metric_lines(
    measurements: Iterable[Measurement], dimensions: Mapping[str, str], now_seconds: float
) -> Iterator[str]:
    """Yield *measurements* as lines of JSON; one line if no metric has more than 100 values.

    Args:
        measurements: their names must be distinct.
        dimensions: name and value of each dimension, the same for all measurements.
        now_seconds: the time of the measurements, epoch seconds.
    """
    left = [measurement for measurement in measurements if measurement.values]
    start = 0
    while left:
        yield _line(left, start, dimensions, now_seconds)
        start += VALUES_PER_LINE
        left = [measurement for measurement in left if len(measurement.values) > start]


def _line(
    measurements: Iterable[Measurement],
    start: int,
    dimensions: Mapping[str, str],
    now_seconds: float,
) -> str:
    values = {one.name: one.values[start : start + VALUES_PER_LINE] for one in measurements}
    directive = {
        "Namespace": NAMESPACE,
        "Dimensions": [list(dimensions)],
        "Metrics": [{"Name": one.name, "Unit": one.unit} for one in measurements],
    }
    metadata = {"Timestamp": int(now_seconds * 1000), "CloudWatchMetrics": [directive]}
    return json.dumps({"_aws": metadata, **dimensions, **values})
