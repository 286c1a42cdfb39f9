"""The template's defaults, by the simulator: an hour's outage parks fewer than 1 in 1,000."""

import re

from dlq_cli.simulate.figures import read_seconds, spell_seconds, spell_share
from dlq_cli.simulate.flow import simulate
from dlq_cli.simulate.report import ACCEPTED_SHARE
from dlq_cli.simulate.scenario import (
    DEFAULT_BACKOFF_CAP_SECONDS,
    DEFAULT_BACKOFF_RATE,
    DEFAULT_MAX_ATTEMPTS,
    DEFAULT_MAX_RECEIVE_COUNT,
    DEFAULT_VISIBILITY_TIMEOUT_SECONDS,
    Scenario,
    policy_of,
)
from dlq_cli.simulate.search import smallest_max_attempts
from dlq_replay.settings import ReplaySettings
from tests.contract.cloudformation import Stack
from tests.contract.template import ROOT, TEMPLATE, environment_of

HOUR = 3600
STACK = Stack.of(TEMPLATE)
RULES = ReplaySettings.from_env(environment_of(STACK)).policy

# Each copy is a dead letter as soon as it has failed, so that replays alone must last the outage.
FAILS_AT_ONCE = {"visibility_timeout_seconds": 0, "max_receive_count": 1}


def test_the_simulator_starts_from_the_template_s_defaults() -> None:
    main = STACK.resources["MainQueue"]["Properties"]
    policy = policy_of(DEFAULT_MAX_ATTEMPTS, DEFAULT_BACKOFF_RATE, DEFAULT_BACKOFF_CAP_SECONDS)

    assert (RULES.max_attempts, RULES.backoff) == (policy.max_attempts, policy.backoff)
    assert main["RedrivePolicy"]["maxReceiveCount"] == DEFAULT_MAX_RECEIVE_COUNT
    assert main.get("VisibilityTimeout", 30) == DEFAULT_VISIBILITY_TIMEOUT_SECONDS


def test_steady_traffic_outlives_an_hour_s_outage() -> None:
    assert simulate(Scenario(HOUR, 10.0, policy=RULES)).parked_share < ACCEPTED_SHARE


def test_so_does_all_that_arrives_when_it_begins() -> None:
    burst = Scenario(HOUR, 0, burst_count=10_000, policy=RULES)

    assert simulate(burst).parked_share < ACCEPTED_SHARE


def test_the_default_is_just_enough_for_the_hardest_hour() -> None:
    """Everything arrives when it begins, and no time passes between the tries of a copy."""
    hardest = Scenario(HOUR, 0, burst_count=10_000, policy=RULES, **FAILS_AT_ONCE)

    assert simulate(hardest).parked_share < ACCEPTED_SHARE
    assert smallest_max_attempts(hardest, ACCEPTED_SHARE) == DEFAULT_MAX_ATTEMPTS


PUBLIC_APP = policy_of(3, 2, DEFAULT_BACKOFF_CAP_SECONDS)
"""The defaults of amazon-sqs-dlq-replay-backoff."""


def test_the_readme_says_which_outage_the_defaults_survive() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    section = text.partition("## Which outage it survives")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (\d+ \w+) \| (.+?) \|$", section, re.MULTILINE)
    expected = [(outage, " | ".join(parked_shares(outage))) for outage, _ in rows]

    assert len(rows) >= 5
    assert expected == rows


def parked_shares(outage: str) -> list[str]:
    seconds = read_seconds(outage.replace(" ", "").replace("min", "m"))
    return [
        spell_share(simulate(Scenario(seconds, 10.0, policy=rules, **main)).parked_share)
        for main in ({}, FAILS_AT_ONCE)
        for rules in (RULES, PUBLIC_APP)
    ]


def test_the_readme_says_how_long_a_poison_message_goes_round() -> None:
    hour = simulate(Scenario(HOUR, 10.0, policy=RULES))
    text = " ".join((ROOT / "README.md").read_text("utf-8").split())

    assert f"is parked after {spell_seconds(round(hour.seconds_to_park))} on average" in text
    assert f"through in {hour.through_seconds(1) // 60} min" in text


def test_the_public_app_waits_28_seconds_in_all() -> None:
    ceilings = [PUBLIC_APP.backoff.ceiling_seconds(n) for n in (1, 2, 3)]

    assert sum(ceilings) == 28
