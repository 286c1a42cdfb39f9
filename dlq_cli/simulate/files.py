"""The answer as JSON, and the load as CSV."""

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import zip_longest
from typing import Any, TextIO

from dlq_cli.simulate.bill import Bill
from dlq_cli.simulate.jitter import Jitter
from dlq_cli.simulate.recovery import BREAKER, Recoveries, Recovery
from dlq_cli.simulate.scenario import Scenario


def write_json(recoveries: Recoveries, bills: Mapping[str, Bill], out: TextIO) -> None:
    """Write everything that the text contains, and the load in every step."""
    answer: dict[str, Any] = {
        "version": 1,
        "scenario": _scenario(recoveries[Jitter.FULL].scenario),
        "recovery": {name: _recovery(one) for name, one in recoveries.items()},
        "bill": _bill(bills[Jitter.FULL]),
    }
    if BREAKER in bills:
        answer["breaker_bill"] = _bill(bills[BREAKER])
    json.dump(answer, out, indent=2)
    out.write("\n")


def write_csv(recoveries: Recoveries, out: TextIO) -> None:
    """Write a row for each step: the load by name, and counts with full jitter and the breaker.

    The counts with the breaker end in ``_breaker``.
    """
    full = recoveries[Jitter.FULL]
    counted = {"": full}
    if BREAKER in recoveries:
        counted[f"_{BREAKER}"] = recoveries[BREAKER]
    step_seconds = full.scenario.step_seconds
    normal = full.scenario.arrivals_per_second
    writer = csv.writer(out)
    # "looks", here and in the JSON, are the receives by the Lambda: a name that scripts may read.
    writer.writerow(
        [
            "second",
            *(f"load_{name}" for name in recoveries),
            *(f"{column}{suffix}" for suffix in counted for column in _COLUMNS),
        ]
    )
    loads = zip_longest(*(one.load_per_second() for one in recoveries.values()), fillvalue=normal)
    columns = [counts for one in counted.values() for counts in _counts(one)]
    nothing = (0.0,) * len(columns)
    events = zip_longest(loads, zip_longest(*columns, fillvalue=0.0), fillvalue=nothing)
    for step, (load, counts) in enumerate(events):
        per_second = (count / step_seconds for count in counts)
        writer.writerow([step * step_seconds, *(f"{value:.6g}" for value in (*load, *per_second))])


_COLUMNS = ("failed", "looks", "through", "parked", "replays", "failed_replays", "held")


def _counts(one: Recovery) -> tuple[Sequence[float], ...]:
    """Return what ``_COLUMNS`` names, by step."""
    steps = one.steps
    before = (steps.failed, steps.receives, steps.through, steps.parked)
    return (*before, steps.replays, steps.failed_replays, steps.held)


def _bill(bill: Bill) -> dict[str, float]:
    return {
        **{name: _rounded(value) for name, value in asdict(bill).items()},
        "sqs_dollars": _rounded(bill.sqs_dollars),
        "lambda_dollars": _rounded(bill.lambda_dollars),
    }


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
        "peak_replays_after_per_second": _rounded(one.peak_replays_per_second()),
        "failed_tries": _rounded(one.failed_tries),
        "failed_tries_of_replays": _rounded(one.failed_tries_of_replays),
        "held": _rounded(one.held),
        "breaker_opened_seconds": list(one.opened_seconds),
        "breaker_closed_seconds": list(one.closed_seconds),
        "replays": _rounded(one.replays),
        "looks": _rounded(one.receives),
        "seconds_to_park": _rounded(one.seconds_to_park),
        "load_per_second": [_rounded(load) for load in one.load_per_second()],
    }


def _rounded(value: float) -> float:
    """Round to the digits that the sum of thousands of steps has right."""
    return float(f"{value:.9g}")
