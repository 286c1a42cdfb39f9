"""Checked against the specification of CloudWatch's embedded metric format."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dlq_replay.measures import NAMESPACE, VALUES_PER_LINE, Measurement, metric_lines
from tests.support.builders import NOW

DIMENSIONS = {"MainQueue": "orders", "service": "dlq-replay"}


def lines_of(*measurements: Measurement) -> list[dict[str, Any]]:
    return [json.loads(line) for line in metric_lines(measurements, DIMENSIONS, NOW)]


def test_a_line_names_what_it_measures() -> None:
    (line,) = lines_of(Measurement("Replayed", (2,)), Measurement("DelaySeconds", (7, 0)))

    assert line == {
        "_aws": {
            "Timestamp": NOW * 1000,
            "CloudWatchMetrics": [
                {
                    "Namespace": NAMESPACE,
                    "Dimensions": [["MainQueue", "service"]],
                    "Metrics": [
                        {"Name": "Replayed", "Unit": "Count"},
                        {"Name": "DelaySeconds", "Unit": "Seconds"},
                    ],
                }
            ],
        },
        **DIMENSIONS,
        "Replayed": [2],
        "DelaySeconds": [7, 0],
    }


def test_nothing_measured_is_nothing_written() -> None:
    assert lines_of() == []
    assert lines_of(Measurement("DelaySeconds", ())) == []


counts = st.lists(st.integers(0, 10**6), max_size=3 * VALUES_PER_LINE).map(tuple)


@given(counts, counts)
def test_every_value_is_written_once_and_no_line_is_too_long(
    delays: tuple[int, ...], replay_counts: tuple[int, ...]
) -> None:
    given_values = {"DelaySeconds": delays, "ReplayCount": replay_counts}
    lines = lines_of(*(Measurement(n, values) for n, values in given_values.items()))

    for name, values in given_values.items():
        written = [line[name] for line in lines if name in line]
        assert list(values) == [value for part in written for value in part]
        assert all(0 < len(part) <= VALUES_PER_LINE for part in written)
    for line in lines:
        (directive,) = line["_aws"]["CloudWatchMetrics"]
        assert {metric["Name"] for metric in directive["Metrics"]} == line.keys() & given_values
