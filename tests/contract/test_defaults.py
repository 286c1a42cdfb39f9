"""The template's defaults, by the simulator: an hour's outage parks fewer than 1 in 1,000."""

from dataclasses import replace

from dlq_cli.simulate.bill import EVENT_MESSAGES, FUNCTION_GB
from dlq_cli.simulate.model import Scenario, policy_of, simulate
from dlq_cli.verbs.simulate import ACCEPTED_SHARE
from dlq_replay.settings import ReplaySettings
from tests.contract.cloudformation import Stack
from tests.contract.template import TEMPLATE, environment_of, function_of

STACK = Stack.of(TEMPLATE)


def test_the_simulator_starts_from_the_template() -> None:
    main = STACK.resources["MainQueue"]["Properties"]
    rules, policy = ReplaySettings.from_env(environment_of(STACK)).policy, policy_of()

    assert (rules.max_attempts, rules.backoff) == (policy.max_attempts, policy.backoff)
    assert rules.max_age_seconds is policy.max_age_seconds is None
    assert main["RedrivePolicy"]["maxReceiveCount"] == Scenario(1, 1).max_receive_count
    assert main.get("VisibilityTimeout", 30) == Scenario(1, 1).visibility_timeout_seconds
    assert function_of(STACK)["MemorySize"] == FUNCTION_GB * 1024
    events = STACK.resources["ReplayFunctionDeadLetters"]["Properties"]
    assert int(events["BatchSize"]) == EVENT_MESSAGES


def test_the_defaults_survive_an_hour() -> None:
    """Without the breaker, also if the first failed try makes a dead letter."""
    hour = Scenario(3600, 10.0)
    for outage in (hour, replace(hour, visibility_timeout_seconds=0, max_receive_count=1)):
        assert simulate(outage, has_breaker=False).parked_share < ACCEPTED_SHARE
