"""The template's defaults, by the simulator: an hour's outage parks fewer than 1 in 1,000."""

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
from dlq_replay.settings import ReplaySettings
from spark_reprocess.figures import duration
from tests.contract.cloudformation import Stack
from tests.contract.template import ROOT, TEMPLATE, environment_of

HOUR = 3600
STACK = Stack.of(TEMPLATE)
RULES = ReplaySettings.from_env(environment_of(STACK)).policy


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


PUBLIC_APP = policy_of(3, 2, DEFAULT_BACKOFF_CAP_SECONDS)
"""The defaults of amazon-sqs-dlq-replay-backoff."""

README = (ROOT / "README.md").read_text("utf-8")
OUTAGES = README.partition("## Which outage the defaults survive")[2].partition("\n## ")[0]


def test_the_readme_s_commands_of_the_table_are_its_scenarios() -> None:
    assert "dlq simulate --outage 1h --rate 10 " in OUTAGES
    assert "dlq simulate --outage 1h --rate 10 --capacity 20 " in OUTAGES


def test_the_readme_says_how_long_a_poison_message_goes_round() -> None:
    hour = simulate(Scenario(HOUR, 10.0, policy=RULES))
    text = " ".join(OUTAGES.split())

    assert f"parked after {duration(round(hour.seconds_to_park))} on average" in text


def test_the_public_app_waits_28_seconds_in_all() -> None:
    ceilings = [PUBLIC_APP.backoff.ceiling_seconds(n) for n in (1, 2, 3)]

    assert sum(ceilings) == 28
