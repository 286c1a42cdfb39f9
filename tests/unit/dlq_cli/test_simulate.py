"""The simulator in cases whose numbers are known, its laws in others, and its answer."""

import json
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dlq_cli.command import main
from dlq_cli.simulation import (
    EVENT_SECONDS,
    MAX_IN_FLIGHT,
    MAX_SAMPLES,
    MESSAGE_SECONDS,
    Scenario,
    SimulatedBreaker,
    policy_of,
    simulate,
)
from dlq_replay.rules.breaker import ARRIVED, Update


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
    recovery = simulate(scenario(outage_seconds=10), has_breaker=True)

    assert recovery.recovered == recovery.failed_tries == 20
    assert recovery.replays == 0


def test_what_outlasts_every_replay_is_parked() -> None:
    recovery = simulate(scenario(outage_seconds=5000, arrivals_per_second=0.01), has_breaker=False)

    assert recovery.arrived == 50
    assert recovery.parked > 40
    assert recovery.replays >= 3 * recovery.parked
    assert recovery.failed_tries >= 4 * 2 * recovery.parked


def test_what_is_too_old_is_parked_before_its_last_replay() -> None:
    forever = scenario(outage_seconds=5000, policy=policy_of(20, 10, 900))
    aged = scenario(outage_seconds=5000, policy=policy_of(20, 10, 900, max_age_seconds=600))

    assert simulate(forever, has_breaker=False).parked_share < 0.01
    # All but those of the last ten minutes, a wait, and the tries.
    assert simulate(aged, has_breaker=False).parked_share > 0.6


def test_a_consumer_gets_no_more_than_it_can_do() -> None:
    recovery = simulate(scenario(capacity_per_second=3), has_breaker=False)

    assert recovery.peak_load == pytest.approx(3, rel=0.05)
    assert recovery.recovered + recovery.parked == 200


@pytest.mark.parametrize("rate", [50_000, 10**6])
def test_a_queue_hides_no_more_than_the_quota(rate: float) -> None:
    recovery = simulate(scenario(arrivals_per_second=rate), has_breaker=False)

    assert recovery.peak_in_flight == MAX_IN_FLIGHT
    # A copy is hidden for ten seconds: 12,000 tries a second, after the first 120,000 at once.
    assert recovery.failed_tries == pytest.approx(12_000 * 100 + 60_000, rel=0.1)


def test_many_messages_do_as_few() -> None:
    """A sample that stands for many messages gives the share that each message gives."""
    small = simulate(scenario(arrivals_per_second=3, outage_seconds=300), has_breaker=False)
    large = simulate(scenario(arrivals_per_second=300, outage_seconds=300), has_breaker=False)

    assert small.arrived < MAX_SAMPLES < large.arrived
    assert small.parked_share == pytest.approx(large.parked_share, abs=0.03)


def test_the_breaker_spares_tries_and_parks_nothing() -> None:
    outage = Scenario(3 * 3600, 0.15)
    without, held = simulate(outage, has_breaker=False), simulate(outage, has_breaker=True)

    assert without.parked_share > 0.05
    assert held.parked == 0
    # Before the first replay, all fail five times but those of the last minutes.
    first = 5 * outage.arrivals_per_second * outage.outage_seconds - 10 * 30 * 0.15
    assert held.failed_tries - first <= 0.05 * (without.failed_tries - first)
    assert held.held > 0 == without.held


def test_a_dead_letter_counts_as_new_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one whose sample is split, because a limit of 1 lets one of its messages through."""
    new_samples = 0

    class CountingBreaker(SimulatedBreaker):
        def update(self, update: Update) -> tuple[bool, Mapping[str, int]]:
            nonlocal new_samples
            new_samples += sum(n for name, n in update.add.items() if name.startswith(ARRIVED))
            return super().update(update)

    monkeypatch.setattr("dlq_cli.simulation.SimulatedBreaker", CountingBreaker)
    each_fails_once = Scenario(3600, 10, visibility_timeout_seconds=0, max_receive_count=1)
    recovery = simulate(each_fails_once, has_breaker=True)

    assert recovery.held > 0
    assert new_samples == MAX_SAMPLES == recovery.arrived / 18


@settings(deadline=None, max_examples=30)
@given(
    outage=st.builds(
        scenario,
        outage_seconds=st.integers(1, 400),
        arrivals_per_second=st.floats(0.01, 1e6),
        policy=st.builds(
            policy_of,
            st.integers(0, 5),
            st.floats(0.5, 600),
            st.sampled_from([0, 60, 900, 2000]),
            st.sampled_from([None, 60]),
        ),
        visibility_timeout_seconds=st.integers(0, 60),
        max_receive_count=st.integers(1, 5),
    ),
    has_breaker=st.booleans(),
)
def test_every_message_recovers_or_is_parked(outage: Scenario, *, has_breaker: bool) -> None:
    recovery = simulate(outage, has_breaker=has_breaker)

    assert recovery.recovered + recovery.parked == recovery.arrived
    expected = max(1, outage.arrivals_per_second * outage.outage_seconds)
    # To whole messages, and then to whole samples.
    assert recovery.arrived == pytest.approx(expected, rel=0, abs=0.5 + expected / MAX_SAMPLES)


def test_messages_of_a_second_share_requests_and_invocations() -> None:
    """Each of 90 messages a second fails once, and is parked without a replay."""
    outage = scenario(
        outage_seconds=600,
        arrivals_per_second=90,
        policy=policy_of(0, 10, 900),
        max_receive_count=1,
    )
    bill = simulate(outage, has_breaker=False)

    # A receive in main; receive, send and delete in the DLQ.
    assert bill.sqs_requests == pytest.approx(4 * 54_000 / 10, rel=0.02)
    assert bill.invocations == pytest.approx(600, rel=0.15)
    seconds = bill.invocations * EVENT_SECONDS + 54_000 * MESSAGE_SECONDS
    dollars = bill.sqs_requests * 0.40e-6 + bill.invocations * 0.20e-6
    assert bill.dollars == pytest.approx(dollars + seconds * 0.25 * 0.0000133334)
    assert bill.dollars_per_million == pytest.approx(bill.dollars / 54_000 * 1e6)


SMALL = ["simulate", "--outage", "2m", "--rate", "5", "--max-attempts", "2", "--cap", "30"]
AT_ONCE = ["--max-receive-count", "1", "--visibility-timeout", "0"]


def test_the_table_and_json_have_the_same_figures(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SMALL, *AT_ONCE]) == 0
    table = capsys.readouterr().out
    assert main([*SMALL, *AT_ONCE, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    without = answer["without_breaker"]

    assert set(answer) == {"version", "with_breaker", "without_breaker"}
    assert without["arrived"] == without["recovered"] + without["parked"] == 600
    assert f"{without['parked']} " in table + " "
    assert "600 messages arrive" in table


@pytest.mark.parametrize(
    ("argv", "rule"),
    [
        (["--outage", "soon"], "must be a length of time"),
        (["--outage", "0s"], "must be at least 1s"),
        (["--rate", "0"], "must be a number above 0"),
        (["--max-attempts", "1001"], "must be a whole number from 0 to 1000"),
        (["--rate", "9", "--capacity", "9"], "it must be larger"),
    ],
)
def test_wrong_arguments_are_named_with_their_rule(
    argv: list[str], rule: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", *argv]) == 2
    assert rule in capsys.readouterr().err
