"""Finds the smallest number of replays that is enough for an outage. Pure."""

from dataclasses import replace

from dlq_cli.simulate.flow import simulate
from dlq_cli.simulate.scenario import Scenario
from dlq_replay.settings import MAX_ATTEMPTS_RANGE


def smallest_max_attempts(scenario: Scenario, parked_share: float) -> int | None:
    """Return the smallest ``max_attempts`` that parks less than *parked_share* of the messages.

    None if even the largest is not enough.
    """
    low, high = MAX_ATTEMPTS_RANGE[0] - 1, 1
    while not _is_enough(scenario, high, parked_share):
        if high == MAX_ATTEMPTS_RANGE[1]:
            return None
        low, high = high, min(2 * high, MAX_ATTEMPTS_RANGE[1])
    while high - low > 1:
        middle = (low + high) // 2
        if _is_enough(scenario, middle, parked_share):
            high = middle
        else:
            low = middle
    return high


def _is_enough(scenario: Scenario, max_attempts: int, parked_share: float) -> bool:
    policy = replace(scenario.policy, max_attempts=max_attempts)
    return simulate(replace(scenario, policy=policy)).parked_share < parked_share
