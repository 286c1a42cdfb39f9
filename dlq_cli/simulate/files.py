"""The answer as JSON, and the load as CSV."""

import csv
import json
from collections.abc import Mapping
from dataclasses import asdict
from itertools import zip_longest
from typing import Any, TextIO

from dlq_cli.simulate.bill import Bill
from dlq_cli.simulate.jitter import Jitter
from dlq_cli.simulate.recovery import Recovery
from dlq_cli.simulate.scenario import Scenario


def write_json(recoveries: Mapping[Jitter, Recovery], bill: Bill, out: TextIO) -> None:
    """Write everything that the text contains, and the load in every step."""
    answer = {
        "version": 1,
        "scenario": _scenario(recoveries[Jitter.FULL].scenario),
        "recovery": {jitter: _recovery(one) for jitter, one in recoveries.items()},
        "bill": {
            **{name: _rounded(value) for name, value in asdict(bill).items()},
            "sqs_dollars": _rounded(bill.sqs_dollars),
            "lambda_dollars": _rounded(bill.lambda_dollars),
        },
    }
    json.dump(answer, out, indent=2)
    out.write("\n")


def write_csv(recoveries: Mapping[Jitter, Recovery], out: TextIO) -> None:
    """Write a row for each step: the load with each jitter, and the results with full jitter."""
    full = recoveries[Jitter.FULL]
    step_seconds = full.scenario.step_seconds
    normal = full.scenario.arrivals_per_second
    writer = csv.writer(out)
    # "looks", here and in the JSON, are the receives by the Lambda: a name that scripts may read.
    writer.writerow(
        [
            "second",
            *(f"load_{jitter}" for jitter in recoveries),
            "failed",
            "looks",
            "through",
            "parked",
        ]
    )
    loads = zip_longest(*(one.load_per_second() for one in recoveries.values()), fillvalue=normal)
    columns = (full.steps.failed, full.steps.receives, full.steps.through, full.steps.parked)
    events = zip_longest(loads, zip(*columns, strict=True), fillvalue=(0.0,) * len(columns))
    for step, (load, counts) in enumerate(events):
        per_second = (count / step_seconds for count in counts)
        writer.writerow([step * step_seconds, *(f"{value:.6g}" for value in (*load, *per_second))])


def _scenario(scenario: Scenario) -> dict[str, Any]:
    policy = scenario.policy
    return {
        "outage_seconds": scenario.outage_seconds,
        "arrivals_per_second": scenario.arrivals_per_second,
        "burst_count": scenario.burst_count,
        "max_attempts": policy.max_attempts,
        "backoff_rate": policy.backoff.rate_seconds,
        "backoff_cap_seconds": policy.backoff.cap_seconds,
        "visibility_timeout_seconds": scenario.visibility_timeout_seconds,
        "max_receive_count": scenario.max_receive_count,
        "capacity_per_second": scenario.capacity_per_second,
        "message_bytes": scenario.message_bytes,
        "step_seconds": scenario.step_seconds,
    }


def _recovery(one: Recovery) -> dict[str, Any]:
    return {
        "arrived": one.scenario.arrived_count,
        "recovered": _rounded(one.recovered),
        "recovered_by_replay_count": [_rounded(size) for size in one.through_by_replay_count],
        "parked": _rounded(one.parked),
        "parked_share": _rounded(one.parked_share),
        "half_through_after_seconds": one.through_seconds(0.5),
        "last_through_after_seconds": one.through_seconds(1),
        "peak_load_after_per_second": _rounded(one.peak_per_second()),
        "peak_in_flight": _rounded(one.peak_in_flight),
        "failed_tries": _rounded(one.failed_tries),
        "replays": _rounded(one.replays),
        "looks": _rounded(one.receives),
        "seconds_to_park": _rounded(one.seconds_to_park),
        "load_per_second": [_rounded(load) for load in one.load_per_second()],
    }


def _rounded(value: float) -> float:
    """Round to the digits that the sum of thousands of steps has right."""
    return float(f"{value:.9g}")
