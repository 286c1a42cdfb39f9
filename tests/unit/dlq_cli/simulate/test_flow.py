"""The flow in cases whose numbers can be told by hand, and its laws in cases that cannot."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dlq_cli.simulate.flow import MAX_IN_FLIGHT, simulate
from dlq_cli.simulate.jitter import Jitter
from dlq_cli.simulate.scenario import Scenario, policy_of
from dlq_replay.breaker import BreakerRules


def scenario(**given: object) -> Scenario:
    defaults: dict[str, object] = {
        "outage_seconds": 100,
        "arrivals_per_second": 2.0,
        "policy": policy_of(3, 2, 900),
        "visibility_timeout_seconds": 10,
        "max_receive_count": 2,
    }
    return Scenario(**{**defaults, **given})  # type: ignore[arg-type]


def test_messages_that_main_still_has_need_no_replay() -> None:
    recovery = simulate(scenario(outage_seconds=10))

    assert recovery.recovered == pytest.approx(20)
    assert recovery.replays == 0
    assert recovery.failed_tries == pytest.approx(20)


def test_waits_without_jitter_are_added_up_to_the_second() -> None:
    """Tried at 0 and 10, dead at 20, back after 4; 24 and 34, dead at 44, back after 8; 52."""
    one = scenario(outage_seconds=50, arrivals_per_second=0, burst_count=1)
    recovery = simulate(one, Jitter.NONE)
    tries = [second for second, size in enumerate(recovery.steps.tries) if size]

    assert tries == [0, 10, 24, 34, 52]
    assert recovery.through_by_replay_count == [0, 0, 1, 0]
    assert recovery.through_seconds(1) == 3


def test_what_outlasts_every_replay_is_parked() -> None:
    recovery = simulate(scenario(outage_seconds=5000, arrivals_per_second=0, burst_count=7))

    assert recovery.parked == pytest.approx(7)
    assert recovery.replays == pytest.approx(3 * 7)
    assert recovery.failed_tries == pytest.approx(4 * 2 * 7)
    assert recovery.receives == pytest.approx(4 * 7)
    # Four times two tries 10 s apart, and half of each ceiling.
    assert recovery.seconds_to_park == pytest.approx(4 * 20 + (4 + 8 + 16) / 2)


def test_traffic_after_the_outage_is_load_but_not_recovery() -> None:
    recovery = simulate(scenario())

    assert recovery.steps.tries[-1] >= 2
    assert recovery.recovered + recovery.parked == pytest.approx(200)


def test_a_consumer_gets_no_more_than_it_can_do() -> None:
    recovery = simulate(scenario(capacity_per_second=3))

    assert max(recovery.steps.tries) == pytest.approx(3)
    assert recovery.recovered + recovery.parked == pytest.approx(200)


def test_a_queue_hides_no_more_than_sqs_lets_it() -> None:
    recovery = simulate(scenario(arrivals_per_second=50_000))

    assert recovery.peak_in_flight == pytest.approx(MAX_IN_FLIGHT)
    assert recovery.recovered + recovery.parked == pytest.approx(5_000_000)


def test_copies_that_show_again_at_once_are_tried_in_the_same_second() -> None:
    recovery = simulate(scenario(visibility_timeout_seconds=0, burst_count=5, outage_seconds=1))

    assert recovery.steps.tries[0] == pytest.approx(2 * 7)


scenarios = st.builds(
    scenario,
    outage_seconds=st.integers(1, 400),
    arrivals_per_second=st.floats(0.1, 1e6),
    burst_count=st.integers(0, 10**6),
    policy=st.builds(
        policy_of, st.integers(0, 5), st.floats(0.5, 600), st.sampled_from([0, 1, 60, 900, 2000])
    ),
    visibility_timeout_seconds=st.integers(0, 60),
    max_receive_count=st.integers(1, 5),
)


@settings(deadline=None, max_examples=40)
@given(scenarios, st.sampled_from(Jitter))
def test_every_message_of_the_outage_recovers_or_is_parked(one: Scenario, jitter: Jitter) -> None:
    recovery = simulate(one, jitter)

    assert recovery.recovered + recovery.parked == pytest.approx(one.arrived_count)
    assert recovery.failed_tries <= recovery.receives * one.max_receive_count * (1 + 1e-9) + sum(
        recovery.through_by_replay_count
    ) * (one.max_receive_count)


@settings(deadline=None, max_examples=20)
@given(scenarios)
def test_more_replays_never_park_more(one: Scenario) -> None:
    rules, backoff = one.policy, one.policy.backoff
    more = policy_of(rules.max_attempts + 1, backoff.rate_seconds, backoff.cap_seconds)
    parked = simulate(one).parked
    then = scenario(
        outage_seconds=one.outage_seconds,
        arrivals_per_second=one.arrivals_per_second,
        burst_count=one.burst_count,
        policy=more,
        visibility_timeout_seconds=one.visibility_timeout_seconds,
        max_receive_count=one.max_receive_count,
    )

    assert simulate(then).parked <= parked * (1 + 1e-9)


@pytest.mark.parametrize("times", [10, 100_000])
def test_a_cohort_s_size_changes_nothing_but_the_numbers(times: int) -> None:
    """Without a limit the share that is parked is the same for three messages and for many."""
    small = simulate(scenario(arrivals_per_second=0.01, outage_seconds=300))
    large = simulate(scenario(arrivals_per_second=0.01 * times, outage_seconds=300))

    assert small.parked_share == pytest.approx(large.parked_share, rel=1e-6)


HOUR = 3600
RATE = 2.0
AT_DEFAULTS = Scenario(HOUR, RATE)


def test_few_messages_open_no_breaker() -> None:
    """With 19 first replays in ten minutes there is nothing to judge."""
    few = replace(AT_DEFAULTS, arrivals_per_second=19 / 600, outage_seconds=1800)
    held = simulate(few, breaker=BreakerRules())

    assert list(held.opened_seconds) == []
    assert held.held == 0
    assert held.failed_tries == pytest.approx(simulate(few).failed_tries)


QUICK = BreakerRules(
    slot_seconds=2,
    metric_lag_seconds=2,
    hold_min_seconds=10,
    hold_max_seconds=20,
    hold_limit_seconds=240,
    probe_seconds=2,
    return_seconds=30,
    ramp_growth_seconds=10,
)
"""The rules in seconds."""


@pytest.mark.parametrize("outage_seconds", [120, 600])
@pytest.mark.parametrize("capacity", [None, 30.0])
def test_no_message_is_lost_in_a_breaker(outage_seconds: int, capacity: float | None) -> None:
    """Neither in one that closes in time, nor in one whose holds end before the outage does."""
    one = scenario(
        outage_seconds=outage_seconds, arrivals_per_second=20.0, capacity_per_second=capacity
    )
    held = simulate(one, breaker=QUICK)

    assert held.opened_seconds
    assert held.held > 0
    assert held.recovered + held.parked == pytest.approx(one.arrived_count)
    assert (held.parked > 0) is (outage_seconds > QUICK.hold_limit_seconds)
