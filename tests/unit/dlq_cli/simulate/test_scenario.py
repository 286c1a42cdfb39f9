import pytest

from dlq_cli.simulate.flow import simulate
from dlq_cli.simulate.scenario import MAX_STEPS, Scenario, policy_of


def test_an_hour_passes_in_seconds_and_a_month_in_longer_steps() -> None:
    assert Scenario(3600, 1.0).step_seconds == 1
    assert 30 * 86_400 / Scenario(30 * 86_400, 1.0).step_seconds <= MAX_STEPS * 1.1


def test_longer_steps_change_little() -> None:
    """The same outage in steps of 1 s and of 5 s, which a slow backlog makes longer."""
    fine = Scenario(2000, 5.0, policy=policy_of(4, 20, 400))
    coarse = Scenario(2000, 5.0, policy=policy_of(4, 20, 30_000))

    assert (fine.step_seconds, coarse.step_seconds) == (1, 5)
    assert simulate(fine).parked_share == pytest.approx(simulate(coarse).parked_share, abs=0.01)


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        ({"arrivals_per_second": 0}, "nothing arrives"),
        ({"arrivals_per_second": 5, "capacity_per_second": 5}, "it must be larger"),
    ],
)
def test_what_could_never_end_is_refused(given: dict[str, float], rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        Scenario(outage_seconds=60, **given)  # type: ignore[arg-type]


def test_messages_of_a_partial_step_are_counted_exactly() -> None:
    one = Scenario(100_003, 1.0, policy=policy_of(1, 10, 900))
    recovery = simulate(one)

    assert one.step_seconds > 1
    assert recovery.recovered + recovery.parked == pytest.approx(100_003)
