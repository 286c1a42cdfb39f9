"""Checked against the specification of CloudWatch's embedded metric format."""

import json
from contextlib import redirect_stdout
from io import StringIO
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dlq_replay.measures import NAMESPACE, VALUES_PER_LINE, Measured, publish
from tests.support.builders import NOW

DIMENSIONS = {"MainQueue": "orders", "service": "dlq-replay"}


def lines_of(measured: Measured) -> list[dict[str, Any]]:
    with redirect_stdout(StringIO()) as printed:
        publish(measured, "orders", NOW)
    return [json.loads(line) for line in printed.getvalue().splitlines()]


def test_a_line_names_what_it_measures() -> None:
    (line,) = lines_of({"Replayed": [2], "DelaySeconds": [7, 0]})

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
    assert lines_of({}) == lines_of({"DelaySeconds": []}) == []


counts = st.lists(st.integers(0, 10**6), max_size=3 * VALUES_PER_LINE).map(tuple)


@given(counts, counts)
def test_every_value_is_written_once_and_no_line_is_too_long(
    delays: tuple[int, ...], replay_counts: tuple[int, ...]
) -> None:
    given_values = {"DelaySeconds": delays, "ReplayCount": replay_counts}
    lines = lines_of({**given_values})

    for name, values in given_values.items():
        written = [line[name] for line in lines if name in line]
        assert list(values) == [value for part in written for value in part]
        assert all(0 < len(part) <= VALUES_PER_LINE for part in written)
    for line in lines:
        (directive,) = line["_aws"]["CloudWatchMetrics"]
        assert {metric["Name"] for metric in directive["Metrics"]} == line.keys() & given_values
