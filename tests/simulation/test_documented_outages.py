"""What README and the page of the breaker say of outages of hours, by the simulator.

The contract tests hold what can be told without a simulation of hours.
"""

import re
from dataclasses import replace

import pytest

from dlq_cli.simulate.flow import simulate, smallest_max_attempts
from dlq_cli.simulate.report import ACCEPTED_SHARE
from dlq_cli.simulate.scenario import DEFAULT_MAX_ATTEMPTS, Scenario
from dlq_cli.verbs.simulate import read_seconds
from dlq_replay.breaker import BreakerRules
from spark_reprocess.figures import duration, percent, quantity
from tests.contract.template import ROOT
from tests.contract.test_defaults import HOUR, OUTAGES, PUBLIC_APP, RULES

BREAKER_PAGE = (ROOT / "docs" / "breaker.md").read_text("utf-8")

# Each copy is a dead letter as soon as it has failed, so that replays alone must last the outage.
FAILS_AT_ONCE = {"visibility_timeout_seconds": 0, "max_receive_count": 1}

RATE = 2.0
AT_DEFAULTS = Scenario(HOUR, RATE)


def test_the_default_is_just_enough_for_the_hardest_hour() -> None:
    """Everything arrives when it begins, and no time passes between the tries of a copy."""
    hardest = Scenario(HOUR, 0, burst_count=10_000, policy=RULES, **FAILS_AT_ONCE)

    assert simulate(hardest).parked_share < ACCEPTED_SHARE
    assert smallest_max_attempts(hardest, ACCEPTED_SHARE) == DEFAULT_MAX_ATTEMPTS


def test_the_readme_says_which_outage_the_defaults_survive() -> None:
    rows = re.findall(r"^\| (\d+ \w+) \| (.+?) \|$", OUTAGES, re.MULTILINE)

    assert len(rows) >= 5
    assert rows == [(outage, " | ".join(columns(outage))) for outage, _ in rows]


def columns(outage: str) -> list[str]:
    seconds = read_seconds(outage.replace(" ", "").replace("min", "m"))
    free = simulate(Scenario(seconds, 10.0, policy=RULES))
    limited = simulate(Scenario(seconds, 10.0, policy=RULES, capacity_per_second=20))
    public_app = simulate(Scenario(seconds, 10.0, policy=PUBLIC_APP))
    return [
        percent(free.parked_share),
        f"{free.peak_per_second():,.0f}",
        duration(free.through_seconds(1)),
        percent(limited.parked_share),
        duration(limited.through_seconds(1)),
        percent(public_app.parked_share),
    ]


def test_the_readme_says_what_is_parked_where_one_failure_makes_a_dead_letter() -> None:
    said = re.findall(r"(\d) h\s+parks\s+(<?[\d.]+%)", OUTAGES)

    assert [hours for hours, _ in said] == ["1", "2", "3"]
    for hours, share in said:
        hardest = Scenario(int(hours) * HOUR, 10.0, policy=RULES, **FAILS_AT_ONCE)
        assert percent(simulate(hardest).parked_share) == share


@pytest.mark.parametrize("hours", [1, 4])
@pytest.mark.parametrize(("name", "breaker"), [("without", None), ("with", BreakerRules())])
def test_the_page_of_the_breaker_says_what_it_saves(
    hours: int, name: str, breaker: BreakerRules | None
) -> None:
    one = simulate(Scenario(hours * 3600, 10.0), breaker=breaker)
    cells = (
        f"{hours} h, {name}",
        quantity(one.failed_tries_of_replays),
        quantity(one.parked),
        quantity(one.peak_per_second()),
        quantity(one.peak_replays_per_second()),
        duration(one.through_seconds(1)),
    )

    assert f"| {' | '.join(cells)} |" in BREAKER_PAGE


def test_a_breaker_spares_the_consumer_the_tries_of_an_hour() -> None:
    without = simulate(AT_DEFAULTS)
    held = simulate(AT_DEFAULTS, breaker=BreakerRules())

    assert held.failed_tries_of_replays <= 0.05 * without.failed_tries_of_replays
    assert held.peak_replays_per_second() <= 3 * RATE
    assert held.recovered == pytest.approx(HOUR * RATE)
    assert len(held.opened_seconds) == len(held.closed_seconds) == 1
    assert 0 < held.opened_seconds[0] < HOUR < held.closed_seconds[0]


def test_with_a_breaker_four_hours_park_nothing() -> None:
    long = replace(AT_DEFAULTS, outage_seconds=4 * HOUR)
    held = simulate(long, breaker=BreakerRules())

    assert simulate(long).parked_share > 0.1
    assert held.parked == 0
    assert held.recovered == pytest.approx(4 * HOUR * RATE)
